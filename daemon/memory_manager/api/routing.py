"""Route declarations: one handler under ``/v1`` and ``/api/v1``, with the rule it stands under."""

from __future__ import annotations

import dataclasses
from collections.abc import Awaitable, Callable, Iterable
from typing import Final

from aiohttp import web

from memory_manager.api.calls import Access
from memory_manager.api.rules import MAX_BODY_BYTES, OWNER_ONLY, BodyType, Rule
from memory_manager.service.daemon import Daemon

RouteHandler = Callable[[web.Request], Awaitable[web.StreamResponse]]

DAEMON: Final = web.AppKey("daemon", Daemon)
_RULES: Final = web.AppKey("rules", dict[object, Rule])
_API_PREFIXES: Final = ("/v1", "/api/v1")


@dataclasses.dataclass(frozen=True, slots=True)
class Route:
    """``path`` below ``/v1``, or from the root when ``at_root``."""

    method: str
    path: str
    handler: RouteHandler
    access: Access
    at_root: bool = False
    max_body_bytes: int = MAX_BODY_BYTES
    body_type: BodyType = BodyType.JSON
    limited: bool = True

    def paths(self) -> tuple[str, ...]:
        return (self.path,) if self.at_root else tuple(p + self.path for p in _API_PREFIXES)


def daemon_of(request: web.Request) -> Daemon:
    """The running daemon behind a request."""
    return request.app[DAEMON]


def register(app: web.Application, routes: Iterable[Route]) -> None:
    """Add every route under all its paths, with and without a slash at the end."""
    rules = app.setdefault(_RULES, {})
    for route in routes:
        rule = Rule(route.access, route.max_body_bytes, route.body_type, route.limited)
        if rules.setdefault(route.handler, rule) != rule:
            raise ValueError(f"{route.handler} is registered with two rules")
        for path in route.paths():
            for spelling in (path, path + "/"):
                # no automatic HEAD: it would run the handler of the GET
                app.router.add_route(route.method, spelling, route.handler)


def rule_of(request: web.Request) -> Rule:
    """The rule of the matched route; for the owner only if nobody declared its handler."""
    return request.app[_RULES].get(request.match_info.handler, OWNER_ONLY)
