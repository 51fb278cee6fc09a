"""What a memory will say after a change or a restore. Pure: values in, values out."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

from memory_manager.base.errors import InvalidInput
from memory_manager.vault.prepared_version import RowContents, contents_of_stored
from memory_manager.vault.rows import (
    UNSET,
    JsonValue,
    MemoryChange,
    MemoryRow,
    MemoryVersion,
    RowStatus,
    Unset,
)


def changed_contents(row: MemoryRow, change: MemoryChange) -> RowContents:
    """The whole new version; merging is shallow, a key of the change replaces the row's."""
    given = {
        field.name: getattr(change, field.name)
        for field in dataclasses.fields(RowContents)
        if field.name != "kind" and getattr(change, field.name) is not UNSET
    }
    if change.merge_metadata:
        given["metadata"] = _merged(row.metadata, change.metadata)
    if change.merge_provenance:
        given["provenance"] = _merged(row.provenance, change.provenance)
    for field in ("scope", "source", "semantic_key"):
        if given.get(field) == "":
            given[field] = None
    return dataclasses.replace(contents_of_stored(row), **given)


def _merged(
    old: Mapping[str, JsonValue], new: Mapping[str, JsonValue] | Unset
) -> Mapping[str, JsonValue]:
    return old if isinstance(new, Unset) else {**old, **new}


def version_to_restore(
    row: MemoryRow, found: Sequence[MemoryVersion], wanted: int | None
) -> MemoryVersion | None:
    if wanted is None:
        earlier = [
            entry
            for entry in found
            if entry.version < row.version and entry.status is not RowStatus.DELETED
        ]
        if not earlier:
            return None
        chosen = earlier[-1]
    else:
        matching = [entry for entry in found if entry.version == wanted]
        if not matching:
            raise InvalidInput("The memory has no such version.", field="version")
        chosen = matching[0]
    if chosen.content is None:
        raise InvalidInput("That version was erased by a redaction.", field="version")
    return chosen
