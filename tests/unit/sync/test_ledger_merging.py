"""What a record with several current revisions shows: tags and pinned merge, the rest is asked."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from memory_manager.auth.agent_identity import AgentIdentity
from memory_manager.base.identifiers import MemoryId
from memory_manager.sync.ledger.merging import Edit, shown
from memory_manager.sync.wire.envelope import Dot
from memory_manager.sync.wire.payload import HybridTime
from memory_manager.sync.wire.versions import Revision
from memory_manager.vault.incoming_rows import IncomingRow
from memory_manager.vault.prepared_version import RowContents, contents_of_draft
from memory_manager.vault.rows import Attribution, MemoryDraft, MemoryType, RowStatus

ID = MemoryId("01900000-0000-7000-8000-000000000000")


def contents(text: str, **metadata: Any) -> RowContents:
    draft = MemoryDraft(text, "notes", metadata=metadata)
    return contents_of_draft(draft, MemoryType.SEMANTIC)


def edit(number: int, said: RowContents) -> Edit:
    """Higher numbers were written later."""
    device = bytes([number]) * 16
    revision = Revision(Dot(device, 1), frozenset(), HybridTime(number, 0, device.hex()))
    row = IncomingRow(ID, said, RowStatus.ACTIVE, Attribution(AgentIdentity()), 1, number)
    return Edit(revision, row)


def merged(base: RowContents | None, *texts: RowContents) -> tuple[dict[str, Any], int]:
    """Metadata shown and the number of conflicts; the latest edit is given last."""
    edits = [edit(number, said) for number, said in enumerate(texts, 1)]
    found = shown(edits[::-1], base)
    return dict(found.row.contents.metadata), len(found.conflicting)


@pytest.mark.parametrize(
    ("base", "one", "two", "expected"),
    [
        (["a", "b"], ["b"], ["a", "b", "c"], ["b", "c"]),
        (["a"], [], ["a"], []),
        (["a"], ["a", "x"], ["a", "y"], ["a", "y", "x"]),
        (["a"], ["b"], ["b"], ["b"]),
        (None, ["a"], ["b"], ["b", "a"]),
        ([], ["a"], ["a"], ["a"]),
    ],
    ids=["removed-and-added", "removed", "added-twice", "same", "no-base", "same-from-none"],
)
def test_a_tag_stays_unless_somebody_took_it_away(
    base: list[str] | None, one: list[str], two: list[str], expected: list[str]
) -> None:
    before = None if base is None else contents("t", tags=base)
    metadata, conflicts = merged(before, contents("t", tags=one), contents("t", tags=two))
    assert metadata["tags"] == expected
    assert conflicts == 0


@pytest.mark.parametrize(
    ("base", "one", "two", "expected"),
    [(False, True, False, True), (True, False, True, False), (False, True, True, True)],
)
def test_pinned_is_what_was_written_to_it_last(
    base: bool, one: bool, two: bool, expected: bool
) -> None:
    metadata, conflicts = merged(
        contents("t", pinned=base), contents("t", pinned=one), contents("t", pinned=two)
    )
    assert (metadata["pinned"], conflicts) == (expected, 0)


def test_another_text_or_another_member_is_a_conflict() -> None:
    base = contents("t", tags=["a"])
    assert merged(base, contents("one"), contents("two"))[1] == 1
    assert merged(base, contents("t", other=1), contents("t", other=2))[1] == 1
    assert merged(base, contents("t"), contents("one"), contents("two"))[1] == 2


def test_the_winner_is_shown_with_the_tags_of_all() -> None:
    said = contents("one", tags=["a"]), contents("two", tags=["b"], other=1)
    edits = [edit(number, each) for number, each in enumerate(said, 1)][::-1]
    found = shown(edits, None)
    assert found.row.contents == dataclasses.replace(
        said[1], metadata={"tags": ["b", "a"], "other": 1}
    )
    assert [each.revision.dot for each in found.conflicting] == [edits[1].revision.dot]


def test_tags_of_another_form_are_left_alone() -> None:
    odd = contents("t", tags="a, b"), contents("t", tags="a, b")
    assert merged(None, *odd)[0]["tags"] == "a, b"
