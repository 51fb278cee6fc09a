"""What an importer yields, and which importer reads which file or folder."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator
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
    """By suffix; a folder with a Markdown file is Markdown, else text. Raises UnknownFormat."""
    if source.is_dir():
        has_markdown = any(files_below(source, suffixes(SourceFormat.MARKDOWN)))
        return SourceFormat.MARKDOWN if has_markdown else SourceFormat.TEXT
    found = _BY_SUFFIX.get(source.suffix.lower())
    if found is None:
        raise UnknownFormat(f"The format of {source.name} is not known.")
    return found


def suffixes(source_format: SourceFormat) -> frozenset[str]:
    """File name endings of a format."""
    return frozenset(suffix for suffix, found in _BY_SUFFIX.items() if found is source_format)


def files_below(folder: Path, endings: frozenset[str]) -> Iterator[Path]:
    """Regular files with one of ``endings`` in sorted order; no links, nothing hidden."""
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith(".") or entry.is_symlink():
            continue
        if entry.is_dir():
            yield from files_below(entry, endings)
        elif entry.is_file() and entry.suffix.lower() in endings:
            yield entry


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
