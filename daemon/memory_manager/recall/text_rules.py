"""What of a memory is indexed for words, and how text falls into terms. Pure.

Contract: recall.md 7.1 and 7.2. The same rules cut a memory and a query. Every change of what these
functions return raises ``TEXT_RULES_VERSION``; rows of an older version are indexed again.
"""

from __future__ import annotations

import dataclasses
import datetime
import re

from memory_manager.recall.scripts import (
    EMOJI,
    UNSPACED,
    UNSPACED_RUN,
    fold_letters,
    strip_diacritics,
    words,
)
from memory_manager.vault.rows import MemoryRow

TEXT_RULES_VERSION = 1

_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

# One candidate for an identifier: what stands between blanks, quotes and brackets.
_CHUNK = re.compile(r"[^\s\"'`“”‘’«»()\[\]{}<>,;!?=|*&^%$~。、，；！？（）「」『』【】]+")
_PLAIN_WORD = re.compile(r"[A-Za-z][a-z]*[.:]?")
_SEPARATORS = re.compile(r"[_\-./\\:@#+]+")
_PATH_SEPARATORS = re.compile(r"[/\\:@#]+")
_CASE_OR_DIGIT_BORDER = re.compile(
    r"(?<=[a-z])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=[0-9])|(?<=[0-9])(?=[A-Za-z])"
)
_INSIDE = re.compile(r"[A-Za-z0-9][_\-./\\:@#]+[A-Za-z0-9]")
_HEX = re.compile(r"(?:0x)?(?=[0-9a-f]*[0-9])(?=[0-9a-f]*[a-f])[0-9a-f]{6,}", re.IGNORECASE)
# Only from the first letter of a run: tried at each of them, a long run takes quadratic time.
_SYMBOL_NAME = re.compile(r"(?<![A-Za-z])([A-Za-z]+)(\+{1,2}|#)(?![A-Za-z0-9])")
_DOT_FILE = re.compile(r"(?:^|[/\\])\.([A-Za-z][A-Za-z0-9_-]*)")
_STRONG = re.compile(
    r"[A-Za-z0-9]_[A-Za-z0-9]|[a-z][A-Z]|[A-Za-z0-9][/\\@#][A-Za-z0-9]|[A-Za-z]\.[A-Za-z]{2,}"
    r"|[A-Za-z]-[0-9]|[0-9]\.[0-9]+\.[0-9]|[0-9a-f]{4}-[0-9a-f]{4}|(?:^|\s)\.[A-Za-z]"
)


@dataclasses.dataclass(frozen=True, slots=True)
class IndexFields:
    """The four columns of the word index, and whether the row also goes into the trigram table."""

    body: str = dataclasses.field(repr=False)
    path: str = dataclasses.field(repr=False)
    who: str = dataclasses.field(repr=False)
    ident: str = dataclasses.field(repr=False)
    in_trigram: bool


def date_words(unix_ms: int) -> str:
    """``2023-05-08 8 May 2023 Monday``, UTC; locale never matters."""
    day = datetime.datetime.fromtimestamp(unix_ms / 1000, tz=datetime.UTC).date()
    month, weekday = _MONTHS[day.month - 1], _WEEKDAYS[day.weekday()]
    return f"{day.isoformat()} {day.day} {month} {day.year} {weekday}"


def writer_name(row: MemoryRow) -> str:
    """Who wrote the row, as one would say it: the client's name, else the agent id, else empty."""
    return row.writer.client or row.writer.identity.agent_id or ""


def index_fields(row: MemoryRow) -> IndexFields:
    """The text of a row as the word index sees it."""
    content = fold_letters(row.content)
    path = fold_letters(row.path)
    segments = [part for part in re.split(r"[/\\]+", path) if part]
    place = " ".join([*segments, *segments[-1:], fold_letters(row.bucket)])
    who = " ".join(
        dict.fromkeys(
            fold_letters(name)
            for name in (row.writer.identity.agent_id, row.writer.client, row.source)
            if name
        )
    )
    ident = " ".join([*identifier_terms(content), *bigrams(content), *_place_terms(place)])
    unspaced = not content.isascii() and UNSPACED_RUN.search(content) is not None
    return IndexFields(
        body=f"[{date_words(row.created_at_ms)}] {content}",
        path=place,
        who=who,
        ident=ident,
        in_trigram=unspaced or _STRONG.search(content) is not None,
    )


def embedding_text(row: MemoryRow) -> str:
    """The text whose meaning is embedded: ``[<date>] <writer>: <content>`` (recall.md 3.5)."""
    day = datetime.datetime.fromtimestamp(row.created_at_ms / 1000, tz=datetime.UTC).date()
    name = writer_name(row)
    return (
        f"[{day.isoformat()}] {name}: {row.content}"
        if name
        else f"[{day.isoformat()}] {row.content}"
    )


def _place_terms(place: str) -> list[str]:
    return [*identifier_terms(place), *bigrams(place)]


def bigrams(text: str) -> list[str]:
    """Overlapping pairs of every run of an unspaced script; a run of one character as itself."""
    found: list[str] = []
    if not text.isascii():
        for run in UNSPACED_RUN.findall(text):
            found.extend(run_bigrams(run))
    return found


def run_bigrams(run: str) -> list[str]:
    return [run] if len(run) == 1 else [run[i : i + 2] for i in range(len(run) - 1)]


def identifier_terms(text: str) -> list[str]:
    """Parts and joined forms of code identifiers, paths, versions, hashes, emoji; lower case."""
    found: list[str] = []
    for chunk in _CHUNK.findall(text):
        if _PLAIN_WORD.fullmatch(chunk):
            continue  # nearly all chunks of prose
        for piece in _without_unspaced(chunk):
            found.extend(_chunk_terms(piece))
    if not text.isascii():
        found.extend(f"emoji{ord(symbol):x}" for symbol in EMOJI.findall(text))
    return found


def _without_unspaced(chunk: str) -> list[str]:
    """The other-script parts of a chunk: a border between scripts is a border between tokens."""
    if chunk.isascii():
        return [chunk]
    parts = [part for part in UNSPACED_RUN.split(chunk) if part]
    return parts if len(parts) != 1 or parts[0] != chunk else [chunk]


def _chunk_terms(chunk: str) -> list[str]:
    names: list[str] = []
    if "+" in chunk or "#" in chunk:
        names += [
            stem.lower() + ("sharp" if mark == "#" else "plus" * len(mark))
            for stem, mark in _SYMBOL_NAME.findall(chunk)
        ]
    if "." in chunk:
        names += [f"dot{name.lower()}" for name in _DOT_FILE.findall(chunk)]
    bare = chunk.strip("_-./\\:@#+")
    if not bare:
        return names
    glued = not chunk.isascii() and _ASCII_GLUED.search(chunk) is not None
    if not (glued or _INSIDE.search(bare) or _CASE_OR_DIGIT_BORDER.search(bare)):
        return names
    return [*names, *split_identifier(bare)]


_ASCII_GLUED = re.compile(f"(?<=[{UNSPACED}])[A-Za-z0-9]|[A-Za-z0-9](?=[{UNSPACED}])")


def split_identifier(name: str) -> list[str]:
    """``parseHTTPResponse2`` -> parse, http, response, 2, parsehttpresponse2; no repeats.

    Segments between separators that hold several parts stay whole too, hashes are never torn apart,
    and digits that met at a separator are joined by ``p`` so that ``1.23`` is not ``12.3``.
    """
    found: list[str] = []
    segments = [part for part in _SEPARATORS.split(name) if part]
    for segment in segments:
        parts = [segment] if _HEX.fullmatch(segment) else _CASE_OR_DIGIT_BORDER.split(segment)
        found.extend(parts)
        if len(parts) > 1:
            found.append(segment)
    for piece in _PATH_SEPARATORS.split(name):  # src/auth/token_store.py: token_store stays one
        if "_" in piece or "-" in piece:
            found.append(join_parts(_SEPARATORS.split(piece.rsplit(".", 1)[0])))
    if len(segments) > 1:
        found.append(join_parts(segments))
    return list(dict.fromkeys(term.lower() for term in found if term))


def join_parts(parts: list[str]) -> str:
    joined = ""
    for part in parts:
        joined += "p" + part if joined[-1:].isdigit() and part[:1].isdigit() else part
    return joined


def plain_terms(text: str) -> list[str]:
    """Words of ``text`` as the body column holds them, lower case, accents off, with repeats.

    Runs of unspaced scripts are terms as they stand, exactly as the tokenizer leaves them.
    """
    return [strip_diacritics(word.lower()) for word in words(text)]
