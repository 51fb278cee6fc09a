"""Making a vault from a backup: new installation, new keys, new device, verified before it counts.

Contract: vault.md 10. The vault that stood there before is kept beside it, whole.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memory_manager.base.private_files import ensure_private_directory, sync_directory
from memory_manager.vault import argon, bundle, integrity, kdf, leftovers, recovery_words
from memory_manager.vault.argon import ArgonParameters
from memory_manager.vault.bundle import Bundle, Progress
from memory_manager.vault.connection import open_database, pages_are_whole
from memory_manager.vault.credential_slots import Credential, Passphrase, RecoveryWords
from memory_manager.vault.errors import (
    BackupRefused,
    PassphraseRequired,
    SlotDamaged,
    VaultError,
    VaultExists,
)
from memory_manager.vault.key_file import read_key_file
from memory_manager.vault.os_keyring import OsKeyring
from memory_manager.vault.passphrase import check_strength
from memory_manager.vault.paths import VaultPaths
from memory_manager.vault.setup import (
    ConfirmWords,
    build_vault,
    check_free,
    confirmed,
    first_slots,
    shipped_migrations,
    vault_exists,
)
from memory_manager.vault.slot_files import select
from memory_manager.vault.slots import SlotType
from memory_manager.vault.state_rows import RecoveryState

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection


@dataclasses.dataclass(frozen=True, slots=True)
class RestoreResult:
    """``recovery_words`` are new ones, to be shown once; None when the given ones stay valid."""

    recovery_words: tuple[str, ...] | None = dataclasses.field(repr=False)
    recovery: RecoveryState
    memories: int
    generation: int
    keyring: bool
    replaced: Path | None  # where the former vault is now


def restore_backup(
    source: Path,
    vault_directory: Path,
    *,
    passphrase: str | None = None,
    words: Sequence[str] | str | None = None,
    new_passphrase: str | None = None,
    current_passphrase: str | None = None,
    replace: bool = False,
    insecure_key_file: Path | None = None,
    keyring: OsKeyring | None = None,
    with_recovery: bool = True,
    confirm_words: ConfirmWords | None = None,
    parameters: ArgonParameters | None = None,
    progress: Progress | None = None,
) -> RestoreResult:
    """Open ``source`` with its passphrase or words and build a vault from it.

    With words a ``new_passphrase`` is needed, with a passphrase it is optional. ``replace`` puts an
    existing vault aside and needs that vault's ``current_passphrase`` while its slots are readable.
    The caller holds ``vault.lock``. Raises BackupRefused, WrongPassphrase, VaultExists,
    PassphraseRequired, WeakPassphrase; nothing is changed then.
    """
    opened_with: Credential
    if words is not None:
        opened_with, chosen = RecoveryWords(words), new_passphrase
    elif passphrase is not None:
        opened_with, chosen = Passphrase(passphrase), new_passphrase or passphrase
    else:
        raise PassphraseRequired("The passphrase or the recovery words of the backup are needed.")
    if chosen is None:
        raise PassphraseRequired("A new passphrase is needed with recovery words.")
    if new_passphrase is not None:
        check_strength(new_passphrase)
    if not replace:
        check_free(vault_directory)
    elif vault_exists(vault_directory):
        check_may_replace(vault_directory, current_passphrase)
    found = bundle.read_bundle(source)
    ensure_private_directory(vault_directory.parent)
    with kdf.KeyMaterial() as made, _staging(vault_directory) as staging:
        backup_key = made.keep(_open_key(found, opened_with))
        entropy = _entropy_for(words, with_recovery)
        issued: tuple[str, ...] | None = None
        recovery = RecoveryState.NONE
        if entropy is not None:
            made.keep(entropy)
            recovery = RecoveryState.CONFIRMED  # the given words are known to be written down
            if words is None:
                issued = recovery_words.words_of(entropy)
                recovery = confirmed(issued, confirm_words)
        file_key = None
        if insecure_key_file is not None:
            file_key = made.keep(read_key_file(insecure_key_file))
        bundle.extract(found, lambda name: staging / Path(name).name, progress)
        target = leftovers.restored_folder(vault_directory)
        with _opened_copy(staging / bundle.DATABASE, backup_key, found.manifest.salt) as copy:
            memories = _check_copy(copy)

            def fill_database(connection: Connection) -> None:
                copy.backup(connection)
                if not pages_are_whole(copy):
                    raise BackupRefused
                shipped_migrations()(connection)

            in_keyring = build_vault(
                target,
                vault_id=found.manifest.vault,
                fill_database=fill_database,
                fill_slots=lambda slot_file, luk: first_slots(
                    slot_file, luk, chosen, parameters or argon.calibrate(), entropy, file_key
                ),
                fill_images=lambda images: _move_images(found, staging, images),
                keyring=keyring,
                recovery=recovery,
                authenticated=True,
            )
    replaced = _put_in_place(target, vault_directory)
    return RestoreResult(
        issued, recovery, memories, found.manifest.generation, in_keyring, replaced
    )


@contextlib.contextmanager
def _opened_copy(database: Path, key: bytearray, salt: bytes) -> Generator[Connection]:
    """The database of the bundle; BackupRefused when its key does not open it."""
    try:
        copy = open_database(database, key, salt, maintenance=True)
    except (VaultError, FileNotFoundError):
        raise BackupRefused from None
    try:
        yield copy
    finally:
        copy.close()


def check_may_replace(vault_directory: Path, passphrase: str | None) -> None:
    """The owner of the present vault must be here, as far as it can still tell."""
    try:
        slot_file = select(VaultPaths(vault_directory)).slot_file
    except (VaultError, FileNotFoundError):
        return  # damaged: that is why it is replaced; it is put aside whole in any case
    if slot_file.find(SlotType.PASSPHRASE) is None:
        return
    if passphrase is None:
        raise PassphraseRequired("Replacing a vault needs the passphrase of the present one.")
    try:
        kdf.wipe(Passphrase(passphrase).open(slot_file))
    except SlotDamaged:
        return


def _open_key(found: Bundle, credential: Credential) -> bytearray:
    try:
        luk = credential.open(found.slot_file)
    except SlotDamaged:
        raise BackupRefused from None
    wrap_key = kdf.backup_wrap_key(luk)
    try:
        return bundle.open_backup_key(found.manifest, wrap_key)
    finally:
        kdf.wipe(luk, wrap_key)


def _entropy_for(words: Sequence[str] | str | None, with_recovery: bool) -> bytearray | None:
    if words is not None:
        return recovery_words.entropy_of(words)
    return recovery_words.new_entropy() if with_recovery else None


def _check_copy(copy: Connection) -> int:
    if not integrity.check(copy).ok:
        raise BackupRefused
    return integrity.row_counts(copy).get("record", 0)


@contextlib.contextmanager
def _staging(vault_directory: Path) -> Generator[Path]:
    staging = leftovers.staging_folder(vault_directory)
    leftovers.discard(vault_directory)
    ensure_private_directory(staging)
    try:
        yield staging
    finally:
        shutil.rmtree(staging, ignore_errors=True)


def _move_images(found: Bundle, staging: Path, images: Path) -> None:
    for name in found.manifest.files:
        if name.startswith("images/"):
            os.rename(staging / Path(name).name, images / Path(name).name)


def _put_in_place(target: Path, vault_directory: Path) -> Path | None:
    """Swap folders: the former vault, if any, is kept under a name with the time."""
    replaced: Path | None = None
    if vault_directory.exists():
        if any(vault_directory.iterdir()):
            stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
            replaced = vault_directory.with_name(f"{vault_directory.name}.replaced-{stamp}")
            if replaced.exists():
                raise VaultExists(f"{replaced} exists.")
            os.rename(vault_directory, replaced)
        else:
            vault_directory.rmdir()
    os.rename(target, vault_directory)
    sync_directory(vault_directory.parent)
    return replaced
