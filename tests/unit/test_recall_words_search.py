"""What words find: scripts, identifiers, odd queries, filters (recall.md 7; R30-R36, R45)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pytest
from word_table import WordTable

from memory_manager.auth.agent_identity import AgentIdentity
from memory_manager.base.path_filter import PathFilter
from memory_manager.recall.match_query import query_terms
from memory_manager.security.envelope import RetrievalVisibility
from memory_manager.vault.filters import RowFilter
from memory_manager.vault.rows import Attribution


@pytest.fixture
def words() -> Iterator[WordTable]:
    table = WordTable()
    yield table
    table.close()


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("我们决定把数据库迁移到新的服务器", "数据库"),
        ("我们决定把数据库迁移到新的服务器", "迁移"),
        ("我们决定把数据库迁移到新的服务器", "“迁移到新的”"),
        ("我们决定把数据库迁移到新的服务器", "数据库迁移到哪里？"),
        ("茶", "茶"),
        ("東京で新しいサーバーを買った", "サーバー"),
        ("東京で新しいサーバーを買った", "東京のサーバー"),
        ("회의는 금요일에 서울에서 열린다", "서울"),
        ("회의는 금요일에 서울에서 열린다", "서울에서회의"),
        ("회의는 금요일에 서울에서 열린다", "금요일은"),
        ("วันนี้อากาศดีมากที่เชียงใหม่", "เชียงใหม่"),
        ("重跑gen-itgc后", "gen-itgc"),
        ("重跑gen-itgc后", "重跑"),
        ("重跑gen-itgc后", "itgc"),
    ],
)
def test_unspaced_scripts_are_found_by_parts(words: WordTable, text: str, query: str) -> None:
    words.store(text, "完全不同的内容", "něco úplně jiného")
    assert words.found(query)[:1] == [text]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("the helper parseHTTPResponse2 drops headers", "parse http response"),
        ("the helper parseHTTPResponse2 drops headers", "parsehttpresponse2"),
        ("set max_retry_count to four", "retry count"),
        ("set max_retry_count to four", "max_retry_count"),
        ("job nightly-db-dump failed", "db-dump"),
        ("see src/auth/token_store.py", "token_store"),
        ("see src/auth/token_store.py", "src/auth/token_store.py"),
        (r"logs are under C:\work\logs\daemon.txt", "daemon.txt"),
        ("pinned to v1.2.3 for now", "v1.2.3"),
        ("router is 10.0.0.7", "10.0.0.7"),
        ("failed with ERR_0x80070005", "0x80070005"),
        ("failed with ERR_0x80070005", "ERR_0x80070005"),
        ("request 550e8400-e29b-41d4-a716-446655440000 hung", "550e8400"),
        ("request 550e8400-e29b-41d4-a716-446655440000 hung", "550e84"),
        ("she prefers C++ to everything", "C++"),
        ("the client is in C# now", "c#"),
        ("secrets are read from .env only", ".env"),
        ("add @types/node first", "@types/node"),
        ("release day 🚀 went well", "🚀"),
    ],
)
def test_code_identifiers_are_found_whole_and_by_parts(
    words: WordTable, text: str, query: str
) -> None:
    words.store(text, "pinned to v1.2.4 for then", "router is 10.0.0.8", "C stays, no plus")
    assert words.found(query)[:1] == [text]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("meet at the café", "cafe"),
        ("meet at the cafe", "café"),
        ("Die Straße ist gesperrt", "strasse"),
        ("Die Strasse ist gesperrt", "Straße"),
        ("Isparta gülü aldım", "ısparta"),
        ("İstanbul uçağı kaçtı", "istanbul"),
        ("मेरी किताब मेज पर है", "किताब"),
        ("smørrebrød for lunch", "smorrebrod"),
    ],
)
def test_accents_and_letters_that_people_type_either_way(
    words: WordTable, text: str, query: str
) -> None:
    words.store(text, "etwas anderes")
    assert words.found(query) == [text]


def test_vowel_signs_of_devanagari_do_not_tear_words(words: WordTable) -> None:
    words.store("किताब", "कातब")
    assert words.found("किताब") == ["किताब"]


@pytest.mark.parametrize(
    "query",
    [
        '"', "'", "*", "(", ")", "NEAR(", "a OR", "body:x", "-x", "%", "\x00", "^a", "{a b}: c",
        'a" OR "b', "NOT", "AND AND", "?" * 50, "x" * 100_000, "🚀" * 200, "the and of", "   ",
    ],
)  # fmt: skip
def test_odd_queries_are_answered_without_operator_effect(words: WordTable, query: str) -> None:
    words.store("an ordinary note about a bicycle", "x marks a spot")
    words.hits(query)


def test_operators_are_plain_words(words: WordTable) -> None:
    words.store("apples", "pears", "near the station")
    assert set(words.found("apples NOT pears")) == {"apples", "pears"}
    assert words.found("body:pears") == ["pears"]
    assert set(words.found("-pears apples*")) == {"apples", "pears"}
    assert set(words.found('NEAR("apples" "pears")')) == {"apples", "pears", "near the station"}


def test_a_question_of_stop_words_alone_still_answers(words: WordTable) -> None:
    words.store("who is it that rang the bell", "something different")
    assert words.found("who is it?") == ["who is it that rang the bell"]


@pytest.mark.parametrize(
    ("query", "kept"),
    [
        ("did the server die", "die"),
        ("weather in LA", "la"),
        ("die hard", "die"),
        ("what runs on the war room os", "war"),
    ],
)
def test_a_stop_word_of_another_language_stays(query: str, kept: str) -> None:
    assert kept in query_terms(query).terms


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ("what is the port of the database", {"port", "database"}),
        ("wo ist die Datenbank", {"datenbank"}),
        ("¿dónde está la base de datos?", {"base", "datos"}),
        ("onde fica a base de dados", {"fica", "base", "dados"}),
        ("où est la base", {"base"}),
        ("dove sono le chiavi", {"chiavi"}),
        ("waar is het wachtwoord", {"wachtwoord"}),
        ("где находится сервер", {"находится", "сервер"}),
        ("सर्वर कहाँ है", {"सर्वर"}),
        ("सर्व्हर कुठे आहे", {"सर्व्हर"}),
    ],
)
def test_stop_words_go_by_the_language_of_the_question(query: str, left: set[str]) -> None:
    assert set(query_terms(query).terms) == left


def test_question_words_of_unspaced_scripts_are_cut(words: WordTable) -> None:
    assert set(query_terms("数据库的端口是什么").terms) & {"什么", "是什"} == set()
    assert "数据" in query_terms("数据库的端口是什么").terms
    assert "인가" not in query_terms("수도는 어디인가요?").terms


def test_date_writer_and_path_words_find_a_row(words: WordTable) -> None:
    moment = 1_683_561_600_000  # Monday, 8 May 2023
    row = words.store("dentist moved", created_at_ms=moment, path="health/appointments")[0]
    words.store("dentist called", created_at_ms=moment + 40 * 86_400_000, path="misc")
    for query in ("8 May", "2023-05-08", "dentist appointments", "dentist Monday"):
        assert next(iter(words.hits(query).scores)) == row.rowid, query
    codex = Attribution(AgentIdentity("codex-agent", None), None, "editor")
    other = words.store("dentist again", writer=codex)[0]
    assert next(iter(words.hits("dentist codex-agent").scores)) == other.rowid


def test_quoted_phrases_come_first_but_exclude_nothing(words: WordTable) -> None:
    words.store("the lazy dog and the quick fox", "a quick lazy fox dog", "unrelated cat")
    found = words.found('"quick fox" lazy dog')
    assert found[0] == "the lazy dog and the quick fox"
    assert "a quick lazy fox dog" in found


def test_rows_that_may_not_be_recalled_change_no_score(words: WordTable) -> None:
    words.store("the walrus sings", "the walrus sleeps", "a seal")
    before = words.hits("walrus sings").scores
    hidden = words.store("walrus walrus sings sings")[0]
    envelope = dataclasses.replace(
        hidden.envelope, retrieval_visibility=RetrievalVisibility.NOT_RETRIEVABLE
    )
    gated = dataclasses.replace(hidden, envelope=envelope)
    words.change(hidden, gated)
    assert words.hits("walrus sings").scores == before


def test_the_filter_stands_before_the_cut(words: WordTable) -> None:
    old = words.store("the marble invoice", path="archive/2019", bucket="work")[0]
    for number in range(30):
        words.store(f"marble invoice marble invoice {number}", path="inbox", bucket="private")
    for chosen in (
        RowFilter(bucket="work"),
        RowFilter(path=PathFilter("archive")),
        RowFilter(path=PathFilter("arch", prefix_only=True)),
    ):
        hits = words.hits("marble invoice", chosen, limit=5)
        assert list(hits.scores) == [old.rowid]


def test_an_old_row_is_found_below_until_although_newer_match_better(words: WordTable) -> None:
    old = words.store("garden gate code", created_at_ms=1_600_000_000_000)[0]
    for number in range(300):
        words.store(f"garden gate code code {number}", created_at_ms=1_700_000_000_000 + number)
    hits = words.hits("garden gate code", RowFilter(until_ms=1_650_000_000_000), limit=5)
    assert list(hits.scores) == [old.rowid]
