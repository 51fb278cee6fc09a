"""The owner's acts on the vault: opening, its keys, backup, checks (vault.md 4, 7, 10)."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from aiohttp import web

from memory_manager.api.answers import json_response
from memory_manager.api.calls import Access, call_of
from memory_manager.api.parsing import Fields
from memory_manager.api.routing import Route, daemon_of
from memory_manager.vault.errors import LockReason

MAX_PASSPHRASE_CHARACTERS: Final = 1_024
MAX_FILE_PATH_CHARACTERS: Final = 4_096

_LOCK_REASONS: Final = {
    reason.value: reason for reason in (LockReason.USER, LockReason.IDLE, LockReason.SUSPEND)
}


def _vault_answer(request: web.Request) -> web.Response:
    return json_response({"vault": daemon_of(request).vault_json()})


async def lock(request: web.Request) -> web.Response:
    """Lock now; locking a locked vault is fine."""
    fields = Fields.of_body(call_of(request).json_object())
    reason = fields.choice("reason", _LOCK_REASONS) or LockReason.USER
    fields.check()
    await asyncio.to_thread(daemon_of(request).lifecycle.lock, reason)
    return _vault_answer(request)


async def unlock(request: web.Request) -> web.Response:
    """With the passphrase, or with the recovery words and a new passphrase.

    On an open vault the passphrase proves that the owner is here, for five minutes.
    """
    fields = Fields.of_body(call_of(request).json_object())
    lifecycle = daemon_of(request).lifecycle
    words = fields.text("recovery_words", limit=MAX_PASSPHRASE_CHARACTERS)
    if words is not None:
        new = fields.required_text("new_passphrase", limit=MAX_PASSPHRASE_CHARACTERS)
        fields.check()
        await asyncio.to_thread(lifecycle.unlock_with_recovery_words, words, new)
    else:
        passphrase = fields.required_text("passphrase", limit=MAX_PASSPHRASE_CHARACTERS)
        fields.check()
        await asyncio.to_thread(lifecycle.unlock_with_passphrase, passphrase)
    return _vault_answer(request)


async def change_passphrase(request: web.Request) -> web.Response:
    """Rewrap the passphrase slot; without ``old`` an open vault gets its first passphrase."""
    fields = Fields.of_body(call_of(request).json_object())
    old = fields.text("old", limit=MAX_PASSPHRASE_CHARACTERS)
    new = fields.required_text("new", limit=MAX_PASSPHRASE_CHARACTERS)
    fields.check()
    await asyncio.to_thread(daemon_of(request).lifecycle.change_passphrase, old, new)
    return _vault_answer(request)


async def new_recovery_words(request: web.Request) -> web.Response:
    """New words instead of the old ones; they stand in this answer and nowhere else.

    With ``recovery_words`` those, which the caller has made and shown: the old ones end only when
    the owner has the new ones. ``only_check_owner`` changes nothing: it says whether the act would
    be allowed now.
    """
    call, daemon = call_of(request), daemon_of(request)
    fields = Fields.of_body(call.json_object() if call.body else {})
    given = fields.text("recovery_words", limit=MAX_PASSPHRASE_CHARACTERS)
    confirmed, only_asks = fields.flag("confirmed"), fields.flag("only_check_owner")
    fields.check()
    lifecycle = daemon.lifecycle
    if only_asks:
        await daemon.require_present_owner()
        return _vault_answer(request)
    if given is not None:
        await asyncio.to_thread(lifecycle.take_recovery_words, given, confirmed=confirmed)
        return _vault_answer(request)
    words = await asyncio.to_thread(lifecycle.new_recovery_words)
    return json_response({"recovery_words": list(words)})


async def confirm_recovery_words(request: web.Request) -> web.Response:
    """The owner has shown to have written the words down."""
    await asyncio.to_thread(daemon_of(request).lifecycle.confirm_recovery)
    return _vault_answer(request)


async def accept_rollback(request: web.Request) -> web.Response:
    """Take an older copy of the vault for the true one from now on."""
    await asyncio.to_thread(daemon_of(request).lifecycle.accept_rollback)
    return _vault_answer(request)


async def change_database_key(request: web.Request) -> web.Response:
    """Copy-rekey: another database key under the same passphrase (vault.md 7).

    With the present recovery words these stay valid, otherwise the answer holds new ones. A vault
    with a key file slot needs the absolute path of that file.
    """
    fields = Fields.of_body(call_of(request).json_object())
    passphrase = fields.required_text("passphrase", limit=MAX_PASSPHRASE_CHARACTERS)
    words = fields.text("recovery_words", limit=MAX_PASSPHRASE_CHARACTERS)
    key_file = fields.text("key_file", limit=MAX_FILE_PATH_CHARACTERS)
    if key_file is not None and not Path(key_file).is_absolute():
        fields.refuse("key_file", "must be an absolute path")
    fields.check()
    issued = await asyncio.to_thread(
        daemon_of(request).lifecycle.rekey,
        passphrase,
        recovery_words=words,
        key_file=None if key_file is None else Path(key_file),
    )
    return json_response({"recovery_words": None if issued is None else list(issued)})


async def use_keyring(request: web.Request) -> web.Response:
    """Whether the system keyring opens the vault by itself."""
    fields = Fields.of_body(call_of(request).json_object())
    enabled = fields.flag("enabled")
    fields.check()
    lifecycle = daemon_of(request).lifecycle
    act = lifecycle.enable_keyring if enabled else lifecycle.disable_keyring
    await asyncio.to_thread(act)
    return _vault_answer(request)


async def write_backup(request: web.Request) -> web.Response:
    """An encrypted, verified backup at an absolute path."""
    fields = Fields.of_body(call_of(request).json_object())
    path = Path(fields.required_text("path", limit=MAX_FILE_PATH_CHARACTERS))
    if not path.is_absolute():
        fields.refuse("path", "must be an absolute path")
    fields.check()
    written = await asyncio.to_thread(daemon_of(request).lifecycle.backup, path)
    return json_response(
        {
            "path": str(written.path),
            "verified": True,
            "size_bytes": written.size_bytes,
            "memories": written.memories,
        }
    )


async def check(request: web.Request) -> web.Response:
    """Read every page and say what is damaged; findings name pages and tables, never content."""
    report = await asyncio.to_thread(daemon_of(request).lifecycle.check_integrity)
    return json_response(
        {
            "ok": report.ok,
            "pages": list(report.cipher),
            "structure": list(report.structure),
            "lost_memories": len(report.lost),
        }
    )


async def rescan(request: web.Request) -> web.Response:
    """Begin to look at every stored version under the present rules and the owner's settings for
    personal data; ``status`` says under ``sanitizer`` how far it is.
    """
    daemon = daemon_of(request)
    await daemon.cleaning.begin(daemon.writable_store())
    return json_response({"sanitizer": daemon.cleaning.status()}, status=202)


ROUTES: Final = (
    Route("POST", "/vault/rescan", rescan, Access.OWNER),
    Route("POST", "/vault/check", check, Access.OWNER),
    Route("POST", "/vault/lock", lock, Access.LOCAL),
    Route("POST", "/vault/unlock", unlock, Access.OWNER),
    Route("POST", "/vault/passphrase", change_passphrase, Access.OWNER),
    Route("POST", "/vault/recovery", new_recovery_words, Access.OWNER),
    Route("POST", "/vault/recovery/confirm", confirm_recovery_words, Access.OWNER),
    Route("POST", "/vault/accept-rollback", accept_rollback, Access.OWNER),
    Route("POST", "/vault/rekey", change_database_key, Access.OWNER),
    Route("POST", "/vault/keyring", use_keyring, Access.OWNER),
    Route("POST", "/vault/backup", write_backup, Access.OWNER),
)
