"""Writes that a client may repeat: the idempotency key alone decides, and the answer it got stays.

Contract: xmemo.md 4.11. Lookup, change and stored answer are one unit of work on the single writer,
so two equal requests at once leave one row, and nothing is stored for a request that failed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Final

from aiohttp import web

from memory_manager.api.answers import json_text, raw_json_response
from memory_manager.api.callers import still_valid
from memory_manager.api.calls import Call, call_of
from memory_manager.api.routing import daemon_of
from memory_manager.base.identifiers import CredentialId
from memory_manager.vault import idempotency
from memory_manager.vault.transaction import Transaction

REPLAY_HEADER: Final = "Idempotent-Replay"
_KEY_HEADERS: Final = ("Idempotency-Key", "X-Idempotency-Key")
_KEY_MEMBER: Final = "idempotency_key"
_ALIAS: Final = "/api/v1/"


@dataclasses.dataclass(frozen=True, slots=True)
class Written:
    """What a unit of work answers; ``status`` is 200 or 201."""

    status: int
    body: Mapping[str, object] = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class _Answer:
    status: int
    text: str = dataclasses.field(repr=False)
    replayed: bool


def route_of(request: web.Request) -> str:
    """Method and concrete path, with ``/api/v1`` folded into ``/v1``."""
    path = request.path
    if path.startswith(_ALIAS):
        path = path.removeprefix("/api")
    return f"{request.method} {path.rstrip('/')}"


def request_key(request: web.Request, body: Mapping[str, object]) -> str | None:
    """The first key among two headers and a body member, trimmed; None without any."""
    candidates = [request.headers.get(name) for name in _KEY_HEADERS]
    member = body.get(_KEY_MEMBER)
    candidates.append(member if isinstance(member, str) else None)
    for candidate in candidates:
        if candidate is not None and candidate.strip():
            return candidate.strip()
    return None


async def write_once(
    request: web.Request,
    body: Mapping[str, object],
    work: Callable[[Transaction, Call], Written],
) -> web.Response:
    """Run ``work`` on the writer, or answer what the same key got before."""
    call = call_of(request)
    key = request_key(request, body)
    scope = call.caller.credential_id or CredentialId("")
    known_as = None if key is None else idempotency.IdempotencyKey(scope, route_of(request), key)

    def unit(transaction: Transaction) -> _Answer:
        # the credential may have been revoked while this request waited for its turn
        still_valid(transaction.connection, call.caller)
        if known_as is not None:
            stored = idempotency.lookup(transaction.connection, known_as)
            if stored is not None:
                return _Answer(stored.status, stored.body_json, replayed=True)
        written = work(transaction, call)
        text = json_text(written.body)
        if known_as is not None:
            idempotency.save(transaction, known_as, written.status, text)
        return _Answer(written.status, text, replayed=False)

    answer = await daemon_of(request).writable_store().write(unit)
    response = raw_json_response(answer.text, status=answer.status)
    if answer.replayed:
        response.headers[REPLAY_HEADER] = "true"
    return response
