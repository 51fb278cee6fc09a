"""The shortcuts of the word leg change nothing: BM25 order, stems, frequencies, time limit
(recall.md 7.3).
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from sqlcipher3 import dbapi2
from word_table import MOMENT_MS, WordTable

from memory_manager.base.path_filter import PathFilter
from memory_manager.recall import fulltext, word_ranking
from memory_manager.recall.match_query import query_terms, quote, rare_terms
from memory_manager.recall.porter import stem
from memory_manager.recall.vocabulary import REFRESH_AFTER_WRITES
from memory_manager.recall.word_ranking import Condition, ranked
from memory_manager.vault.filters import RowFilter


@pytest.fixture
def words() -> Iterator[WordTable]:
    table = WordTable()
    yield table
    table.close()


WORDS = [f"word{chr(97 + n)}" for n in range(14)]


def fill(words: WordTable, rng: random.Random, count: int, expired: float = 0.0) -> None:
    """Texts of very different length, common words in most of them."""
    words.connection.execute("BEGIN")
    for number in range(count):
        length = rng.choice([1, 2, 4, 8, 20, 60])
        text = " ".join(WORDS[min(int(rng.expovariate(0.35)), 13)] for _ in range(length))
        words.store(
            text,
            bucket=rng.choice(["public", "work", "rare" if number % 50 == 0 else "work"]),
            path=rng.choice(["a", "a/b", "c"]),
            created_at_ms=MOMENT_MS + number,
            expires_at_ms=MOMENT_MS + 1 if rng.random() < expired else None,
        )
    words.connection.execute("COMMIT")


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_ranking_only_likely_rows_gives_the_rows_of_a_full_ranking(
    words: WordTable, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = random.Random(seed)
    fill(words, rng, 900)
    monkeypatch.setattr(word_ranking, "DIRECT_ROWS", 20)
    filters = [
        RowFilter(),
        RowFilter(bucket="public"),
        RowFilter(bucket="rare"),
        RowFilter(path=PathFilter("a/b")),
        RowFilter(since_ms=MOMENT_MS + 890),
        RowFilter(bucket="nothing"),
    ]
    for chosen in filters:
        for _ in range(6):
            terms = [quote(term) for term in rng.sample(WORDS, rng.randint(1, 6))]
            sql, values = chosen.condition(MOMENT_MS * 2)
            indexed = chosen.path is not None or chosen.since_ms is not None
            selective = chosen != RowFilter()
            condition = Condition(sql, values, selective=selective, indexed=indexed)
            quick = ranked(words.connection, terms, 900, 10**6, condition, limit=30, exact=10)
            full = ranked(words.connection, terms, 900, 0, condition, limit=30, exact=10)
            same_ranking(quick, full)


@pytest.mark.parametrize("expired", [0.0, 0.1, 0.9])
def test_rows_hidden_from_an_open_search_take_no_place(
    words: WordTable, expired: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a filter the best are ranked first and looked at afterwards."""
    rng = random.Random(4)
    fill(words, rng, 900, expired)
    monkeypatch.setattr(word_ranking, "DIRECT_ROWS", 20)
    sql, values = RowFilter().condition(MOMENT_MS * 2)
    opened = Condition(sql, values, selective=False)
    for _ in range(30):
        terms = [quote(term) for term in rng.sample(WORDS, rng.randint(1, 6))]
        quick = ranked(words.connection, terms, 900, 10**6, opened, limit=30, exact=10)
        full = ranked(words.connection, terms, 900, 0, opened, limit=30, exact=10)
        same_ranking(quick, full)


def same_ranking(quick: dict[int, float], full: dict[int, float]) -> None:
    best = sorted(full.values(), reverse=True)[:10]
    assert sorted(quick.values(), reverse=True)[:10] == pytest.approx(best, abs=1e-9)
    assert len(quick) == len(full)
    for rowid in quick.keys() & full.keys():
        assert quick[rowid] == pytest.approx(full[rowid], abs=1e-9)


def test_stems_are_those_of_the_index() -> None:
    endings = """- s es ed ing er ers ation ations ational izer ization ness fulness ful able
        ibility ies y ly ement ion eed edly ous ousness ive iveness al ality ator sses ll e"""
    roots = """run hop relat condit valu hesit digit conform radic predic oper feud decis hope call
        form sensit trip triplic elect good allow infer adjust rev gyroscop fil tann fall sky by a
        is fly control roll caress pon agre plaster siz y yfil ytyp yscal topolog assembl"""
    candidates = sorted(
        {
            root + ending.strip("-")
            for root in ("", *roots.split())
            for ending in endings.split()
            if root + ending != "-"
        }
    )
    connection = dbapi2.connect(":memory:")
    connection.execute("CREATE VIRTUAL TABLE f USING fts5(b, tokenize='porter unicode61')")
    connection.execute("CREATE VIRTUAL TABLE v USING fts5vocab(f, 'instance')")
    connection.executemany("INSERT INTO f(rowid, b) VALUES(?, ?)", list(enumerate(candidates)))
    ours = {number: stem(word) for number, word in enumerate(candidates)}
    theirs = dict(connection.execute("SELECT doc, term FROM v").fetchall())
    connection.close()
    assert ours == theirs


def test_frequencies_are_read_anew_after_a_thousand_writes(words: WordTable) -> None:
    words.connection.execute("BEGIN")
    for number in range(REFRESH_AFTER_WRITES):
        words.store(f"lantern {number}" if number % 10 == 0 else f"filler {number}")
    words.connection.execute("COMMIT")
    vocabulary = words.index.vocabulary
    assert vocabulary.rows(words.connection) == REFRESH_AFTER_WRITES
    assert vocabulary.frequencies(words.connection, ["lanterns"]) == {"lantern": 100}
    words.store("lantern again")
    assert vocabulary.frequencies(words.connection, ["lantern"]) == {"lantern": 100}
    words.connection.execute("BEGIN")
    for number in range(REFRESH_AFTER_WRITES):
        words.store(f"lantern {number}")
    words.connection.execute("COMMIT")
    assert vocabulary.frequencies(words.connection, ["lantern"]) == {"lantern": 1101}


def test_terms_in_a_large_share_of_rows_go_when_two_rarer_remain() -> None:
    frequency = {"common": 900, "rare": 3, "scarc": 5}
    assert rare_terms(("common", "rare", "scarce"), frequency, 1000) == ("rare", "scarce")
    assert rare_terms(("common", "rare"), frequency, 1000) == ("common", "rare")
    many = tuple(f"t{number}" for number in range(100))
    counts = {f"t{number}": number + 1 for number in range(100)}
    assert rare_terms(many, counts, 10_000) == many[:64]


def test_a_query_over_the_time_limit_is_cut_and_answered(
    words: WordTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(words, random.Random(5), 400)
    monkeypatch.setattr(fulltext, "_PROGRESS_INSTRUCTIONS", 50)
    monkeypatch.setattr(fulltext, "TIME_LIMIT_SECONDS", -1.0)
    hits = words.hits(" ".join(WORDS))
    assert hits.timed_out
    monkeypatch.setattr(fulltext, "TIME_LIMIT_SECONDS", 5.0)
    again = words.hits(" ".join(WORDS))
    assert again.scores
    assert not again.timed_out


def test_the_limit_of_terms_holds_for_endless_queries() -> None:
    terms = query_terms(" ".join(f"term{number}" for number in range(3000)))
    assert len(rare_terms(terms.terms, {}, 10)) == 64
    assert len(terms.substrings) <= 64


def test_a_removed_row_leaves_no_term_behind(words: WordTable) -> None:
    row = words.store("zanzibarword parseHTTPResponse2 数据库")[0]
    words.store("kept")
    words.change(row, None)
    for table in ("memory_fts_data", "memory_tri_data"):
        blocks = words.connection.execute(f"SELECT block FROM {table}").fetchall()
        raw = b"".join(block for (block,) in blocks)
        for trace in (b"zanzibar", b"anzi", "数据".encode(), b"parsehttp"):
            assert trace not in raw.lower()
    assert words.connection.execute("SELECT count(*) FROM fts_source").fetchone() == (1,)
