"""What a record shows while it has several current revisions. Pure.

The winner's text; tags as an observed-remove set and ``pinned`` by its last writer, both measured
against the revision that all descend from. What differs in nothing else is no conflict.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, cast

from memory_manager.sync.wire.versions import Revision
from memory_manager.vault.incoming_rows import IncomingRow
from memory_manager.vault.prepared_version import RowContents
from memory_manager.vault.rows import JsonValue

_TAGS = "tags"
_PINNED = "pinned"


@dataclasses.dataclass(frozen=True, slots=True)
class Edit:
    """A current revision with what it says."""

    revision: Revision
    row: IncomingRow


@dataclasses.dataclass(frozen=True, slots=True)
class Shown:
    """The row to show, and the revisions beside it that a person has to decide about."""

    row: IncomingRow
    conflicting: tuple[Edit, ...]


def shown(edits: Sequence[Edit], base: RowContents | None) -> Shown:
    """``edits`` are all current revisions, the winner first; ``base`` their common ancestor."""
    winner = edits[0].row
    if len(edits) == 1:
        return Shown(winner, ())
    contents = dataclasses.replace(winner.contents, metadata=_metadata(edits, base))
    conflicting = [edit for edit in edits[1:] if _plain(edit.row) != _plain(winner)]
    return Shown(dataclasses.replace(winner, contents=contents), tuple(conflicting))


def _plain(row: IncomingRow) -> object:
    """All that is not merged by itself."""
    contents = row.contents
    metadata = {k: v for k, v in contents.metadata.items() if k not in (_TAGS, _PINNED)}
    return row.status, dataclasses.replace(contents, metadata=metadata)


def _metadata(edits: Sequence[Edit], base: RowContents | None) -> dict[str, JsonValue]:
    merged = dict(edits[0].row.contents.metadata)
    tags = _merged_tags(edits, base)
    if tags is not None:
        merged[_TAGS] = tags
        if not tags and _TAGS not in edits[0].row.contents.metadata:
            del merged[_TAGS]
    pinned = _merged_pinned(edits, base)
    if pinned is not None:
        merged[_PINNED] = pinned
    return merged


def _merged_tags(edits: Sequence[Edit], base: RowContents | None) -> list[str] | None:
    """Tags that somebody added, and those of the base that nobody took away; None without tags."""
    sets = [_tags(edit.row.contents) for edit in edits]
    if all(found is None for found in sets):
        return None
    lists = [found or [] for found in sets]
    before = (_tags(base) or []) if base is not None else []
    in_order = dict.fromkeys([*lists[0], *sorted(tag for tags in lists[1:] for tag in tags)])
    return [tag for tag in in_order if (tag not in before) or all(tag in tags for tags in lists)]


def _merged_pinned(edits: Sequence[Edit], base: RowContents | None) -> bool | None:
    before = None if base is None else _pinned(base)
    for edit in edits:  # the winner first: the latest time
        value = _pinned(edit.row.contents)
        if value != before and value is not None:
            return value
    return _pinned(edits[0].row.contents)


def _tags(contents: RowContents) -> list[str] | None:
    found: Any = contents.metadata.get(_TAGS)
    if not isinstance(found, list):
        return None
    tags = cast("list[object]", found)
    return cast("list[str]", tags) if all(isinstance(tag, str) for tag in tags) else None


def _pinned(contents: RowContents) -> bool | None:
    found = contents.metadata.get(_PINNED)
    return found if isinstance(found, bool) else None
