"""Markdown files with front matter: one memory per file.

Our own files carry JSON values in the front matter, which is also valid YAML, so that a file
survives an export and an import unchanged. Foreign files are read with the small part of YAML that
notes use: scalars, ``[a, b]`` and ``- item`` lists.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import cast

from memory_manager.base.errors import InvalidInput
from memory_manager.base.private_files import ensure_private_directory, write_private
from memory_manager.base.times import parse_rfc3339, rfc3339
from memory_manager.capture.errors import InvalidRecord
from memory_manager.capture.fields import Document
from memory_manager.capture.finite_json import load_json
from memory_manager.capture.records import MemoryRecord, parse_record, record_as_json
from memory_manager.capture.sources import (
    Problem,
    SourceItem,
    read_text_file,
)
from memory_manager.vault.rows import JsonValue

_FENCE = "---"
_OWN_MARK = "memlocket"
_RECORD_KEYS = frozenset(
    "id path bucket scope memory_type status importance confidence source metadata provenance "
    "semantic_key expires_at created_at updated_at tags".split()
)
_TIME_KEYS = {"created": "created_at", "date": "created_at", "updated": "updated_at"}
_KEY_LINE = re.compile(r"([A-Za-z_][\w -]*?)\s*:(?:\s+(.*))?")
_UNSAFE_IN_NAMES = re.compile(r"[^\w.-]+")
MAX_NAME_CHARACTERS = 60
MAX_FOLDER_DEPTH = 8


def read_markdown(source: Path) -> Iterator[SourceItem]:
    """The record of one file."""
    yield read_markdown_file(source, f"imported/{source.stem}")


def read_markdown_file(path: Path, default_path: str) -> SourceItem:
    """The record of one file, filed under ``default_path`` unless it names a path itself."""
    text = read_text_file(path)
    if isinstance(text, Problem):
        return text
    try:
        fields, body = split_front_matter(text)
        if _OWN_MARK in fields:
            # exactly what write_markdown put around the content, nothing more
            content = body.removeprefix("\n").removesuffix("\n")
            return parse_record({**fields, "content": content}, default_path)
        document = _from_foreign(fields, body.strip())
        document.setdefault("source", path.name)
        if "created_at" not in document:
            document["created_at"] = _file_time(path)
        return parse_record(document, default_path)
    except InvalidRecord as error:
        return Problem(path.name, error.message)


def split_front_matter(text: str) -> tuple[dict[str, JsonValue], str]:
    """The fields between two ``---`` lines at the very start, and the text after them.

    A text that does not start with such a block has no fields.
    """
    lines = text.split("\n")
    if lines[0].rstrip("\r") != _FENCE:
        return {}, text
    for number, line in enumerate(lines[1:], start=1):
        if line.rstrip("\r") == _FENCE:
            return _parse_fields(lines[1:number]), "\n".join(lines[number + 1 :])
    return {}, text


def _parse_fields(lines: list[str]) -> dict[str, JsonValue]:
    fields: dict[str, JsonValue] = {}
    current: str | None = None
    for raw in lines:
        line = raw.rstrip()
        if not line or line.startswith("#"):
            continue
        stripped = line.strip()
        if current is not None and (stripped == "-" or stripped.startswith("- ")):
            items: JsonValue = fields[current]
            if not isinstance(items, list):
                items = [] if items is None else [items]
                fields[current] = items
            cast("list[JsonValue]", items).append(_scalar(stripped[1:].strip()))
            continue
        match = _KEY_LINE.fullmatch(line)
        if match is None:
            continue  # nested YAML that notes may have; it is not a field of a memory
        key = current = match[1]
        fields[key] = _scalar((match[2] or "").strip())
    return fields


def _scalar(text: str) -> JsonValue:
    if not text:
        return None
    try:
        return load_json(text)
    except (ValueError, RecursionError):
        pass
    if text.startswith("[") and text.endswith("]"):
        return [_scalar(part.strip()) for part in text[1:-1].split(",") if part.strip()]
    if len(text) >= 2 and text[0] == text[-1] == "'":
        return text[1:-1].replace("''", "'")
    return text


def _from_foreign(fields: Document, body: str) -> dict[str, JsonValue]:
    """Known keys become fields of the record, the others metadata, so that nothing is lost."""
    document: dict[str, JsonValue] = {"content": body}
    metadata: dict[str, JsonValue] = {}
    for key, value in fields.items():
        name = _TIME_KEYS.get(key.lower(), key)
        if name in ("created_at", "updated_at", "expires_at"):
            moment = _time_text(value)
            if moment is None:
                metadata[key] = value
            else:
                document[name] = moment
        elif name == "tags":
            metadata["tags"] = _tag_list(value)
        elif name == "metadata" and isinstance(value, dict):
            metadata.update(cast("dict[str, JsonValue]", value))
        elif name in _RECORD_KEYS:
            document[name] = value
        else:
            metadata[key] = value
    document["metadata"] = metadata
    return document


def _tag_list(value: JsonValue) -> list[str]:
    if isinstance(value, list):
        return [str(part) for part in cast("list[object]", value)]
    text = "" if value is None else str(value)
    return [part.strip().lstrip("#") for part in text.split(",") if part.strip()]


def _time_text(value: JsonValue) -> str | None:
    """RFC 3339 of a front matter date; a date without an offset is taken as UTC."""
    if not isinstance(value, str):
        return None
    text = value.strip()
    if re.fullmatch(r"\d{4}-\d\d-\d\d", text):
        text += "T00:00:00Z"
    elif re.fullmatch(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?", text):
        text += "Z"
    try:
        parse_rfc3339(text, "date")
    except InvalidInput:
        return None
    return text


def _file_time(path: Path) -> str:
    return rfc3339(path.stat().st_mtime_ns // 1_000_000)


def markdown_text(record: MemoryRecord) -> str:
    """The whole file of one record."""
    document = record_as_json(record)
    content = cast("str", document.pop("content"))
    fields = "".join(
        f"{key}: {json.dumps(value, ensure_ascii=False)}\n" for key, value in document.items()
    )
    return f"{_FENCE}\n{fields}{_FENCE}\n\n{content}\n"


def markdown_place(record: MemoryRecord, number: int) -> Path:
    """Where a record goes below the export folder: its path as folders, its id in the name."""
    parts = [_safe_name(part) for part in record.path.split("/")]
    parts = [part for part in parts if part][:MAX_FOLDER_DEPTH]
    name = parts.pop() if parts else "memory"
    return Path(*parts, f"{name}--{record.id or number}.md")


def _safe_name(text: str) -> str:
    return _UNSAFE_IN_NAMES.sub("-", text).strip(".-")[:MAX_NAME_CHARACTERS]


def write_markdown(records: Iterable[MemoryRecord], folder: Path) -> int:
    """Write one private file per record below ``folder``; returns how many."""
    ensure_private_directory(folder)
    count = 0
    for number, record in enumerate(records, start=1):
        target = folder / markdown_place(record, number)
        ensure_private_directory(target.parent)
        write_private(target, markdown_text(record).encode(), durable=False)
        count += 1
    return count
