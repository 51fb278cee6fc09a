"""The owner's acts on sync: who shares the vault, and whether it goes on (sync.md 7, 8).

Words, tokens and enrolment strings come in bodies and stand in no log; admin acts ask for a fresh
passphrase.
"""

from __future__ import annotations

import asyncio
import socket
from functools import partial
from typing import Final

from aiohttp import web

from memory_manager.api.answers import json_response
from memory_manager.api.calls import Access, call_of
from memory_manager.api.parsing import Fields
from memory_manager.api.routing import Route, daemon_of
from memory_manager.service.daemon import Daemon
from memory_manager.sync.engine.own_state import MAX_JITTER_SECONDS
from memory_manager.sync.membership.founding import ServerAddress, parse_server_key
from memory_manager.sync.membership.membership import Membership
from memory_manager.sync.membership.recovering import parse_noted_head, parse_vault_id
from memory_manager.sync.service import SyncService
from memory_manager.sync.wire import labels
from memory_manager.vault.grant_signing import grant_public_key
from memory_manager.vault.owner_acts import check_recovery_words, renew_device

MEMBERSHIP: Final = web.AppKey("membership", Membership)
MAX_SECRET_CHARACTERS: Final = 1_024
MAX_URL_CHARACTERS: Final = 2_048
MAX_PATH_CHARACTERS: Final = 4_096


def _membership(request: web.Request) -> Membership:
    """The acts of an open vault; VaultLocked, NoVault."""
    daemon_of(request).store()
    return request.app[MEMBERSHIP]


def _sync(request: web.Request) -> SyncService:
    """The engine of an open vault; VaultLocked, NoVault."""
    daemon = daemon_of(request)
    daemon.store()
    return daemon.sync


def _address(fields: Fields) -> ServerAddress:
    url = fields.required_text("server", limit=MAX_URL_CHARACTERS)
    key = fields.text("server_key")
    ca_file = fields.text("ca_file", limit=MAX_PATH_CHARACTERS)
    proxy = fields.text("proxy", limit=MAX_URL_CHARACTERS)
    return ServerAddress(url, None if key is None else parse_server_key(key), ca_file, proxy)


def _name(fields: Fields) -> str:
    return fields.text("name") or socket.gethostname()


async def _admin(daemon: Daemon, passphrase: str | None) -> bytes | None:
    """Ask for the owner; with the passphrase also the public half of the grant key."""
    if passphrase is not None:
        return await asyncio.to_thread(grant_public_key, daemon.lifecycle, passphrase)
    await daemon.require_present_owner()
    return None


async def status(request: web.Request) -> web.Response:
    """State, verified row and head words, outbox, alarms; no content, no ids of rows."""
    return json_response({"sync": await _sync(request).fresh_status()})


async def look_at_server(request: web.Request) -> web.Response:
    """Which key a server shows to a vault that has none yet; SyncAlreadyOn for one that has."""
    fields = Fields.of_body(call_of(request).json_object())
    address = _address(fields)
    fields.check()
    key = await _membership(request).look_at_server(address)
    return json_response({"server_key": key.hex(), "server_words": list(labels.server_words(key))})


async def set_up(request: web.Request) -> web.Response:
    """Create the vault on a server with this device as its first.

    The words must be those that open this vault; with ``new_words`` they take the place of those
    as soon as the shared vault is there, and not before. ``without_recovery`` says plainly that no
    words will. Servers that let everybody in need no ``registration_token``.
    """
    fields = Fields.of_body(call_of(request).json_object())
    address, name = _address(fields), _name(fields)
    token = fields.text("registration_token", limit=MAX_SECRET_CHARACTERS) or ""
    new_words, confirmed = fields.flag("new_words"), fields.flag("words_confirmed")
    words = fields.text("recovery_words", limit=MAX_SECRET_CHARACTERS)
    passphrase = fields.text("passphrase", limit=MAX_SECRET_CHARACTERS)
    without = fields.flag("without_recovery")
    if words is None and not without:
        fields.refuse("recovery_words", "needed, or say without_recovery", "missing")
    fields.check()
    daemon, membership = daemon_of(request), _membership(request)
    grant = await _admin(daemon, passphrase)
    if words is not None:
        if new_words:
            await daemon.require_present_owner()
        else:
            await asyncio.to_thread(check_recovery_words, daemon.lifecycle, words)
    member = await membership.set_up(
        address, token, name=name, grant=grant, words=None if without else words
    )
    if words is not None and new_words:
        take = partial(daemon.lifecycle.take_recovery_words, words, confirmed=confirmed)
        await asyncio.to_thread(take)
    return json_response(member.as_json(), status=201)


async def join(request: web.Request) -> web.Response:
    """Make the string that a device of the vault has to read; it is a secret for ten minutes."""
    fields = Fields.of_body(call_of(request).json_object())
    address, name = _address(fields), _name(fields)
    passphrase = fields.text("passphrase", limit=MAX_SECRET_CHARACTERS)
    fields.check()
    membership = _membership(request)
    grant = await _admin(daemon_of(request), passphrase)
    invited = await membership.ask_to_join(address, name=name, grant=grant)
    return json_response(
        {
            "invitation": invited.text,
            "server": invited.url,
            "expires_in_seconds": invited.expires_in_seconds,
        },
        status=201,
    )


async def look_for_welcome(request: web.Request) -> web.Response:
    """Join if somebody has let this device in; else how long the string is still good."""
    membership = _membership(request)
    member = await membership.look_for_welcome()
    if member is None:
        left = membership.seconds_left()
        return json_response({"state": "waiting", "seconds_left": left})
    return json_response({"state": "joined", **member.as_json()})


async def stop_waiting(request: web.Request) -> web.Response:
    """Give up; the shown string is worth nothing from now on."""
    _membership(request).stop_waiting()
    return json_response({"state": "off"})


async def look_at_offer(request: web.Request) -> web.Response:
    """Who shows this string; nothing is added yet."""
    fields = Fields.of_body(call_of(request).json_object())
    text = fields.required_text("invitation", limit=MAX_SECRET_CHARACTERS)
    fields.check()
    handle, offer = await _membership(request).look_at_offer(text)
    return json_response({"offer": handle, "name": offer.name, "device": offer.keys.device.hex()})


async def let_in(request: web.Request) -> web.Response:
    """Add the device of an offer and hand it the vault."""
    membership = _membership(request)
    await daemon_of(request).require_present_owner()
    offer = await membership.let_in(request.match_info["offer"])
    return json_response({"device": offer.keys.device.hex(), "name": offer.name}, status=201)


async def decline(request: web.Request) -> web.Response:
    """Tell the device of an offer that it is not let in."""
    await _membership(request).decline(request.match_info["offer"])
    return json_response({"declined": True})


async def devices(request: web.Request) -> web.Response:
    """Everybody who is or was a member of the vault."""
    views, due = await _membership(request).devices()
    return json_response({"devices": [view.as_json() for view in views], "rotation_due": due})


async def revoke(request: web.Request) -> web.Response:
    """Shut a device out, with a new key for everything written from now on."""
    membership = _membership(request)
    await daemon_of(request).require_present_owner()
    target = await membership.revoke(request.match_info["device"])
    return json_response({"device": target.id.hex(), "revoked": True})


async def call_device(request: web.Request) -> web.Response:
    """Another name for a device, on this machine."""
    fields = Fields.of_body(call_of(request).json_object())
    name = fields.required_text("name")
    fields.check()
    device = await _membership(request).call_device(request.match_info["device"], name)
    return json_response({"device": device.hex(), "name": name})


async def rotate(request: web.Request) -> web.Response:
    """A new key for everything written from now on."""
    membership = _membership(request)
    await daemon_of(request).require_present_owner()
    return json_response({"epoch": await membership.rotate()})


async def leave(request: web.Request) -> web.Response:
    """End this device's sync for good; its memories stay. A later join is that of a new device.

    With ``delete_shared`` the server forgets the vault, for every device: an admin act. With
    ``anyway`` a server out of reach does not matter; nobody is told then.
    """
    fields = Fields.of_body(call_of(request).json_object())
    delete, anyway = fields.flag("delete_shared"), fields.flag("anyway")
    fields.check()
    daemon = daemon_of(request)
    if delete:
        await daemon.require_present_owner()
        await _membership(request).delete_shared()
        told = True
    else:
        told = await _membership(request).leave(anyway=anyway)
    await asyncio.to_thread(renew_device, daemon.lifecycle)
    return json_response({"state": "off", "server_told": told})


async def recover(request: web.Request) -> web.Response:
    """Become a member by the vault's recovery words."""
    fields = Fields.of_body(call_of(request).json_object())
    address, name = _address(fields), _name(fields)
    vault = parse_vault_id(fields.required_text("vault"))
    words = fields.required_text("recovery_words", limit=MAX_SECRET_CHARACTERS)
    passphrase = fields.text("passphrase", limit=MAX_SECRET_CHARACTERS)
    n = fields.number("head_n", 1, 2**53)
    head_words = (fields.text("head_words") or "").split()
    fields.check()
    noted = parse_noted_head(None if n is None else int(n), head_words)
    membership = _membership(request)
    grant = await _admin(daemon_of(request), passphrase)
    member = await membership.recover(address, vault, words, noted=noted, name=name, grant=grant)
    return json_response(member.as_json(), status=201)


async def renew(request: web.Request) -> web.Response:
    """Go on under a new device id after this device's state was lost (vault.md 9.3)."""
    fields = Fields.of_body(call_of(request).json_object())
    passphrase = fields.text("passphrase", limit=MAX_SECRET_CHARACTERS)
    fields.check()
    membership = _membership(request)
    grant = await _admin(daemon_of(request), passphrase)
    member = await membership.renew(grant=grant)
    return json_response(member.as_json())


async def replace_words(request: web.Request) -> web.Response:
    """Make this vault's present recovery words those that recover the shared vault."""
    fields = Fields.of_body(call_of(request).json_object())
    words = fields.required_text("recovery_words", limit=MAX_SECRET_CHARACTERS)
    fields.check()
    daemon = daemon_of(request)
    await daemon.require_present_owner()
    await asyncio.to_thread(check_recovery_words, daemon.lifecycle, words)
    return json_response({"changed": await _membership(request).replace_words(words)})


async def announce_grant_key(request: web.Request) -> web.Response:
    """Tell the other devices the grant key that belongs to this passphrase."""
    fields = Fields.of_body(call_of(request).json_object())
    passphrase = fields.required_text("passphrase", limit=MAX_SECRET_CHARACTERS)
    fields.check()
    grant = await _admin(daemon_of(request), passphrase)
    return json_response({"changed": await _membership(request).announce_grant_key(grant)})


async def pause(request: web.Request) -> web.Response:
    """Nothing is sent or fetched by itself until resumed; rows written meanwhile wait."""
    sync = _sync(request)
    await sync.pause()
    return json_response({"sync": await sync.fresh_status()})


async def resume(request: web.Request) -> web.Response:
    sync = _sync(request)
    await sync.resume()
    return json_response({"sync": await sync.fresh_status()})


async def sync_now(request: web.Request) -> web.Response:
    """One round; the state afterwards, or what stopped it."""
    return json_response({"sync": await _sync(request).sync_now()})


async def retry(request: web.Request) -> web.Response:
    """Try again after a stop that waits for the owner."""
    return json_response({"sync": await _sync(request).retry()})


async def confirm(request: web.Request) -> web.Response:
    """Go on after a stop that asks a person; ``typed`` is the code as the owner typed it."""
    fields = Fields.of_body(call_of(request).json_object())
    code, typed = fields.required_text("code"), fields.required_text("typed")
    fields.check()
    sync = _sync(request)
    await daemon_of(request).require_present_owner()
    return json_response({"sync": await sync.confirm(code, typed)})


async def jitter(request: web.Request) -> web.Response:
    """By how many seconds sending is delayed at most, by chance, after a write."""
    options = await _sync(request).options()
    return json_response({"jitter_seconds": options.jitter_seconds})


async def set_jitter(request: web.Request) -> web.Response:
    """Blur for the server when this device writes; 0 for no blur."""
    fields = Fields.of_body(call_of(request).json_object())
    seconds = fields.number("seconds", 0, MAX_JITTER_SECONDS)
    if fields.raw("seconds") in (None, ""):
        fields.refuse("seconds", "field required", "missing")
    fields.check()
    sync = _sync(request)
    await sync.set_jitter(seconds or 0.0)
    return json_response({"jitter_seconds": (await sync.options()).jitter_seconds})


async def evidence(request: web.Request) -> web.Response:
    """Proofs that the server showed two histories; anybody can check one offline."""
    return json_response({"evidence": await _sync(request).evidence()})


ROUTES: Final = (
    Route("GET", "/sync/status", status, Access.OWNER),
    Route("POST", "/sync/server", look_at_server, Access.OWNER),
    Route("POST", "/sync/setup", set_up, Access.OWNER),
    Route("POST", "/sync/join", join, Access.OWNER),
    Route("POST", "/sync/join/look", look_for_welcome, Access.OWNER),
    Route("POST", "/sync/join/cancel", stop_waiting, Access.OWNER),
    Route("POST", "/sync/offers", look_at_offer, Access.OWNER),
    Route("POST", "/sync/offers/{offer}/approve", let_in, Access.OWNER),
    Route("POST", "/sync/offers/{offer}/decline", decline, Access.OWNER),
    Route("GET", "/sync/devices", devices, Access.OWNER),
    Route("POST", "/sync/devices/{device}/revoke", revoke, Access.OWNER),
    Route("POST", "/sync/devices/{device}/name", call_device, Access.OWNER),
    Route("POST", "/sync/rotate", rotate, Access.OWNER),
    Route("POST", "/sync/leave", leave, Access.OWNER),
    Route("POST", "/sync/recover", recover, Access.OWNER),
    Route("POST", "/sync/renew", renew, Access.OWNER),
    Route("POST", "/sync/words", replace_words, Access.OWNER),
    Route("POST", "/sync/grant-key", announce_grant_key, Access.OWNER),
    Route("POST", "/sync/pause", pause, Access.OWNER),
    Route("POST", "/sync/resume", resume, Access.OWNER),
    Route("POST", "/sync/now", sync_now, Access.OWNER),
    Route("POST", "/sync/retry", retry, Access.OWNER),
    Route("POST", "/sync/confirm", confirm, Access.OWNER),
    Route("GET", "/sync/jitter", jitter, Access.OWNER),
    Route("POST", "/sync/jitter", set_jitter, Access.OWNER),
    Route("GET", "/sync/evidence", evidence, Access.OWNER),
)
