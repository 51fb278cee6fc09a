"""JSON Lines: one archive record per line, UTF-8, ``\\n`` between lines."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from memory_manager.capture.errors import InvalidRecord
from memory_manager.capture.fields import Document
from memory_manager.capture.finite_json import load_json
from memory_manager.capture.records import MemoryRecord, parse_record, record_as_json
from memory_manager.capture.sources import Problem, SourceItem

MAX_LINE_BYTES = 64 * 1024 * 1024
BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def read_jsonl(path: Path, default_path: str | None = None) -> Iterator[SourceItem]:
    """Records of a file in order; a line that is none becomes a Problem and reading goes on.

    ``default_path`` is for records that name no path themselves.
    """
    memory_path = default_path or f"imported/{path.stem}"
    with path.open("rb") as stream:
        for number, line in enumerate(_lines(stream), start=1):
            if not line.strip():
                continue
            place = f"{path.name}:{number}"
            try:
                yield parse_line(line, memory_path)
            except InvalidRecord as error:
                yield Problem(place, error.message)


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    while line := stream.readline(MAX_LINE_BYTES):
        yield line.removeprefix(BYTE_ORDER_MARK)


def parse_line(line: bytes, default_path: str) -> MemoryRecord:
    """One record from one line; InvalidRecord says what is wrong without showing the line."""
    try:
        loaded = load_json(line)
    except (ValueError, RecursionError):
        raise InvalidRecord("This line is not JSON.") from None
    if not isinstance(loaded, dict):
        raise InvalidRecord("This line is not a JSON object.")
    return parse_record(cast("Document", loaded), default_path)


def record_line(record: MemoryRecord) -> bytes:
    """One line without its line end."""
    document = record_as_json(record)
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def write_jsonl(lines: Iterable[bytes], stream: BinaryIO) -> int:
    """Write lines that have no line end yet; returns how many."""
    count = 0
    for line in lines:
        stream.write(line + b"\n")
        count += 1
    return count
