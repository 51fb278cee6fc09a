"""A vault comes with its genesis and goes at its owner's word (sync.md 9.1)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from aiohttp import web

from memory_manager.sync.errors import SyncRefused
from memory_manager.sync.server.answers import empty_answer, json_answer
from memory_manager.sync.server.call import (
    ENTRY_BODY_BYTES,
    JSON_BODY_BYTES,
    Access,
    Call,
    Route,
    member_text,
    signed_entry,
)
from memory_manager.sync.server.errors import Malformed, NotADevice
from memory_manager.sync.server.refusals import RegistrationUnknown, VaultExists, VaultUnknown
from memory_manager.sync.server.registration import registration_hash
from memory_manager.sync.server.routes.auth import check_login
from memory_manager.sync.server.storage import VaultState
from memory_manager.sync.wire.canonical import decode, hex_bytes
from memory_manager.sync.wire.labels import ID_BYTES
from memory_manager.sync.wire.log import LOGIN_ACTION_DELETE
from memory_manager.sync.wire.roster import Role, Roster, SignedEntry, found


async def create(call: Call) -> web.StreamResponse:
    """A new vault, for a registration token that is good.

    Asked once more it answers as before, without a token: the first answer may have been lost.
    VaultExists once the vault is not as it was founded; members have better ways to ask then.
    """
    asked = call.json()
    host = call.host
    genesis = signed_entry(asked)
    roster = await asyncio.to_thread(_founded, genesis)
    try:
        state = await host.storage.vault(roster.vault)
    except VaultUnknown:
        state = await _create(call, asked, genesis, roster)
    if (state.head.n, state.roster_head) != (0, genesis.hash):
        raise VaultExists
    document = {
        "vault": roster.vault.hex(),
        "server_key": host.key.public.hex(),
        "head": host.head_json(roster.vault, state.head),
    }
    return json_answer(document, status=201)


async def _create(
    call: Call, asked: Mapping[str, Any], genesis: SignedEntry, roster: Roster
) -> VaultState:
    host, token = call.host, None
    if not host.settings.open_registration:
        token = registration_hash(member_text(asked, "registration_token"))
    try:
        await host.storage.create_vault(
            roster.vault,
            genesis,
            tuple(roster.members.values()),
            now_ms=host.clock_ms(),
            registration=token,
        )
    except (RegistrationUnknown, VaultExists) as refused:
        try:  # the same call once more, which was faster than this one
            return await host.storage.vault(roster.vault)
        except VaultUnknown:
            raise refused from None
    return await host.storage.vault(roster.vault)


async def delete(call: Call) -> web.StreamResponse:
    """Every row of the session's vault goes, if one of its devices signs just that."""
    session, host = call.session, call.host
    if session.role is not Role.DEVICE:
        raise NotADevice
    state = await host.storage.device(session.vault, session.device)
    await asyncio.to_thread(
        check_login, call, session.vault, session.device, state, LOGIN_ACTION_DELETE
    )
    for mount in host.mounts:  # first: what fails here can be asked for again
        await mount.delete_vault(session.vault)
    await host.storage.delete_vault(session.vault)
    host.rosters.forget(session.vault)
    host.waiters.end_vault(session.vault)
    return empty_answer()


def _founded(genesis: SignedEntry) -> Roster:
    try:
        vault = hex_bytes(decode(genesis.document).get("vault"), ID_BYTES)
        return found(genesis, vault)
    except (SyncRefused, ValueError, TypeError):
        raise Malformed from None


ROUTES: Final = (
    Route("POST", "/v1/vaults", create, Access.OPEN, ENTRY_BODY_BYTES),
    Route("DELETE", "/v1/vaults/self", delete, max_body_bytes=JSON_BODY_BYTES),
)
