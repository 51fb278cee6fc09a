"""How logins speak, other than the rest of the API: forms in, errors as a string out.

Device login, OAuth and the owner's pages share it. Contract: xmemo.md 9, 10; RFC 6749 5.2.
"""

from __future__ import annotations

import functools
from typing import Final
from urllib.parse import parse_qsl

from aiohttp import web

from memory_manager.api.answers import json_response
from memory_manager.api.calls import Call, call_of
from memory_manager.api.errors import error_response
from memory_manager.api.routing import RouteHandler
from memory_manager.api.strict_json import parse_object
from memory_manager.base.errors import MemlocketError
from memory_manager.service.daemon import Daemon

MAX_FORM_FIELDS: Final = 32


def plain_error(error: str, description: str, status: int = 400) -> web.Response:
    """``error`` is a code of the protocol."""
    body = {"error": error, "error_description": description, "detail": description}
    return json_response(body, status=status)


def plain_errors(handler: RouteHandler) -> RouteHandler:
    """Errors of login routes carry ``error`` as a string, also when the vault is closed."""

    @functools.wraps(handler)
    async def answered(request: web.Request) -> web.StreamResponse:
        try:
            return await handler(request)
        except MemlocketError as refusal:
            usual = error_response(refusal, call_of(request).request_id)
            code = "temporarily_unavailable" if usual.status >= 500 else "invalid_request"
            response = plain_error(code, refusal.message, usual.status)
            if "Retry-After" in usual.headers:
                response.headers["Retry-After"] = usual.headers["Retry-After"]
            return response

    return answered


def form_of(call: Call) -> dict[str, str]:
    """The fields of a form, or of a JSON object; a repeated name keeps its first value."""
    if call.body.lstrip().startswith(b"{"):
        sent = parse_object(call.body)
        return {name: value for name, value in sent.items() if isinstance(value, str)}
    text = call.body.decode("utf-8", "replace")
    try:
        pairs = parse_qsl(text, keep_blank_values=True, max_num_fields=MAX_FORM_FIELDS)
    except ValueError:
        return {}
    found: dict[str, str] = {}
    for name, value in pairs:
        found.setdefault(name, value)
    return found


def bases_of(daemon: Daemon) -> tuple[str, ...]:
    """Every spelling of our own address; the port is the one thing that must be right."""
    url = None if daemon.addresses is None else daemon.addresses.url
    port = "" if url is None else url.rpartition(":")[2]
    return tuple(f"http://{host}:{port}" for host in ("127.0.0.1", "localhost", "[::1]"))
