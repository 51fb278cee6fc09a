"""From what a person typed to a MATCH string: user text never becomes search syntax. Pure.

Contract: recall.md 7.3. Every term is quoted with inner quotes doubled; quotes, stars, brackets,
``NEAR``, ``AND``, column names and ``%`` of the user are plain text.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping

from memory_manager.recall.porter import stem
from memory_manager.recall.scripts import (
    EMOJI,
    HIRAGANA_ONLY,
    UNSPACED_RUN,
    fold_letters,
    strip_diacritics,
    words,
)
from memory_manager.recall.stopwords import (
    latin_stop_words,
    script_stop_words,
    without_question_words,
)
from memory_manager.recall.text_rules import identifier_terms, run_bigrams

MAX_QUERY_CHARACTERS = 4096
MAX_TERMS = 64
MAX_SHARE_OF_ROWS = 0.25
"""Terms in more rows than this say little; they go when two rarer ones remain."""

_QUOTED = re.compile(
    '"([^"]{2,200})"|“([^”]{2,200})”|„([^“”]{2,200})[“”]|«([^»]{2,200})»|「([^」]{2,200})」'
)
_TRIGRAM_MIN = 3


@dataclasses.dataclass(frozen=True, slots=True)
class QueryTerms:
    """A query cut into terms, stop words already out unless there was nothing else.

    ``phrases`` are quoted word sequences; ``substrings`` are for the trigram table.
    """

    terms: tuple[str, ...] = dataclasses.field(repr=False)
    phrases: tuple[str, ...] = dataclasses.field(repr=False)
    substrings: tuple[str, ...] = dataclasses.field(repr=False)
    only_stop_words: bool = False

    @property
    def empty(self) -> bool:
        return not (self.terms or self.substrings)


def is_listing(query: str) -> bool:
    """``*``, ``%`` or nothing at all asks for everything that passes the filters."""
    return query.strip() in ("", "*", "%")


def query_terms(query: str) -> QueryTerms:
    """Cut a query by the rules that cut memories."""
    text = fold_letters(query[:MAX_QUERY_CHARACTERS])
    phrases = tuple(dict.fromkeys(filter(None, map(_phrase, _quoted(text)))))
    tokens = list(dict.fromkeys(_lower(word) for word in words(text)))
    stop = set(script_stop_words(text)) | latin_stop_words(tokens)
    kept = [token for token in tokens if token not in stop]
    terms = _expand(kept, text, stop)
    only_stop_words = not terms and bool(tokens)
    if only_stop_words:
        terms = _expand(tokens, text, frozenset())
    substrings = tuple(
        dict.fromkeys(
            part
            for part in (*_quoted(text), *text.split())
            if len(part) >= _TRIGRAM_MIN and _lower(part) not in stop
        )
    )
    return QueryTerms(tuple(terms), phrases, substrings[:MAX_TERMS], only_stop_words)


def _lower(word: str) -> str:
    return strip_diacritics(word.lower())


def _quoted(text: str) -> list[str]:
    return [next(filter(None, groups)).strip() for groups in _QUOTED.findall(text)]


def _phrase(text: str) -> str:
    parts = words(text)
    return " ".join(parts) if len(parts) > 1 else ""


def _expand(tokens: list[str], text: str, stop: frozenset[str] | set[str]) -> list[str]:
    """Plain words, parts of identifiers, pairs of unspaced scripts, emoji; first come first."""
    terms: dict[str, None] = {}
    pairs: list[str] = []
    for token in tokens:
        if UNSPACED_RUN.search(token):
            for run in UNSPACED_RUN.findall(token):
                for piece in without_question_words(run) if stop else [run]:
                    pairs.extend(run_bigrams(piece))
                if run == token:
                    terms[token] = None
        else:
            terms[token] = None
    telling = [pair for pair in pairs if pair not in stop and not HIRAGANA_ONLY.fullmatch(pair)]
    terms.update(dict.fromkeys(telling or pairs))
    terms.update(dict.fromkeys(t for t in identifier_terms(text) if t not in stop))
    terms.update(dict.fromkeys(f"emoji{ord(symbol):x}" for symbol in EMOJI.findall(text)))
    return list(terms)


def rare_terms(
    terms: tuple[str, ...], frequency: Mapping[str, int], rows: int, limit: int = MAX_TERMS
) -> tuple[str, ...]:
    """At most ``limit`` terms, rarest kept, without those that stand in a large share of the rows.

    ``frequency`` maps a stem to the number of rows that hold it; order of the query is kept.
    """
    counts = {term: frequency.get(stem(term), 0) for term in terms}
    ceiling = max(MAX_SHARE_OF_ROWS * rows, 20)
    rarer = [term for term in terms if counts[term] <= ceiling]
    if sum(1 for term in rarer if counts[term]) >= 2:
        terms = tuple(rarer)
    if len(terms) > limit:
        kept = set(sorted(terms, key=lambda term: (counts[term] == 0, counts[term]))[:limit])
        terms = tuple(term for term in terms if term in kept)
    return terms


def quote(term: str) -> str:
    return '"' + term.replace('"', '""').replace("\x00", " ") + '"'
