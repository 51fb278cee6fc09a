"""Turning sync on, off and on again as another device: the ledger's first and last rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from memory_manager.base.identifiers import memory_id_from_bytes
from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.ledger import copies, kept_founding, keybag, roster_log, state
from memory_manager.sync.ledger.journal import SyncJournal, seal_forgetting
from memory_manager.sync.ledger.state import SyncState
from memory_manager.sync.wire.roster import Roster, SignedEntry, roster_of
from memory_manager.vault import state_rows
from memory_manager.vault.errors import Conflict
from memory_manager.vault.kdf import SecretBytes

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction

TABLES: Final = (
    "sealed",
    "quarantine",
    "entry",
    "device_head",
    "checkpoint",
    "revision_parent",
    "revision",
    "sibling",
    "sync_record",
    "sync_copy",
    "sync_alarm",
    "remote_deletion",
    "roster_log",
    "keybag",
    "sync_state",
)


def turn_on(
    transaction: Transaction,
    journal: SyncJournal,
    *,
    vault: bytes,
    server_url: str,
    server_key: bytes,
    chain: Sequence[SignedEntry],
    keys: Mapping[int, SecretBytes],
) -> SyncState:
    """Become a member: genesis and join alike. ``chain`` is the whole roster, which must hold this
    device (the database's own id) as active; ``keys`` are VRK by epoch.

    From this transaction on every write is sealed; rows from before by ``seeding.seal_some``.
    SyncRefused for a chain that does not hold, Conflict when sync is on already or this device id
    has written a log of that vault before: it would begin a second one.
    """
    connection = transaction.connection
    if state.read(connection) is not None:
        raise Conflict("This vault is synced already.", field="vault")
    device = state_rows.read_identity(connection).device
    if state_rows.has_left(connection, vault, device):
        raise Conflict("This device left that vault; it needs a new id.", field="device")
    roster = roster_of(chain, vault)
    _require_active(roster, device)
    connection.execute(
        "INSERT INTO sync_state(only, vault, device, server_url, server_key, roster_idx,"
        " roster_hash) VALUES(1, ?, ?, ?, ?, ?, ?)",
        (vault, device, server_url, server_key, len(chain) - 1, roster.head),
    )
    roster_log.put(connection, chain, 0)
    for epoch, key in keys.items():
        keybag.put(transaction, epoch, key)
    kept_founding.forget(transaction)
    journal.look_again()
    state.reached(transaction)
    return state.require(connection)


def enrol_again(
    transaction: Transaction,
    journal: SyncJournal,
    *,
    chain: Sequence[SignedEntry],
    keys: Mapping[int, SecretBytes],
) -> SyncState:
    """Go on as the device the database now has (restored backup, ``fork_close``): what was
    verified stays, the old device's entries without a number go, what they said is sealed anew.

    ``chain`` may hold entries that are known. SyncRefused, LookupError when sync is off, Conflict
    for the device that wrote the log until now: it just goes on.
    """
    connection = transaction.connection
    device = state_rows.read_identity(connection).device
    if state.require(connection).device == device:
        raise Conflict("This device goes on with its own log.", field="device")
    roster = roster_log.append(transaction, chain)
    _require_active(roster, device)
    for epoch, key in keys.items():
        keybag.put(transaction, epoch, key)
    forgotten, retracted = _drop_unnumbered(connection)
    connection.execute(
        "UPDATE sync_state SET device = ?, own_seq = 0, own_head = zeroblob(32), seeding = 1,"
        " seeding_cursor = 0, stop_code = NULL",
        (device,),
    )
    journal.look_again()
    for record_id in forgotten:
        seal_forgetting(
            transaction,
            state.require(connection),
            record_id,
            memory_id_from_bytes(record_id),
        )
    for record in retracted:
        copies.retract_again(transaction, state.require(connection), record)
    state.reached(transaction)
    return state.require(connection)


def turn_off(
    transaction: Transaction, journal: SyncJournal, lower_anchor: Callable[[], None]
) -> None:
    """Empty every table of the ledger; the records stay as they are. LookupError when it is off.

    ``lower_anchor`` is ``VaultLifecycle.forget_sync``: the anchor forgets first, or an interruption
    would look like a rolled back database. What it raises undoes everything.
    """
    left = state.require(transaction.connection)
    lower_anchor()
    state_rows.note_left(transaction.connection, left.vault, left.device)
    for table in TABLES:
        transaction.connection.execute(f"DELETE FROM {table}")
    journal.look_again()
    transaction.request_checkpoint()


def _require_active(roster: Roster, device: bytes) -> None:
    member = roster.members.get(device)
    if member is None:
        raise SyncRefused(SyncCode.UNKNOWN_DEVICE, device=device)
    if not member.is_active:
        raise SyncRefused(SyncCode.REVOKED_DEVICE, device=device)


def _drop_unnumbered(connection: Connection) -> tuple[list[bytes], list[bytes]]:
    """Take entries without a number out of the ledger; which records and copies they forgot."""
    unnumbered = (
        "SELECT v.rowid, v.id, v.record, v.deletion FROM entry e"
        " JOIN revision v ON v.device = e.device AND v.seq = e.seq WHERE e.n IS NULL"
    )
    rows = connection.execute(unnumbered).fetchall()
    connection.execute(
        "DELETE FROM checkpoint WHERE EXISTS(SELECT 1 FROM entry e WHERE e.device ="
        " checkpoint.device AND e.seq = checkpoint.seq AND e.n IS NULL)"
    )
    connection.execute(
        "DELETE FROM sealed WHERE entry_rowid IN (SELECT rowid FROM entry WHERE n IS NULL)"
    )
    revisions = [(rowid,) for rowid, *_ in rows]
    connection.executemany("DELETE FROM revision_parent WHERE child = ?", revisions)
    connection.executemany("DELETE FROM revision WHERE rowid = ?", revisions)
    connection.execute("DELETE FROM entry WHERE n IS NULL")
    touched = {record_id for _, record_id, *_ in rows if record_id is not None}
    for record_id in touched:
        connection.execute(
            "UPDATE revision SET superseded = EXISTS(SELECT 1 FROM revision_parent p"
            " JOIN revision c ON c.rowid = p.child WHERE p.parent_device = revision.device"
            " AND p.parent_seq = revision.seq AND c.id = revision.id) WHERE id = ?",
            (record_id,),
        )
        connection.execute("DELETE FROM sibling WHERE id = ?", (record_id,))
        connection.execute(
            "UPDATE sync_record SET version = -abs(version) WHERE id = ?", (record_id,)
        )
    forgotten = [r[1] for r in rows if r[3] == "forget" and r[1] is not None]
    retracted = [r[2] for r in rows if r[3] == "forget" and r[1] is None]
    return forgotten, retracted
