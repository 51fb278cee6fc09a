"""Pure rules of the worker: pieces of long texts, restarts, poison texts, cached queries, lanes."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_manager.recall.embedder import TextKind, Vector
from memory_manager.recall.frames import Lane
from memory_manager.recall.query_cache import QueryVectorCache
from memory_manager.recall.worker_pieces import split_text
from memory_manager.recall.worker_policy import RestartLadder, Suspects
from memory_manager.recall.worker_requests import Lanes, WorkerDied


def _offsets(text: str) -> list[tuple[int, int]]:
    """A token per word and per mark, as a tokeniser sees them."""
    found: list[tuple[int, int]] = []
    for position, character in enumerate(text):
        if character.isspace():
            continue
        if found and found[-1][1] == position and character.isalnum():
            found[-1] = (found[-1][0], position + 1)
        else:
            found.append((position, position + 1))
    return found


def test_a_short_text_is_one_piece() -> None:
    assert split_text("one two", _offsets("one two"), 64, piece_tokens=2) == ["one two"]


def test_paragraphs_are_preferred_to_sentences_and_sentences_to_words() -> None:
    text = "a b c d e f\n\ng h. i j k l m n o p"
    first = split_text(text, _offsets(text), 64, piece_tokens=10, overlap_tokens=0)[0]
    assert first == "a b c d e f\n\n"
    text = text.replace("\n\n", " ")
    first = split_text(text, _offsets(text), 64, piece_tokens=10, overlap_tokens=0)[0]
    assert first == "a b c d e f g h. "


def test_cjk_sentences_end_at_their_own_full_stop() -> None:
    text = "我们讨论计划。然后大家回家休息了"
    offsets = [(index, index + 1) for index in range(len(text))]
    assert split_text(text, offsets, 64, piece_tokens=10, overlap_tokens=0)[0] == "我们讨论计划。"


_BORDERS = st.lists(st.sampled_from([" ", ". ", "\n", "\n\n", "\u3002"]), max_size=150)


@given(_BORDERS, st.integers(4, 30))
def test_pieces_cover_the_text_within_the_limit(borders: list[str], limit: int) -> None:
    text = "".join(f"w{number}{border}" for number, border in enumerate(borders)) + "end"
    offsets = _offsets(text)
    pieces = split_text(text, offsets, 1000, piece_tokens=limit, overlap_tokens=limit // 4)
    position = 0
    for piece in pieces:
        assert len(_offsets(piece)) <= limit or len(offsets) <= limit
        start = text.find(piece, max(0, position - len(piece)))
        assert start >= 0
        assert not text[position:start].strip()
        position = max(position, start + len(piece))
    assert not text[position:].strip()


def test_neighbours_overlap() -> None:
    text = " ".join(f"w{index}" for index in range(100))
    first, second, *_ = split_text(text, _offsets(text), 64, piece_tokens=40, overlap_tokens=8)
    assert set(first.split()[-8:]) <= set(second.split())


def test_what_is_behind_the_last_piece_is_left_out() -> None:
    text = "word " * 1000
    assert len(split_text(text, _offsets(text), 3, piece_tokens=10)) == 3


def test_the_ladder_has_three_rungs_in_its_window() -> None:
    ladder = RestartLadder((1, 4, 16), 600)
    assert [ladder.next_pause(now) for now in (0, 10, 20, 30)] == [1, 4, 16, None]
    assert ladder.next_pause(601) == 16  # the first one is forgotten
    ladder.clear()
    assert ladder.next_pause(602) == 1


def test_two_deaths_make_a_poison_and_success_acquits() -> None:
    suspects = Suspects()
    suspects.blame("a")
    suspects.blame("b")
    assert suspects.is_suspect("a")
    assert not suspects.is_poison("a")
    suspects.acquit("a")
    suspects.blame("b")
    assert not suspects.is_suspect("a")
    assert suspects.is_poison("b")


def _vector(value: float) -> Vector:
    return np.full(4, value, np.float32)


def test_equal_queries_share_a_vector_and_kinds_do_not() -> None:
    cache = QueryVectorCache(2)
    cache.put("key", TextKind.QUERY, "where  is it", _vector(1))
    assert cache.get("key", TextKind.QUERY, " where is\nit ") is not None
    assert cache.get("key", TextKind.DOCUMENT, "where is it") is None
    assert cache.get("other", TextKind.QUERY, "where is it") is None


def test_the_cache_forgets_the_least_recently_used() -> None:
    cache = QueryVectorCache(2)
    for name in ("a", "b"):
        cache.put("key", TextKind.QUERY, name, _vector(1))
    cache.get("key", TextKind.QUERY, "a")
    cache.put("key", TextKind.QUERY, "c", _vector(1))
    assert cache.get("key", TextKind.QUERY, "b") is None
    assert cache.get("key", TextKind.QUERY, "a") is not None


def test_wiping_the_cache_leaves_callers_vectors_alone() -> None:
    cache = QueryVectorCache()
    mine = _vector(3)
    cache.put("key", TextKind.QUERY, "a", mine)
    theirs = cache.get("key", TextKind.QUERY, "a")
    cache.wipe()
    assert len(cache) == 0
    assert theirs is not None
    assert mine[0] == theirs[0] == 3


async def test_lanes_run_one_request_each_and_skip_the_given_up() -> None:
    lanes = Lanes()
    first, second, third = (
        lanes.add(Lane.QUERY, TextKind.QUERY, (name,)) for name in ("a", "b", "c")
    )
    batch = lanes.add(Lane.BATCH, TextKind.DOCUMENT, ("d",))
    assert set(map(id, lanes.startable())) == {id(first), id(batch)}
    second.answer.cancel()
    assert list(lanes.startable()) == []
    assert lanes.finished(first.id) is first
    assert list(lanes.startable()) == [third]
    assert lanes.finished(99) is None
    lanes.fail_running(WorkerDied())
    for request in (third, batch):
        with pytest.raises(WorkerDied):
            request.answer.result()
    assert lanes.is_idle()
    await asyncio.sleep(0)
