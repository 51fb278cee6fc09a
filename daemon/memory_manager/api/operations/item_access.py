"""Steps that the operations on items share: one item by its id, dual answers, lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sqlcipher3.dbapi2 import Connection

from memory_manager.api.answers import json_text
from memory_manager.api.calls import Call
from memory_manager.api.item_requests import ItemListRequest
from memory_manager.api.items import MAX_ANSWER_BYTES, fitting_items, row_item
from memory_manager.api.operations.answer import Answer, Written, written
from memory_manager.base.errors import NotFound
from memory_manager.base.identifiers import MemoryId
from memory_manager.base.times import now_ms
from memory_manager.security.gate import Surface, may_recall
from memory_manager.service.daemon import Daemon
from memory_manager.vault import items, queries
from memory_manager.vault.idempotency import IdempotencyKey
from memory_manager.vault.rows import MemoryDraft, MemoryRow, RecordKind
from memory_manager.vault.transaction import Transaction


def readable_row(connection: Connection, record_id: MemoryId) -> MemoryRow | None:
    """The live row of an id, of any kind; None for one that expired or that the gate holds back, as
    in every recall.
    """
    row = queries.get_row(connection, record_id)
    if row is None or (row.expires_at_ms is not None and row.expires_at_ms <= now_ms()):
        return None
    return row if may_recall(row.envelope, row.metadata, Surface.LOCAL).allowed else None


def item_of_kind(connection: Connection, item_id: MemoryId, kind: RecordKind) -> MemoryRow:
    """The readable item of an id; NotFound for one of another kind, too."""
    row = readable_row(connection, item_id)
    if row is None or row.kind is not kind:
        raise NotFound(f"There is no such {kind.value}.")
    return row


def dual_item(name: str, row: MemoryRow, call: Call) -> dict[str, object]:
    """An item flat and once more under its own name: clients read one or the other."""
    item = row_item(row, call.identity)
    return {**item, "redactions": list(row.redactions), name: item}


async def created_item(
    daemon: Daemon, call: Call, draft: MemoryDraft, name: str, key: IdempotencyKey | None
) -> Answer:
    """201 with a new item, flat and under ``name``."""

    def work(transaction: Transaction, call: Call) -> Written:
        outcome = daemon.memories.remember(transaction, draft, call.attribution)
        return Written(201, dual_item(name, outcome.row, call))

    return await written(daemon, call, key, work)


async def list_answer(
    daemon: Daemon, call: Call, asked: ItemListRequest, names: tuple[str, ...]
) -> Answer:
    """One page of items, newest first, under each of the given names."""

    def read(connection: Connection) -> tuple[list[MemoryRow], int]:
        now = now_ms()
        found = items.list_items(connection, asked.filter, now, limit=asked.limit)
        if len(found) < asked.limit:
            return found, len(found)
        return found, items.count_items(connection, asked.filter, now)

    rows, total = await daemon.store().read(read)
    found = [row_item(row, call.identity) for row in rows]
    return Answer(200, named_lists(found, names, {"total": total}))


def within(found: Iterable[dict[str, object]], share: int) -> list[dict[str, object]]:
    """The leading items that fit into one of ``share`` parts of an answer."""
    fitting: list[dict[str, object]] = []
    room = MAX_ANSWER_BYTES // share
    for item in found:
        room -= len(json_text(item).encode("utf-8", "replace"))
        if room < 0 and fitting:
            break
        fitting.append(item)
    return fitting


def named_lists(
    found: Iterable[Mapping[str, object]], names: tuple[str, ...], rest: Mapping[str, object]
) -> str:
    """JSON of an object that holds the same list under several names, within the answer's limit."""
    texts, truncated = fitting_items(found, MAX_ANSWER_BYTES // len(names))
    listed = f"[{','.join(texts)}]"
    lists = "".join(f'"{name}":{listed},' for name in names)
    return f"{{{lists}{json_text({**rest, 'truncated': truncated})[1:]}"
