"""What happened that a person should know, by code, time, device and row number; no content."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING

from memory_manager.sync.errors import SyncCode
from memory_manager.vault.row_codec import encode_json

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction


@dataclasses.dataclass(frozen=True, slots=True)
class Alarm:
    """``detail`` is evidence as JSON values: hashes, signatures, numbers (sync.md 4.4)."""

    code: SyncCode
    at_ms: int
    device: bytes | None
    n: int | None
    detail: dict[str, str | int]


def record(
    transaction: Transaction,
    code: SyncCode,
    *,
    device: bytes | None = None,
    n: int | None = None,
    detail: dict[str, str | int] | None = None,
) -> None:
    """Store an alarm; the same one again only renews its time."""
    connection = transaction.connection
    text = encode_json(detail or {})
    known = connection.execute(
        "UPDATE sync_alarm SET at_ms = ? WHERE code = ? AND device IS ? AND n IS ? AND detail = ?"
        " AND cleared_at_ms IS NULL",
        (transaction.now_ms, code.value, device, n, text),
    ).rowcount
    if not known:
        connection.execute(
            "INSERT INTO sync_alarm(code, at_ms, device, n, detail) VALUES(?, ?, ?, ?, ?)",
            (code.value, transaction.now_ms, device, n, text),
        )


def listed(connection: Connection, *, limit: int = 100) -> list[Alarm]:
    """Alarms that nobody has cleared, newest first."""
    rows = connection.execute(
        "SELECT code, at_ms, device, n, detail FROM sync_alarm WHERE cleared_at_ms IS NULL"
        " ORDER BY at_ms DESC, rowid DESC LIMIT ?",
        (limit,),
    )
    return [
        Alarm(SyncCode(code), at_ms, device, n, json.loads(detail))
        for code, at_ms, device, n, detail in rows
    ]


def clear(transaction: Transaction, code: SyncCode | None = None) -> int:
    """The owner has seen them; with ``code`` only those. Returns how many."""
    value = None if code is None else code.value
    return transaction.connection.execute(
        "UPDATE sync_alarm SET cleared_at_ms = ? WHERE cleared_at_ms IS NULL"
        " AND (? IS NULL OR code = ?)",
        (transaction.now_ms, value, value),
    ).rowcount
