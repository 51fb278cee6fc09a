"""A folder of notes: every file that an importer knows, and by name what was passed over."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator
from pathlib import Path

from memory_manager.capture.jsonl import read_jsonl
from memory_manager.capture.markdown import read_markdown_file
from memory_manager.capture.plain_text import Split, read_text_file_parts
from memory_manager.capture.sources import SourceFormat, SourceItem, format_of


class Reason(enum.StrEnum):
    """Why something in a folder was not read."""

    UNKNOWN_FORMAT = "not Markdown, text or JSON Lines"
    OTHER_FORMAT = "not of the format that was asked for"
    HIDDEN = "hidden"
    LINK = "a link"
    SPECIAL = "no regular file"


@dataclasses.dataclass(frozen=True, slots=True)
class PassedOver:
    """A file, or a hidden folder as a whole; ``place`` is its path within the folder."""

    place: str
    reason: Reason


def read_folder(
    folder: Path, split: Split = Split.PARAGRAPH, only: SourceFormat | None = None
) -> Iterator[SourceItem | PassedOver]:
    """Records of the files below ``folder`` in sorted order, each by its suffix.

    ``only`` leaves out the files of other formats. Links and what is hidden are never followed.
    """
    named = folder.name not in ("", "..")  # not: import .
    root = Path(folder.name if named else folder.resolve().name)
    for path, reason in _walk(folder):
        place = path.relative_to(folder)
        found = format_of(path)
        if reason is None and found is None:
            reason = Reason.UNKNOWN_FORMAT
        if reason is None and only not in (None, found):
            reason = Reason.OTHER_FORMAT
        if reason is not None:
            yield PassedOver(place.as_posix(), reason)
            continue
        memory_path = (root / place).with_suffix("").as_posix()
        if found is SourceFormat.JSONL:
            yield from read_jsonl(path, memory_path)
        elif found is SourceFormat.MARKDOWN:
            yield read_markdown_file(path, memory_path)
        else:
            yield from read_text_file_parts(path, memory_path, split)


def _walk(folder: Path) -> Iterator[tuple[Path, Reason | None]]:
    """Everything below that is no plain folder, with what speaks against reading it."""
    for entry in sorted(folder.iterdir()):
        if entry.name.startswith("."):
            yield entry, Reason.HIDDEN
        elif entry.is_symlink():
            yield entry, Reason.LINK
        elif entry.is_dir():
            yield from _walk(entry)
        else:
            yield entry, None if entry.is_file() else Reason.SPECIAL
