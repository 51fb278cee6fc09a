"""Revoking, rotating, leaving: what members do, also when answers are lost."""

from __future__ import annotations

import asyncio

import pytest
from nacl.signing import SigningKey
from sync_devices import Devices, SyncDevice
from sync_pair import agree, both, chain, lose_the_roster_answer, pair, roster, signer
from sync_proxy import ROSTER, Answer, Call, SyncProxy

from memory_manager.base.errors import InvalidInput, NotFound
from memory_manager.sync.engine import rewrap_step
from memory_manager.sync.engine.errors import SyncOff, SyncServerRefused, SyncUnreachable
from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.ledger import keybag
from memory_manager.sync.membership import roster_entries
from memory_manager.sync.membership.epoch_keys import kid_of
from memory_manager.sync.membership.following import follow
from memory_manager.sync.membership.roster_entries import Rotation
from memory_manager.sync.server.running import RunningServer
from memory_manager.sync.wire.enrolment import NewKeys
from memory_manager.sync.wire.roster import Operation, Role
from memory_manager.vault import kdf
from memory_manager.vault.errors import VaultLocked
from memory_manager.vault.owner_acts import renew_device


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
    shown = (await two.first.membership.devices())[0][-1]
    assert (shown.rows, shown.ended_by) == (cut.cut, Operation.REVOKE)
    assert (await two.first.verified())[0] == n + 1
    assert await two.first.store.read(keybag.epochs) == [1, 2]


async def test_a_revocation_whose_answer_was_lost_is_one_all_the_same(
    server: RunningServer, proxy: SyncProxy, made: Devices
) -> None:
    two = await pair(server, made, proxy.url)
    n = (await two.first.verified())[0]
    proxy.rule = lose_the_roster_answer
    with pytest.raises(SyncUnreachable):
        await two.first.membership.revoke("two")
    proxy.rule = None
    assert (await two.first.membership.revoke("two")).id == two.second.id
    await two.first.sync.sync_now()
    assert (await two.first.verified())[0] == n + 1  # its mark: who hides it hides a row
    await two.first.remember("under the new key")
    await two.first.sync.sync_now()
    after = await roster(two.first)
    assert after.epoch == 2
    assert not after.members[two.second.id].is_active
    assert await two.first.state() == "ok"


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
    keys = [await device.store.read(lambda c: keybag.vrk(c, 2)) for device in both(two)]
    assert keys[0] == keys[1]


async def test_an_act_that_a_round_hears_of_first_is_marked_once(
    server: RunningServer, proxy: SyncProxy, made: Devices
) -> None:
    one = await made.found(server, proxy.url)
    n = (await one.verified())[0]

    async def round_before_the_answer(call: Call) -> Answer | None:
        if (call.method, call.path) != ("POST", ROSTER):
            return None
        answer = await call.forward()
        await one.sync.sync_now()
        return answer

    proxy.rule = round_before_the_answer
    assert await one.membership.rotate() == 2
    await one.sync.sync_now()
    assert (await one.verified())[0] == n + 1


async def test_a_name_that_its_own_device_gives_itself_reaches_the_others(
    server: RunningServer, made: Devices
) -> None:
    two = await pair(server, made)
    await two.first.membership.call_device("one", "desk")
    await two.settle()
    names = {view.id: view.name for view in (await two.second.membership.devices())[0]}
    assert names[two.first.id] == "desk"


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
    views, due = await two.first.membership.devices()
    with pytest.raises(SyncOff):
        await two.second.membership.devices()
    assert due
    assert [view.ended_by for view in views] == [None, Operation.LEAVE]
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
