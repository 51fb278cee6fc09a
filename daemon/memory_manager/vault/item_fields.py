"""What each kind of record says beyond a memory: names and types of the members of ``item``.

Pure. ``check_item`` runs on every way in, so a reader may rely on the types. Members are optional:
an archive or a redaction may have left some out.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Final, TypeGuard, cast

from memory_manager.base.errors import InvalidInput, TooLarge
from memory_manager.base.identifiers import MemoryId, memory_id_bytes
from memory_manager.base.times import MAX_UNIX_MS, MIN_UNIX_MS
from memory_manager.vault.rows import MAX_CONTENT_CHARACTERS, JsonValue, RecordKind

MAX_NAME_CHARACTERS: Final = 1_024
MAX_LIST_ENTRIES: Final = 100
MAX_AMOUNT_MICROS: Final = 10**18
MICROS: Final = 1_000_000
"""An amount of money is kept in millionths of its currency."""

Item = Mapping[str, JsonValue]


class ItemStatus(enum.StrEnum):
    """Where a reminder or a decision stands."""

    OPEN = "open"
    COMPLETED = "completed"
    RESOLVED = "resolved"


class _Type(enum.Enum):
    TEXT = enum.auto()  # free text: a redaction removes it
    TEXTS = enum.auto()
    NAME = enum.auto()  # a label: a redaction keeps it
    TIME = enum.auto()  # UTC milliseconds
    AMOUNT = enum.auto()
    STATUS = enum.auto()
    REFERENCES = enum.auto()  # [{"id": ..., "version": ...}]


_FIELDS: Final[Mapping[RecordKind, Mapping[str, _Type]]] = {
    RecordKind.MEMORY: {},
    RecordKind.STATE: {
        "current_task": _Type.TEXT,
        "next_action": _Type.TEXT,
        "blocked_reason": _Type.TEXT,
    },
    RecordKind.EVENT: {
        "event_type": _Type.NAME,
        "occurred_at_ms": _Type.TIME,
        "session_id": _Type.NAME,
    },
    RecordKind.REMINDER: {
        "item_status": _Type.STATUS,
        "due_at_ms": _Type.TIME,
        "session_id": _Type.NAME,
        "completed_at_ms": _Type.TIME,
        "note": _Type.TEXT,
    },
    RecordKind.DECISION: {
        "item_status": _Type.STATUS,
        "due_at_ms": _Type.TIME,
        "session_id": _Type.NAME,
        "options": _Type.TEXTS,
        "resolution": _Type.TEXT,
        "resolved_at_ms": _Type.TIME,
    },
    RecordKind.SNAPSHOT: {
        "label": _Type.TEXT,
        "session_id": _Type.NAME,
        "state_key": _Type.NAME,
        "state": _Type.REFERENCES,
        "timeline": _Type.REFERENCES,
        "reminders": _Type.REFERENCES,
        "decisions": _Type.REFERENCES,
    },
    RecordKind.EXPENSE: {
        "amount_micros": _Type.AMOUNT,
        "currency": _Type.NAME,
        "spent_at_ms": _Type.TIME,
    },
}
_SANITIZED: Final = (_Type.TEXT, _Type.TEXTS, _Type.NAME)
_WITH_STATUS: Final = (RecordKind.REMINDER, RecordKind.DECISION)


def check_item(kind: RecordKind, item: Item, accepted: Item | None = None) -> None:
    """InvalidInput or TooLarge, naming the member, unless every member is known and well typed.
    Members equal to those of ``accepted`` may be larger: cleaning can make a text longer.
    """
    fields = _FIELDS[kind]
    for name, value in item.items():
        expected = fields.get(name)
        if expected is None:
            raise InvalidInput(f"A {kind.value} has no such member.", field="item")
        if not _fits(expected, value):
            raise InvalidInput(f"{name} is not what a {kind.value} can hold.", field=name)
        _check_unicode(name, value)
        if accepted is None or accepted.get(name) != value:
            _check_size(name, value)


def texts_of_item(item: Item) -> dict[str, JsonValue]:
    """The members that the sanitizer must see; numbers, states and references hold no text."""
    return {name: value for name, value in item.items() if _holds_text(name) and value is not None}


def without_text(kind: RecordKind, item: Item) -> dict[str, JsonValue]:
    """What a redaction leaves of an item: labels, times, amounts."""
    fields = _FIELDS[kind]
    gone = (_Type.TEXT, _Type.TEXTS)
    return {name: value for name, value in item.items() if fields[name] not in gone}


@dataclasses.dataclass(frozen=True, slots=True)
class ItemColumns:
    """The indexed columns of an item; ``at_ms`` None means the time of creation."""

    at_ms: int | None = None
    item_status: str | None = None
    due_at_ms: int | None = None
    session_id: str | None = None
    label: str | None = None
    amount_micros: int | None = None


def item_columns(kind: RecordKind, item: Item) -> ItemColumns:
    """What ``record_item`` holds of a checked item."""
    at_ms = {RecordKind.EVENT: "occurred_at_ms", RecordKind.EXPENSE: "spent_at_ms"}.get(kind)
    label = {
        RecordKind.EVENT: "event_type",
        RecordKind.SNAPSHOT: "state_key",
        RecordKind.EXPENSE: "currency",
    }.get(kind)
    status = item_status(item).value if kind in _WITH_STATUS else None
    return ItemColumns(
        at_ms=item.get(at_ms) if at_ms else None,
        item_status=status,
        due_at_ms=item.get("due_at_ms"),
        session_id=item.get("session_id"),
        label=item.get(label) if label else None,
        amount_micros=item.get("amount_micros"),
    )


def item_status(item: Item) -> ItemStatus:
    """Open unless it says otherwise."""
    return ItemStatus(item.get("item_status") or ItemStatus.OPEN)


_TEXT_MEMBERS: Final = frozenset(
    name for fields in _FIELDS.values() for name, kind in fields.items() if kind in _SANITIZED
)


def _holds_text(name: str) -> bool:
    return name in _TEXT_MEMBERS


def _fits(expected: _Type, value: JsonValue) -> bool:
    if value is None:
        return True
    if expected in (_Type.TEXT, _Type.NAME):
        return isinstance(value, str)
    if expected is _Type.STATUS:
        return isinstance(value, str) and value in tuple(ItemStatus)
    if expected is _Type.TIME:
        return _is_whole(value) and MIN_UNIX_MS <= value <= MAX_UNIX_MS
    if expected is _Type.AMOUNT:
        return _is_whole(value) and abs(value) <= MAX_AMOUNT_MICROS
    if not isinstance(value, list):
        return False
    entries = cast("list[object]", value)
    if expected is _Type.TEXTS:
        return all(isinstance(entry, str) for entry in entries)
    return all(_is_reference(entry) for entry in entries)


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_reference(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    entry = cast("dict[str, object]", value)
    number, name = entry.get("version"), entry.get("id")
    if len(entry) != 2 or not _is_whole(number) or not isinstance(name, str):
        return False
    try:
        memory_id_bytes(MemoryId(name))
    except ValueError:
        return False
    return 1 <= number < 1 << 24


def _check_size(name: str, value: object) -> None:
    if isinstance(value, list):
        entries = cast("list[object]", value)
        if len(entries) > MAX_LIST_ENTRIES:
            raise TooLarge(f"{name} has more than {MAX_LIST_ENTRIES} entries; nothing was stored.")
        for entry in entries:
            _check_size(name, entry)
    elif isinstance(value, str):
        if len(value) > MAX_CONTENT_CHARACTERS:
            raise TooLarge(
                f"{name} is longer than {MAX_CONTENT_CHARACTERS} characters; nothing was stored."
            )


def _check_unicode(name: str, value: object) -> None:
    for text in cast("list[object]", value) if isinstance(value, list) else [value]:
        try:
            if isinstance(text, str):
                text.encode()
        except UnicodeEncodeError:
            raise InvalidInput(f"{name} is not valid Unicode.", field=name) from None
