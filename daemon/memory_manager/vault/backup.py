"""Writing an encrypted, verified backup while the vault is in use (vault.md 10)."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import hashlib
import os
import secrets
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

from memory_manager.base.private_files import sync_directory
from memory_manager.base.times import now_ms
from memory_manager.vault import bundle, credential_slots, integrity, kdf, slots, state_rows
from memory_manager.vault.bundle import Manifest, Progress
from memory_manager.vault.connection import (
    SMALL_CACHE_KIB,
    is_write_failure,
    open_database,
    pages_are_whole,
)
from memory_manager.vault.errors import BackupRefused, NeedsRepair, PassphraseRequired, ReadOnly
from memory_manager.vault.paths import SQLITE_SUFFIXES, VaultPaths
from memory_manager.vault.slots import SlotType

if TYPE_CHECKING:
    from memory_manager.vault.gate import VaultGate
    from memory_manager.vault.session import VaultSession

_STEP_PAGES = 2048
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO})


@dataclasses.dataclass(frozen=True, slots=True)
class BackupSummary:
    """What was written: where, how large, and how far the vault had come."""

    path: Path
    size_bytes: int
    generation: int
    memories: int


def back_up(gate: VaultGate, path: Path, progress: Progress | None = None) -> BackupSummary:
    """Write a bundle to ``path``, which must not exist; needs a fresh passphrase.

    The vault stays usable meanwhile; locking it stops the backup. Raises BackupRefused, ReadOnly
    when there is no room, and the errors of an admin act.
    """
    with gate.owner_act() as session:
        if session.keys.slot_file.find(SlotType.PASSPHRASE) is None:
            raise PassphraseRequired("A backup opens with a passphrase; add one first.")
        luk, dbk = bytearray(session.keys.luk), bytearray(session.keys.dbk)
    backup_key = kdf.new_key()
    try:
        _check_place(path, session.paths.directory)
        return _write(session, path, luk, dbk, backup_key, progress)
    except OSError as error:
        why = f"The backup could not be written: {error.strerror}."
        if error.errno in _NO_ROOM:
            raise ReadOnly(why) from None
        raise BackupRefused(why) from None
    finally:
        kdf.wipe(luk, dbk, backup_key)


def _check_place(path: Path, vault_directory: Path) -> None:
    """Raise BackupRefused for a place where a backup cannot stand or would not last."""
    if "\0" in str(path):
        raise BackupRefused("A path holds no NUL character.")
    if os.path.lexists(path):
        raise BackupRefused(f"{path} exists; a backup never replaces a file.")
    if path.resolve().is_relative_to(vault_directory.resolve()):
        # leftovers of some names are cleared there, and a lost folder takes its backup along
        raise BackupRefused("A backup does not belong into the folder of the vault itself.")


def _write(
    session: VaultSession,
    path: Path,
    luk: bytearray,
    dbk: bytearray,
    backup_key: bytearray,
    progress: Progress | None,
) -> BackupSummary:
    slot_file = session.keys.slot_file
    salt = os.urandom(slots.SALT_BYTES)
    with _temporary_copy(session.paths) as copy:
        generation, counts = _copy_database(session, dbk, copy, backup_key, salt)
        reduced = credential_slots.without(slot_file, SlotType.OS_KEYRING, SlotType.INSECURE_FILE)
        slot_data = slots.encode(reduced)
        files = {bundle.DATABASE: copy}
        if session.paths.images.is_dir():
            for image in sorted(session.paths.images.iterdir()):
                files[f"images/{image.name}"] = image
        entries = {name: bundle.file_entry(source) for name, source in files.items()}
        entries[bundle.SLOT_FILE] = (len(slot_data), hashlib.sha256(slot_data).hexdigest())
        manifest = Manifest(slot_file.vault, slot_file.install, now_ms(), generation, salt, entries)
        with kdf.KeyMaterial() as made:
            wrap_key = made.keep(kdf.backup_wrap_key(luk))
            manifest = bundle.seal_manifest(manifest, backup_key, wrap_key)
        _write_verified(path, manifest, slot_data, files, progress)
    return BackupSummary(path, path.stat().st_size, generation, counts.get("record", 0))


@contextlib.contextmanager
def _temporary_copy(paths: VaultPaths) -> Generator[Path]:
    """A name in the vault's folder, where SQLite's files surely work; all of it gone afterwards."""
    copy = paths.directory / f"backup-{secrets.token_hex(8)}.db"
    try:
        yield copy
    finally:
        for suffix in SQLITE_SUFFIXES:
            copy.with_name(copy.name + suffix).unlink(missing_ok=True)


def _copy_database(
    session: VaultSession, dbk: bytearray, copy: Path, backup_key: bytearray, salt: bytes
) -> tuple[int, dict[str, int]]:
    """One snapshot under a new key, read back and compared; its generation and row counts."""
    import sqlcipher3.dbapi2 as sqlcipher

    def stop_when_locked(_status: int, _remaining: int, _total: int) -> None:
        if session.closing:
            raise BackupRefused("The vault was locked; the backup was stopped.")

    old_salt = session.keys.slot_file.salt
    source = open_database(
        session.paths.database, dbk, old_salt, cache_kib=SMALL_CACHE_KIB, maintenance=True
    )
    try:
        # an open read transaction: the copy is one snapshot however long it takes
        source.execute("BEGIN")
        generation = state_rows.read_progress(source).generation
        counts = dict(integrity.row_counts(source))
        target = open_database(copy, backup_key, salt, create=True, maintenance=True)
        try:
            source.backup(target, pages=_STEP_PAGES, progress=stop_when_locked)
            target.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        finally:
            target.close()
        if not pages_are_whole(source):
            raise NeedsRepair("The database has damaged pages; no backup of them was written.")
    except sqlcipher.Error as error:
        if is_write_failure(error):
            raise ReadOnly("There is not enough room for the backup.") from None
        raise NeedsRepair("The database has damaged pages; no backup was written.") from None
    finally:
        source.close()
    written = open_database(copy, backup_key, salt, maintenance=True)
    try:
        whole = integrity.check(written).ok and integrity.row_counts(written) == counts
        if not whole or state_rows.read_progress(written).generation != generation:
            raise BackupRefused("The copy of the database did not verify.")
    finally:
        written.close()
    return generation, counts


def _write_verified(
    path: Path,
    manifest: Manifest,
    slot_data: bytes,
    files: dict[str, Path],
    progress: Progress | None,
) -> None:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600)
    try:
        try:
            bundle.write_bundle(descriptor, manifest, slot_data, files, progress)
        finally:
            os.close(descriptor)
        written = bundle.read_bundle(temporary)
        bundle.extract(written, lambda _: None)
        os.replace(temporary, path)
        sync_directory(path.parent)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        raise
