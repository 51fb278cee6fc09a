"""The one row that says which vault of which server this is and how far everything got.

Contract: vault.md 8, 9. No row: sync is off, and nothing else of the ledger has a row either.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from memory_manager.sync.errors import SyncCode
from memory_manager.sync.wire.payload import HybridTime
from memory_manager.vault import state_rows
from memory_manager.vault.anchor import SyncMark

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction

_COLUMNS: Final = (
    "vault, device, server_url, server_key, n, g, own_seq, own_head, min_epoch, roster_idx,"
    " roster_hash, clock_ms, clock_counter, paused, stop_code, seeding, breaker_until_ms,"
    " wrap_cursor, last_contact_ms"
)


@dataclasses.dataclass(frozen=True, slots=True)
class SyncState:
    """``n`` and ``g`` are the verified global head, ``own_*`` the end of our own log, numbered or
    not; times are UTC milliseconds. ``seeding``: rows from before sync are still to be sealed.
    """

    vault: bytes
    device: bytes
    server_url: str
    server_key: bytes
    n: int
    g: bytes
    own_seq: int
    own_head: bytes
    min_epoch: int
    roster_idx: int
    roster_hash: bytes
    clock: HybridTime
    paused: bool
    stop_code: SyncCode | None
    seeding: bool
    breaker_until_ms: int  # until then the owner has agreed to many deletions
    wrap_cursor: int
    last_contact_ms: int | None


def read(connection: Connection) -> SyncState | None:
    """The state, None while sync is off."""
    return _read(connection, f"SELECT {_COLUMNS} FROM sync_state")


def read_active(connection: Connection) -> SyncState | None:
    """The state while own entries may be written: None also in ``must_enrol_again``."""
    return _read(
        connection,
        f"SELECT {_COLUMNS} FROM sync_state"
        " WHERE device = (SELECT value FROM vault_state WHERE key = 'device_id')",
    )


def require_active(connection: Connection) -> SyncState:
    """``read_active``; LookupError instead of None."""
    state = read_active(connection)
    if state is None:
        raise LookupError("sync is off, or this device must enrol again")
    return state


def _read(connection: Connection, statement: str) -> SyncState | None:
    found = connection.execute(statement).fetchone()
    if found is None:
        return None
    (*first, clock_ms, counter, paused, stop_code, seeding, breaker, cursor, contact) = found
    vault, device, url, key, n, g, own_seq, own_head, min_epoch, roster_idx, roster_hash = first
    return SyncState(
        vault=vault,
        device=device,
        server_url=url,
        server_key=key,
        n=n,
        g=g,
        own_seq=own_seq,
        own_head=own_head,
        min_epoch=min_epoch,
        roster_idx=roster_idx,
        roster_hash=roster_hash,
        clock=HybridTime(clock_ms, counter, device.hex()),
        paused=bool(paused),
        stop_code=None if stop_code is None else SyncCode(stop_code),
        seeding=bool(seeding),
        breaker_until_ms=breaker,
        wrap_cursor=cursor,
        last_contact_ms=contact,
    )


def require(connection: Connection) -> SyncState:
    """The state of a vault in which sync is on; LookupError otherwise."""
    state = read(connection)
    if state is None:
        raise LookupError("sync is off")
    return state


def must_enrol_again(connection: Connection) -> bool:
    """Whether this database came from another device: a restored backup, or a new id was minted.

    Nothing is sealed or pushed under the old log then, ever.
    """
    state = read(connection)
    return state is not None and state.device != state_rows.read_identity(connection).device


def pause(transaction: Transaction, paused: bool) -> None:
    """The owner's wish; writes are sealed all the same."""
    transaction.connection.execute("UPDATE sync_state SET paused = ?", (int(paused),))


def stop(transaction: Transaction, code: SyncCode | None) -> None:
    """Stop with the code of an alarm that asks a person; None: go on."""
    value = None if code is None else code.value
    transaction.connection.execute("UPDATE sync_state SET stop_code = ?", (value,))


def contacted(transaction: Transaction) -> None:
    """The server answered something that verified."""
    transaction.connection.execute(
        "UPDATE sync_state SET last_contact_ms = ?", (transaction.now_ms,)
    )


def set_wrap_cursor(transaction: Transaction, cursor: int) -> None:
    """How far replaced wraps were fetched."""
    transaction.connection.execute("UPDATE sync_state SET wrap_cursor = ?", (cursor,))


def set_server(transaction: Transaction, url: str) -> None:
    """Another address of the same server; its key stays pinned."""
    transaction.connection.execute("UPDATE sync_state SET server_url = ?", (url,))


def confirm_deletions(transaction: Transaction, for_ms: int = 3_600_000) -> None:
    """The owner has agreed to the deletions that stopped a pull; clears that stop."""
    transaction.connection.execute(
        "UPDATE sync_state SET breaker_until_ms = ?,"
        " stop_code = CASE stop_code WHEN 'BREAKER' THEN NULL ELSE stop_code END",
        (transaction.now_ms + for_ms,),
    )
    transaction.connection.execute("DELETE FROM remote_deletion")


def mark_of(state: SyncState) -> SyncMark:
    """What the anchor witnesses of a state."""
    return SyncMark(
        state.own_seq, state.own_head, state.n, state.g, state.min_epoch, state.roster_hash
    )


def reached(transaction: Transaction) -> None:
    """Let the anchor follow what the database says now."""
    transaction.sync_reached(state_rows.read_sync_mark(transaction.connection))
