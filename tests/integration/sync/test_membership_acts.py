"""Revoking, rotating, leaving; device lists that lie; two that change the list at once."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from nacl.signing import SigningKey
from sync_devices import Devices, SyncDevice, devices
from sync_proxy import Answer, Call, SyncProxy, between
from sync_server import entry_json

from memory_manager.base.errors import InvalidInput, NotFound
from memory_manager.sync.engine import rewrap_step
from memory_manager.sync.engine.errors import SyncOff, SyncServerRefused, SyncUnreachable
from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.ledger import keybag, roster_log
from memory_manager.sync.membership import roster_entries
from memory_manager.sync.membership.epoch_keys import kid_of
from memory_manager.sync.membership.following import ForkWinner, follow, settle_fork
from memory_manager.sync.membership.roster_entries import Rotation, Signer
from memory_manager.sync.server.running import RunningServer
from memory_manager.sync.wire.enrolment import NewKeys
from memory_manager.sync.wire.roster import Role, Roster, SignedEntry
from memory_manager.vault import kdf
from memory_manager.vault.errors import VaultLocked
from memory_manager.vault.owner_acts import renew_device

ROSTER = "/v1/roster"


@pytest.fixture
async def made(tmp_path: Path) -> AsyncIterator[Devices]:
    async with devices(tmp_path) as found:
        yield found


@pytest.fixture
async def proxy(server: RunningServer) -> AsyncIterator[SyncProxy]:
    async with between(server) as found:
        yield found


@dataclasses.dataclass
class Pair:
    """Two devices of one vault."""

    first: SyncDevice
    second: SyncDevice
    url: str

    async def settle(self) -> None:
        """Both have everything of each other."""
        for device in (self.first, self.second, self.first):
            await device.sync.sync_now()


async def pair(server: RunningServer, made: Devices, url: str | None = None) -> Pair:
    first = await made.found(server, url)
    second = await made.join(first, url or server.url, "two")
    found = Pair(first, second, url or server.url)
    await found.settle()
    return found


async def roster(device: SyncDevice) -> Roster:
    found = await device.store.read(roster_log.load)
    assert found is not None
    return found


async def chain(device: SyncDevice) -> tuple[SignedEntry, ...]:
    return await device.store.read(roster_log.chain)


async def signer(device: SyncDevice) -> Signer:
    return Signer(device.id, device.sync.secrets.signing_key())


async def agree(device: SyncDevice) -> None:
    """The owner looks at a changed device list and agrees."""
    await device.sync.sync_now()
    assert await device.codes() == ["ROSTER_CHANGED"]
    await device.sync.confirm("ROSTER_CHANGED", "ROSTER_CHANGED")


def told_roster(
    entries: Callable[[list[dict[str, str]]], list[dict[str, str]]], head: bytes = bytes(32)
) -> Any:
    """A server that shows another device list; ``head`` is what it names where none is left."""

    async def rule(call: Call) -> Answer | None:
        if call.path != ROSTER or call.method != "GET":
            return None
        answer = await call.forward()
        if answer.status != 200:
            return answer
        said = json.loads(answer.body)
        said["entries"] = entries(said["entries"])
        left = said["entries"]
        said["head"] = (_entry(left[-1]).hash if left else head).hex()
        return dataclasses.replace(answer, body=json.dumps(said).encode())

    return rule


def _entry(said: dict[str, str]) -> SignedEntry:
    raw = said["entry"]
    document = base64.urlsafe_b64decode(raw + "=" * (-len(raw) % 4))
    return SignedEntry(document, bytes.fromhex(said["signature"]))


async def test_a_revoked_device_is_out_and_keeps_what_it_has(
    server: RunningServer, made: Devices
) -> None:
    two = await pair(server, made)
    await two.second.remember("written before")
    await two.settle()
    target = await two.first.membership.revoke("two")
    await two.first.remember("written afterwards")
    await two.first.sync.sync_now()
    await two.second.remember("written by the lost laptop")
    said = await two.second.sync.sync_now()
    with pytest.raises(SyncServerRefused) as refused:
        await two.second.sync.client.roster()
    await two.first.sync.sync_now()
    assert target.id == two.second.id
    assert (refused.value.status, refused.value.reason) == (403, "REVOKED_DEVICE")
    assert said["state"] == "stopped"
    assert await two.second.codes() == ["REVOKED_DEVICE"]
    assert await two.second.texts() == {"written before", "written by the lost laptop"}
    assert await two.first.texts() == {"written before", "written afterwards"}


async def test_a_revocation_is_one_entry_with_a_new_key_and_a_mark(
    server: RunningServer, made: Devices
) -> None:
    two = await pair(server, made)
    await two.second.remember("the last accepted row")
    await two.settle()
    before, n = await chain(two.first), (await two.first.verified())[0]
    await two.first.membership.revoke(two.second.id.hex()[:8])
    await two.first.sync.sync_now()
    after = await roster(two.first)
    cut = after.members[two.second.id]
    assert len(await chain(two.first)) == len(before) + 1
    assert after.epoch == 2
    assert cut.cut == (await two.first.membership.devices())[0][-1].rows
    assert (await two.first.verified())[0] == n + 1
    assert await two.first.store.read(keybag.epochs) == [1, 2]


async def test_a_revoked_device_changes_the_list_no_more(
    server: RunningServer, made: Devices
) -> None:
    two = await pair(server, made)
    await two.first.membership.revoke("two")
    after, lost = await roster(two.first), await signer(two.second)
    mallory = NewKeys(bytes(range(16)), bytes(SigningKey.generate().verify_key), bytes(32))
    for entry in (
        roster_entries.add(after, lost, mallory, None),
        roster_entries.rotate(after, lost, Rotation(kdf.new_key(), kdf.new_key())),
    ):
        with pytest.raises(SyncServerRefused):
            await two.second.sync.client.post_roster(entry)
        with pytest.raises(SyncRefused) as refused:
            await two.first.store.write(
                lambda tx, entry=entry: follow(tx, (entry,), two.first.sync.secrets)
            )
        assert refused.value.reason is SyncCode.REVOKED_DEVICE
    assert await roster(two.first) == after


async def test_who_is_revoked_must_be_named_exactly(server: RunningServer, made: Devices) -> None:
    two = await pair(server, made)
    for typed, error in (("three", NotFound), ("", NotFound), ("one", InvalidInput)):
        with pytest.raises(error):
            await two.first.membership.revoke(typed)
    await two.first.membership.call_device("two", "one")
    with pytest.raises(InvalidInput):
        await two.first.membership.revoke("one")
    assert len((await roster(two.first)).active()) == 2


async def test_a_rotation_is_followed_by_the_others_without_asking(
    server: RunningServer, made: Devices
) -> None:
    two = await pair(server, made)
    await two.first.remember("old key, not sent yet")
    await two.second.remember("old key on the other side, not sent yet")
    assert await two.first.membership.rotate() == 2
    await two.settle()
    await two.second.remember("new key")
    await two.settle()
    assert await two.first.texts() == await two.second.texts()
    assert len(await two.first.texts()) == 3
    assert await two.first.verified() == await two.second.verified()
    keys = [await device.store.read(lambda c: keybag.vrk(c, 2)) for device in _both(two)]
    assert keys[0] == keys[1]


def _both(two: Pair) -> tuple[SyncDevice, SyncDevice]:
    return two.first, two.second


async def test_two_that_rotate_at_once_both_succeed_one_after_the_other(
    server: RunningServer, made: Devices
) -> None:
    two = await pair(server, made)
    await asyncio.gather(two.first.membership.rotate(), two.second.membership.rotate())
    await two.first.remember("from one")
    await two.second.remember("from two")
    await two.settle()
    after = await roster(two.first)
    assert after.epoch == 3
    assert after == await roster(two.second)
    assert await two.first.texts() == await two.second.texts() == {"from one", "from two"}


async def test_a_rotation_with_an_incomplete_copy_loses_nothing(
    server: RunningServer, made: Devices
) -> None:
    two = await pair(server, made)
    await two.first.remember_many(5)
    await two.first.sync.sync_now()
    await two.second.membership.rotate()  # has none of these rows yet
    third = await made.join(two.second, server.url, "three")
    await two.second.sync.sync_now()
    await agree(two.first)
    await third.sync.sync_now()
    assert len(await third.texts()) == 5
    assert await third.texts() == await two.first.texts() == await two.second.texts()


async def test_an_act_on_a_list_that_another_changed_asks_first(
    server: RunningServer, made: Devices
) -> None:
    two = await pair(server, made)
    await made.join(two.second, server.url, "three")
    with pytest.raises(SyncRefused) as refused:
        await two.first.membership.rotate()
    assert refused.value.reason is SyncCode.ROSTER_CHANGED
    await agree(two.first)
    assert await two.first.membership.rotate() == 2


async def test_a_device_that_leaves_keeps_its_memories_and_may_join_again(
    server: RunningServer, made: Devices
) -> None:
    two = await pair(server, made)
    await two.second.remember("shared")
    old = two.second.id
    assert await two.second.membership.leave()
    await two.first.sync.sync_now()
    _, due = await two.first.membership.devices()
    with pytest.raises(SyncOff):
        await two.second.membership.devices()
    assert due
    assert await two.first.texts() == await two.second.texts() == {"shared"}
    assert await two.second.count("entry") == 0
    await two.first.membership.rotate()
    assert not (await two.first.membership.devices())[1]
    assert two.second.lifecycle is not None
    await two.second.sync.close()
    await asyncio.to_thread(renew_device, two.second.lifecycle)
    await two.second.close()
    await two.second.open()
    assert two.second.id != old
    again = await made.join(two.first, server.url, "four")
    assert await again.texts() == {"shared"}


async def test_a_revoked_device_can_leave_although_nobody_listens(
    server: RunningServer, made: Devices
) -> None:
    two = await pair(server, made)
    await two.second.remember("mine")
    await two.settle()
    await two.first.membership.revoke("two")
    await two.second.sync.sync_now()
    assert not await two.second.membership.leave()
    assert await two.second.state() == "off"
    assert await two.second.texts() == {"mine"}


async def test_a_new_grant_key_is_told_once(server: RunningServer, made: Devices) -> None:
    two = await pair(server, made)
    assert await two.first.membership.announce_grant_key(b"\x07" * 32)
    assert not await two.first.membership.announce_grant_key(b"\x07" * 32)
    await agree(two.second)
    assert (await roster(two.second)).members[two.first.id].grant == b"\x07" * 32


async def test_an_extra_device_on_the_list_is_refused(
    server: RunningServer, proxy: SyncProxy, made: Devices
) -> None:
    two = await pair(server, made, proxy.url)
    before, mallory = await roster(two.first), SigningKey.generate()
    keys = NewKeys(b"\x66" * 16, bytes(mallory.verify_key), b"\x66" * 32)
    forged = roster_entries.add(before, Signer(two.second.id, mallory), keys, None)
    proxy.rule = told_roster(lambda entries: [*entries, entry_json(forged)])
    await two.first.sync.sync_now()
    assert await two.first.state() == "stopped"
    assert await two.first.codes() == ["UNKNOWN_DEVICE"]
    assert await roster(two.first) == before


async def test_a_list_in_another_order_is_refused(
    server: RunningServer, proxy: SyncProxy, made: Devices
) -> None:
    two = await pair(server, made, proxy.url)
    await two.second.membership.rotate()
    await two.second.membership.rotate()
    before = await roster(two.first)
    proxy.rule = told_roster(lambda entries: entries[::-1])
    await two.first.sync.sync_now()
    assert await two.first.codes() == ["ROSTER_FORK"]
    assert await roster(two.first) == before


async def test_a_list_of_yesterday_is_refused(
    server: RunningServer, proxy: SyncProxy, made: Devices
) -> None:
    two = await pair(server, made, proxy.url)
    await two.first.membership.rotate()
    await two.settle()
    proxy.rule = told_roster(lambda entries: [], (await chain(two.first))[-2].hash)
    await two.first.sync.sync_now()
    assert await two.first.state() == "stopped"
    assert await two.first.codes() == ["ROLLBACK"]
    assert (await roster(two.first)).epoch == 2


async def test_a_revocation_that_the_server_hides_shows_as_a_missing_row(
    server: RunningServer, proxy: SyncProxy, made: Devices
) -> None:
    two = await pair(server, made, proxy.url)
    third = await made.join(two.first, proxy.url, "three")
    await agree(two.second)
    await two.first.membership.revoke("three")
    await two.first.sync.sync_now()
    known, n = await chain(two.second), (await two.second.verified())[0]
    proxy.rule = told_roster(lambda entries: [], known[-1].hash)
    await two.second.sync.sync_now()
    assert await two.second.codes() == ["UNKNOWN_DEVICE"]
    assert (await two.second.verified())[0] == n
    assert (await roster(two.second)).members[third.id].is_active


async def forked(two: Pair) -> tuple[SignedEntry, SignedEntry]:
    """Two rotations with one ``prev``, as a lying server could show them."""
    entries: list[SignedEntry] = []
    now = await roster(two.first)
    present = await two.first.store.read(lambda c: keybag.vrk(c, now.epoch))
    assert present is not None
    for device in _both(two):
        rotation = Rotation(kdf.new_key(), present)
        entries.append(roster_entries.rotate(now, await signer(device), rotation))
    return entries[0], entries[1]


async def test_of_two_rotations_with_one_predecessor_the_lower_hash_wins(
    server: RunningServer, made: Devices
) -> None:
    two = await pair(server, made)
    shared = await chain(two.first)
    one, other = await forked(two)
    low, high = sorted((one, other), key=lambda entry: entry.hash)
    assert settle_fork((*shared, low), (*shared, high)) is ForkWinner.OURS
    assert settle_fork((*shared, high), (*shared, low)) is ForkWinner.THEIRS
    assert settle_fork((*shared, low), shared) is None


async def hold(device: SyncDevice, entry: SignedEntry) -> None:
    secrets = device.sync.secrets
    await device.store.write(lambda tx: follow(tx, (entry,), secrets))


async def test_a_device_that_followed_the_rotation_that_lost_takes_the_other(
    server: RunningServer, made: Devices
) -> None:
    two = await pair(server, made)
    low, high = sorted(await forked(two), key=lambda entry: entry.hash)
    await hold(two.second, high)
    await two.first.sync.client.post_roster(low)
    await two.first.sync.sync_now()
    await two.first.remember("under the key that stands")
    await two.settle()
    assert (await chain(two.second))[-1] == low
    assert await two.second.texts() == {"under the key that stands"}
    assert await two.second.state() == "ok"
    keys = [await device.store.read(lambda c: keybag.vrk(c, 2)) for device in _both(two)]
    assert keys[0] == keys[1]


@pytest.mark.parametrize("case", ["ours-is-lower", "written-under-it"])
async def test_a_fork_of_rotations_that_cannot_be_mended_stops(
    server: RunningServer, made: Devices, case: str
) -> None:
    two = await pair(server, made)
    low, high = sorted(await forked(two), key=lambda entry: entry.hash)
    held, shown = (low, high) if case == "ours-is-lower" else (high, low)
    await hold(two.second, held)
    if case == "written-under-it":
        await two.second.remember("sealed under the key that lost")
    await two.first.sync.client.post_roster(shown)
    await two.second.sync.sync_now()
    assert await two.second.codes() == ["ROSTER_FORK"]
    assert await two.second.state() == "stopped"
    assert (await chain(two.second))[-1] == held


async def test_a_rotation_against_a_revocation_is_for_a_person(
    server: RunningServer, made: Devices
) -> None:
    two = await pair(server, made)
    shared, now = await chain(two.first), await roster(two.first)
    rotation, _ = await forked(two)
    revocation = roster_entries.revoke(
        now,
        await signer(two.second),
        two.first.id,
        (0, bytes(32)),
        Rotation(kdf.new_key(), kdf.new_key()),
    )
    with pytest.raises(SyncRefused) as refused:
        settle_fork((*shared, rotation), (*shared, revocation))
    assert refused.value.reason is SyncCode.ROSTER_FORK


async def test_a_fork_that_the_server_shows_stops_sync(
    server: RunningServer, proxy: SyncProxy, made: Devices
) -> None:
    two = await pair(server, made, proxy.url)
    one, _ = await forked(two)
    await two.second.membership.rotate()
    before = await roster(two.second)
    proxy.rule = told_roster(lambda entries: [*entries[:-1], entry_json(one)])
    await two.second.sync.sync_now()
    assert await two.second.state() == "stopped"
    assert await two.second.codes() == ["ROSTER_FORK"]
    assert await roster(two.second) == before


async def test_a_locked_vault_does_nothing(server: RunningServer, made: Devices) -> None:
    two = await pair(server, made)
    await two.first.sync.close()
    with pytest.raises((SyncOff, VaultLocked)):
        await two.first.membership.rotate()


async def test_every_epoch_key_is_the_one_the_list_names(
    server: RunningServer, made: Devices
) -> None:
    two = await pair(server, made)
    await two.first.membership.rotate()
    await two.settle()
    named = (await roster(two.second)).key_ids
    for epoch in (1, 2):
        vrk = await two.second.store.read(lambda c, e=epoch: keybag.vrk(c, e))
        assert vrk is not None
        assert kid_of(vrk) == named[epoch]
    assert {member.role for member in (await roster(two.second)).active()} == {Role.DEVICE}


async def epochs(device: SyncDevice) -> dict[int, int]:
    """How many sealed rows are under the key of each epoch."""
    return dict(
        await device.store.read(
            lambda c: c.execute("SELECT epoch, count(*) FROM sealed GROUP BY epoch").fetchall()
        )
    )


async def test_older_rows_are_wrapped_anew_and_an_interruption_loses_nothing(
    server: RunningServer, proxy: SyncProxy, made: Devices, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewrap_step, "BATCH_ROWS", 4)
    two = await pair(server, made, proxy.url)
    await two.first.remember_many(10)
    await two.settle()
    passed: list[Call] = []

    async def cut_off(call: Call) -> Answer | None:
        if call.path != "/v1/wrap/push":
            return None
        passed.append(call)
        return Answer(502, "text/html", b"gone") if len(passed) > 1 else None

    proxy.rule = cut_off
    await two.first.membership.rotate()
    await two.first.sync.sync_now()
    left = (await epochs(two.first))[1]
    proxy.rule = None
    await two.first.sync.sync_now()
    await two.second.sync.sync_now()
    assert 0 < left
    assert 1 not in await epochs(two.first)
    assert (await epochs(two.second))[1] >= 10  # who did not rotate leaves it to the other
    third = await made.join(two.first, proxy.url, "three")
    assert len(await third.texts()) == 10
    assert list(await epochs(third)) == [2]


async def test_a_device_leaves_a_server_that_is_gone_only_when_that_is_said(
    server: RunningServer, proxy: SyncProxy, made: Devices
) -> None:
    two = await pair(server, made, proxy.url)
    await two.second.remember("mine")

    async def gone(call: Call) -> Answer:
        return Answer(502, "text/html", b"gone")

    proxy.rule = gone
    with pytest.raises(SyncUnreachable):
        await two.second.membership.leave()
    assert await two.second.state() != "off"
    assert not await two.second.membership.leave(anyway=True)
    assert await two.second.state() == "off"
    assert await two.second.texts() == {"mine"}
