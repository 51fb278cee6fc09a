"""Parsed requests about the ledger (xmemo.md 6.8, 6.9): values, nothing of HTTP."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from memory_manager.api.item_requests import (
    MAX_STATE_TEXT,
    ItemListRequest,
    item_draft,
    list_limit,
)
from memory_manager.api.money import (
    DEFAULT_CURRENCY,
    Month,
    parse_amount,
    parse_currency,
    parse_month,
)
from memory_manager.api.parsing import Fields
from memory_manager.vault.items import ItemFilter
from memory_manager.vault.rows import MemoryDraft, MemoryType, RecordKind


def parse_expense(values: Mapping[str, object]) -> MemoryDraft:
    """What was bought, for how much, when (now unless said) and in which currency."""
    fields = Fields.of_body(values)
    content = fields.required_text("item", limit=MAX_STATE_TEXT)
    given = fields.mapping("metadata") or {}
    extra = {
        name: text
        for name in ("category", "note", "merchant")
        if (text := fields.text(name, limit=MAX_STATE_TEXT)) is not None
    }
    item = {
        "amount_micros": parse_amount(fields, "amount"),
        "currency": parse_currency(fields) or DEFAULT_CURRENCY,
        "spent_at_ms": fields.time("spent_at") or fields.time("occurred_at"),
    }
    draft = item_draft(fields, RecordKind.EXPENSE, content, "ledger", MemoryType.EPISODIC, item)
    fields.check()
    return dataclasses.replace(draft, metadata={**given, **extra})


def parse_transactions(values: Mapping[str, object], now_ms: int) -> ItemListRequest:
    """Expenses of a month if one is named, of ``[since, until)``, or all."""
    fields = Fields.of_query(values)
    since, until = fields.time_bounds()
    if fields.raw("month") not in (None, "") or fields.raw("year") not in (None, ""):
        month = parse_month(fields, now_ms)
        since, until = month.since_ms, month.until_ms
    asked = ItemListRequest(
        ItemFilter(
            kind=RecordKind.EXPENSE,
            bucket=fields.filter_text("bucket"),
            scope=fields.filter_text("scope"),
            label=parse_currency(fields),
            since_ms=since,
            until_ms=until,
        ),
        list_limit(fields),
    )
    fields.check()
    return asked


@dataclasses.dataclass(frozen=True, slots=True)
class MonthRequest:
    month: Month
    filter: ItemFilter  # its label is the currency that was asked for


def parse_monthly_summary(values: Mapping[str, object], now_ms: int) -> MonthRequest:
    """GET /v1/me/ledger/monthly-summary."""
    fields = Fields.of_query(values)
    month = parse_month(fields, now_ms)
    request = MonthRequest(
        month,
        ItemFilter(
            kind=RecordKind.EXPENSE,
            bucket=fields.filter_text("bucket"),
            scope=fields.filter_text("scope"),
            label=parse_currency(fields),
            since_ms=month.since_ms,
            until_ms=month.until_ms,
        ),
    )
    fields.check()
    return request
