"""The ledger: expenses kept, listed and summed by month (xmemo.md 6.9, 11.6)."""

from __future__ import annotations

from collections.abc import Mapping

from sqlcipher3.dbapi2 import Connection

from memory_manager.api.calls import Call
from memory_manager.api.item_json import amount_json
from memory_manager.api.ledger_requests import (
    parse_expense,
    parse_monthly_summary,
    parse_transactions,
)
from memory_manager.api.money import DEFAULT_CURRENCY
from memory_manager.api.operations.answer import Answer, answer
from memory_manager.api.operations.item_access import created_item, list_answer
from memory_manager.base.times import now_ms
from memory_manager.service.daemon import Daemon
from memory_manager.vault import items
from memory_manager.vault.idempotency import IdempotencyKey
from memory_manager.vault.items import Spent


async def add_expense(
    daemon: Daemon, call: Call, arguments: Mapping[str, object], key: IdempotencyKey | None
) -> Answer:
    """A new expense, flat and as ``expense``; an amount below zero is money back."""
    return await created_item(daemon, call, parse_expense(arguments), "expense", key)


async def list_ledger_transactions(
    daemon: Daemon, call: Call, arguments: Mapping[str, object]
) -> Answer:
    """``transactions``, newest first."""
    asked = parse_transactions(arguments, now_ms())
    return await list_answer(daemon, call, asked, ("transactions",))


async def monthly_ledger_summary(
    daemon: Daemon, _call: Call, arguments: Mapping[str, object]
) -> Answer:
    """Sum and number of a month's expenses in one currency: the one asked for, else the one with
    most of them. ``currencies`` has the sums of all.
    """
    now = now_ms()
    asked = parse_monthly_summary(arguments, now)

    def read(connection: Connection) -> list[Spent]:
        return items.spent(connection, asked.filter, now)

    found = await daemon.store().read(read)
    chosen = next(iter(found), Spent(asked.filter.label or DEFAULT_CURRENCY, 0, 0))
    return answer(
        {
            "month": asked.month.name,
            "currency": chosen.currency,
            "total": amount_json(chosen.micros),
            "count": chosen.count,
            "currencies": [
                {"currency": each.currency, "total": amount_json(each.micros), "count": each.count}
                for each in found
            ],
        }
    )
