"""What an importer yields, and which importer reads which file."""

from __future__ import annotations

import dataclasses
import enum
from pathlib import Path

from memory_manager.capture.errors import UnknownFormat
from memory_manager.capture.records import MemoryRecord

MAX_FILE_BYTES = 4 * 1024 * 1024


class SourceFormat(enum.StrEnum):
    JSONL = "jsonl"
    MARKDOWN = "markdown"
    TEXT = "text"


_BY_SUFFIX = {
    ".jsonl": SourceFormat.JSONL,
    ".ndjson": SourceFormat.JSONL,
    ".md": SourceFormat.MARKDOWN,
    ".markdown": SourceFormat.MARKDOWN,
    ".txt": SourceFormat.TEXT,
    ".text": SourceFormat.TEXT,
}


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """A part of a source that gave no record: where, and a sentence that shows nothing of it."""

    place: str
    message: str


SourceItem = MemoryRecord | Problem


def detect_format(source: Path) -> SourceFormat:
    """The format of a file by its suffix. Raises UnknownFormat."""
    found = format_of(source)
    if found is None:
        raise UnknownFormat(f"The format of {source.name} is not known.")
    return found


def format_of(path: Path) -> SourceFormat | None:
    """The format that a file's suffix says; None for one that no importer reads."""
    return _BY_SUFFIX.get(path.suffix.lower())


def read_text_file(path: Path) -> str | Problem:
    """The text of a UTF-8 file with its line ends as they are."""
    with path.open("rb") as stream:
        raw = stream.read(MAX_FILE_BYTES + 1)
    if len(raw) > MAX_FILE_BYTES:
        return Problem(path.name, f"The file is larger than {MAX_FILE_BYTES} bytes.")
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return Problem(path.name, "The file is not UTF-8 text.")
