"""Device lists that lie, and two that change the list at once."""

from __future__ import annotations

import pytest
from nacl.signing import SigningKey
from sync_devices import Devices, SyncDevice
from sync_pair import Pair, agree, both, chain, pair, roster, signer, told_roster
from sync_proxy import SyncProxy
from sync_server import entry_json

from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.ledger import keybag
from memory_manager.sync.membership import roster_entries
from memory_manager.sync.membership.following import ForkWinner, follow, settle_fork
from memory_manager.sync.membership.roster_entries import Rotation, Signer
from memory_manager.sync.server.running import RunningServer
from memory_manager.sync.wire import canonical
from memory_manager.sync.wire.enrolment import NewKeys
from memory_manager.sync.wire.roster import SignedEntry
from memory_manager.vault import kdf


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
    for device in both(two):
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
    while True:  # whoever signed one has named it in its log
        low, high = sorted(await forked(two), key=lambda entry: entry.hash)
        if canonical.decode(high.document)["by"] == two.first.id.hex():
            break
    await hold(two.second, high)
    await two.first.sync.client.post_roster(low)
    await two.first.sync.sync_now()
    await two.first.remember("under the key that stands")
    await two.settle()
    assert (await chain(two.second))[-1] == low
    assert await two.second.texts() == {"under the key that stands"}
    assert await two.second.state() == "ok"
    keys = [await device.store.read(lambda c: keybag.vrk(c, 2)) for device in both(two)]
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
