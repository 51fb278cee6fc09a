"""The SQL condition that every read joins: path rules, times, and the retrieval gate as SQL."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_vault import SmallVault, small_vault, writer

from memory_manager.base.path_filter import PathFilter, parse_path_filter
from memory_manager.base.times import now_ms
from memory_manager.security.envelope import (
    EncryptionState,
    RetrievalVisibility,
    SecurityMode,
    read_envelope,
)
from memory_manager.security.gate import Surface, may_recall
from memory_manager.vault import queries
from memory_manager.vault.filters import RowFilter, TimeAxis, _prefix_range
from memory_manager.vault.rows import ForgetMode, MemoryChange, MemoryType


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[SmallVault]:
    with small_vault(tmp_path) as opened:
        yield opened


def found(vault: SmallVault, row_filter: RowFilter) -> list[str]:
    return sorted(row.content for row in vault.listed(row_filter))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        ("", None),
        ("%", None),
        ("*", None),
        ("%*%", None),
        ("projects%", PathFilter("projects", prefix_only=True)),
        ("projects/*", PathFilter("projects/", prefix_only=True)),
        ("projects", PathFilter("projects")),
        ("projects/", PathFilter("projects")),
        ("pro%jects", PathFilter("pro%jects")),
        ("/", PathFilter("/")),
    ],
)
def test_path_filter_of_a_request(value: str | None, expected: PathFilter | None) -> None:
    assert parse_path_filter(value) == expected


def test_w13_path_rules(vault: SmallVault) -> None:
    for path in ("projects", "projects/alpha", "projectsx", "Projects/alpha", "other"):
        vault.remember(path, path)
    below = ["projects", "projects/alpha"]
    starting = ["projects", "projects/alpha", "projectsx"]
    assert found(vault, RowFilter(path=parse_path_filter("projects"))) == below
    assert found(vault, RowFilter(path=parse_path_filter("projects%"))) == starting
    assert found(vault, RowFilter(path=parse_path_filter("projects*"))) == starting
    assert len(found(vault, RowFilter(path=parse_path_filter("%")))) == 5


def test_wildcards_and_quotes_inside_a_path_are_plain_text(vault: SmallVault) -> None:
    for path in ("a%b/c", "axb/c", "a_b/c", "a'b/c", 'a"b', "a[x]b"):
        vault.remember(path, path)
    for path in ("a%b", "a_b", "a'b", 'a"b', "a[x]b"):
        hits = found(vault, RowFilter(path=parse_path_filter(path)))
        assert hits == [hit for hit in hits if hit.startswith(path)]
        assert len(hits) == 1, path


@settings(max_examples=60, deadline=None)
@given(
    prefix=st.text(min_size=1, max_size=4),
    others=st.lists(st.text(max_size=6), max_size=6),
    tails=st.lists(st.text(max_size=3), max_size=3),
)
def test_prefix_range_is_exactly_starts_with(
    prefix: str, others: list[str], tails: list[str]
) -> None:
    sql, bounds = _prefix_range(prefix, "p")
    upper = bounds[1] if len(bounds) > 1 else None
    assert ("<" in sql) is (upper is not None)
    for text in [*others, *(prefix + tail for tail in tails), prefix[:-1]]:
        key = text.encode()
        within = key >= str(bounds[0]).encode() and (upper is None or key < str(upper).encode())
        assert within is text.startswith(prefix)


def test_prefix_of_the_last_code_point_has_no_upper_bound(vault: SmallVault) -> None:
    for path in ("\U0010ffff\U0010ffffz", "\U0010fffe", "\ud7ffx", "\ue000"):
        vault.remember(path, path)
    assert found(vault, RowFilter(path=PathFilter("\U0010ffff", True))) == ["\U0010ffff" * 2 + "z"]
    assert found(vault, RowFilter(path=PathFilter("\ud7ff", True))) == ["\ud7ffx"]


def test_filters_join_by_and(vault: SmallVault) -> None:
    vault.remember("a", bucket="work", scope="s", memory_type=MemoryType.EPISODIC)
    vault.remember("b", bucket="work", scope="t", writer=writer("codex"))
    vault.remember("c", bucket="Work")
    assert found(vault, RowFilter(bucket="work")) == ["a", "b"]
    assert found(vault, RowFilter(bucket="work", scope="s")) == ["a"]
    assert found(vault, RowFilter(agent_id="codex")) == ["b"]
    assert found(vault, RowFilter(memory_type=MemoryType.EPISODIC, scope="t")) == []


def test_times_are_half_open_on_either_axis(vault: SmallVault) -> None:
    row = vault.remember("old", created_at_ms=1_000).row
    vault.remember("edge", created_at_ms=2_000)
    change = MemoryChange(content="old, touched")
    vault.write_at(5_000, lambda tx: vault.memories.update(tx, row.id, change, writer()))
    assert found(vault, RowFilter(since_ms=1_000, until_ms=2_000)) == ["old, touched"]
    assert found(vault, RowFilter(since_ms=2_000, until_ms=5_000)) == ["edge"]
    by_update = RowFilter(since_ms=5_000, until_ms=5_001, time_axis=TimeAxis.UPDATED_AT)
    assert found(vault, by_update) == ["old, touched"]


def test_expired_and_deleted_rows_are_in_no_list_and_no_count(vault: SmallVault) -> None:
    now = now_ms()
    gone = vault.remember("deleted").row
    vault.write(lambda tx: vault.memories.forget(tx, gone.id, ForgetMode.SOFT_DELETE, writer()))
    vault.remember("expired", expires_at_ms=now - 1)
    vault.remember("later", expires_at_ms=now + 3_600_000)
    assert found(vault, RowFilter()) == ["later"]
    assert vault.read(lambda c: queries.count_rows(c, RowFilter(), now)) == 1
    owner = RowFilter(include_deleted=True, include_hidden=True)
    assert found(vault, owner) == ["deleted", "expired", "later"]
    at_expiry = vault.read(lambda c: queries.count_rows(c, RowFilter(), now + 3_600_000))
    assert at_expiry == 0


def test_gate_in_sql_equals_the_gate_function(vault: SmallVault) -> None:
    """Over every combination of values, stored ones and ones no schema of ours would store."""
    fields = (
        "security_mode",
        "encryption_state",
        "retrieval_visibility",
        "server_embeddings_enabled",
        "server_content_search_enabled",
    )
    combinations = list(
        itertools.product(
            [*(mode.value for mode in SecurityMode), "other", ""],
            [*(state.value for state in EncryptionState), "other"],
            [*(visibility.value for visibility in RetrievalVisibility), "other"],
            [0, 1, 2],
            [0, 1, -1],
        )
    )
    # The condition knows no schema: an unchecked table stands in for a vault of another version.
    condition, parameters = RowFilter().condition(now_ms(), "t")

    def run(connection: object) -> set[int]:
        execute = connection.execute  # type: ignore[attr-defined]
        execute(f"CREATE TEMP TABLE t(n, kind, status, expires_at_ms, {', '.join(fields)})")
        for number, combination in enumerate(combinations):
            execute(
                "INSERT INTO t VALUES(?, 'memory', 'active', NULL, ?, ?, ?, ?, ?)",
                (number, *combination),
            )
        rows = execute(f"SELECT n FROM t WHERE {condition}", parameters).fetchall()
        execute("DROP TABLE t")
        return {number for (number,) in rows}

    allowed = vault.write(lambda tx: run(tx.connection))
    for number, combination in enumerate(combinations):
        stored: dict[str, object] = dict(zip(fields, combination, strict=True))
        for flag in fields[3:]:
            stored[flag] = bool(stored[flag]) if stored[flag] in (0, 1) else stored[flag]
        decision = may_recall(read_envelope(stored), {}, Surface.LOCAL)
        assert (number in allowed) is decision.allowed, combination
    assert 0 < len(allowed) < len(combinations)


def test_hidden_row_is_reached_by_id_only(vault: SmallVault) -> None:
    row = vault.remember("hidden", "secret/place").row
    vault.write(
        lambda tx: tx.connection.execute(
            "UPDATE record SET retrieval_visibility = 'not_retrievable'"
        )
    )
    assert found(vault, RowFilter()) == []
    assert found(vault, RowFilter(include_hidden=True)) == ["hidden"]
    assert vault.read(lambda c: queries.find_exact(c, row.id, RowFilter(), now_ms())) == []
    assert vault.row(row.id) is not None


def test_find_exact_puts_the_id_first_and_takes_any_text(vault: SmallVault) -> None:
    row = vault.remember("by id", "notes").row
    named = vault.remember("path looks like an id", row.id).row
    keyed = vault.remember("keyed", "x", semantic_key=row.id).row
    exact = vault.read(lambda c: queries.find_exact(c, f" {row.id.upper()} "))
    assert exact[0] == row.rowid
    both = vault.read(lambda c: queries.find_exact(c, row.id))
    assert both == [row.rowid, keyed.rowid, named.rowid]
    for odd in ("", "  ", "%", "\x00", "x" * 100_000, "00000000-0000-0000-0000-000000000000"):
        assert vault.read(lambda c, odd=odd: queries.find_exact(c, odd)) == []
        assert vault.row(odd) is None


def test_pages_are_stable_and_complete(vault: SmallVault) -> None:
    for number in range(25):
        vault.remember(f"{number:02}", created_at_ms=1_000 + number // 5)

    def page(offset: int, newest_first: bool) -> list[str]:
        rows = vault.read(
            lambda c: queries.list_rows(
                c, RowFilter(), now_ms(), newest_first=newest_first, limit=7, offset=offset
            )
        )
        return [row.content for row in rows]

    ascending = [text for offset in range(0, 28, 7) for text in page(offset, False)]
    descending = [text for offset in range(0, 28, 7) for text in page(offset, True)]
    assert ascending == [f"{number:02}" for number in range(25)]
    assert descending == ascending[::-1]
