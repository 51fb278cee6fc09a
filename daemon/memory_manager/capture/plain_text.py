"""Plain text: one memory per paragraph, per line or per file."""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from pathlib import Path

from memory_manager.capture.records import MemoryRecord
from memory_manager.capture.sources import (
    Problem,
    SourceItem,
    read_text_file,
)
from memory_manager.vault.rows import MAX_CONTENT_CHARACTERS

_BLANK_LINES = re.compile(r"(?:\r?\n[ \t]*){2,}")


class Split(enum.StrEnum):
    PARAGRAPH = "paragraph"
    LINE = "line"
    FILE = "file"


def read_text(source: Path, split: Split = Split.PARAGRAPH) -> Iterator[SourceItem]:
    """Records of one file; their time is the file's own."""
    return read_text_file_parts(source, f"imported/{source.stem}", split)


def read_text_file_parts(path: Path, memory_path: str, split: Split) -> Iterator[SourceItem]:
    """Records of one file, filed under ``memory_path``."""
    text = read_text_file(path)
    if isinstance(text, Problem):
        yield text
        return
    modified_ms = path.stat().st_mtime_ns // 1_000_000
    for number, part in enumerate(_parts(text, split), start=1):
        if len(part) > MAX_CONTENT_CHARACTERS:
            yield Problem(
                f"{path.name} part {number}",
                f"It has more than {MAX_CONTENT_CHARACTERS} characters.",
            )
            continue
        yield MemoryRecord(
            content=part, path=memory_path, source=path.name, created_at_ms=modified_ms
        )


def _parts(text: str, split: Split) -> Iterator[str]:
    if split is Split.FILE:
        pieces = [text]
    elif split is Split.LINE:
        pieces = text.splitlines()
    else:
        pieces = _BLANK_LINES.split(text)
    for piece in pieces:
        if stripped := piece.strip():
            yield stripped
