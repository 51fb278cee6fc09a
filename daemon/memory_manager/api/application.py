"""The web application of both doors: checks, then routes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from aiohttp import web

from memory_manager.api.callers import CallerDirectory
from memory_manager.api.checks import Checks
from memory_manager.api.mcp.mount import McpMount
from memory_manager.api.pages import consent, entry, me
from memory_manager.api.pages import device as device_page
from memory_manager.api.pages.owner import SESSIONS
from memory_manager.api.pages.render import load_templates
from memory_manager.api.pages.sessions import OwnerSessions
from memory_manager.api.rate_limit import RateLimit
from memory_manager.api.routes import (
    agents,
    approvals,
    conflicts,
    control,
    device,
    discovery,
    footprint,
    health,
    items,
    listing,
    mcp_profile,
    memory,
    oauth,
    opt_in,
    recall,
    remember,
    settings,
    skill,
    sync,
    token,
    vault,
)
from memory_manager.api.routes.sync import MEMBERSHIP
from memory_manager.api.routing import DAEMON, Route, register, rule_of
from memory_manager.service.daemon import Daemon
from memory_manager.service.events import CredentialsChanged, Event, VaultClosing
from memory_manager.sync.membership.membership import Membership

ALL_ROUTES: Final[tuple[Route, ...]] = (
    *health.ROUTES,
    *token.ROUTES,
    *remember.ROUTES,
    *recall.ROUTES,
    *footprint.ROUTES,
    *listing.ROUTES,
    *memory.ROUTES,
    *items.ROUTES,
    *skill.ROUTES,
    *vault.ROUTES,
    *sync.ROUTES,
    *conflicts.ROUTES,
    *opt_in.ROUTES,
    *agents.ROUTES,
    *mcp_profile.ROUTES,
    *control.ROUTES,
    *approvals.ROUTES,
    *settings.ROUTES,
    *discovery.ROUTES,
    *device.ROUTES,
    *oauth.ROUTES,
    *entry.ROUTES,
    *me.ROUTES,
    *device_page.ROUTES,
    *consent.ROUTES,
)


def build_application(
    daemon: Daemon, owner_digest: bytes, tcp_port: Callable[[], int | None]
) -> web.Application:
    """An application that serves ``daemon``; ``tcp_port`` is asked once the doors are bound."""
    callers = CallerDirectory(owner_digest, daemon.store)

    def forget_callers(event: Event) -> None:
        if isinstance(event, CredentialsChanged | VaultClosing):
            callers.forget_all()

    daemon.events.subscribe(forget_callers)
    checks = Checks(tcp_port=tcp_port, callers=callers, rule_of=rule_of, rate_limit=RateLimit())
    app = web.Application(middlewares=[checks.middleware()])
    app[DAEMON] = daemon
    app[SESSIONS] = OwnerSessions(daemon.daemon_id)
    app[MEMBERSHIP] = Membership(daemon.sync, daemon.journal)
    load_templates()
    register(app, ALL_ROUTES)
    mcp = McpMount(daemon)
    register(app, mcp.routes())
    app.cleanup_ctx.append(mcp.living)
    return app
