"""Labelled sets for measuring recall: records to import and questions with known answers.

Reads the reduced LoCoMo file (``locomo-dev/1``) and the MIRACL folder of recall.md 19. Errors name
a place, never a text of the set.
"""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn, cast

from memory_manager.base.identifiers import MemoryId, new_memory_id
from memory_manager.capture.fields import Writer
from memory_manager.capture.records import MemoryRecord
from memory_manager.cli.bench_run import Question
from memory_manager.cli.errors import FileProblem, Usage

LOCOMO_CATEGORIES: Mapping[int, str] = {
    1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial",
}  # fmt: skip
LOCOMO_APART = "adversarial"
"""Its questions have no answer in the conversation: never part of the headline."""
MIRACL_CLEAN = "clean"
MIRACL_PERTURBATIONS = ("spacing", "josa", "jamo", "compound", "homonym", "koen")
MAX_FILE_BYTES = 256 << 20
_FIRST_YEAR = 1970
_DATE_FORMAT = "%I:%M %p on %d %B, %Y"
Document = Mapping[str, object]


@dataclasses.dataclass(frozen=True, slots=True)
class LabelledSet:
    """``granularity`` is what counts as found; ``unasked`` questions have no known answer.

    A question's filter keeps it inside its own space, one scope of records.
    """

    name: str
    granularity: str
    spaces: int
    records: tuple[MemoryRecord, ...] = dataclasses.field(repr=False)
    questions: tuple[Question, ...] = dataclasses.field(repr=False)
    unasked: int


def read_locomo(file: Path) -> LabelledSet:
    """One space per conversation, one record per turn. Raises FileProblem or Usage."""
    document = _object(_parsed(file, _text_of(file)), file, "the file")
    records: list[MemoryRecord] = []
    questions: list[Question] = []
    unasked = 0
    conversations = _objects(document, "conversations", file, "the file")
    for number, conversation in enumerate(conversations, start=1):
        scope = f"conversation-{number}"
        ids: dict[str, MemoryId] = {}
        for turn_id, record in _turns(conversation, scope, file):
            if turn_id in ids or record.id is None:
                _refuse(file, scope, "two turns have the same id")
            ids[turn_id] = record.id
            records.append(record)
        for at, entry in enumerate(_objects(conversation, "questions", file, scope)):
            place = f"{scope}, question {at}"
            evidence = entry.get("evidence")
            category = entry.get("category")
            known = LOCOMO_CATEGORIES.get(category) if isinstance(category, int) else None
            if not isinstance(evidence, list) or known is None:
                _refuse(file, place, "it needs a list 'evidence' and a 'category' from 1 to 5")
            listed = map(str, cast("list[object]", evidence))
            found = frozenset(str(ids[turn_id]) for turn_id in listed if turn_id in ids)
            text = _text(entry, "question", file, place)
            unasked += not found
            if found:
                questions.append(
                    Question(text, found, {"scope": scope}, known, known != LOCOMO_APART)
                )
    return _set("LoCoMo", "turn", len(conversations), records, questions, unasked, file)


def _turns(conversation: Document, scope: str, file: Path) -> Iterator[tuple[str, MemoryRecord]]:
    for number, session in enumerate(_objects(conversation, "sessions", file, scope), start=1):
        place = f"{scope}, session {number}"
        start_ms = _session_start_ms(_text(session, "date", file, place), file, place)
        for at, turn in enumerate(_objects(session, "turns", file, place), start=1):
            where = f"{place}, turn {at}"
            caption = turn.get("caption")
            shown = f" [shares image: {caption}]" if isinstance(caption, str) and caption else ""
            yield (
                _text(turn, "id", file, where),
                MemoryRecord(
                    content=_whole(_text(turn, "text", file, where) + shown, file, where),
                    path="chat",
                    id=new_memory_id(),
                    scope=scope,
                    writer=Writer(client=_text(turn, "speaker", file, where)),
                    created_at_ms=start_ms + at,  # keeps the order of the turns
                ),
            )


def _session_start_ms(text: str, file: Path, place: str) -> int:
    """The source gives local time without a zone; it is taken for UTC."""
    try:
        moment = datetime.datetime.strptime(text, _DATE_FORMAT).replace(tzinfo=datetime.UTC)
    except ValueError:
        moment = None
    if moment is None or moment.year < _FIRST_YEAR:
        _refuse(file, place, "'date' must look like 1:56 pm on 8 May, 2023")
    return int(moment.timestamp() * 1000)


def read_miracl(folder: Path) -> LabelledSet:
    """The corpus as one space, one record per passage. Raises FileProblem or Usage.

    Clean questions make the headline; each perturbation that is there is a group of its own.
    """
    scope = "passages"
    records: dict[str, MemoryRecord] = {}
    corpus = folder / "corpus.jsonl"
    for place, entry in _lines(corpus):
        passage = _text(entry, "docid", corpus, place)
        title = entry.get("title")
        text = f"{title if isinstance(title, str) else ''} {_text(entry, 'text', corpus, place)}"
        text = _whole(text.strip(), corpus, place)
        if passage in records:
            _refuse(corpus, place, "this docid was there already")
        records[passage] = MemoryRecord(
            content=text, path="passages", id=new_memory_id(), scope=scope
        )
    relevant = _relevant(folder / "qrels.tsv", records)
    files = {MIRACL_CLEAN: folder / "queries_clean.jsonl"}
    for name in MIRACL_PERTURBATIONS:
        file = folder / "perturbations" / f"{name}.jsonl"
        if file.exists():
            files[name] = file
    questions: list[Question] = []
    unasked = 0
    for group, file in files.items():
        for place, entry in _lines(file):
            text = _text(entry, "text", file, place)
            found = frozenset(relevant.get(_text(entry, "qid", file, place), ()))
            unasked += not found
            if found:
                clean = group == MIRACL_CLEAN
                questions.append(Question(text, found, {"scope": scope}, group, clean))
    return _set("MIRACL", "passage", 1, list(records.values()), questions, unasked, folder)


def _relevant(file: Path, records: Mapping[str, MemoryRecord]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = defaultdict(set)
    for number, line in enumerate(_text_of(file).splitlines(), start=1):
        parts = line.split("\t")
        if len(parts) != 4 or parts[2] not in records:
            _refuse(file, f"line {number}", "it must be: qid, 0, a docid of the corpus, relevance")
        if parts[3] != "0":
            found[parts[0]].add(str(records[parts[2]].id))
    return found


def _set(
    name: str,
    granularity: str,
    spaces: int,
    records: Sequence[MemoryRecord],
    questions: Sequence[Question],
    unasked: int,
    source: Path,
) -> LabelledSet:
    if not any(question.headline for question in questions):
        raise Usage(f"{source} holds no question with a known answer.")
    return LabelledSet(name, granularity, spaces, tuple(records), tuple(questions), unasked)


# -- reading


def _text_of(file: Path) -> str:
    try:
        with file.open("rb") as stream:
            raw = stream.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise FileProblem(f"{file} cannot be read: {error.strerror}.") from None
    if len(raw) > MAX_FILE_BYTES:
        raise Usage(f"{file} is larger than {MAX_FILE_BYTES >> 20} MiB.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Usage(f"{file} is not UTF-8 text.") from None


def _parsed(file: Path, text: str, place: str = "the file") -> object:
    try:
        return cast("object", json.loads(text))
    except (ValueError, RecursionError):
        _refuse(file, place, "it is not JSON")


def _lines(file: Path) -> Iterator[tuple[str, Document]]:
    # not splitlines: a text may hold separators of other kinds
    for number, line in enumerate(_text_of(file).split("\n"), start=1):
        if line.strip():
            place = f"line {number}"
            yield place, _object(_parsed(file, line, place), file, place)


def _object(value: object, file: Path, place: str) -> Document:
    if not isinstance(value, dict):
        _refuse(file, place, "it must be an object")
    return cast("Document", value)


def _objects(document: Document, name: str, file: Path, place: str) -> list[Document]:
    value = document.get(name)
    if not isinstance(value, list):
        _refuse(file, place, f"it needs a list '{name}'")
    return [_object(item, file, f"{place}, {name}") for item in cast("list[object]", value)]


def _text(document: Document, name: str, file: Path, place: str) -> str:
    value = document.get(name)
    if not isinstance(value, str) or not value.strip():
        _refuse(file, place, f"it needs a text '{name}'")
    return _whole(value, file, place)


def _whole(text: str, file: Path, place: str) -> str:
    """JSON can spell half a character, which nothing can store."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        _refuse(file, place, "it holds half of a surrogate pair")
    return text


def _refuse(file: Path, place: str, reason: str) -> NoReturn:
    raise Usage(f"{file}, {place}: {reason}.")
