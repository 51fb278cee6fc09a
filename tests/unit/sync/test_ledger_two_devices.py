"""Two and three devices of one owner: what each shows after they met."""

from __future__ import annotations

import pytest
from ledger_world import LedgerDevice, LedgerWorld, Pair
from small_vault import writer

from memory_manager.api.items import row_item
from memory_manager.base.identifiers import MemoryId
from memory_manager.sync.ledger import conflicts
from memory_manager.sync.wire.payload import Kind
from memory_manager.vault import erasure
from memory_manager.vault.errors import Conflict
from memory_manager.vault.rows import ForgetMode, MemoryChange, RecordKind, RowStatus


def agree(world: LedgerWorld) -> None:
    first, *others = world.devices
    for other in others:
        assert other.shown() == first.shown()
        assert other.in_conflict() == first.in_conflict()
        assert (other.state.n, other.state.g) == (first.state.n, first.state.g)
        assert other.waiting() == 0


def edited_apart(world: LedgerWorld, pair: Pair) -> MemoryId:
    """A memory that both changed before they met: ``of two`` was written later."""
    one, two = pair
    memory = one.remember("base")
    world.settle()
    one.update(memory, content="of one")
    two.update(memory, content="of two")
    world.settle()
    return memory


def test_a_memory_with_all_it_has_arrives_as_it_is(world: LedgerWorld, pair: Pair) -> None:
    one, two = pair
    memory = one.remember(
        "Grüße ✓ 1.5",
        path="a/b",
        bucket="work",
        scope="s",
        importance=0.1,
        confidence=0.30000000000000004,
        source="chat",
        metadata={"tags": ["x", "y"], "pinned": True, "title": "t", "deep": {"f": 1.25, "n": None}},
        provenance={"from": [1, 2.5, "z"]},
        semantic_key="k",
        expires_at_ms=4_000_000_000_000,
    )
    world.settle()
    agree(world)
    row = two.row(memory)
    assert row is not None
    assert row.metadata["deep"] == {"f": 1.25, "n": None}
    assert row.confidence == 0.30000000000000004
    assert row.writer.credential_id is None
    assert two.vault.versions(memory)[0].written_at_ms == row.updated_at_ms


@pytest.mark.parametrize("kind", [RecordKind.EVENT, RecordKind.DECISION])
def test_other_kinds_arrive_too(world: LedgerWorld, pair: Pair, kind: RecordKind) -> None:
    one, two = pair
    memory = one.remember("happened", kind=kind)
    world.settle()
    row = two.row(memory)
    assert row is not None
    assert row.kind is kind


def test_edits_go_both_ways(world: LedgerWorld, pair: Pair) -> None:
    one, two = pair
    memory = one.remember("first")
    world.settle()
    two.update(memory, content="second")
    world.settle()
    one.update(memory, content="third")
    world.settle()
    agree(world)
    assert two.content(memory) == "third"
    assert [v.content for v in two.vault.versions(memory)] == ["first", "second", "third"]
    assert one.in_conflict() == {}


def test_concurrent_edits_stay_as_siblings_and_keep_decides(world: LedgerWorld, pair: Pair) -> None:
    one, two = pair
    memory = edited_apart(world, pair)
    agree(world)
    shown = one.row(memory)
    assert shown is not None
    assert row_item(shown, shown.writer.identity)["conflict"] is True
    record = one.conflict(memory)
    assert record is not None
    assert [s.is_winner for s in record.siblings] == [True, False]
    assert {s.contents.content for s in record.siblings if s.contents} == {"of one", "of two"}
    assert one.content(memory) == "of two"  # written later
    loser = record.siblings[1]
    two.write(lambda tx: conflicts.keep(tx, two.memories, memory, loser.dot, writer()))
    world.settle()
    agree(world)
    assert one.content(memory) == "of one"
    assert one.conflict(memory) is None
    decided = one.row(memory)
    assert decided is not None
    assert "conflict" not in row_item(decided, decided.writer.identity)
    kinds = [k for (k,) in one.read(lambda c: c.execute("SELECT kind FROM revision").fetchall())]
    assert kinds.count(Kind.RESOLVE.value) == 1


def test_merge_names_all_siblings(world: LedgerWorld, pair: Pair) -> None:
    one, two = pair
    memory = edited_apart(world, pair)
    change = MemoryChange(content="of both")
    one.write(lambda tx: conflicts.merge(tx, one.memories, memory, change, writer()))
    world.settle()
    agree(world)
    assert two.content(memory) == "of both"
    assert two.conflict(memory) is None


def test_a_device_that_must_enrol_again_decides_nothing(world: LedgerWorld, pair: Pair) -> None:
    one, _ = pair
    memory = edited_apart(world, pair)
    record = one.conflict(memory)
    assert record is not None
    one.keys = world.founded.add()
    one.name()
    dot, change = record.siblings[1].dot, MemoryChange(content="of both")
    with pytest.raises(Conflict, match="join its vault again"):
        one.write(lambda tx: conflicts.keep(tx, one.memories, memory, dot, writer()))
    with pytest.raises(Conflict, match="join its vault again"):
        one.write(lambda tx: conflicts.merge(tx, one.memories, memory, change, writer()))
    assert one.conflict(memory) == record
    assert one.content(memory) == "of two"


def test_an_ordinary_edit_leaves_the_other_sibling_to_the_owner(
    world: LedgerWorld, pair: Pair
) -> None:
    one, two = pair
    memory = edited_apart(world, pair)
    one.update(memory, content="an agent went on")
    world.settle()
    agree(world)
    record = two.conflict(memory)
    assert record is not None
    texts = [s.contents.content for s in record.siblings if s.contents]
    assert texts == ["an agent went on", "of one"]


def test_an_edit_wins_over_a_sibling_from_the_future(world: LedgerWorld, pair: Pair) -> None:
    one, two = pair
    memory = one.remember("base")
    world.settle()
    two.clock_ms = 4_000_000_000_000
    two.update(memory, content="from 2096")
    two.clock_ms = None
    one.update(memory, content="now")
    world.settle()
    assert one.content(memory) == "from 2096"
    one.update(memory, content="corrected")
    assert one.content(memory) == "corrected"
    world.settle()
    agree(world)
    assert two.content(memory) == "corrected"
    assert one.state.clock.ms < 3_000_000_000_000  # our clock never followed


def test_tags_and_pinned_are_merged_without_asking(world: LedgerWorld, pair: Pair) -> None:
    one, two = pair
    memory = one.remember("base", metadata={"tags": ["a", "b"], "pinned": False})
    world.settle()
    one.update(memory, metadata={"tags": ["b"], "pinned": True})
    two.update(memory, metadata={"tags": ["a", "b", "c"], "pinned": False})
    world.settle()
    agree(world)
    row = one.row(memory)
    assert row is not None
    assert sorted(row.metadata["tags"]) == ["b", "c"]
    assert row.metadata["pinned"] is True
    assert one.conflict(memory) is None
    one.update(memory, content="goes on")
    world.settle()
    agree(world)
    assert two.content(memory) == "goes on"
    assert two.conflict(memory) is None


def test_an_edit_survives_a_concurrent_tidy_delete(world: LedgerWorld, pair: Pair) -> None:
    one, two = pair
    memory = one.remember("base")
    world.settle()
    one.forget(memory)
    two.update(memory, content="still wanted")
    world.settle()
    agree(world)
    assert one.content(memory) == "still wanted"
    two.forget(memory)
    world.settle()
    assert one.row(memory) is None
    one.restore(memory)
    world.settle()
    agree(world)
    assert two.content(memory) == "still wanted"


def test_forget_wins_over_early_and_late_edits(world: LedgerWorld, pair: Pair) -> None:
    one, two = pair
    late = world.device()
    memory = one.remember("secret-canary-text")
    world.settle()
    two.update(memory, content="secret-canary-early")
    late.update(memory, content="secret-canary-late")
    one.forget(memory, ForgetMode.HARD_DELETE)
    one.sync()
    two.sync()
    one.sync()
    late.sync()
    world.settle()
    agree(world)
    for device in world.devices:
        assert device.row(memory) is None
        assert device.vault.row(memory, include_deleted=True) is None
        assert b"secret-canary" not in device.vault.dump()
        assert sealed_rows_left(device) == 0
        assert device.quarantined() == {}


def sealed_rows_left(device: LedgerDevice) -> int:
    """Sealed rows that are no tombstones."""
    (number,) = device.read(
        lambda c: c.execute(
            "SELECT count(*) FROM sealed s WHERE substr(s.body, 6, 1) <> x'02'"
        ).fetchone()
    )
    return int(number)


def test_what_was_forgotten_before_the_push_leaves_no_key(world: LedgerWorld, pair: Pair) -> None:
    one, two = pair
    memory = one.remember("never to be seen")
    one.forget(memory, ForgetMode.HARD_DELETE)
    world.settle()
    agree(world)
    assert two.row(memory) is None
    assert two.quarantined() == {}
    assert sealed_rows_left(one) == sealed_rows_left(two) == 0
    wraps = [row.row.wrap for row in world.server.rows]
    assert wraps[0] == bytes(92)


def test_redacting_takes_the_earlier_text_everywhere(world: LedgerWorld, pair: Pair) -> None:
    one, two = pair
    memory = one.remember("redact-canary")
    world.settle()
    one.forget(memory, ForgetMode.REDACT)
    world.settle()
    agree(world)
    row = two.row(memory)
    assert row is not None
    assert row.status is RowStatus.REDACTED
    assert [v.content for v in two.vault.versions(memory)] == [None, "[REDACTED]"]
    assert sealed_rows_left(one) == sealed_rows_left(two) == 1
    assert b"redact-canary" not in two.vault.dump()


def test_redacting_what_is_in_the_trash_leaves_it_there_without_its_text(
    world: LedgerWorld, pair: Pair
) -> None:
    one, two = pair
    memory = one.remember("trash-canary")
    world.settle()
    one.forget(memory)
    one.forget(memory, ForgetMode.REDACT)
    world.settle()
    agree(world)
    row = two.vault.row(memory, include_deleted=True)
    assert row is not None
    assert (row.status, row.content) == (RowStatus.DELETED, "[REDACTED]")
    assert b"trash-canary" not in two.vault.dump()
    assert two.quarantined() == {}


def test_redacting_what_was_not_pushed_ends_what_was(world: LedgerWorld, pair: Pair) -> None:
    """The edit between is opened by nobody; the redaction says itself what it supersedes."""
    one, two = pair
    memory = one.remember("pushed")
    world.settle()
    one.update(memory, content="not pushed")
    one.forget(memory, ForgetMode.REDACT)
    world.settle()
    agree(world)
    assert two.content(memory) == "[REDACTED]"
    assert two.conflict(memory) is None


def test_the_trash_takes_sealed_rows_along_and_leaves_the_deletion(
    world: LedgerWorld, pair: Pair
) -> None:
    one, two = pair
    memory = one.remember("trash-canary pushed")
    world.settle()
    one.update(memory, content="trash-canary not pushed")
    one.forget(memory)
    later = 2_000_000_000_000 + erasure.TRASH_SECONDS * 1000
    assert one.vault.write_at(later, erasure.purge_trash) == 1
    world.settle()
    agree(world)
    assert two.row(memory) is None
    assert sealed_rows_left(one) == 0
    assert b"trash-canary" not in one.vault.dump()


def test_one_semantic_key_has_one_holder_everywhere(world: LedgerWorld, pair: Pair) -> None:
    one, two = pair
    older = one.remember("older", semantic_key="k")
    newer = two.remember("newer", semantic_key="k")
    world.settle()
    agree(world)
    keys = {row.id: row.semantic_key for row in one.vault.listed()}
    assert keys == {older: None, newer: "k"}
    one.forget(newer)
    world.settle()
    agree(world)
    row = two.row(older)
    assert row is not None
    assert row.semantic_key == "k"


def test_records_that_were_in_both_vaults_before_are_one(world: LedgerWorld) -> None:
    one = world.device(turned_on=False)
    memory = one.remember("was copied")
    copied = one.vault.row(memory)
    assert copied is not None
    two = world.device(turned_on=False)
    two.remember("was copied", id=memory)
    one.turn_on()
    two.turn_on()
    world.settle()
    agree(world)
    two.update(memory, content="edited once")
    world.settle()
    agree(world)
    assert one.content(memory) == "edited once"


def test_what_both_had_and_edited_before_is_in_conflict_and_the_later_one_shows(
    world: LedgerWorld,
) -> None:
    one, two = world.device(turned_on=False), world.device(turned_on=False)
    memory = one.remember("of one", semantic_key="k")
    two.remember("of two, later", id=memory, semantic_key="k")
    two.turn_on()
    two.sync()
    one.turn_on(seed=False)
    one.sync()
    one.seed()
    world.settle()
    agree(world)
    assert one.content(memory) == "of two, later"
    record = one.conflict(memory)
    assert record is not None
    assert [s.contents.content for s in record.siblings if s.contents] == [
        "of two, later",
        "of one",
    ]


def test_rows_from_before_are_sealed_in_batches_and_trash_is_not(world: LedgerWorld) -> None:
    one = world.device(turned_on=False)
    ids = [one.remember(f"old {n}") for n in range(20)]
    one.forget(ids[0])
    one.turn_on(seed=False)
    assert one.waiting() == 0
    one.seed()
    assert one.waiting() == 19
    one.seed()
    assert one.waiting() == 19
    two = world.device()
    world.settle()
    agree(world)
    one.restore(ids[0])
    world.settle()
    assert two.content(ids[0]) == "old 0"
