"""Making a vault: everything is built in ``vault.new/`` and renamed into place as the last step.

A crash leaves no vault or a whole one (vault.md 2, 4.2). Restore builds through the same function.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memory_manager.base.private_files import (
    ensure_private_directory,
    sync_directory,
    write_private,
)
from memory_manager.vault import (
    argon,
    credential_slots,
    device_key,
    kdf,
    leftovers,
    recovery_words,
    slots,
    state_rows,
)
from memory_manager.vault import passphrase as passphrases
from memory_manager.vault.anchor import Anchor, Identity, Progress
from memory_manager.vault.anchor_keeper import copy_name
from memory_manager.vault.argon import ArgonParameters
from memory_manager.vault.ballast import BALLAST_BYTES
from memory_manager.vault.connection import open_database
from memory_manager.vault.database_errors import write_error
from memory_manager.vault.errors import PassphraseRequired, SetupCancelled, VaultError, VaultExists
from memory_manager.vault.key_file import read_key_file
from memory_manager.vault.os_keyring import KeyringUnavailable, OsKeyring
from memory_manager.vault.paths import VaultPaths, read_head
from memory_manager.vault.slots import SlotFile, SlotType
from memory_manager.vault.state_rows import RecoveryState

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

ConfirmWords = Callable[[Sequence[str]], bool]
"""Shows the words and asks for three of them; False ends setup without a vault."""


@dataclasses.dataclass(frozen=True, slots=True)
class SetupResult:
    """The words, for the one place that may show them, and what the vault opens with."""

    recovery_words: tuple[str, ...] | None = dataclasses.field(repr=False)
    recovery: RecoveryState
    keyring: bool


def vault_exists(vault_directory: Path) -> bool:
    """Whether any of the two files that make a vault is there."""
    paths = VaultPaths(vault_directory)
    return os.path.lexists(paths.slots) or os.path.lexists(paths.database)


def create_vault(
    vault_directory: Path,
    *,
    passphrase: str | None,
    insecure_key_file: Path | None = None,
    keyring: OsKeyring | None = None,
    with_recovery: bool = True,
    migrate: Callable[[Connection], object] | None = None,
    confirm_words: ConfirmWords | None = None,
    parameters: ArgonParameters | None = None,
) -> SetupResult:
    """Create the vault at ``vault_directory``, which must not exist or be empty.

    Without ``confirm_words`` the recovery words count as unconfirmed; without ``parameters``
    Argon2id is calibrated for this machine. Raises VaultExists, WeakPassphrase, KeyFileRefused,
    PassphraseRequired when there is nothing to open the vault with, SetupCancelled, OSError.
    """
    if passphrase is None and insecure_key_file is None:
        raise PassphraseRequired("A vault needs a passphrase.")
    leftovers.settle(vault_directory)
    check_free(vault_directory)
    if passphrase is not None:
        passphrases.check_strength(passphrase)
    with kdf.KeyMaterial() as made:
        file_key = None
        if insecure_key_file is not None:
            file_key = made.keep(read_key_file(insecure_key_file))
        entropy = made.keep(recovery_words.new_entropy()) if with_recovery else None
        words = None if entropy is None else recovery_words.words_of(entropy)
        recovery = confirmed(words, confirm_words)
        needs_argon = passphrase is not None
        chosen = parameters or (argon.calibrate() if needs_argon else argon.FLOOR)
        in_keyring = build_vault(
            vault_directory,
            vault_id=os.urandom(slots.ID_BYTES),
            fill_database=migrate or shipped_migrations(),
            fill_slots=lambda slot_file, luk: first_slots(
                slot_file, luk, passphrase, chosen, entropy, file_key
            ),
            keyring=keyring if passphrase is not None else None,
            recovery=recovery,
            authenticated=passphrase is not None,
        )
    return SetupResult(words, recovery, in_keyring)


def confirmed(words: Sequence[str] | None, confirm_words: ConfirmWords | None) -> RecoveryState:
    """What becomes of new words: shown and confirmed, not confirmed, or there are none.

    Raises SetupCancelled when the confirmation fails.
    """
    if words is None:
        return RecoveryState.NONE
    if confirm_words is None:
        return RecoveryState.UNCONFIRMED
    if not confirm_words(words):
        raise SetupCancelled
    return RecoveryState.CONFIRMED


def first_slots(
    slot_file: SlotFile,
    luk: bytearray,
    passphrase: str | None,
    parameters: ArgonParameters,
    entropy: bytearray | None,
    file_key: bytearray | None,
) -> SlotFile:
    """The slots of a new vault: passphrase with a new GSK, recovery words, key file."""
    if passphrase is not None:
        with kdf.KeyMaterial() as made:
            seed = made.keep(kdf.new_key())
            slot_file = credential_slots.put_passphrase(
                slot_file, luk, passphrase, parameters, seed
            )
    if entropy is not None:
        slot_file = credential_slots.put_recovery(slot_file, luk, entropy)
    if file_key is not None:
        slot_file = credential_slots.put_key(slot_file, luk, SlotType.INSECURE_FILE, file_key)
    return slot_file


def check_free(vault_directory: Path) -> None:
    """Raise VaultExists unless a vault can be put at this place without replacing anything."""
    if vault_exists(vault_directory):
        raise VaultExists
    if vault_directory.is_symlink() or (
        vault_directory.exists() and any(vault_directory.iterdir())
    ):
        raise VaultExists(f"{vault_directory} is not empty; it was left alone.")


def build_vault(
    vault_directory: Path,
    *,
    vault_id: bytes,
    fill_database: Callable[[Connection], object],
    fill_slots: Callable[[SlotFile, bytearray], SlotFile],
    keyring: OsKeyring | None,
    recovery: RecoveryState,
    authenticated: bool,
    fill_images: Callable[[Path], None] = lambda _: None,
) -> bool:
    """Build a whole vault with a new install id, LUK, salt and device, then rename it into place.

    Returns whether the keyring got a slot. On any error the half-built folder and the keyring items
    are gone again.
    """
    building = VaultPaths(VaultPaths(vault_directory).building)
    ensure_private_directory(vault_directory.parent)
    shutil.rmtree(building.directory, ignore_errors=True)
    ensure_private_directory(building.directory)
    stored: list[str] = []
    keys = kdf.KeyMaterial()
    try:
        luk = keys.keep(kdf.new_key())
        dbk = keys.keep(kdf.database_key(luk))
        device = device_key.new_device_key()
        keys.keep(device.secrets)
        identity = Identity(vault_id, os.urandom(slots.ID_BYTES), device.device)
        salt = os.urandom(slots.SALT_BYTES)
        generation = _write_database(building, dbk, salt, identity, recovery, fill_database)
        slot_file = SlotFile(
            vault=identity.vault,
            install=identity.install,
            gen=0,
            salt=salt,
            commit=slots.database_commitment(dbk),
            slots=(),
            gsk=None,
        )
        slot_file = fill_slots(slot_file, luk)
        anchor = Anchor(identity, generation, int(time.time()) if authenticated else 0)
        if keyring is not None:
            slot_file = _add_keyring(slot_file, luk, keyring, anchor, stored)
        write_private(building.slots, slots.encode(slot_file))
        _write_derived(building, luk, device, identity, anchor)
        building.images.mkdir(mode=0o700)
        fill_images(building.images)
        write_private(building.ballast, bytes(BALLAST_BYTES))
        sync_directory(building.directory)
        os.rename(building.directory, vault_directory)
        sync_directory(vault_directory.parent)
    except BaseException:
        shutil.rmtree(building.directory, ignore_errors=True)
        for name in stored:
            with contextlib.suppress(KeyringUnavailable):
                keyring.delete(name) if keyring is not None else None
        raise
    finally:
        keys.wipe()
    return bool(stored)


def _write_database(
    building: VaultPaths,
    dbk: bytearray,
    salt: bytes,
    identity: Identity,
    recovery: RecoveryState,
    fill: Callable[[Connection], object],
) -> Progress:
    connection = open_database(building.database, dbk, salt, create=True, maintenance=True)
    try:
        fill(connection)
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("BEGIN IMMEDIATE")
        state_rows.write_identity(connection, identity)
        state_rows.write_recovery(connection, recovery)
        state_rows.raise_generation(connection, state_rows.read_progress(connection).generation + 1)
        progress = state_rows.read_progress(connection)
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except Exception as error:
        known = write_error(error)
        if known is None:
            raise
        raise known from None
    finally:
        connection.close()
    if read_head(building.database) != salt:
        raise VaultError("The new database did not come out encrypted; it was removed.")
    return progress


def _add_keyring(
    slot_file: SlotFile,
    luk: bytearray,
    keyring: OsKeyring,
    anchor: Anchor,
    stored: list[str],
) -> SlotFile:
    """Prove the keyring and give it a slot; unchanged when it does not work."""
    kek = kdf.new_key()
    item = credential_slots.keyring_item_name(slot_file.salt)
    copy = copy_name(slot_file.install)
    try:
        keyring.prove()
        stored.append(item)
        keyring.write(item, kek)
        stored.append(copy)
        keyring.write(copy, anchor.keyring_copy())
        return credential_slots.put_key(slot_file, luk, SlotType.OS_KEYRING, kek)
    except KeyringUnavailable:
        for name in stored:
            with contextlib.suppress(KeyringUnavailable):
                keyring.delete(name)
        stored.clear()
        return slot_file
    finally:
        kdf.wipe(kek)


def _write_derived(
    building: VaultPaths,
    luk: bytearray,
    device: device_key.DeviceKey,
    identity: Identity,
    anchor: Anchor,
) -> None:
    with kdf.KeyMaterial() as keys:
        wrap_key, mac_key = keys.keep(kdf.device_wrap_key(luk)), keys.keep(kdf.anchor_key(luk))
        sealed = device_key.encode(device, identity.vault, identity.install, wrap_key)
        write_private(building.device_key, sealed)
        write_private(building.anchor, anchor.encode(mac_key))


def shipped_migrations() -> Callable[[Connection], object]:
    """The migrations of this program, imported late: they read their files at import."""
    from memory_manager.vault.migrations import migrate

    return migrate
