"""Two legs into one order: what each alone decides and how they weigh (recall.md 9; R41)."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from memory_manager.recall.fulltext import NO_WORD_HITS, WordHits
from memory_manager.recall.fusion import MeaningHits, fuse
from memory_manager.recall.settings import RankingSettings

DEFAULTS = RankingSettings()


def order(
    words: WordHits, meaning: MeaningHits | None, settings: RankingSettings = DEFAULTS
) -> list[int]:
    return [row.rowid for row in fuse(words, meaning, settings)]


# in steps: what differs by the last bit only is the same after a multiplication
COSINE = st.integers(-1000, 1000).map(lambda value: value / 1000)
SCORE = st.integers(1, 4000).map(lambda value: value / 100)
SCORES = st.dictionaries(st.integers(1, 50), SCORE, max_size=20)
COSINES = st.dictionaries(st.integers(1, 50), COSINE, max_size=20)


@given(SCORES, st.floats(0.1, 60.0))
def test_without_vectors_the_order_is_that_of_bm25(scores: dict[int, float], whole: float) -> None:
    fused = fuse(WordHits(scores, ("a",), whole), None, DEFAULTS)
    assert [scores[row.rowid] for row in fused] == sorted(scores.values(), reverse=True)
    assert all(0 <= row.score <= 1 for row in fused)


@given(COSINES)
def test_without_word_hits_the_order_is_that_of_the_cosines(cosines: dict[int, float]) -> None:
    meaning = MeaningHits(cosines, -1.0, 0.1)
    fused = fuse(NO_WORD_HITS, meaning, DEFAULTS)
    assert [cosines[row.rowid] for row in fused] == sorted(cosines.values(), reverse=True)


def test_nothing_found_is_an_empty_list() -> None:
    assert list(fuse(NO_WORD_HITS, None, DEFAULTS)) == []
    assert list(fuse(NO_WORD_HITS, MeaningHits({}, 0.0, 0.1), DEFAULTS)) == []


def test_a_row_that_both_legs_like_comes_before_rows_of_one() -> None:
    words = WordHits({1: 6.0, 2: 5.0}, ("a", "b"), 6.0)
    meaning = MeaningHits({1: 0.1, 2: 0.45, 3: 0.5}, 0.05, 0.1)
    assert order(words, meaning)[0] == 2


def test_weak_words_do_not_override_a_clear_meaning() -> None:
    """One common word of a long question against a cosine that stands out."""
    words = WordHits({1: 1.0}, ("a", "b", "c", "d"), 20.0)
    meaning = MeaningHits({1: 0.05, 2: 0.6}, 0.05, 0.1)
    assert order(words, meaning) == [2, 1]


def test_a_full_identifier_is_not_overridden_by_a_vague_meaning() -> None:
    words = WordHits({1: 9.0}, ("err_0x80070005",), 8.0)
    meaning = MeaningHits({1: 0.1, 2: 0.25, 3: 0.24}, 0.1, 0.1)
    assert order(words, meaning)[0] == 1


def test_a_cosine_that_stands_out_far_counts_more_than_in_proportion() -> None:
    """Six deviations against every word of the query; three are not enough."""
    words = WordHits({1: 9.0}, ("a", "b"), 9.0)
    far = MeaningHits({1: 0.0, 2: 0.6}, 0.0, 0.1)
    near = MeaningHits({1: 0.0, 2: 0.3}, 0.0, 0.1)
    assert order(words, far)[0] == 2
    assert order(words, near)[0] == 1


def test_half_a_query_in_words_is_less_than_half_a_match() -> None:
    whole, half = (
        fuse(WordHits({1: 4.0}, ("a", "b"), query), MeaningHits({1: 0.0}, 0.0, 0.1), DEFAULTS)[0]
        for query in (4.0, 8.0)
    )
    assert half.lexical_norm < 0.5 * whole.lexical_norm


def test_a_cosine_that_is_usual_among_the_word_hits_is_no_news() -> None:
    """Row 9 is like everything of its chat, and the vault holds other chats: row 1 says more."""
    scores = {1: 8.0} | {rowid: 3.0 for rowid in range(2, 42)}
    cosines = {1: 0.2, 9: 0.5} | {rowid: 0.38 for rowid in range(10, 42)}
    words, meaning = WordHits(scores, ("a", "b"), 8.5), MeaningHits(cosines, 0.05, 0.1)
    assert order(words, meaning)[0] == 1
    elsewhere = WordHits({1: 8.0} | {rowid: 3.0 for rowid in range(102, 142)}, ("a", "b"), 8.5)
    assert order(elsewhere, meaning)[0] == 9


def test_word_hits_that_mean_little_make_no_cosine_stand_out() -> None:
    words = WordHits({rowid: 5.0 for rowid in range(1, 40)}, ("a",), 5.0)
    cosines = {rowid: -0.2 for rowid in range(1, 40)} | {50: 0.04}
    fused = fuse(words, MeaningHits(cosines, 0.05, 0.1), DEFAULTS)
    assert all(row.semantic_norm == 0 for row in fused)


def test_a_row_that_waits_for_its_vector_is_not_held_against() -> None:
    words = WordHits({1: 6.0, 2: 5.0}, ("a", "b"), 6.0)
    meaning = MeaningHits({2: 0.2}, 0.05, 0.1)
    assert order(words, meaning)[0] == 1


def test_a_model_that_covers_few_rows_weighs_little() -> None:
    words = WordHits({1: 3.0}, ("a", "b"), 6.0)
    cosines = {1: 0.1, 2: 0.6}
    assert order(words, MeaningHits(cosines, 0.05, 0.1))[0] == 2
    assert order(words, MeaningHits(cosines, 0.05, 0.1, coverage=0.02))[0] == 1


def test_a_weight_of_zero_switches_a_leg_off() -> None:
    words = WordHits({1: 6.0, 2: 3.0}, ("a",), 6.0)
    meaning = MeaningHits({2: 0.9, 3: 0.8}, 0.0, 0.1)
    only_words = RankingSettings(lexical_weight=1.0, semantic_weight=0.0)
    only_meaning = RankingSettings(lexical_weight=0.0, semantic_weight=1.0)
    assert order(words, meaning, only_words)[:2] == [1, 2]
    assert order(words, meaning, only_meaning)[:2] == [2, 3]
