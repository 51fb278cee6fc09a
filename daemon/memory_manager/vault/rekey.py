"""Changing the database key by copying, never in place (vault.md 7).

At every point exactly one key opens ``vault.db``. ``settle`` finishes or undoes what a crash left.
``step`` is called with the name of each finished step, so that tests can stop the process there.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable
from pathlib import Path

from memory_manager.base.private_files import read_private, sync_directory, write_private
from memory_manager.vault import device_key, integrity, kdf, slot_files, slots, state_rows
from memory_manager.vault.anchor import ANCHOR_BYTES, parse_anchor
from memory_manager.vault.connection import is_write_failure, open_database, pages_are_whole
from memory_manager.vault.credential_slots import Credential
from memory_manager.vault.errors import (
    AnchorDamaged,
    KdfParametersRefused,
    KeyFileRefused,
    NeedsRepair,
    ReadOnly,
    RekeyFailed,
    SlotDamaged,
    VaultError,
    VaultLocked,
    WrongPassphrase,
)
from memory_manager.vault.paths import SQLITE_SUFFIXES, VaultPaths, read_head
from memory_manager.vault.slots import SlotFile

Step = Callable[[str], None]


def _no_step(_: str) -> None:
    pass


@dataclasses.dataclass(frozen=True, slots=True)
class KeyChange:
    """Both ends of a rekey: the slot files and the LUKs that go with them."""

    old: SlotFile
    old_luk: bytearray = dataclasses.field(repr=False)
    new: SlotFile
    new_luk: bytearray = dataclasses.field(repr=False)


def copy_rekey(paths: VaultPaths, change: KeyChange, *, step: Step = _no_step) -> None:
    """Steps 2-5. Nobody else has the database open; the caller opens it next and drops ``.prev``.

    RekeyFailed or ReadOnly before the switch leave the old vault as it was.
    """
    import sqlcipher3.dbapi2 as sqlcipher

    remove_copy(paths)
    drop_previous(paths)  # of an earlier change; the current files are the right ones by now
    try:
        _write_copy(paths, change)
        step("copied")
    except (VaultError, OSError, sqlcipher.Error) as error:
        remove_copy(paths)
        if is_write_failure(error):
            raise ReadOnly(
                "There is not enough room for the second copy; nothing changed."
            ) from None
        if isinstance(error, VaultError):
            raise
        raise RekeyFailed from None
    try:
        slot_files.rewrite(paths, change.new)
        step("slots")
        _move_companions(paths, change, step)
    except (OSError, ReadOnly):
        # the disk filled up between two small files: the old database is still the only one
        with contextlib.suppress(OSError):
            undo(paths)  # what cannot be undone now is settled at the next unlock
        raise ReadOnly("The new key files could not be written; nothing changed.") from None
    _switch(paths, step)


def _write_copy(paths: VaultPaths, change: KeyChange) -> None:
    old_dbk = kdf.database_key(change.old_luk)
    new_dbk = kdf.database_key(change.new_luk)
    try:
        source = open_database(paths.database, old_dbk, change.old.salt, maintenance=True)
        # of its own: SQLite waits for ever to back up a connection that is itself writing
        holder = open_database(paths.database, old_dbk, change.old.salt, maintenance=True)
        try:
            busy, _, _ = source.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy:
                raise RekeyFailed("The database is in use; nothing changed.")
            holder.execute("BEGIN IMMEDIATE")
            target = open_database(
                paths.rekey_copy, new_dbk, change.new.salt, create=True, maintenance=True
            )
            try:
                source.backup(target)
                target.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                target.close()
            if not pages_are_whole(source):
                raise NeedsRepair("The database has damaged pages; the key was not changed.")
            holder.execute("ROLLBACK")
        finally:
            holder.close()
            source.close()
        if not _copy_is_good(paths, old_dbk, change.old.salt, new_dbk, change.new.salt):
            raise RekeyFailed("The copy did not verify; nothing changed.")
        _fsync(paths.rekey_copy)
        sync_directory(paths.directory)
    finally:
        kdf.wipe(old_dbk, new_dbk)


def _copy_is_good(
    paths: VaultPaths, old_dbk: bytearray, old_salt: bytes, new_dbk: bytearray, new_salt: bytes
) -> bool:
    """Reopen both: pages and structure of the copy are whole, rows and generation are the same."""
    source = open_database(paths.database, old_dbk, old_salt, maintenance=True)
    try:
        target = open_database(paths.rekey_copy, new_dbk, new_salt, maintenance=True)
        try:
            return (
                integrity.check(target).ok
                and integrity.row_counts(target) == integrity.row_counts(source)
                and state_rows.read_progress(target) == state_rows.read_progress(source)
            )
        finally:
            target.close()
    finally:
        source.close()


def _move_companions(paths: VaultPaths, change: KeyChange, step: Step) -> None:
    """Seal ``device.key`` again and sign the anchor again; the old ones stay as ``.prev``."""
    ids = (change.old.vault, change.old.install)
    old_keys = (kdf.device_wrap_key(change.old_luk), kdf.anchor_key(change.old_luk))
    new_keys = (kdf.device_wrap_key(change.new_luk), kdf.anchor_key(change.new_luk))
    with kdf.KeyMaterial(*old_keys, *new_keys) as keys:
        sealed = _keep_previous(paths.device_key, paths.device_key_previous, 4096)
        with contextlib.suppress(device_key.DeviceKeyDamaged):
            key = device_key.parse(sealed, *ids, old_keys[0])
            keys.keep(key.secrets)
            write_private(paths.device_key, device_key.encode(key, *ids, new_keys[0]))
        step("device")
        signed = _keep_previous(paths.anchor, paths.anchor_previous, ANCHOR_BYTES)
        with contextlib.suppress(AnchorDamaged):
            write_private(paths.anchor, parse_anchor(signed, old_keys[1]).encode(new_keys[1]))
        step("anchor")


def _keep_previous(path: Path, previous: Path, max_bytes: int) -> bytes:
    """The old content of ``path``, kept in ``previous`` from now on; empty when there is none."""
    try:
        return read_private(previous, max_bytes)
    except FileNotFoundError:
        pass
    try:
        data = read_private(path, max_bytes)
    except FileNotFoundError:
        return b""
    write_private(previous, data)
    return data


def _switch(paths: VaultPaths, step: Step) -> None:
    for leftover in (paths.wal, paths.shm):
        with contextlib.suppress(FileNotFoundError):
            leftover.unlink()
    os.replace(paths.rekey_copy, paths.database)
    step("renamed")
    sync_directory(paths.directory)
    step("switched")


def _fsync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_copy(paths: VaultPaths) -> None:
    """Delete ``vault.db.rekey`` and its companions, if any."""
    for suffix in SQLITE_SUFFIXES:
        leftover = paths.rekey_copy.with_name(paths.rekey_copy.name + suffix)
        if leftover.exists():  # a read-only disk refuses even to delete what is not there
            leftover.unlink()


def drop_previous(paths: VaultPaths) -> None:
    """Step 6, after a successful unlock: the old companions and slot file go."""
    present = [
        path
        for path in (paths.device_key_previous, paths.anchor_previous, paths.slots_previous)
        if path.exists()
    ]
    for path in present:
        path.unlink()
    if present:
        sync_directory(paths.directory)


def undo(paths: VaultPaths) -> None:
    """Back to the old key: companions first, the slot file last, so that a crash repeats this."""
    for path, previous, max_bytes in (
        (paths.device_key, paths.device_key_previous, 4096),
        (paths.anchor, paths.anchor_previous, ANCHOR_BYTES),
        (paths.slots, paths.slots_previous, slots.MAX_SLOT_FILE_BYTES),
    ):
        with contextlib.suppress(FileNotFoundError):
            write_private(path, read_private(previous, max_bytes))
    remove_copy(paths)
    drop_previous(paths)


def settle(
    paths: VaultPaths, old: SlotFile, old_luk: bytearray, credential: Credential
) -> tuple[SlotFile, bytearray] | None:
    """Finish or undo an interrupted copy-rekey found at unlock.

    ``old`` is the previous slot file, which matched the database. Returns the new slot file and LUK
    when the rekey could be finished with the credential in hand, None when it was undone.
    """
    try:
        new = slot_files.read_slot_file(paths.slots)
    except SlotDamaged:
        new = None
    if new is None or new.salt == old.salt or not _copy_belongs_to(paths, new):
        undo(paths)
        return None
    try:
        new_luk = credential.open(new)
    except (WrongPassphrase, SlotDamaged, VaultLocked, KeyFileRefused, KdfParametersRefused):
        undo(paths)
        return None
    old_dbk, new_dbk = kdf.database_key(old_luk), kdf.database_key(new_luk)
    try:
        good = _copy_is_good(paths, old_dbk, old.salt, new_dbk, new.salt)
    except VaultError:
        good = False
    finally:
        kdf.wipe(old_dbk, new_dbk)
    if not good:
        kdf.wipe(new_luk)
        undo(paths)
        return None
    try:
        _move_companions(paths, KeyChange(old, old_luk, new, new_luk), _no_step)
        _switch(paths, _no_step)
    except BaseException:
        kdf.wipe(new_luk)
        raise
    return new, new_luk


def _copy_belongs_to(paths: VaultPaths, new: SlotFile) -> bool:
    try:
        return read_head(paths.rekey_copy) == new.salt
    except FileNotFoundError:
        return False
