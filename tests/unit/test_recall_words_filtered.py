"""Filtered searches weigh words by the rows they can see, and the mirror of the rows follows every
commit (recall.md 7, 8).
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hash_embedder import HashEmbedder
from recall_vault import recall_vault
from small_vault import SmallVault, small_vault, writer
from word_table import MOMENT_MS, WordTable

from memory_manager.base.path_filter import PathFilter
from memory_manager.base.times import now_ms
from memory_manager.recall import filtered_ranking, fulltext, word_ranking
from memory_manager.recall.fulltext import FullTextIndex
from memory_manager.recall.match_query import quote
from memory_manager.recall.row_gate import RowGate
from memory_manager.recall.vocabulary import inverse_frequency
from memory_manager.vault.errors import VaultLocked
from memory_manager.vault.filters import RowFilter, TimeAxis
from memory_manager.vault.memories import Memories
from memory_manager.vault.rows import ForgetMode, MemoryChange, MemoryRow, MemoryType, RecordKind

LATER = MOMENT_MS * 2


@pytest.fixture
def words() -> Iterator[WordTable]:
    table = WordTable()
    yield table
    table.close()


def chats(words: WordTable) -> None:
    """Anna is in every row of her chat and in no other; lanterns are talked of elsewhere."""
    words.connection.execute("BEGIN")
    for number in range(60):
        words.store(f"anna anna note{number}", scope="anna")
        words.store(f"lantern lantern idea{number}", scope="ben")
        words.store(f"carol thinks{number}", scope="carol")
        words.store(f"dora thinks{number}", scope="dora")
    words.store("the lantern broke yesterday", scope="anna")
    words.connection.execute("COMMIT")


def test_a_name_that_is_everywhere_in_a_chat_does_not_drown_its_rare_word(
    words: WordTable,
) -> None:
    chats(words)
    anna = RowFilter(scope="anna")
    assert "lantern" not in words.found("anna lantern", anna)[0]  # counted in the whole vault
    words.load_gate()
    assert words.found("anna lantern", anna)[0] == "the lantern broke yesterday"
    assert words.hits("anna lantern", anna).whole > words.hits("anna lantern").whole


@pytest.mark.parametrize("wanted", [RowFilter(), RowFilter(bucket="public")])
def test_a_filter_that_admits_nearly_everything_changes_no_score(
    words: WordTable, wanted: RowFilter
) -> None:
    chats(words)
    words.store("private lantern", bucket="private")
    before = words.hits("anna lantern", wanted)
    words.load_gate()
    assert words.hits("anna lantern", wanted) == before


def test_a_handful_of_rows_borrows_from_the_vault(words: WordTable) -> None:
    """Two of three rows hold the word: by themselves that would make it worth nothing."""
    chats(words)
    words.store("zebra crossing", "zebra stripes", "plain road", scope="zoo")
    words.load_gate()
    best = words.hits("zebra", RowFilter(scope="zoo")).best
    assert best > 0.3 * words.hits("zebra").best


VOCABULARY = [f"word{chr(97 + n)}" for n in range(14)]
FILTERS = {
    "bucket": RowFilter(bucket="work"),
    "path": RowFilter(path=PathFilter("a/b")),
    "time": RowFilter(since_ms=MOMENT_MS + 700),
    "few": RowFilter(scope="few"),
    "nothing": RowFilter(scope="nobody"),
}


@pytest.mark.parametrize("chosen", FILTERS.values(), ids=FILTERS.keys())
def test_ranking_only_likely_rows_gives_the_rows_of_a_full_ranking(
    words: WordTable, chosen: RowFilter
) -> None:
    rng = random.Random(7)
    words.connection.execute("BEGIN")
    for number in range(900):
        length = rng.choice([1, 2, 4, 8, 20, 60])
        words.store(
            " ".join(VOCABULARY[min(int(rng.expovariate(0.35)), 13)] for _ in range(length)),
            bucket=rng.choice(["public", "work"]),
            path=rng.choice(["a", "a/b", "c"]),
            scope="few" if number % 90 == 0 else None,
            created_at_ms=MOMENT_MS + number,
            expires_at_ms=MOMENT_MS + 1 if rng.random() < 0.1 else None,
        )
    words.connection.execute("COMMIT")
    words.load_gate()
    visible = words.index.gate.visible(chosen, LATER)
    assert visible is not None
    sql, values = chosen.condition(LATER)
    admitted = {
        r for (r,) in words.connection.execute(f"SELECT rowid FROM record WHERE {sql}", values)
    }
    assert set(visible.nonzero()[0].tolist()) == admitted
    for _ in range(6):
        asked = rng.sample(VOCABULARY, rng.randint(1, 6))
        quick = filtered_ranking.ranked_within(
            words.connection, asked, (), visible, limit=10, exact=10
        )
        full = every_score(words, quick.terms, admitted)
        best = sorted(full.values(), reverse=True)
        assert list(quick.scores.values())[:10] == pytest.approx(best[:10], abs=1e-9)
        assert len(quick.scores) == min(10, len(full))
        for rowid, score in quick.scores.items():
            assert score == pytest.approx(full[rowid], abs=1e-9)


def test_short_rows_with_one_word_may_beat_long_ones_with_two(words: WordTable) -> None:
    """The long ones are ranked first; their low scores say that the short ones must be, too."""
    words.connection.execute("BEGIN")
    long = " ".join(f"filler{number}" for number in range(200))
    for number in range(40):
        words.store(f"common {number}", scope="here")
        words.store(*(f"other{number} text" for _ in range(3)), scope="here")
        words.store(*(f"other{number} text" for _ in range(3)), scope="there")
    words.store(*(f"common rare {long}" for _ in range(12)), scope="here")
    words.connection.execute("COMMIT")
    words.load_gate()
    here = RowFilter(scope="here")
    visible = words.index.gate.visible(here, LATER)
    assert visible is not None
    quick = filtered_ranking.ranked_within(
        words.connection, ("common", "rare"), (), visible, limit=10, exact=10
    )
    full = every_score(words, quick.terms, set(visible.nonzero()[0].tolist()))
    assert list(quick.scores.values()) == pytest.approx(sorted(full.values(), reverse=True)[:10])


def every_score(words: WordTable, terms: tuple[str, ...], admitted: set[int]) -> dict[int, float]:
    """BM25 with the idf of the admitted rows, every row ranked."""
    rows, prior = len(words.rows), filtered_ranking.PRIOR_ROWS / len(words.rows)
    scores: dict[int, float] = {}
    for term in terms:
        found = words.connection.execute(
            f"SELECT rowid, {word_ranking.BM25} FROM memory_fts WHERE memory_fts MATCH ?",
            (quote(term),),
        ).fetchall()
        here = [(rowid, score) for rowid, score in found if rowid in admitted]
        idf = inverse_frequency(len(admitted) + prior * rows, len(here) + prior * len(found))
        for rowid, score in here:
            share = idf / inverse_frequency(rows, len(found))
            scores[rowid] = scores.get(rowid, 0.0) - share * score
    return scores


def test_phrases_and_substrings_work_inside_a_filter(words: WordTable) -> None:
    chats(words)
    words.store("blue lantern hill", "lantern blue hill", scope="hills")
    words.store("parseInvoiceLine2 is blue", "parseInvoiceLine3 is red", scope="code")
    words.store("parseInvoiceLine4 is elsewhere", scope="other")
    words.load_gate()
    assert words.found('"lantern blue"', RowFilter(scope="hills"))[0] == "lantern blue hill"
    assert sorted(words.found("nvoiceLin", RowFilter(scope="code"))) == [
        "parseInvoiceLine2 is blue",
        "parseInvoiceLine3 is red",
    ]


def test_a_filtered_search_over_the_time_limit_is_answered(
    words: WordTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    chats(words)
    words.load_gate()
    monkeypatch.setattr(fulltext, "_PROGRESS_INSTRUCTIONS", 50)
    monkeypatch.setattr(fulltext, "TIME_LIMIT_SECONDS", -1.0)
    assert words.hits("anna lantern", RowFilter(scope="anna")).timed_out


# -- the mirror of the rows

MIRRORED = {
    "all": RowFilter(),
    "bucket": RowFilter(bucket="work"),
    "scope": RowFilter(scope="team"),
    "agent": RowFilter(agent_id="hermes"),
    "type": RowFilter(memory_type=MemoryType.EPISODIC),
    "kind": RowFilter(kinds=(RecordKind.STATE,)),
    "path": RowFilter(path=PathFilter("projects/a")),
    "prefix": RowFilter(path=PathFilter("proj", prefix_only=True)),
    "updated": RowFilter(since_ms=MOMENT_MS, time_axis=TimeAxis.UPDATED_AT),
}


def same_as_the_database(vault: SmallVault, gate: RowGate) -> None:
    moment = now_ms()
    for name, wanted in MIRRORED.items():
        sql, values = wanted.condition(moment)
        rows = vault.read(
            lambda c, s=sql, v=values: c.execute(
                f"SELECT rowid FROM record WHERE {s}", v
            ).fetchall()
        )
        visible = gate.visible(wanted, moment)
        assert visible is not None
        assert visible.nonzero()[0].tolist() == sorted(rowid for (rowid,) in rows), name


def some_rows(vault: SmallVault) -> list[MemoryRow]:
    return [
        vault.remember("one", "projects/a", bucket="work", scope="team").row,
        vault.remember("two", "projects/a/b", memory_type=MemoryType.EPISODIC).row,
        vault.remember("three", "proj", writer=writer("claude")).row,
        vault.remember("gone tomorrow", expires_at_ms=now_ms() + 10**8).row,
    ]


def test_the_mirror_follows_every_kind_of_write(tmp_path: Path) -> None:
    index = FullTextIndex()
    gate, memories = index.gate, Memories([index])
    with small_vault(tmp_path, [index]) as vault:
        first, second, third, fourth = some_rows(vault)
        gate.expect()
        vault.read(gate.load)
        same_as_the_database(vault, gate)
        some_rows(vault)
        same_as_the_database(vault, gate)
        moved = MemoryChange(path="elsewhere", bucket="work")
        vault.write(lambda tx: memories.update(tx, second.id, moved, writer()))
        same_as_the_database(vault, gate)
        soft, hard = ForgetMode.SOFT_DELETE, ForgetMode.HARD_DELETE
        vault.write(lambda tx: memories.forget(tx, first.id, soft, writer()))
        vault.write(lambda tx: memories.forget(tx, third.id, hard, writer()))
        same_as_the_database(vault, gate)
        vault.write(lambda tx: memories.restore(tx, first.id, writer()))
        vault.write(
            lambda tx: memories.update(
                tx, fourth.id, MemoryChange(expires_at_ms=now_ms() - 1), writer()
            )
        )
        same_as_the_database(vault, gate)


def test_what_commits_while_the_rows_are_read_is_not_lost(tmp_path: Path) -> None:
    index = FullTextIndex()
    with small_vault(tmp_path, [index]) as vault:
        first = some_rows(vault)[0]
        index.gate.expect()

        def load(connection: Any) -> None:
            connection.execute("SELECT count(*) FROM record").fetchone()  # the snapshot stands
            vault.remember("in the meantime", "projects/a")
            vault.write(
                lambda tx: vault.memories.forget(tx, first.id, ForgetMode.SOFT_DELETE, writer())
            )
            index.gate.load(connection)

        vault.read(load)
        same_as_the_database(vault, index.gate)


def test_a_lock_while_the_rows_are_read_leaves_nothing_in_memory(tmp_path: Path) -> None:
    index = FullTextIndex()
    with small_vault(tmp_path, [index]) as vault:
        some_rows(vault)
        index.gate.expect()
        index.gate.forget()
        with pytest.raises(VaultLocked):
            vault.read(index.gate.load)
        assert index.gate.visible(RowFilter(), now_ms()) is None
        index.gate.expect()
        vault.read(index.gate.load)
        same_as_the_database(vault, index.gate)


async def test_the_service_loads_the_mirror_and_empties_it(tmp_path: Path) -> None:
    async with recall_vault(tmp_path, HashEmbedder(key=None)) as vault:
        for number in range(60):
            vault.remember(f"anna anna note{number}", scope="anna")
            vault.remember(f"lantern lantern idea{number}", scope="ben")
        vault.remember("the lantern broke yesterday", scope="anna")
        await vault.until(lambda: vault.recall.status()["filters_ready"])
        found = await vault.contents("anna lantern", RowFilter(scope="anna"), limit=1)
        assert found == ["the lantern broke yesterday"]
        await vault.recall.close()
        assert not vault.recall.status()["filters_ready"]
