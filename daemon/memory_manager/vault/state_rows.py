"""The few facts the vault keeps about itself in table ``vault_state``: ids, generation, flags."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

from memory_manager.vault.anchor import NO_SYNC, Anchor, Identity, Progress, SyncMark
from memory_manager.vault.errors import NeedsRepair

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

_GENERATION = "generation"
_IDENTITY = ("vault_id", "install_id", "device_id")
_RECOVERY = "recovery"
_LEFT = "left_logs"  # pairs of synced vault and device id, 32 bytes each
_LAST_CHECK = "last_integrity_check_ms"
_CLEANING = "cleaning"


class RecoveryState(enum.StrEnum):
    """Whether the user has shown that the recovery words were written down."""

    CONFIRMED = "confirmed"
    UNCONFIRMED = "unconfirmed"
    NONE = "none"


def _get(connection: Connection, key: str) -> object:
    row = connection.execute("SELECT value FROM vault_state WHERE key = ?", (key,)).fetchone()
    return None if row is None else row[0]


def _set(connection: Connection, key: str, value: bytes | int | str) -> None:
    connection.execute(
        "INSERT INTO vault_state(key, value) VALUES(?, ?)"
        " ON CONFLICT(key) DO UPDATE SET value = excluded.value",
        (key, value),
    )


def read_progress(connection: Connection) -> Progress:
    """The numbers the anchor is compared with; a vault without a server has only a generation."""
    value = _get(connection, _GENERATION)
    if type(value) is not int:
        raise NeedsRepair("The database has lost its generation number.")
    return read_sync_mark(connection).progress(value)


def read_sync_mark(connection: Connection) -> SyncMark:
    """How far sync got as the device that the database names; another device's log counts nothing
    here: the vault was restored, or a new id was minted, and it must enrol again.
    """
    if not _has_sync_tables(connection):
        return NO_SYNC
    row = connection.execute(
        "SELECT own_seq, own_head, n, g, min_epoch, roster_hash FROM sync_state"
        " WHERE device = (SELECT value FROM vault_state WHERE key = 'device_id')"
    ).fetchone()
    return NO_SYNC if row is None else SyncMark(*row)


def holds(connection: Connection, anchor: Anchor) -> bool:
    """Whether the database has the anchor's own head at its seq and its global head at its n."""
    if anchor.progress.own_seq == 0 and anchor.progress.n == 0:
        return True
    if not _has_sync_tables(connection):
        return False
    own = (anchor.identity.device, anchor.progress.own_seq, anchor.own_head)
    there = (anchor.progress.n, anchor.global_head)
    (found,) = connection.execute(
        "SELECT (? = 0 OR EXISTS(SELECT 1 FROM entry WHERE device = ? AND seq = ? AND head = ?))"
        " AND (? = 0 OR EXISTS(SELECT 1 FROM entry WHERE n = ? AND g = ?))",
        (anchor.progress.own_seq, *own, anchor.progress.n, *there),
    ).fetchone()
    return bool(found)


def note_left(connection: Connection, vault: bytes, device: bytes) -> None:
    """This device wrote a log of that synced vault and will never write it again."""
    before = _get(connection, _LEFT)
    _set(connection, _LEFT, (before if isinstance(before, bytes) else b"") + vault + device)


def has_left(connection: Connection, vault: bytes, device: bytes) -> bool:
    """Whether ``note_left`` was told so."""
    noted = _get(connection, _LEFT)
    pair = vault + device
    return isinstance(noted, bytes) and any(
        noted[start : start + len(pair)] == pair for start in range(0, len(noted), len(pair))
    )


def _has_sync_tables(connection: Connection) -> bool:
    """False in a vault of an earlier program, before its migration."""
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'sync_state'").fetchone()
    return found is not None


def raise_generation(connection: Connection, generation: int) -> None:
    """Set the generation; never lower than it is."""
    current = read_progress(connection).generation
    _set(connection, _GENERATION, max(current, generation))


def read_identity(connection: Connection) -> Identity:
    """The ids in the database."""
    found = [_get(connection, key) for key in _IDENTITY]
    vault, install, device = (value if isinstance(value, bytes) else b"" for value in found)
    return Identity(vault, install, device)


def write_identity(connection: Connection, identity: Identity) -> None:
    """Store the three ids."""
    values = (identity.vault, identity.install, identity.device)
    for key, value in zip(_IDENTITY, values, strict=True):
        _set(connection, key, value)


def read_recovery(connection: Connection) -> RecoveryState:
    """The flag as stored; the caller looks whether a recovery slot exists."""
    return (
        RecoveryState.CONFIRMED
        if _get(connection, _RECOVERY) == RecoveryState.CONFIRMED
        else RecoveryState.UNCONFIRMED
    )


def write_recovery(connection: Connection, state: RecoveryState) -> None:
    """Store the flag."""
    _set(connection, _RECOVERY, state.value)


def read_last_check_ms(connection: Connection) -> int | None:
    """UTC milliseconds of the last finished integrity check that found nothing."""
    value = _get(connection, _LAST_CHECK)
    return value if type(value) is int else None


def write_last_check_ms(connection: Connection, unix_ms: int) -> None:
    """Remember a clean integrity check."""
    _set(connection, _LAST_CHECK, unix_ms)


def read_cleaning(connection: Connection) -> str | None:
    """How far stored text was looked at under a rule set, as ``write_cleaning`` was told."""
    value = _get(connection, _CLEANING)
    return value if isinstance(value, str) else None


def write_cleaning(connection: Connection, document: str) -> None:
    _set(connection, _CLEANING, document)
