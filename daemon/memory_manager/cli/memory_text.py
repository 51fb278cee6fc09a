"""Memories as text for people. Pure: JSON objects of the API in, strings out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import cast

from memory_manager.cli.output import columns, facts, local_time, shortened, table

DEGRADED = {
    "embeddings": "found by words only; meaning needs: memlocket embeddings install",
    "embeddings_loading": "found by words only; the index of meaning is still loading",
    "embeddings_building": "found by words only; a new model is being filled in",
    "fulltext": "found by meaning only; the index of words is being rebuilt",
}
_DONE = {
    "created": "Remembered",
    "updated": "Updated",
    "deduplicated": "Known already",
    "restored": "Restored",
    "unchanged": "Unchanged",
    "deleted": "Forgotten",
    "redacted": "Redacted",
}
SNIPPET_COLUMNS = 300
WIDE_COLUMNS = 100
SHORT_ID_CHARACTERS = 18  # time and 12 random bits
Item = Mapping[str, object]


def written(answer: Item) -> str:
    """``Remembered  <id>``"""
    status = str(answer.get("status", ""))
    return f"{_DONE.get(status, status)}  {answer.get('id', '')}"


def forgotten(answer: Item) -> str:
    text = written(answer)
    if awaits_owner(answer):
        text += "  (its bytes go when you run this again with your passphrase)"
    return text


def awaits_owner(answer: Item) -> bool:
    """Whether a memory is out of recall but not destroyed, for want of a fresh passphrase."""
    return answer.get("hard_delete") == "awaiting_owner"


def redaction_note(answer: Item) -> str | None:
    """A sentence when the sanitizer took something out; names rules, never texts."""
    found = answer.get("redactions")
    if isinstance(found, dict):
        fields = cast("Mapping[str, object]", found)
        found = fields.get("types") or fields.get("rules")
    if not isinstance(found, list) or not found:
        return None
    names = sorted({_rule(part) for part in cast("list[object]", found)})
    return f"a secret was taken out before storing: {', '.join(names)}"


def _rule(part: object) -> str:
    if isinstance(part, dict):
        fields = cast("Mapping[str, object]", part)
        return str(fields.get("rule") or fields.get("type") or "secret")
    return str(part)


def hits(items: Sequence[Item]) -> str:
    """One block per hit: score, id, path; then the text, shortened."""
    blocks: list[str] = []
    for item in items:
        score = item.get("score")
        shown = f"{score:.2f}" if isinstance(score, (int, float)) else "  - "
        label = _relation(item)
        head = f"{shown}  {item.get('id', '')}  {item.get('path', '')}{label}"
        blocks.append(f"{head}\n      {shortened(str(item.get('content', '')), SNIPPET_COLUMNS)}")
    return "\n".join(blocks)


def _relation(item: Item) -> str:
    boundary = item.get("memory_agent_boundary")
    if not isinstance(boundary, dict):
        return ""
    relation = str(cast("Mapping[str, object]", boundary).get("relation", "unknown"))
    return "" if relation in ("unknown", "unverified") else f"  [{relation}]"


def listing(items: Sequence[Item]) -> str:
    """A table, one memory a line; an empty text for no items."""
    if not items:
        return ""
    with_status = any(item.get("status", "active") != "active" for item in items)
    # on a narrow terminal half an id is enough to name a memory, and leaves room for its text
    digits = SHORT_ID_CHARACTERS if columns() < WIDE_COLUMNS else None
    rows = [
        (
            str(item.get("id", ""))[:digits],
            local_time(item.get("created_at")),
            shortened(str(item.get("path", "")), 18),
            *((str(item.get("status", "active")),) if with_status else ()),
            str(item.get("content", "")),
        )
        for item in items
    ]
    header = ("ID", "CREATED", "PATH", *(("STATUS",) if with_status else ()), "TEXT")
    return table(header, rows)


def whole(item: Item) -> str:
    """All facts of one memory, a blank line, and its text."""
    metadata = item.get("metadata")
    tags = (
        cast("Mapping[str, object]", metadata).get("tags") if isinstance(metadata, dict) else None
    )
    shown = facts(
        [
            ("id", item.get("id")),
            ("path", item.get("path")),
            ("bucket", item.get("bucket")),
            ("scope", item.get("scope")),
            ("type", item.get("memory_type")),
            ("status", item.get("status")),
            ("tags", ", ".join(map(str, cast("list[object]", tags))) if tags else None),
            ("importance", item.get("importance")),
            ("confidence", item.get("confidence")),
            ("version", item.get("version")),
            ("created", local_time(item["created_at"]) if item.get("created_at") else None),
            ("updated", local_time(item["updated_at"]) if item.get("updated_at") else None),
            ("expires", local_time(item["expires_at"]) if item.get("expires_at") else None),
        ]
    )
    return f"{shown}\n\n{item.get('content', '')}"


def history(versions: Sequence[Item]) -> str:
    """A table, newest version first."""
    rows = [
        (
            str(version.get("version", "")),
            local_time(version.get("written_at")),
            str(version.get("action", "")),
            _writer(version),
            "(removed)" if version.get("content") is None else str(version["content"]),
        )
        for version in sorted(versions, key=_number, reverse=True)
    ]
    return table(("VERSION", "WRITTEN", "ACTION", "BY", "TEXT"), rows)


def _number(version: Item) -> int:
    number = version.get("version")
    return number if isinstance(number, int) else 0


def _writer(version: Item) -> str:
    writer = version.get("writer")
    fields = cast("Mapping[str, object]", writer) if isinstance(writer, dict) else version
    return str(fields.get("agent_id") or fields.get("client") or "-")
