"""Names of devices: a mark names who is or was a member, and fills no vault with anybody else."""

from __future__ import annotations

from collections.abc import Iterable

from ledger_rogue import Rogue
from ledger_world import LedgerDevice, LedgerWorld

from memory_manager.sync.ledger import device_names, marks
from memory_manager.sync.wire.payload import Kind

TOLD = 64
LEARNT = 256


def mark(rogue: Rogue, names: Iterable[bytes], called: str = "said") -> None:
    rogue.says({"names": {device.hex(): called for device in names}}, kind=Kind.ROSTER_MARK)


def names(device: LedgerDevice) -> dict[bytes, str]:
    return device.read(device_names.read)


def test_a_mark_that_names_nobodies_adds_no_names(world: LedgerWorld) -> None:
    one, two = world.device(), world.device()
    rogue = Rogue(world)
    for _ in range(3):
        mark(rogue, (rogue.source.randbytes(16) for _ in range(TOLD)))
    mark(rogue, (rogue.source.randbytes(16), two.keys.id, rogue.keys.id), "a member")
    world.settle()
    assert names(one) == {two.keys.id: "a member", rogue.keys.id: "a member"}
    assert one.quarantined() == {}


def test_a_name_told_before_the_entry_of_its_device_is_taken_after_it(world: LedgerWorld) -> None:
    """Who lets a device in may write for another reason while the entry is on its way."""
    one, author = world.device(), world.device()
    early = b"early name".ljust(16)
    author.write(lambda tx: device_names.put(tx, {author.keys.id: "two", early: "three"}))
    author.write(marks.write_mark)
    world.settle()
    assert names(one) == {author.keys.id: "two"}
    three = world.device()
    author.write(lambda tx: device_names.expect(tx, three.keys.id, "three"))
    author.write(marks.write_mark)
    world.settle()
    assert names(one) == {author.keys.id: "two", three.keys.id: "three"}
    assert early not in names(author)


def test_who_was_a_member_keeps_and_gets_a_name(world: LedgerWorld) -> None:
    one, two = world.device(), world.device()
    author, gone, silent = Rogue(world), world.founded.add(), world.founded.add()
    mark(author, [gone.id], "named while a member")
    for each in (gone, silent):
        world.founded.amend("leave", each)
    for device in (one, two):
        device.learn_roster()
    mark(author, [silent.id], "named afterwards")
    one.pull()
    assert names(one) == {gone.id: "named while a member", silent.id: "named afterwards"}


def test_names_of_members_are_bounded_too_and_the_newest_is_always_told(
    world: LedgerWorld,
) -> None:
    one = world.device()
    rogue = Rogue(world)
    added = [world.founded.add().id for _ in range(LEARNT + 20)]
    one.learn_roster()
    for start in range(0, len(added), TOLD):
        mark(rogue, added[start : start + TOLD])
    one.pull()
    assert len(names(one)) == LEARNT
    one.write(lambda tx: device_names.put(tx, {one.keys.id: "own", added[-1]: "newest"}))
    told = one.read(lambda c: device_names.told(c, one.keys.id))["names"]
    assert list(told.items())[:2] == [(one.keys.id.hex(), "own"), (added[-1].hex(), "newest")]
    assert len(told) == TOLD
