"""A server that lies is found out: the acceptance rule against honest and malicious servers."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable

import pytest
from sync_world import Device, Founded, Keys, Server, new_keys

from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.wire.envelope import SealedRow
from memory_manager.sync.wire.framing import LogRow, Page, Signed, pack_page, unpack_page
from memory_manager.sync.wire.log import (
    FIRST_GLOBAL_HEAD,
    ServerHead,
    head_words,
    next_global_head,
    sign_server_head,
)


class World:
    """One vault, two devices with five rows each on the server, a third that pulls."""

    def __init__(self, seed: int = 1) -> None:
        self.source = random.Random(seed)
        self.vault = Founded(self.source)
        self.server = Server(self.vault.vault, self.source)
        self.keys: list[Keys] = [self.vault.first, self.vault.add(), self.vault.add()]
        self.devices = [Device(self.vault, keys, self.server.public_key) for keys in self.keys]
        for turn in range(5):
            for device in self.devices[:2]:
                device.write(self.record(), f"row {turn}")
                device.push(self.server)

    def record(self) -> bytes:
        raw = self.source.randbytes(16)
        return bytes([raw[0] & 0x7F]) + raw[1:]

    @property
    def reader(self) -> Device:
        return self.devices[2]

    def refusal(self, page: Page) -> SyncCode:
        """The code with which the reader refuses; its state stays as it was."""
        before = self.reader.log
        with pytest.raises(SyncRefused) as caught:
            self.reader.accept(unpack_page(pack_page(page)))
        assert self.reader.log == before
        return caught.value.reason

    def resigned(self, rows: tuple[LogRow, ...], tip: int | None = None) -> Page:
        """A page of these rows whose heads the server computed and signed for them."""
        g = self.reader.log.g
        for row in rows:
            g = next_global_head(g, row.entry.device, row.entry.head)
        end = ServerHead(self.reader.log.n + len(rows), g)
        signed = Signed(end, sign_server_head(self.server.key, self.vault.vault, end))
        return Page(rows, (), signed, self.server.head(tip) if tip else signed)


def _renumbered(rows: list[LogRow]) -> tuple[LogRow, ...]:
    return tuple(dataclasses.replace(row, n=n) for n, row in enumerate(rows, 1))


def test_an_honest_log_is_accepted_page_by_page() -> None:
    world = World()
    for limit in (1, 3, 500):
        device = Device(world.vault, world.keys[2], world.server.public_key)
        device.pull(world.server, limit)
        assert device.log.n == 10
        assert device.log.g == world.server.global_heads[-1]
        assert [row.entry for row in device.seen] == [row.entry for row in world.server.rows]
    words = head_words(world.vault.vault, device.log.n, device.log.g)
    assert len(words) == 6


def test_dropped_truncated_and_reordered_rows() -> None:
    """T24: a middle row is missing, the tail, two rows changed places, a page comes twice."""
    world = World()
    honest = world.server.pull(0, 500)
    rows = list(honest.rows)
    assert world.refusal(dataclasses.replace(honest, rows=tuple(rows[:4] + rows[5:]))) is (
        SyncCode.TRUNCATED
    )
    dropped = world.resigned(_renumbered(rows[:4] + rows[5:]))
    assert world.refusal(dropped) is SyncCode.CHAIN_BREAK
    swapped = [rows[0], rows[3], rows[2], rows[1], *rows[4:]]
    assert world.refusal(world.resigned(_renumbered(swapped))) is SyncCode.CHAIN_BREAK
    cut = dataclasses.replace(honest, rows=tuple(rows[:6]))
    assert world.refusal(cut) is SyncCode.TRUNCATED
    empty = dataclasses.replace(honest, rows=(), page_head=world.server.head(0))
    assert world.refusal(empty) is SyncCode.TRUNCATED
    world.reader.accept(honest)
    assert world.refusal(honest) is SyncCode.TRUNCATED


def test_a_server_restored_from_a_backup() -> None:
    """T23: fewer rows than were verified is a rollback, whoever signed it."""
    world = World()
    world.reader.pull(world.server)
    world.server.rows, world.server.global_heads = (
        world.server.rows[:7],
        world.server.global_heads[:8],
    )
    with pytest.raises(SyncRefused) as caught:
        world.reader.pull(world.server)
    assert caught.value.reason is SyncCode.ROLLBACK
    assert world.reader.log.n == 10
    # re-seeding the very same rows gives the very same head
    world.server.push(world.reader.seen[7:])
    assert world.server.global_heads[-1] == world.reader.log.g
    world.reader.pull(world.server)


def test_two_histories_meet_in_one_checkpoint() -> None:
    """T25: the server shows one device another order; a checkpoint of the other proves it."""
    world = World()
    world.devices[0].pull(world.server)
    other = Server(world.vault.vault, world.source)
    other.key = world.server.key
    a, b = (
        [row for row in world.server.rows if row.entry.device == keys.id] for keys in world.keys[:2]
    )
    other.push(a + b)
    other.checkpoints = [world.devices[0].checkpoint()]
    with pytest.raises(SyncRefused) as caught:
        world.reader.pull(other)
    assert caught.value.reason is SyncCode.EQUIVOCATION
    assert caught.value.device == world.keys[0].id


def test_another_history_of_the_same_length() -> None:
    world = World()
    world.reader.pull(world.server)
    forged = ServerHead(10, b"\x01" * 32)
    signed = Signed(forged, sign_server_head(world.server.key, world.vault.vault, forged))
    assert world.refusal(Page((), (), signed, signed)) is SyncCode.EQUIVOCATION


def test_statements_of_another_vault_or_key() -> None:
    """T59: an STH of another vault is a wrong key, never an equivocation."""
    world = World()
    honest = world.server.pull(0, 500)
    said = honest.tip.value
    for key, vault in (
        (world.server.key, b"\x01" * 16),
        (world.keys[0].signing, world.vault.vault),
    ):
        foreign = Signed(said, sign_server_head(key, vault, said))
        for field in ("tip", "page_head"):
            page = dataclasses.replace(honest, **{field: foreign})
            assert world.refusal(page) is SyncCode.SERVER_KEY


Change = Callable[[World, LogRow], LogRow]


def _entry_change(**fields: object) -> Change:
    return lambda _world, row: dataclasses.replace(
        row,
        entry=dataclasses.replace(row.entry, **fields),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (_entry_change(vault=b"\x09" * 16), SyncCode.UNKNOWN_DEVICE),
        (_entry_change(device=b"\x09" * 16), SyncCode.UNKNOWN_DEVICE),
        (_entry_change(roster_hash=b"\x09" * 32), SyncCode.UNKNOWN_DEVICE),
        (_entry_change(seq=3), SyncCode.CHAIN_BREAK),
        (_entry_change(previous=b"\x09" * 32), SyncCode.CHAIN_BREAK),
        (_entry_change(body_hash=b"\x09" * 32), SyncCode.BODY_HASH),
        (
            lambda world, row: dataclasses.replace(
                row, row=SealedRow(world.server.rows[5].row.body, row.row.wrap)
            ),
            SyncCode.BODY_HASH,
        ),
        (
            lambda world, row: dataclasses.replace(
                row,
                entry=dataclasses.replace(
                    row.entry,
                    # the roster before the author had joined
                    roster_hash=next(iter(world.vault.roster.positions)),
                ),
            ),
            SyncCode.UNKNOWN_DEVICE,
        ),
    ],
    ids=["vault", "device", "roster", "seq", "previous", "hash", "body", "before-it-joined"],
)
def test_changed_rows_are_refused_even_under_fresh_heads(change: Change, code: SyncCode) -> None:
    """T26, T30: rows of other vaults, of strangers, with another place or body."""
    world = World()
    rows = list(world.server.rows)
    rows[3] = change(world, rows[3])
    assert world.refusal(world.resigned(_renumbered(rows))) is code


def test_a_revoked_device_writes_no_more_and_its_rows_stay() -> None:
    """T32: everything up to the cut is read, nothing after it."""
    world = World()
    lost = world.devices[1]
    roster_then = world.vault.roster
    world.vault.revoke(lost.keys, world.keys[0], len(lost.own), lost.own[-1].entry.head)
    world.reader.pull(world.server)
    assert world.reader.log.n == 10
    now, world.vault.roster = world.vault.roster, roster_then
    lost.write(world.record(), "after the cut")
    world.vault.roster = now
    lost.push(world.server)
    with pytest.raises(SyncRefused) as caught:
        world.reader.pull(world.server)
    assert caught.value.reason is SyncCode.REVOKED_DEVICE


def test_a_cut_names_one_history() -> None:
    world = World()
    lost = world.devices[1]
    world.vault.revoke(lost.keys, world.keys[0], len(lost.own), b"\x07" * 32)
    assert world.refusal(world.server.pull(0, 500)) is SyncCode.REVOKED_DEVICE


def test_a_device_never_goes_back_to_an_earlier_roster() -> None:
    """T31: who knew of a change cannot have forgotten it; a server that hides it is told."""
    world = World()
    author, before = world.devices[0], world.vault.roster
    world.vault.add()
    author.write(world.record(), "under the new roster")
    now, world.vault.roster = world.vault.roster, before
    author.write(world.record(), "under the one before")
    world.vault.roster = now
    author.push(world.server)
    world.reader.accept(world.server.pull(0, 11))
    assert world.refusal(world.server.pull(11, 500)) is SyncCode.UNKNOWN_DEVICE


def test_a_clone_of_this_device_is_noticed() -> None:
    """T40 in part: an entry in our name that we never made."""
    world = World()
    clone = Device(world.vault, world.keys[2], world.server.public_key)
    clone.write(world.record(), "from the copy")
    clone.push(world.server)
    assert world.refusal(world.server.pull(0, 500)) is SyncCode.CLONED
    world.reader.write(world.record(), "another first row")
    assert world.refusal(world.server.pull(0, 500)) is SyncCode.CLONED


def test_a_checkpoint_needs_its_device() -> None:
    world = World()
    honest = world.server.pull(0, 500)
    signed = world.devices[0].checkpoint()
    stranger = new_keys(world.source)
    forged = Signed(dataclasses.replace(signed.value, device=stranger.id), signed.signature)
    by_another = Signed(dataclasses.replace(signed.value, seq=99), signed.signature)
    for checkpoint in (forged, by_another):
        page = dataclasses.replace(honest, checkpoints=(checkpoint,))
        assert world.refusal(page) is SyncCode.UNKNOWN_DEVICE


def test_nothing_is_a_log_too() -> None:
    world = World()
    empty = Server(world.vault.vault, world.source)
    reader = Device(world.vault, world.keys[2], empty.public_key)
    reader.pull(empty)
    assert (reader.log.n, reader.log.g) == (0, FIRST_GLOBAL_HEAD)
