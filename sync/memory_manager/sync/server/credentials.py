"""Who calls: the session behind a request's token, and the address that limits count by."""

from __future__ import annotations

import hashlib
from typing import Final

from aiohttp import web

from memory_manager.sync.server.host import SyncHost
from memory_manager.sync.server.refusals import SessionEnd, SessionRefused
from memory_manager.sync.server.storage import Session

TOKEN_BYTES: Final = 32
EPOCH_HEADER: Final = "X-Session-Epoch"

_MAX_ADDRESS_CHARACTERS: Final = 64


async def session_of(host: SyncHost, request: web.Request) -> Session:
    """Whose token the request carries; SessionRefused, also for another session epoch."""
    scheme, _, token = request.headers.get("Authorization", "").partition(" ")
    try:
        raw = bytes.fromhex(token)
    except ValueError:
        raw = b""
    if scheme != "Bearer" or len(raw) != TOKEN_BYTES:
        raise SessionRefused(SessionEnd.UNKNOWN)
    session = await host.storage.session(token_hash(raw), host.clock_ms())
    if request.headers.get(EPOCH_HEADER) != str(session.epoch):
        raise SessionRefused(SessionEnd.UNKNOWN)
    return session


def token_hash(token: bytes) -> bytes:
    """What the storage knows of a token of 32 random bytes."""
    return hashlib.blake2b(token, digest_size=32, person=b"mlk-session").digest()


def client_address(request: web.Request, *, behind_proxy: bool) -> str:
    """What limits count by: the peer, or the last address that the proxy in front wrote down."""
    if behind_proxy:
        forwarded = request.headers.get("X-Forwarded-For", "")
        if last := forwarded.rpartition(",")[2].strip():
            return last[:_MAX_ADDRESS_CHARACTERS]
    return request.remote or ""
