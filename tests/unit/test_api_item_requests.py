"""Parsing of requests about items: time to live, defaults, amounts, months."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_manager.api import item_requests as requests
from memory_manager.api.errors import InvalidFields
from memory_manager.api.item_json import amount_json
from memory_manager.api.money import Month, parse_amount, parse_month
from memory_manager.api.parsing import Fields
from memory_manager.api.restart_requests import parse_snapshot
from memory_manager.vault.rows import RecordKind

NOW_MS = 1_796_000_000_000


def ttl(value: object, default: int | None = 7) -> int | None:
    fields = Fields.of_body({"ttl_seconds": value})
    found = requests.parse_ttl(fields, default)
    fields.check()
    return found


@settings(max_examples=200, deadline=None)
@given(st.one_of(st.integers(0), st.floats(0, allow_nan=False)))
def test_time_to_live_is_never_longer_than_asked_nor_for_ever_unasked(seconds: float) -> None:
    found = ttl(seconds)
    if seconds == 0:
        assert found is None
        assert requests.expiry_ms(found, NOW_MS) is None
        return
    assert found == min(math.ceil(min(seconds, 1e12)), requests.MAX_TTL_SECONDS)
    assert found >= 1
    expires = requests.expiry_ms(found, NOW_MS)
    assert expires is not None
    assert NOW_MS < expires <= NOW_MS + requests.MAX_TTL_SECONDS * 1000


def test_time_to_live_as_text_absent_and_impossible() -> None:
    assert [ttl(value) for value in ("0", "60", "0.2")] == [None, 60, 1]
    assert [ttl(value) for value in (None, "")] == [7, 7]
    assert ttl(None, None) is None
    assert ttl(10**400) == ttl(math.inf) == requests.MAX_TTL_SECONDS
    for wrong in (-1, "-0.1", "soon", True, [], {}, "nan", "inf", -(10**400)):
        with pytest.raises(InvalidFields):
            ttl(wrong)


def test_a_state_replaces_everything_and_blanks_count_as_unset() -> None:
    asked = requests.parse_state({"content": "", "current_task": "a", "next_action": ""})
    draft = asked.draft
    assert draft.item == {"current_task": "a"}
    assert draft.content == "Current task: a"
    assert (draft.bucket, draft.scope, draft.semantic_key) == ("work", None, "active_task")
    assert asked.ttl_seconds == requests.DEFAULT_STATE_TTL_SECONDS
    assert requests.parse_state({"content": "x", "blocked_reason": "b"}).draft.content == "x"
    assert requests.parse_state({}).draft.content == ""


def test_lists_show_open_items_unless_asked_otherwise() -> None:
    def status(**values: object) -> str | None:
        return requests.parse_status_list(values, RecordKind.REMINDER).filter.item_status

    assert status() == status(item_status="") == status(item_status=None) == "open"
    assert status(item_status="%") is None
    assert status(item_status="completed") == "completed"
    limits = [
        requests.parse_status_list({"limit": value}, RecordKind.REMINDER).limit
        for value in (None, "", -5, "0", 10**400, 7.9)
    ]
    assert limits == [20, 20, 1, 1, 500, 7]


@pytest.mark.parametrize(
    ("given_amount", "micros"),
    [("0.1", 100_000), (0.1, 100_000), (3, 3_000_000), ("-2.5", -2_500_000), ("1e2", 10**8),
     (" 7 ", 7_000_000), (1e-9, 0), ("0.0000015", 2), (1_000_000_000, 10**15)],
)  # fmt: skip
def test_amounts(given_amount: object, micros: int) -> None:
    fields = Fields.of_body({"amount": given_amount})
    assert parse_amount(fields, "amount") == micros
    fields.check()


def test_amounts_are_exact_on_the_wire() -> None:
    assert [amount_json(micros) for micros in (3_000_000, 300_000, -50_000, 1, 0)] == [
        3, 0.3, -0.05, 0.000001, 0,
    ]  # fmt: skip


def test_months_border_on_each_other() -> None:
    for year, month in ((2026, 11), (2026, 12), (1, 1), (9999, 11)):
        following = Month(year + month // 12, month % 12 + 1)
        assert Month(year, month).until_ms == following.since_ms
    found = parse_month(Fields.of_query({"month": "2", "year": ""}), NOW_MS)
    assert found == Month(2026, 2)
    assert parse_month(Fields.of_query({}), NOW_MS).name == "2026-11"


def test_a_snapshot_holds_a_hundred_of_each_list_at_most() -> None:
    asked = parse_snapshot({"timeline_limit": 10**9, "reminder_limit": -1, "decision_limit": "7"})
    assert (asked.timeline_limit, asked.reminder_limit, asked.decision_limit) == (100, 0, 7)
