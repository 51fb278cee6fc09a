"""Who calls: the session behind a request's token, and the address that limits count by."""

from __future__ import annotations

import hashlib
import ipaddress
from typing import Final

from aiohttp import web

from memory_manager.sync.server.host import SyncHost
from memory_manager.sync.server.refusals import SessionEnd, SessionRefused
from memory_manager.sync.server.storage import Session

TOKEN_BYTES: Final = 32
EPOCH_HEADER: Final = "X-Session-Epoch"
FORWARDED_HEADER: Final = "X-Forwarded-For"

_MAX_ADDRESS_CHARACTERS: Final = 64
_IPV6_PREFIX: Final = 64


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
    """What limits count by: the peer, or the last address that the proxy in front wrote down; of
    IPv6 the network of 64 bits, which one customer has whole.
    """
    said = request.remote or ""
    if behind_proxy:
        # of several headers the last one is the proxy's
        forwarded = request.headers.getall(FORWARDED_HEADER, [""])[-1]
        said = forwarded.rpartition(",")[2].strip() or said
    return counted_address(said)


def counted_address(said: str) -> str:
    """The part of an address that limits count by; a text that is none counts as it is."""
    try:
        address = ipaddress.ip_address(said)
    except ValueError:
        return said[:_MAX_ADDRESS_CHARACTERS]
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.ip_network((address, _IPV6_PREFIX), strict=False))
