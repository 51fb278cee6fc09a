"""The web application: what stands in front of every handler, in one place and order.

Request id, rate limits, session, body, handler; then one answer, one log line, one count.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Iterable
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from memory_manager.base.errors import MemlocketError
from memory_manager.security.event_log import level_of, log_event
from memory_manager.sync.errors import MalformedMessage
from memory_manager.sync.server.answers import INTERNAL, code_of, error_answer
from memory_manager.sync.server.call import Access, Call, Route, read_body
from memory_manager.sync.server.connection import SyncConnection
from memory_manager.sync.server.credentials import client_address, session_of
from memory_manager.sync.server.errors import BadRequest, Malformed, NothingHere, WrongMethod
from memory_manager.sync.server.host import SyncHost
from memory_manager.sync.server.logs import bucketed
from memory_manager.sync.server.routes import (
    auth,
    health,
    log,
    mailbox,
    notify,
    roster,
    vaults,
    wraps,
)
from memory_manager.sync.server.storage import Session

ROUTES: Final[tuple[Route, ...]] = (
    *health.ROUTES,
    *auth.ROUTES,
    *vaults.ROUTES,
    *log.ROUTES,
    *wraps.ROUTES,
    *roster.ROUTES,
    *notify.ROUTES,
    *mailbox.ROUTES,
)
NO_ROUTE: Final = "none"
REQUEST_ID_HEADER: Final = "X-Request-Id"  # by which an operator finds the line of the log
METHODS: Final = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})

_log = logging.getLogger(__name__)


def build_app(host: SyncHost, routes: Iterable[Route] = ROUTES) -> web.Application:
    """An application that serves ``host``; mounted parts give their routes in addition."""
    app = web.Application(middlewares=[_observe(host)])
    for route in routes:
        app.router.add_route(route.method, route.path, _guarded(host, route))
    return app


def _observe(host: SyncHost) -> Middleware:
    @web.middleware
    async def observe(request: web.Request, handler: Handler) -> web.StreamResponse:
        """Every way a request can end becomes an answer, a log line and a count."""
        started = time.perf_counter()
        if isinstance(request.protocol, SyncConnection):
            request.protocol.request_arrived()
        request_id = secrets.token_hex(8)
        try:
            response = await handler(request)
        except MalformedMessage:
            response = _refused(host, Malformed(), request_id)
        except MemlocketError as error:
            response = _refused(host, error, request_id)
        except web.HTTPException as error:
            response = _refused(host, _of_library(error), request_id)
        except (ConnectionError, TimeoutError):
            raise  # the client is gone: nobody to answer
        except Exception as error:
            response = _refused(host, MemlocketError(), request_id, error)
        if not response.prepared:
            response.headers[REQUEST_ID_HEADER] = request_id
        seconds = time.perf_counter() - started
        route = _template(request)
        method = request.method if request.method in METHODS else "OTHER"
        host.metrics.request(method, route, response.status, seconds)
        log_event(
            _log,
            "request",
            request_id=request_id,
            method=method,
            route=route,
            status=response.status,
            received=bucketed(request.content_length),
            sent=bucketed(response.content_length),
            duration_ms=round(seconds * 1000),
        )
        return response

    return observe


def _refused(
    host: SyncHost, error: MemlocketError, request_id: str, cause: Exception | None = None
) -> web.StreamResponse:
    code = code_of(error)
    host.metrics.refusal(code)
    if code == INTERNAL or cause is not None:
        shown = cause or error
        log_event(_log, "request_failed", level=level_of(shown), error=shown, request_id=request_id)
    elif code == "CLASS_POLICY":
        log_event(_log, "class_policy_refused", level=logging.WARNING, request_id=request_id)
    return error_answer(error)


def _of_library(error: web.HTTPException) -> MemlocketError:
    if isinstance(error, web.HTTPNotFound):
        return NothingHere()
    return WrongMethod() if isinstance(error, web.HTTPMethodNotAllowed) else BadRequest()


def _template(request: web.Request) -> str:
    resource = request.match_info.route.resource
    return NO_ROUTE if resource is None else resource.canonical


def _guarded(host: SyncHost, route: Route) -> Handler:
    async def guarded(request: web.Request) -> web.StreamResponse:
        """Who calls and how often, before a byte of the body is read."""
        address = client_address(request, behind_proxy=host.settings.behind_proxy)
        session: Session | None = None
        if route.access is Access.SESSION:
            session = await session_of(host, request)
            host.requests.take((session.vault, session.device))
        elif route.access is Access.OPEN:
            host.logins.take(address)
        body = await read_body(request, route.max_body_bytes, host.settings.limits.body_seconds)
        return await route.handler(Call(host, request, address, body, session))

    return guarded
