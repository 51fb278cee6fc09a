"""What only the owner may do: vault, credentials, status, stop (desktop.md 11.4, vault.md 4.2)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from aiohttp import web
from sqlcipher3.dbapi2 import Connection

from memory_manager.api.answers import json_response
from memory_manager.api.calls import Access, call_of
from memory_manager.api.parsing import Fields
from memory_manager.api.routing import Route, daemon_of
from memory_manager.auth.scopes import ALL_SCOPES, format_scopes, parse_scopes
from memory_manager.base.errors import InvalidInput
from memory_manager.base.times import rfc3339
from memory_manager.service.status import daemon_status
from memory_manager.vault import credentials
from memory_manager.vault.errors import LockReason
from memory_manager.vault.transaction import Transaction

MAX_PASSPHRASE_CHARACTERS: Final = 1_024
MAX_NAME_CHARACTERS: Final = 128
MAX_FILE_PATH_CHARACTERS: Final = 4_096

_LOCK_REASONS: Final = {
    reason.value: reason for reason in (LockReason.USER, LockReason.IDLE, LockReason.SUSPEND)
}


async def status(request: web.Request) -> web.Response:
    """States, versions and addresses; counts of the vault only with a credential."""
    known = call_of(request).caller.is_owner
    return json_response(await daemon_status(daemon_of(request), with_counts=known))


async def lock(request: web.Request) -> web.Response:
    """Lock now; locking a locked vault is fine."""
    fields = Fields.of_body(call_of(request).json_object())
    reason = fields.choice("reason", _LOCK_REASONS) or LockReason.USER
    fields.check()
    daemon = daemon_of(request)
    await asyncio.to_thread(daemon.lifecycle.lock, reason)
    return json_response({"vault": daemon.vault_json()})


async def unlock(request: web.Request) -> web.Response:
    """With the passphrase, or with the recovery words and a new passphrase."""
    fields = Fields.of_body(call_of(request).json_object())
    daemon = daemon_of(request)
    words = fields.text("recovery_words", limit=MAX_PASSPHRASE_CHARACTERS)
    if words is not None:
        new = fields.required_text("new_passphrase", limit=MAX_PASSPHRASE_CHARACTERS)
        fields.check()
        await asyncio.to_thread(daemon.lifecycle.unlock_with_recovery_words, words, new)
    else:
        passphrase = fields.required_text("passphrase", limit=MAX_PASSPHRASE_CHARACTERS)
        fields.check()
        await asyncio.to_thread(daemon.lifecycle.unlock_with_passphrase, passphrase)
    return json_response({"vault": daemon.vault_json()})


async def change_passphrase(request: web.Request) -> web.Response:
    """Rewrap the passphrase slot; ``old`` is null when there was none yet."""
    fields = Fields.of_body(call_of(request).json_object())
    old = fields.text("old", limit=MAX_PASSPHRASE_CHARACTERS)
    new = fields.required_text("new", limit=MAX_PASSPHRASE_CHARACTERS)
    fields.check()
    daemon = daemon_of(request)
    await asyncio.to_thread(daemon.lifecycle.change_passphrase, old, new)
    return json_response({"vault": daemon.vault_json()})


async def backup(request: web.Request) -> web.Response:
    """Write an encrypted backup to an absolute path."""
    fields = Fields.of_body(call_of(request).json_object())
    path = Path(fields.required_text("path", limit=MAX_FILE_PATH_CHARACTERS))
    if not path.is_absolute():
        fields.refuse("path", "must be an absolute path")
    fields.check()
    await asyncio.to_thread(daemon_of(request).lifecycle.backup, path)
    return json_response({"path": str(path), "verified": True})


def _agent_json(credential: credentials.Credential) -> dict[str, object]:
    used, revoked = credential.last_used_at_ms, credential.revoked_at_ms
    return {
        "id": credential.id,
        "name": credential.name,
        "scopes": format_scopes(credential.scopes),
        "created_at": rfc3339(credential.created_at_ms),
        "last_used_at": None if used is None else rfc3339(used),
        "revoked_at": None if revoked is None else rfc3339(revoked),
    }


async def add_agent(request: web.Request) -> web.Response:
    """Issue a credential; its token stands in this answer and nowhere else."""
    call = call_of(request)
    body = call.json_object()
    fields = Fields.of_body(body)
    name = fields.required_text("name", limit=MAX_NAME_CHARACTERS).strip()
    fields.check()
    scopes = ALL_SCOPES if not body.get("scopes") else parse_scopes(_scope_names(body["scopes"]))
    daemon = daemon_of(request)

    def issue(transaction: Transaction) -> tuple[credentials.Credential, str]:
        return credentials.issue(transaction, name, scopes)

    credential, token = await daemon.writable_store().write(issue)
    daemon.credentials_changed()
    return json_response({**_agent_json(credential), "token": token}, status=201)


def _scope_names(value: object) -> str | list[str]:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return [str(name) for name in value]
    raise InvalidInput("scopes must be a list.", field="scopes")


async def list_agents(request: web.Request) -> web.Response:
    def read(connection: Connection) -> list[credentials.Credential]:
        return credentials.list_credentials(connection)

    found = await daemon_of(request).store().read(read)
    return json_response({"agents": [_agent_json(credential) for credential in found]})


async def revoke_agent(request: web.Request) -> web.Response:
    """From the answer on, the credential is refused on every route."""
    wanted = request.match_info["agent"]
    daemon = daemon_of(request)

    def revoke(transaction: Transaction) -> credentials.Credential:
        return credentials.revoke(transaction, wanted)

    credential = await daemon.writable_store().write(revoke)
    daemon.credentials_changed()
    return json_response(_agent_json(credential))


async def stop(request: web.Request) -> web.Response:
    """The daemon ends after this answer."""
    daemon_of(request).request_stop("owner")
    return json_response({"stopping": True}, status=202)


async def rebuild(request: web.Request) -> web.Response:
    """Compute derived indexes again from the memories."""
    fields = Fields.of_body(call_of(request).json_object())
    what = fields.choice("what", {name: name for name in ("all", "fulltext", "vectors")}) or "all"
    fields.check()
    rebuilt = await daemon_of(request).recall.rebuild(what)
    return json_response({"rebuilt": what, **rebuilt})


ROUTES: Final = (
    Route("GET", "/status", status, Access.LOCAL),
    Route("POST", "/vault/lock", lock, Access.LOCAL),
    Route("POST", "/vault/unlock", unlock, Access.OWNER),
    Route("POST", "/vault/passphrase", change_passphrase, Access.OWNER),
    Route("POST", "/vault/backup", backup, Access.OWNER),
    Route("POST", "/agents", add_agent, Access.OWNER),
    Route("GET", "/agents", list_agents, Access.OWNER),
    Route("POST", "/agents/{agent}/revoke", revoke_agent, Access.OWNER),
    Route("POST", "/daemon/stop", stop, Access.OWNER),
    Route("POST", "/recall/rebuild", rebuild, Access.OWNER),
)
