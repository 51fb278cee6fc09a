"""What bodies and query strings of the memory routes mean (xmemo.md 4.5, 4.7, 6.2-6.5)."""

from __future__ import annotations

import pytest

from memory_manager.api import requests
from memory_manager.api.errors import InvalidFields
from memory_manager.api.parsing import Fields
from memory_manager.base.errors import NotFound
from memory_manager.base.path_filter import PathFilter
from memory_manager.recall.requests import TimeOrder
from memory_manager.vault.filters import TimeAxis
from memory_manager.vault.rows import UNSET, ForgetMode, MemoryType

MINIMAL = {"content": "text", "path": "a/b"}
DAY = {"since": "2026-01-01T00:00:00Z", "until": "2026-01-02T00:00:00+01:00"}


def test_a_minimal_memory_gets_the_documented_defaults() -> None:
    draft = requests.parse_draft(MINIMAL)
    assert (draft.bucket, draft.scope, draft.memory_type) == ("public", None, None)
    assert (draft.importance, draft.metadata, draft.dedupe) == (None, {}, False)


def test_null_empty_and_unknown_members_count_as_absent() -> None:
    odd: dict[str, object] = {
        "scope": None,
        "team_id": None,
        "semantic_key": "",
        "bucket": "",
        "memory_type": None,
        "importance": None,
        "expires_at": "",
        "metadata": None,
        "new_in_2031": [1],
    }
    assert requests.parse_draft({**MINIMAL, **odd}) == requests.parse_draft(MINIMAL)


@pytest.mark.parametrize(
    ("field", "value", "kind"),
    [
        ("content", None, "missing"),
        ("content", "", "missing"),
        ("content", " \n", "missing"),
        ("content", 7, "string_type"),
        ("content", "x" * 100_001, "string_too_long"),
        ("path", None, "missing"),
        ("path", ["a"], "string_type"),
        ("memory_type", "sensitive", "enum"),
        ("importance", 1.5, "out_of_range"),
        ("importance", "much", "number_type"),
        ("confidence", True, "number_type"),
        ("metadata", "text", "object_type"),
        ("expires_at", "tomorrow", "datetime"),
        ("expires_at", "2026-01-01T00:00:00", "datetime"),
        ("bucket", 5, "string_type"),
    ],
)
def test_impossible_members_are_refused_by_name(field: str, value: object, kind: str) -> None:
    with pytest.raises(InvalidFields) as refused:
        requests.parse_draft({**MINIMAL, field: value})
    (fault,) = refused.value.faults
    assert fault.as_json()["loc"] == ["body", field]
    assert fault.kind == kind


def test_all_faults_of_one_request_stand_in_one_answer() -> None:
    with pytest.raises(InvalidFields) as refused:
        requests.parse_draft({"importance": 7})
    assert {fault.field for fault in refused.value.faults} == {"content", "path", "importance"}


def test_a_refusal_never_shows_the_value() -> None:
    value = "a-value-nobody-may-see"
    with pytest.raises(InvalidFields) as refused:
        requests.parse_draft({**MINIMAL, "memory_type": value, "expires_at": value})
    assert value not in repr(refused.value) + str(refused.value.faults)


@pytest.mark.parametrize("name", [kind.value for kind in MemoryType])
def test_the_five_types(name: str) -> None:
    assert requests.parse_draft({**MINIMAL, "memory_type": name}).memory_type == MemoryType(name)


def test_auto_lets_the_store_decide() -> None:
    assert requests.parse_draft({**MINIMAL, "memory_type": "auto"}).memory_type is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("", None),
        ("%", None),
        ("*", None),
        ("projects%", PathFilter("projects", prefix_only=True)),
        ("projects*", PathFilter("projects", prefix_only=True)),
        ("projects", PathFilter("projects")),
    ],
)
def test_path_filters(value: str | None, expected: PathFilter | None) -> None:
    asked = {"query": "x"} if value is None else {"query": "x", "path": value}
    assert requests.parse_search(asked).filter.path == expected


@pytest.mark.parametrize("nothing", ["", "%"])
def test_wildcards_filter_nothing(nothing: str) -> None:
    asked = requests.parse_search(
        {"query": "x", "bucket": nothing, "scope": nothing, "memory_type": nothing}
    )
    assert (asked.filter.bucket, asked.filter.scope, asked.filter.memory_type) == (None,) * 3


def test_auto_filters_nothing_on_reads() -> None:
    assert requests.parse_context({"query": "x", "memory_type": "auto"}).search.filter == (
        requests.parse_context({"query": "x"}).search.filter
    )


@pytest.mark.parametrize(
    ("limit", "expected"),
    [("999999999", 5000), ("-3", 1), ("0", 1), ("7", 7), ("", 10), ("1e400", None), ("ten", None)],
)
def test_limits_are_clamped_and_text_is_refused(limit: str, expected: int | None) -> None:
    asked = {"query": "x", "limit": limit}
    if expected is None:
        with pytest.raises(InvalidFields):
            requests.parse_search(asked)
    else:
        assert requests.parse_search(asked).limit == expected


def test_query_has_a_second_spelling_and_is_required() -> None:
    assert requests.parse_search({"q": "x"}).query == "x"
    for missing in ({}, {"query": ""}, {"query": "  "}):
        with pytest.raises(InvalidFields):
            requests.parse_search(missing)


def test_overlong_queries_are_cut_not_refused() -> None:
    assert len(requests.parse_search({"query": "x" * 100_000}).query) == 4_000


def test_time_bounds_and_axes() -> None:
    asked = requests.parse_search({"query": "x", **DAY})
    assert asked.filter.since_ms == 1767225600000
    assert asked.filter.until_ms == 1767308400000
    assert asked.filter.time_axis is TimeAxis.CREATED_AT
    by_update = requests.parse_search({"query": "x", "temporal_axis_mode": "updated_at"})
    assert by_update.filter.time_axis is TimeAxis.UPDATED_AT
    assert by_update.order_by_updated
    split = requests.parse_search(
        {"query": "x", "temporal_axis_mode": "split_filter_created_order_updated"}
    )
    assert (split.filter.time_axis, split.order_by_updated) == (TimeAxis.CREATED_AT, True)
    assert requests.parse_search({"query": "x", "time_order": "asc"}).time_order is (
        TimeOrder.OLDEST_FIRST
    )


@pytest.mark.parametrize(
    "asked",
    [
        {"query_mode": "activity_log"},
        {"query_mode": "activity_log", "since": DAY["since"]},
        {"query_mode": "sideways"},
        {"since": DAY["until"], "until": DAY["since"]},
        {"since": DAY["since"], "until": DAY["since"]},
        {"since": "yesterday"},
        {"owner_timezone": "Mars/Olympus"},
        {"owner_timezone": "../../etc/passwd"},
        {"owner_timezone": "Europe"},
        {"reference_time": "2026-01-01"},
        {"time_order": "up"},
        {"temporal_axis_mode": "never"},
    ],
)
def test_impossible_times_are_refused(asked: dict[str, str]) -> None:
    with pytest.raises(InvalidFields):
        requests.parse_search({"query": "x", **asked})


def test_an_activity_log_with_both_bounds() -> None:
    assert requests.parse_search({"query": "x", "query_mode": "activity_log", **DAY}).activity_log


def test_context_defaults_and_ranges() -> None:
    plain = requests.parse_context({"query": "x"})
    assert (plain.max_items, plain.max_tokens, plain.search.prefer_working) == (8, 1200, True)
    wide = requests.parse_context({"query": "x", "max_items": 10_000, "max_tokens": 10**9})
    assert (wide.max_items, wide.max_tokens) == (500, 100_000)


def test_a_change_leaves_what_was_not_sent() -> None:
    change = requests.parse_change({"content": "new"})
    assert change.content == "new"
    assert change.path is UNSET
    assert change.expires_at_ms is UNSET
    assert requests.parse_change({"expires_at": None}).expires_at_ms is None


def test_merge_metadata_is_a_flag_or_the_object_itself() -> None:
    flagged = requests.parse_change({"metadata": {"a": 1}, "merge_metadata": True})
    assert (flagged.metadata, flagged.merge_metadata) == ({"a": 1}, True)
    inline = requests.parse_change({"merge_metadata": {"a": 1}})
    assert (inline.metadata, inline.merge_metadata) == ({"a": 1}, True)
    assert requests.parse_change({"merge_metadata": True}).metadata is UNSET


def test_forget_modes() -> None:
    assert requests.parse_forget({}).mode is ForgetMode.SOFT_DELETE
    assert requests.parse_forget({"mode": "redact"}).mode is ForgetMode.REDACT
    with pytest.raises(InvalidFields):
        requests.parse_forget({"mode": "burn"})


@pytest.mark.parametrize("segment", ["..", "%2F", "x" * 300, "a\0b", "", "4F0C", "mem_1"])
def test_a_segment_that_cannot_be_an_id_is_not_found(segment: str) -> None:
    with pytest.raises(NotFound):
        requests.parse_memory_id(segment)


def test_an_id_is_folded_to_lower_case() -> None:
    known = "0192F0C1-0000-7000-8000-00000000ABCD"
    assert requests.parse_memory_id(known) == known.lower()


def test_flags_take_query_spellings() -> None:
    fields = Fields.of_query({"a": "true", "b": "FALSE", "c": "maybe"})
    assert fields.flag("a")
    assert not fields.flag("b", default=True)
    assert fields.flag("c", default=True)


def test_there_is_no_version_between_two_versions() -> None:
    assert requests.parse_restore({"version": 2.0}).version == 2
    with pytest.raises(InvalidFields):
        requests.parse_restore({"version": 2.7})
