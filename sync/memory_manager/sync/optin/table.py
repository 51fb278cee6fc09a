"""Requests and opted-in rows as stored in the vault, inside its own transactions."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from memory_manager.base.identifiers import MemoryId, memory_id_bytes, memory_id_from_bytes
from memory_manager.sync.wire import labels
from memory_manager.sync.wire.envelope import Dot
from memory_manager.sync.wire.grants import SignedGrant, read_grant

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction

MAX_REQUESTS: Final = 1_000
_COLUMNS: Final = "record, id, dot, document, owner_grant, sig_device, sig_grant, state, code"


class OptInState(enum.StrEnum):
    WAITING = "waiting"
    SENT = "sent"
    BLOCKED = "blocked"
    LEAVING = "leaving"


LIVE: Final = (OptInState.WAITING, OptInState.SENT)


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """What an agent, or the owner, would like to opt in. ``client`` is the owner's name for it."""

    memory_id: MemoryId
    asked_at_ms: int
    agent_id: str | None
    client: str | None
    reason: str | None = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class OptedIn:
    """One copy. ``document`` and ``signed`` are there for copies of this device that are live."""

    record: bytes
    memory_id: MemoryId
    dot: Dot | None
    document: bytes | None = dataclasses.field(repr=False)
    signed: SignedGrant | None
    state: OptInState
    code: str | None = None


def add_request(transaction: Transaction, request: Request) -> bool:
    """File a request; False when there is one for this memory already, or there are too many."""
    connection = transaction.connection
    (count,) = connection.execute("SELECT count(*) FROM opt_in_request").fetchone()
    if count >= MAX_REQUESTS:
        return False
    cursor = connection.execute(
        "INSERT OR IGNORE INTO opt_in_request(id, asked_at_ms, agent_id, client, reason)"
        " VALUES(?, ?, ?, ?, ?)",
        (
            memory_id_bytes(request.memory_id),
            request.asked_at_ms,
            request.agent_id,
            request.client,
            request.reason,
        ),
    )
    return bool(cursor.rowcount)


def requests(connection: Connection) -> list[Request]:
    """Oldest first."""
    rows = connection.execute(
        "SELECT id, asked_at_ms, agent_id, client, reason FROM opt_in_request"
        " ORDER BY asked_at_ms, id"
    )
    return [Request(memory_id_from_bytes(raw), *rest) for raw, *rest in rows]


def drop_request(transaction: Transaction, memory_id: MemoryId) -> bool:
    cursor = transaction.connection.execute(
        "DELETE FROM opt_in_request WHERE id = ?", (memory_id_bytes(memory_id),)
    )
    return bool(cursor.rowcount)


def put(transaction: Transaction, row: OptedIn) -> None:
    """Add a copy, or replace what is known of it."""
    signed = row.signed
    transaction.connection.execute(
        f"INSERT OR REPLACE INTO opt_in({_COLUMNS}, changed_at_ms)"
        " VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (
            row.record,
            memory_id_bytes(row.memory_id),
            None if row.dot is None else row.dot.pack(),
            row.document,
            None if signed is None else signed.grant.document(),
            None if signed is None else signed.by_device,
            None if signed is None else signed.by_owner,
            row.state.value,
            row.code,
            transaction.now_ms,
        ),
    )


def was_sent(transaction: Transaction, record: bytes) -> None:
    """The server has it; one that is to leave meanwhile still has to."""
    transaction.connection.execute(
        "UPDATE opt_in SET state = 'sent', code = NULL, changed_at_ms = ?"
        " WHERE record = ? AND state = 'waiting'",
        (transaction.now_ms, record),
    )


def is_in_log(connection: Connection, dot: Dot) -> bool:
    """Whether a verified server head covers the revision: only then its text follows."""
    found = connection.execute(
        "SELECT 1 FROM entry WHERE device = ? AND seq = ? AND n IS NOT NULL",
        (dot.device, dot.seq),
    ).fetchone()
    return found is not None


def remove(transaction: Transaction, record: bytes) -> None:
    transaction.connection.execute("DELETE FROM opt_in WHERE record = ?", (record,))


def listed(
    connection: Connection, states: Sequence[OptInState] = tuple(OptInState)
) -> list[OptedIn]:
    """Copies in any of these states, in the order they came."""
    marks = ", ".join("?" * len(states))
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM opt_in WHERE state IN ({marks}) ORDER BY rowid",
        [state.value for state in states],
    )
    return [_row(row) for row in rows]


def of_record(connection: Connection, record: bytes) -> OptedIn | None:
    found = connection.execute(
        f"SELECT {_COLUMNS} FROM opt_in WHERE record = ?", (record,)
    ).fetchone()
    return None if found is None else _row(found)


def of_memory(connection: Connection, memory_id: MemoryId) -> list[OptedIn]:
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM opt_in WHERE id = ?", (memory_id_bytes(memory_id),)
    )
    return [_row(row) for row in rows]


def _row(values: Sequence[object]) -> OptedIn:
    record, memory_id, dot, document, grant, by_device, by_owner, state, code = values
    signed = None
    if isinstance(grant, bytes) and isinstance(by_device, bytes) and isinstance(by_owner, bytes):
        signed = SignedGrant(read_grant(grant), by_device, by_owner)
    return OptedIn(
        _bytes(record),
        memory_id_from_bytes(_bytes(memory_id)),
        None if dot is None else _dot(_bytes(dot)),
        None if document is None else _bytes(document),
        signed,
        OptInState(str(state)),
        None if code is None else str(code),
    )


def _bytes(value: object) -> bytes:
    if not isinstance(value, bytes):
        raise TypeError("a column of bytes")
    return value


def _dot(raw: bytes) -> Dot:
    return Dot(raw[: labels.ID_BYTES], int.from_bytes(raw[labels.ID_BYTES :], "big"))
