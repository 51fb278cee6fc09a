"""Random interleavings of devices with an honest, a lying and a forking server (sync.md 14).

The reference is a list of log rows for each history that the server shows. Whatever happens in
whatever order: a device holds a beginning of a history it was shown, honest answers are taken, lies
are not, and two devices with two histories find out by one checkpoint.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence

import pytest
from sync_world import Device, Founded, Keys, Server

from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.wire.envelope import SealedRow
from memory_manager.sync.wire.framing import LogRow, Page, Signed, pack_page, unpack_page
from memory_manager.sync.wire.log import (
    Entry,
    ServerHead,
    next_global_head,
    sign_server_head,
)

STEPS = 60
OF_ANOTHER_HISTORY = {
    SyncCode.UNKNOWN_DEVICE,  # a row that named an earlier device list than the author's last
    SyncCode.EQUIVOCATION,
    SyncCode.ROLLBACK,
    SyncCode.TRUNCATED,
    SyncCode.CHAIN_BREAK,
}


class Story:
    """One vault, its devices, and the histories that one server keeps of it."""

    def __init__(self, seed: int) -> None:
        self.source = random.Random(seed)
        self.vault = Founded(self.source)
        self.histories = [Server(self.vault.vault, self.source)]
        keys = [self.vault.first, *(self.vault.add() for _ in range(self.source.randint(1, 3)))]
        self.devices = [self.device(one) for one in keys]
        self.shown = {device.keys.id: self.histories[0] for device in self.devices}
        self.out: set[bytes] = set()
        self.refused: set[SyncCode] = set()

    def device(self, keys: Keys) -> Device:
        return Device(self.vault, keys, self.histories[0].public_key)

    def record(self) -> bytes:
        raw = self.source.randbytes(16)
        return bytes([raw[0] & 0x7F]) + raw[1:]

    def members(self) -> list[Device]:
        return [device for device in self.devices if device.keys.id not in self.out]

    def take(self, device: Device, page: Page) -> SyncCode | None:
        """The code of a refusal, after which nothing is changed; None for an accepted page."""
        before, seen = device.log, len(device.seen)
        try:
            device.accept(unpack_page(pack_page(page)))
        except SyncRefused as refusal:
            assert (device.log, len(device.seen)) == (before, seen)
            self.refused.add(refusal.reason)
            return refusal.reason
        return None

    def signed(self, device: Device, rows: Sequence[LogRow]) -> Page:
        """These rows after what the device has, with heads that the server computed for them."""
        g, numbered = device.log.g, []
        for n, row in enumerate(rows, device.log.n + 1):
            g = next_global_head(g, row.entry.device, row.entry.head)
            numbered.append(dataclasses.replace(row, n=n))
        signed = self.head(device.log.n + len(numbered), g)
        return Page(tuple(numbered), (), signed, signed)

    def head(self, n: int, g: bytes) -> Signed[ServerHead]:
        said = ServerHead(n, g)
        return Signed(said, sign_server_head(self.histories[0].key, self.vault.vault, said))


def entries(rows: Sequence[LogRow]) -> list[Entry]:
    return [row.entry for row in rows]


def agree(one: Sequence[LogRow], other: Sequence[LogRow]) -> bool:
    """Whether the shorter is a beginning of the longer."""
    length = min(len(one), len(other))
    return entries(one[:length]) == entries(other[:length])


# --- what may happen ------------------------------------------------------------------------------


def write(story: Story, device: Device) -> None:
    device.write(story.record(), "text")


def push(story: Story, device: Device) -> None:
    device.push(story.shown[device.keys.id])


def pull(story: Story, device: Device) -> None:
    """Honest: a false alarm is a failure, too."""
    page = story.shown[device.keys.id].pull(device.log.n, story.source.randint(1, 6))
    assert story.take(device, page) is None


def lie_on_the_way(story: Story, device: Device) -> None:
    """Somebody without the server's key; what is no lie by chance is taken."""
    page = story.shown[device.keys.id].pull(device.log.n, 5)
    rows, source = list(page.rows), story.source
    kind = source.choice(["drop", "swap", "repeat", "short", "empty", "body", "forged head"])
    if kind == "drop" and len(rows) > 1:
        rows.pop(source.randrange(len(rows) - 1))
    elif kind == "swap" and len(rows) > 1:
        i = source.randrange(len(rows) - 1)
        rows[i], rows[i + 1] = rows[i + 1], rows[i]
    elif kind == "repeat" and rows:
        rows.insert(0, rows[0])
    elif kind == "short" and rows:
        rows.pop()
    elif kind == "body" and rows:
        rows[0] = _other_body(rows[0], story)
    elif kind == "forged head":
        forged = ServerHead(page.tip.value.n, source.randbytes(32))
        page = dataclasses.replace(page, tip=Signed(forged, page.tip.signature))
    elif kind == "empty":
        rows = []
    changed = dataclasses.replace(page, rows=tuple(rows))
    honest = entries(changed.rows) == entries(page.rows) and kind not in ("body", "forged head")
    if story.take(device, changed) is None:
        assert honest or not page.rows, kind
    else:
        assert not honest, kind


def _other_body(row: LogRow, story: Story) -> LogRow:
    body = bytearray(row.row.body)
    body[story.source.randrange(len(body))] ^= story.source.randint(1, 255)
    return dataclasses.replace(row, row=SealedRow(bytes(body), row.row.wrap))


def lie_with_the_key(story: Story, device: Device) -> None:
    """The server computes and signs the heads of rows that are not the authors'."""
    rows = list(story.shown[device.keys.id].pull(device.log.n, 6).rows)
    if not rows:
        return
    source = story.source
    at = source.randrange(len(rows))
    changes: dict[str, Callable[[Entry], Entry]] = {
        "vault": lambda entry: dataclasses.replace(entry, vault=source.randbytes(16)),
        "stranger": lambda entry: dataclasses.replace(entry, device=source.randbytes(16)),
        "roster": lambda entry: dataclasses.replace(entry, roster_hash=source.randbytes(32)),
        "seq": lambda entry: dataclasses.replace(entry, seq=entry.seq + source.randint(1, 3)),
        "previous": lambda entry: dataclasses.replace(entry, previous=source.randbytes(32)),
        "hash": lambda entry: dataclasses.replace(entry, body_hash=source.randbytes(32)),
    }
    kind = source.choice([*changes, "twice", "backwards", "body", "other head", "other tip"])
    if kind in changes:
        rows[at] = dataclasses.replace(rows[at], entry=changes[kind](rows[at].entry))
    elif kind == "twice":
        rows.insert(at, rows[at])
    elif kind == "body":
        rows[at] = _other_body(rows[at], story)
    elif kind.startswith("other"):
        honest = story.signed(device, rows)
        claimed = story.head(honest.tip.value.n, source.randbytes(32))
        head = claimed if kind == "other head" else honest.page_head
        page = Page(honest.rows, (), head, claimed)
        assert story.take(device, page) is SyncCode.EQUIVOCATION
        return
    else:
        author = rows[at].entry.device
        of_author = [i for i, row in enumerate(rows) if row.entry.device == author]
        if len(of_author) < 2:
            return
        for i, row in zip(of_author, [rows[i] for i in reversed(of_author)], strict=True):
            rows[i] = row
    assert story.take(device, story.signed(device, rows)) is not None, kind


def fork(story: Story, device: Device) -> None:
    """From now on the device is shown another order, or less: all of it valid and signed."""
    if len(story.histories) > 3:
        return
    now, source = story.shown[device.keys.id], story.source
    other = Server(story.vault.vault, source)
    other.key = now.key
    other.push(now.rows[: device.log.n])
    by_author: dict[bytes, list[LogRow]] = {}
    for row in now.rows[device.log.n :]:
        by_author.setdefault(row.entry.device, []).append(row)
    for author, rows in by_author.items():
        if author != device.keys.id:
            del rows[source.randint(0, len(rows)) :]
    while waiting := [rows for rows in by_author.values() if rows]:
        other.push([source.choice(waiting).pop(0)])
    story.histories.append(other)
    story.shown[device.keys.id] = other


def show_another(story: Story, device: Device) -> None:
    """An answer from another history: taken where it goes on from what the device has."""
    other = story.source.choice(story.histories)
    before = list(device.seen)
    code = story.take(device, other.pull(device.log.n, story.source.randint(1, 6)))
    if code is None:
        assert entries(before) == entries(other.rows[: len(before)])
        story.shown[device.keys.id] = other
        device.pushed = sum(row.entry.device == device.keys.id for row in other.rows)
        return
    assert code in OF_ANOTHER_HISTORY, code
    assert entries(before) != entries(other.rows[: len(before)])


def meet(story: Story, device: Device) -> None:
    """A checkpoint of another device, whoever brings it."""
    other = story.source.choice(story.devices)
    page = story.shown[device.keys.id].pull(device.log.n, 4)
    held = [*device.seen, *page.rows]
    said = dataclasses.replace(page, checkpoints=(other.checkpoint(),))
    known = len(other.seen) <= len(held)
    same = entries(held[: len(other.seen)]) == entries(other.seen)
    expected = SyncCode.EQUIVOCATION if known and not same else None
    assert story.take(device, said) is expected


def revoke(story: Story, device: Device) -> None:
    """Not the first device, and at what everybody can be shown of it."""
    if device.keys is story.vault.first or len(story.members()) < 3 or len(story.histories) > 1:
        return
    device.push(story.shown[device.keys.id])
    head = device.own[-1].entry.head if device.own else bytes(32)
    before = story.vault.roster
    story.vault.revoke(device.keys, story.vault.first, len(device.own), head)
    story.out.add(device.keys.id)
    after, story.vault.roster = story.vault.roster, before
    late = device.write(story.record(), "after the cut")
    device.own.pop()
    story.vault.roster = after
    for reader in story.members():
        rest = story.shown[reader.keys.id].rows[reader.log.n :]
        code = story.take(reader, story.signed(reader, [*rest, late]))
        assert code is SyncCode.REVOKED_DEVICE


def clone(story: Story, device: Device) -> None:
    """A row in the device's own name that it never wrote."""
    twin = story.device(device.keys)
    seen = [row for row in device.seen if row.entry.device == device.keys.id]
    twin.own = list(seen)
    row = twin.write(story.record(), "by the copy")
    assert story.take(device, story.signed(device, [row])) is SyncCode.CLONED


ACTS: dict[Callable[[Story, Device], None], float] = {
    write: 0.22,
    push: 0.18,
    pull: 0.22,
    lie_on_the_way: 0.1,
    lie_with_the_key: 0.1,
    meet: 0.06,
    show_another: 0.05,
    clone: 0.03,
    fork: 0.02,
    revoke: 0.02,
}


def check(story: Story) -> None:
    for device in story.devices:
        history = story.shown[device.keys.id].rows
        assert entries(device.seen) == entries(history[: device.log.n])
        assert len(device.seen) == device.log.n


def finish(story: Story) -> None:
    """Everybody sends and fetches: one head for each history, and no peace between two."""
    for device in story.members():
        push(story, device)
    for device in story.members():
        device.pull(story.shown[device.keys.id], 7)
        assert device.log.g == story.shown[device.keys.id].global_heads[-1]
    for device in story.members():
        for other in story.members():
            mine, its = story.shown[device.keys.id], story.shown[other.keys.id]
            if mine is its or len(other.seen) > len(device.seen):
                continue
            page = dataclasses.replace(
                mine.pull(device.log.n, 1), checkpoints=(other.checkpoint(),)
            )
            expected = None if agree(device.seen, other.seen) else SyncCode.EQUIVOCATION
            assert story.take(device, page) is expected


def run(seed: int) -> set[SyncCode]:
    story = Story(seed)
    acts, weights = list(ACTS), list(ACTS.values())
    for _ in range(STEPS):
        act = story.source.choices(acts, weights)[0]
        act(story, story.source.choice(story.members()))
        check(story)
    finish(story)
    return story.refused


@pytest.mark.timeout(3_600)
def test_devices_hold_what_they_were_shown_and_find_out_lies(thorough: bool) -> None:
    found: set[SyncCode] = set()
    for seed in range(10_000 if thorough else 120):
        try:
            found |= run(seed)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
    assert found == {
        SyncCode.SERVER_KEY,
        SyncCode.ROLLBACK,
        SyncCode.TRUNCATED,
        SyncCode.CHAIN_BREAK,
        SyncCode.BODY_HASH,
        SyncCode.UNKNOWN_DEVICE,
        SyncCode.REVOKED_DEVICE,
        SyncCode.EQUIVOCATION,
        SyncCode.CLONED,
    }
