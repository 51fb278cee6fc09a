"""One middleware in front of every handler; nothing is parsed before a request passed it.

Contract: desktop.md 11.5 (the order), xmemo.md 4.2-4.4, vault.md 12.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import uuid
from collections.abc import Callable
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from memory_manager.api.answers import FORM_TYPE, JSON_TYPE, add_fixed_headers, json_response
from memory_manager.api.callers import CallerDirectory, presented_token
from memory_manager.api.calls import ANONYMOUS, Access, Call, Caller, Door, attach_call, may
from memory_manager.api.compatibility import PROTECTED_RESOURCE_PATH
from memory_manager.api.errors import (
    BodyTooLarge,
    ForeignHost,
    ForeignOrigin,
    ForeignPeer,
    MethodNotAllowed,
    MissingCredential,
    NoSuchRoute,
    NotForm,
    NotJson,
    OutOfScope,
    RequestError,
    SlowBody,
    WrongCredential,
    error_response,
)
from memory_manager.api.labels import asserted_identity
from memory_manager.api.protocol import DoorProtocol
from memory_manager.api.rate_limit import RateLimit
from memory_manager.api.rules import BodyType, Rule
from memory_manager.api.skill_refusals import is_skill_path, skill_refusal
from memory_manager.auth.agent_identity import AGENT_HEADER, INSTANCE_HEADER
from memory_manager.auth.local_peer import peer_uid_pid
from memory_manager.base.errors import MemlocketError
from memory_manager.security.event_log import level_of, log_event

BODY_SECONDS: Final = 10.0

_BODY_METHODS: Final = frozenset({"POST", "PUT", "PATCH"})
_SAME_SITE: Final = frozenset({"none", "same-origin"})
_GUARDED_PREFIXES: Final = ("/v1/", "/api/v1/", "/mcp/")
_MCP: Final = "/mcp"
_BODY_CONTENT: Final = {
    BodyType.JSON: frozenset({JSON_TYPE}),
    BodyType.FORM: frozenset({FORM_TYPE}),
    BodyType.FORM_OR_JSON: frozenset({FORM_TYPE, JSON_TYPE}),
}

_log = logging.getLogger(__name__)


class Checks:
    """The chain of desktop.md 11.5 for both doors."""

    def __init__(
        self,
        *,
        tcp_port: Callable[[], int | None],
        callers: CallerDirectory,
        rule_of: Callable[[web.Request], Rule],
        rate_limit: RateLimit,
    ) -> None:
        self._tcp_port = tcp_port
        self._callers = callers
        self._rate_limit = rate_limit
        self._rule_of = rule_of

    def middleware(self) -> Middleware:
        """The middleware for aiohttp, which insists on the parameter name ``handler``."""

        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            request_id = uuid.uuid4().hex
            if isinstance(request.protocol, DoorProtocol):
                request.protocol.request_arrived()
            response = await self._answer(request, handler, request_id)
            if not response.prepared:
                response.headers["X-Request-ID"] = request_id
                add_fixed_headers(response)
            return response

        return check

    async def _answer(
        self, request: web.Request, handler: Handler, request_id: str
    ) -> web.StreamResponse:
        try:
            call = await self._admit(request, request_id)
            attach_call(request, call)
            return await handler(request)
        except MemlocketError as error:
            return self._refusal(request, error, request_id)
        except web.HTTPNotFound:
            return error_response(NoSuchRoute(), request_id)
        except web.HTTPMethodNotAllowed as refused:
            response = error_response(MethodNotAllowed(), request_id)
            response.headers["Allow"] = refused.headers.get("Allow", "")
            return response
        except web.HTTPRequestEntityTooLarge:
            return error_response(BodyTooLarge(), request_id)
        except web.HTTPException:
            return error_response(RequestError(), request_id)
        except (asyncio.CancelledError, ConnectionError):
            raise
        except ExceptionGroup as several:
            named = named_error(several)
            if named is None:
                return _bug(several, request_id)
            return self._refusal(request, named, request_id)
        except Exception as error:  # the border: a bug becomes a typed answer and a log line
            return _bug(error, request_id)

    async def _admit(self, request: web.Request, request_id: str) -> Call:
        door = _door_of(request)
        base_url = self._base_url(request)
        _check_origin(request, self._tcp_port())
        _check_fetch_site(request)
        if door is Door.UNIX:
            _check_peer(request)
        call = Call(request_id, door, base_url)
        rule = self._rule(request)
        call.caller = await self._authenticate(request, door, rule.access)
        known = request.match_info.http_exception is None
        if known and request.method in _BODY_METHODS:
            call.body = await _read_body(request, rule)
        call.identity = asserted_identity(
            request.headers.get(AGENT_HEADER),
            request.headers.get(INSTANCE_HEADER),
        )
        self._callers.note_use(call.caller, call.identity)
        if rule.limited and not call.caller.is_owner:
            await self._rate_limit.wait(call.caller.credential_id)
        return call

    async def _authenticate(self, request: web.Request, door: Door, access: Access) -> Caller:
        if access is Access.OPEN:
            return ANONYMOUS
        token = presented_token(
            request.headers.getall("X-API-Key", []), request.headers.getall("Authorization", [])
        )
        if token is None:
            if access is Access.OPTIONAL or (access is Access.LOCAL and door is Door.UNIX):
                return ANONYMOUS
            raise MissingCredential
        try:
            caller = await self._callers.caller_of(token)
        except RequestError:
            raise
        except MemlocketError as closed:
            if access is not Access.MCP:
                raise
            return Caller(unchecked=closed)
        check_scope(caller, access)
        return caller

    def _refusal(
        self, request: web.Request, error: MemlocketError, request_id: str
    ) -> web.Response:
        if not isinstance(error, RequestError):
            log_event(
                _log, "request_refused", level=level_of(error), error=error, request_id=request_id
            )
        on_mcp = request.path == _MCP or request.path.startswith(_MCP + "/")
        if on_mcp and isinstance(error, MissingCredential | WrongCredential):
            return self._mcp_login(request, error, request_id)
        refusal = skill_refusal if is_skill_path(request.path) else error_response
        response = refusal(error, request_id)
        if isinstance(error, MissingCredential):
            response.headers["WWW-Authenticate"] = 'Bearer realm="memlocket"'
        return response

    def _mcp_login(
        self, request: web.Request, error: RequestError, request_id: str
    ) -> web.Response:
        """401 that tells an MCP client where its login begins (xmemo.md 11.1)."""
        metadata = f"{self._base_url(request)}{PROTECTED_RESOURCE_PATH}/mcp"
        response = json_response(
            {
                "error": "invalid_token",
                "error_description": error.message,
                "request_id": request_id,
            },
            status=MissingCredential.status,
        )
        response.headers["WWW-Authenticate"] = f'Bearer resource_metadata="{metadata}"'
        return response

    def _base_url(self, request: web.Request) -> str:
        """What every URL in an answer begins with; the Host of door 2 is checked here."""
        port = self._tcp_port()
        host = _check_host(request, port) if _door_of(request) is Door.TCP else None
        return f"http://{host or f'127.0.0.1:{port}'}"

    def _rule(self, request: web.Request) -> Rule:
        if request.match_info.http_exception is None:
            return self._rule_of(request)
        # an unknown route tells nothing about itself to strangers, but plain probing of
        # well-known addresses gets its 404
        guarded = f"{request.path}/".startswith(_GUARDED_PREFIXES)
        return Rule(Access.CREDENTIAL if guarded else Access.OPEN)


def check_scope(caller: Caller, access: Access) -> None:
    """OutOfScope unless the caller has what ``access`` asks for."""
    if not may(caller, access):
        raise OutOfScope


def _bug(error: BaseException, request_id: str) -> web.Response:
    log_event(_log, "request_failed", level=logging.ERROR, error=error, request_id=request_id)
    return error_response(MemlocketError(), request_id)


def named_error(group: ExceptionGroup[Exception]) -> MemlocketError | None:
    """The first error with a name of work that ran in parallel; None when all are bugs."""
    for error in group.exceptions:
        if isinstance(error, MemlocketError):
            return error
        if isinstance(error, ExceptionGroup) and (inner := named_error(error)) is not None:
            return inner
    return None


def _door_of(request: web.Request) -> Door:
    transport = request.transport
    if transport is None:
        raise ConnectionResetError
    family = transport.get_extra_info("socket").family
    return Door.UNIX if family == getattr(socket, "AF_UNIX", None) else Door.TCP


def _check_host(request: web.Request, port: int | None) -> str:
    """Exactly one Host that names us; it is the base of every URL in the answer."""
    values = request.headers.getall("Host", [])
    allowed = (f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}")
    if len(values) != 1 or values[0].lower() not in allowed:
        raise ForeignHost
    return values[0].lower()


def _check_origin(request: web.Request, port: int | None) -> None:
    ours = (f"http://127.0.0.1:{port}", f"http://localhost:{port}")
    if any(value not in ours for value in request.headers.getall("Origin", [])):
        raise ForeignOrigin


def _check_fetch_site(request: web.Request) -> None:
    # Sec-Fetch-Mode is never looked at: Node's HTTP client always sends "cors"
    if any(value not in _SAME_SITE for value in request.headers.getall("Sec-Fetch-Site", [])):
        raise ForeignOrigin


def _check_peer(request: web.Request) -> None:
    transport = request.transport
    if transport is None:
        raise ConnectionResetError
    if peer_uid_pid(transport.get_extra_info("socket")).uid != os.getuid():
        raise ForeignPeer


async def _read_body(request: web.Request, rule: Rule) -> bytes:
    if not request.can_read_body:
        return b""
    if request.headers.get("Content-Encoding"):
        raise NotJson
    if request.content_type not in _BODY_CONTENT[rule.body_type]:
        raise NotJson if rule.body_type is BodyType.JSON else NotForm
    max_bytes = rule.max_body_bytes
    if request.content_length is not None and request.content_length > max_bytes:
        raise BodyTooLarge
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > max_bytes:
                    raise BodyTooLarge
    except TimeoutError:
        raise SlowBody from None
    return bytes(body)
