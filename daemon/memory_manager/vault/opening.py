"""From a credential to a checked vault: slot files, interrupted rekey, key, database, freshness.

Contract: vault.md 4.1, 5, 9.3. Changes nothing but what an interrupted key change left behind.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from pathlib import Path

from memory_manager.base.private_files import UnsafeFile, read_private
from memory_manager.vault import anchor, device_key, kdf, rekey, slot_files, state_rows
from memory_manager.vault.anchor import Anchor, Freshness, Identity, KeyringCopy, Progress, SyncMark
from memory_manager.vault.anchor_keeper import copy_name
from memory_manager.vault.connection import open_database
from memory_manager.vault.credential_slots import Credential, UnlockSource, keyring_item_name
from memory_manager.vault.errors import IncompleteVault, NeedsRepair, NoVault, SlotDamaged
from memory_manager.vault.os_keyring import KeyringUnavailable, OsKeyring
from memory_manager.vault.paths import VaultPaths, check_private
from memory_manager.vault.slots import SlotFile, SlotType
from memory_manager.vault.state_rows import RecoveryState
from memory_manager.vault.status import KeyringCopyState

_DEVICE_KEY_MAX_BYTES = 4096


@dataclasses.dataclass(slots=True)
class VaultKeys:
    """The secrets of an open vault; ``wipe`` zeroes them in place."""

    slot_file: SlotFile
    luk: bytearray = dataclasses.field(repr=False)
    dbk: bytearray = dataclasses.field(repr=False)

    def wipe(self) -> None:
        kdf.wipe(self.luk, self.dbk)


@dataclasses.dataclass(frozen=True, slots=True)
class Inspection:
    """What the database and its witnesses say about each other."""

    identity: Identity
    progress: Progress
    mark: SyncMark
    freshness: Freshness
    anchor: Anchor | None
    witnessed: Progress  # the highest numbers any witness names
    copy_state: KeyringCopyState
    recovery: RecoveryState
    last_check_ms: int | None
    unclean_shutdown: bool


def require_files(paths: VaultPaths) -> None:
    """Raise NoVault when both files are missing, IncompleteVault when one is, UnsafeFile when one
    is open to others.
    """
    # what stands under a name but leads nowhere is no reason for a fresh start either
    database, slot_file = os.path.lexists(paths.database), os.path.lexists(paths.slots)
    if not database and not slot_file:
        raise NoVault
    if not database or not (slot_file or paths.slots_previous.exists()):
        raise IncompleteVault
    check_private(paths)


def unwrap_keys(paths: VaultPaths, credential: Credential) -> VaultKeys:
    """Open a slot of the slot file that belongs to the database; settle an interrupted rekey."""
    require_files(paths)
    selected = slot_files.select(paths)
    slot_file = selected.slot_file
    if selected.from_previous:
        with kdf.KeyMaterial() as held:
            luk = held.keep(credential.open(slot_file))
            settled = rekey.settle(paths, slot_file, luk, credential)
            if settled is None:
                settled = slot_file, bytearray(luk)
        slot_file, luk = settled
    else:
        try:
            luk = credential.open(slot_file)
        except SlotDamaged:
            slot_file, luk = _open_previous(paths, slot_file.salt, credential)
    keys = VaultKeys(slot_file, luk, kdf.database_key(luk))
    try:
        rekey.remove_copy(paths)
    except BaseException:
        keys.wipe()
        raise
    return keys


def _open_previous(
    paths: VaultPaths, salt: bytes, credential: Credential
) -> tuple[SlotFile, bytearray]:
    """The current file is well-formed but a slot in it is not: the previous one may help."""
    previous = slot_files.read_slot_file(paths.slots_previous)
    if previous is None or previous.salt != salt:
        raise SlotDamaged
    luk = credential.open(previous)
    try:
        rekey.undo(paths)
    except BaseException:
        kdf.wipe(luk)
        raise
    return previous, luk


def inspect(
    paths: VaultPaths, keys: VaultKeys, source: UnlockSource, keyring: OsKeyring | None
) -> Inspection:
    """Open the database once, read what it says of itself and compare it with its witnesses.

    Raises the errors of ``open_database``, and NeedsRepair when its own facts are unreadable.
    """
    import sqlcipher3.dbapi2 as sqlcipher

    unclean = _size(paths.wal) > 0
    connection = open_database(paths.database, keys.dbk, keys.slot_file.salt, read_only=True)
    try:
        identity = state_rows.read_identity(connection)
        progress = state_rows.read_progress(connection)
        recovery = state_rows.read_recovery(connection)
        last_check_ms = state_rows.read_last_check_ms(connection)
        mark = state_rows.read_sync_mark(connection)
        copy, copy_state = _read_copy(keys.slot_file.install, source, keyring)
        freshness, found = _freshness(paths, keys, copy, progress, identity)
        if freshness is Freshness.FRESH and found and not state_rows.holds(connection, found):
            freshness = Freshness.DATABASE_ROLLED_BACK
    except sqlcipher.DatabaseError:
        raise NeedsRepair from None
    finally:
        connection.close()
    if freshness is Freshness.FRESH and not _ids_agree(paths, keys, identity):
        freshness = Freshness.WRONG_IDENTITY
    has_words = keys.slot_file.find(SlotType.RECOVERY) is not None
    return Inspection(
        identity=identity,
        progress=progress,
        mark=mark,
        freshness=freshness,
        anchor=found,
        witnessed=_highest(progress, found, copy),
        copy_state=copy_state,
        recovery=recovery if has_words else RecoveryState.NONE,
        last_check_ms=last_check_ms,
        unclean_shutdown=unclean,
    )


def _freshness(
    paths: VaultPaths,
    keys: VaultKeys,
    copy: KeyringCopy | None,
    progress: Progress,
    identity: Identity,
) -> tuple[Freshness, Anchor | None]:
    mac_key = kdf.anchor_key(keys.luk)
    try:
        data = _read(paths.anchor, anchor.ANCHOR_BYTES)
        return anchor.check_freshness(data, mac_key, copy, progress, identity)
    finally:
        kdf.wipe(mac_key)


def read_device_key(paths: VaultPaths, keys: VaultKeys) -> device_key.DeviceKey | None:
    """The device's secrets, None when the file is missing or does not open."""
    data = _read(paths.device_key, _DEVICE_KEY_MAX_BYTES)
    wrap_key = kdf.device_wrap_key(keys.luk)
    try:
        slot_file = keys.slot_file
        return device_key.parse(data or b"", slot_file.vault, slot_file.install, wrap_key)
    except device_key.DeviceKeyDamaged:
        return None
    finally:
        kdf.wipe(wrap_key)


def _ids_agree(paths: VaultPaths, keys: VaultKeys, identity: Identity) -> bool:
    """Database, slot file and device key name the same vault, installation and device."""
    key = read_device_key(paths, keys)
    if key is None:
        return False
    kdf.wipe(key.secrets)
    expected = Identity(keys.slot_file.vault, keys.slot_file.install, key.device)
    return identity == expected


def _read_copy(
    install: bytes, source: UnlockSource, keyring: OsKeyring | None
) -> tuple[KeyringCopy | None, KeyringCopyState]:
    if keyring is None or source is UnlockSource.INSECURE_KEY_FILE:
        return None, KeyringCopyState.NONE
    try:
        item = keyring.read(copy_name(install))
    except KeyringUnavailable:
        return None, KeyringCopyState.UNAVAILABLE
    copy = None if item is None else anchor.parse_keyring_copy(item)
    return copy, KeyringCopyState.NONE if copy is None else KeyringCopyState.OK


def _highest(database: Progress, found: Anchor | None, copy: KeyringCopy | None) -> Progress:
    seen = [database]
    if found is not None:
        seen.append(found.progress)
    if copy is not None:
        seen.append(copy.progress)
    return Progress(
        generation=max(item.generation for item in seen),
        own_seq=max(item.own_seq for item in seen),
        n=max(item.n for item in seen),
        min_epoch=max(item.min_epoch for item in seen),
    )


def _read(path: Path, max_bytes: int) -> bytes | None:
    """The file, None when it is missing, empty when it is not a private file of that size."""
    try:
        return read_private(path, max_bytes)
    except FileNotFoundError:
        return None
    except UnsafeFile:
        return b""


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def slot_types(paths: VaultPaths) -> tuple[SlotType, ...]:
    """What the vault can be opened with; the errors of ``select`` when no slot file fits."""
    return tuple(slot.type for slot in slot_files.select(paths).slot_file.slots)


def drop_leftovers(paths: VaultPaths, keyring: OsKeyring | None) -> None:
    """After a successful unlock: delete the ``.prev`` files and the keyring item of an old key."""
    try:
        current = slot_files.read_slot_file(paths.slots)
        previous = slot_files.read_slot_file(paths.slots_previous)
    except SlotDamaged:
        current = previous = None
    if keyring is not None and previous is not None and current is not None:
        if previous.salt != current.salt:
            with contextlib.suppress(KeyringUnavailable):
                keyring.delete(keyring_item_name(previous.salt))
    rekey.drop_previous(paths)


def remove_temporaries(paths: VaultPaths) -> None:
    """Delete half-written files and cut-short backup copies, before anybody writes here again."""
    for pattern in (".*.tmp", "backup-*.db*"):
        for leftover in paths.directory.glob(pattern):
            with contextlib.suppress(OSError):  # a read-only disk keeps them
                leftover.unlink(missing_ok=True)
