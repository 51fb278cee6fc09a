"""Login: a nonce, and a signature over it that is bound to this server and its address.

Contract: sync.md 9.1, 9.2. Strangers learn nothing: unknown vaults and devices get nonces too.
"""

from __future__ import annotations

import os
from typing import Final

from aiohttp import web
from nacl.signing import SigningKey

from memory_manager.sync.server.answers import json_answer
from memory_manager.sync.server.call import JSON_BODY_BYTES, Access, Call, Route, member_hex
from memory_manager.sync.server.credentials import TOKEN_BYTES, token_hash
from memory_manager.sync.server.errors import LoginRefused
from memory_manager.sync.server.refusals import DeviceCut, DeviceUnknown
from memory_manager.sync.server.storage import DeviceState
from memory_manager.sync.server.tickets import NONCE_BYTES
from memory_manager.sync.wire.labels import ID_BYTES, SIGNATURE_BYTES
from memory_manager.sync.wire.log import LOGIN_ACTION_SESSION, login_bytes, signature_verifies

_NOBODY: Final = bytes(SigningKey(os.urandom(32)).verify_key)


async def challenge(call: Call) -> web.StreamResponse:
    """A nonce for a device; no look-up, so the answer tells nobody who exists."""
    asked = call.json()
    vault, device = (member_hex(asked, name, ID_BYTES) for name in ("vault", "device"))
    host = call.host
    expires_at_ms = host.clock_ms() + round(host.settings.limits.nonce_seconds * 1000)
    nonce = host.tickets.nonce(vault, device, expires_at_ms)
    return json_answer({"nonce": nonce.hex(), "server_key": host.key.public.hex()})


async def session(call: Call) -> web.StreamResponse:
    """A session for whoever signs the nonce with the device's key; earlier ones of it end."""
    asked = call.json()
    vault, device = (member_hex(asked, name, ID_BYTES) for name in ("vault", "device"))
    host = call.host
    state = await _device(call, vault, device)
    try:
        nonce = check_login(call, vault, device, state, LOGIN_ACTION_SESSION)
    except LoginRefused:
        host.metrics.count("logins_refused")
        raise
    if state is None or not state.is_active:
        raise DeviceCut
    token = os.urandom(TOKEN_BYTES)
    seconds = host.settings.limits.session_seconds
    epoch = await host.storage.open_session(
        vault,
        device,
        nonce=nonce,
        token_hash=token_hash(token),
        expires_at_ms=host.clock_ms() + round(seconds * 1000),
    )
    host.waiters.end_device(vault, device)
    host.metrics.count("sessions_opened")
    return json_answer({"token": token.hex(), "epoch": epoch, "expires_in": seconds})


def check_login(
    call: Call, vault: bytes, device: bytes, state: DeviceState | None, action: int
) -> bytes:
    """The nonce of a body whose signature over ``action`` holds; LoginRefused otherwise.

    The same work and the same refusal whether the device is unknown (None) or the signature wrong.
    """
    asked = call.json()
    nonce = member_hex(asked, "nonce", NONCE_BYTES)
    signature = member_hex(asked, "signature", SIGNATURE_BYTES)
    host = call.host
    message = login_bytes(host.key.public, host.public_host, vault, device, action, nonce)
    signed = signature_verifies(message, signature, state.ed25519 if state else _NOBODY)
    known = host.tickets.knows_nonce(nonce, vault, device, host.clock_ms())
    if not (signed and known and state):
        raise LoginRefused
    return nonce


async def _device(call: Call, vault: bytes, device: bytes) -> DeviceState | None:
    try:
        return await call.host.storage.device(vault, device)
    except DeviceUnknown:
        return None


ROUTES: Final = (
    Route("POST", "/v1/auth/challenge", challenge, Access.OPEN, JSON_BODY_BYTES),
    Route("POST", "/v1/auth/session", session, Access.OPEN, JSON_BODY_BYTES),
)
