"""Questions with known answers, made from stored memories without any model."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import cast

from memory_manager.cli.bench_naive import NaiveWords
from memory_manager.cli.bench_run import Question
from memory_manager.client.memory_client import MemoryClient

PAGE = 200
MIN_WORD_CHARACTERS = 3
MAX_WORDS = 6
MIN_WORDS = 3
SYNONYMS: Mapping[str, str] = {
    "error": "failure", "fix": "repair", "bug": "defect", "delete": "remove", "remove": "delete",
    "create": "make", "start": "launch", "stop": "halt", "fast": "quick", "slow": "sluggish",
    "big": "large", "small": "little", "use": "employ", "change": "modify", "test": "check",
    "build": "compile", "deploy": "release", "server": "host", "password": "passphrase",
    "customer": "client", "meeting": "call", "buy": "purchase", "car": "vehicle",
    "doctor": "physician",
}  # fmt: skip
_WORD = re.compile(r"[^\W\d_]+", re.UNICODE)
Row = Mapping[str, object]


def all_rows(client: MemoryClient, advance: Callable[[int], object]) -> list[Row]:
    """Every live memory, page by page."""
    rows: list[Row] = []
    cursor: object = None
    while True:
        answer = client.list_memories({"limit": PAGE, "cursor": cursor})
        page = cast("Sequence[Row]", answer.get("results") or [])
        rows += page
        advance(len(page))
        cursor = answer.get("next_cursor")
        if not page or cursor is None:
            return rows


def naive_index(rows: Sequence[Row]) -> NaiveWords:
    return NaiveWords((str(row.get("id")), str(row.get("content", "")), None) for row in rows)


def make_questions(rows: Sequence[Row], count: int, seed: int) -> list[Question]:
    """Up to ``count`` questions: the rarest words of random rows, half of them changed.

    A changed question has a word replaced by a neighbour of the synonym list, or left out.
    """
    words_of = {str(row.get("id")): _words(str(row.get("content", ""))) for row in rows}
    spread = Counter(word for words in words_of.values() for word in set(words))
    chance = random.Random(seed)  # noqa: S311  a sample that can be drawn again, not a secret
    chosen = sorted(words_of)
    chance.shuffle(chosen)
    questions: list[Question] = []
    for memory_id in chosen:
        if len(questions) == count:
            break
        words = list(dict.fromkeys(words_of[memory_id]))
        rarest = sorted(words, key=lambda word: (spread[word], -len(word), word))[:MAX_WORDS]
        if len(rarest) < MIN_WORDS:
            continue
        asked = rarest[: chance.randint(MIN_WORDS, len(rarest))]
        if len(questions) % 2:
            asked = _changed(asked, chance)
        chance.shuffle(asked)
        questions.append(Question(" ".join(asked), frozenset({memory_id})))
    return questions


def _changed(words: list[str], chance: random.Random) -> list[str]:
    known = [at for at, word in enumerate(words) if word in SYNONYMS]
    if known:
        at = chance.choice(known)
        return [*words[:at], SYNONYMS[words[at]], *words[at + 1 :]]
    at = chance.randrange(len(words))
    return [*words[:at], *words[at + 1 :]]


def _words(text: str) -> list[str]:
    found = [match[0].lower() for match in _WORD.finditer(text)]
    return [word for word in found if len(word) >= MIN_WORD_CHARACTERS or not word.isascii()]
