"""Back by recovery words alone, new words for old ones, and on after lost state."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest
from sync_devices import Devices, SyncDevice, key_file_of
from sync_pair import agree, lose_the_roster_answer, roster
from sync_proxy import PULL, ROSTER, Answer, Call, between, refusal, signed_head
from sync_server import registration_token

from memory_manager.base.errors import InvalidInput
from memory_manager.sync.engine.errors import (
    NothingToConfirm,
    SyncServerRefused,
    SyncUnreachable,
)
from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.ledger import device_names, roster_log, state
from memory_manager.sync.membership.errors import RecoveryRefused
from memory_manager.sync.membership.founding import Enrolled, ServerAddress, parse_server_key
from memory_manager.sync.membership.recovering import (
    NotedHead,
    parse_noted_head,
    parse_vault_id,
)
from memory_manager.sync.server.running import RunningServer
from memory_manager.sync.wire.framing import Page, pack_page
from memory_manager.sync.wire.log import unpack_entry
from memory_manager.sync.wire.roster import Operation
from memory_manager.vault.errors import WrongRecoveryWords
from memory_manager.vault.owner_acts import renew_device
from memory_manager.vault.recovery_words import new_entropy, words_of

WORDS = " ".join(words_of(bytes(range(32))))
OTHER_WORDS = " ".join(words_of(bytes(range(1, 33))))


async def with_words(
    server: RunningServer, made: Devices, url: str | None = None
) -> tuple[SyncDevice, Enrolled]:
    """A vault of one device whose words are WORDS, with two memories on the server."""
    device = await made.new("one")
    member = await device.membership.set_up(
        ServerAddress(url or server.url),
        await registration_token(server),
        name="one",
        grant=None,
        words=WORDS,
    )
    await device.remember("first")
    await device.remember("second")
    await device.sync.sync_now()
    return device, member


async def recover(
    device: SyncDevice,
    url: str,
    vault: bytes,
    words: str = WORDS,
    noted: NotedHead | None = None,
    key: bytes | None = None,
) -> Enrolled:
    return await device.membership.recover(
        ServerAddress(url, key), vault, words, noted=noted, name="back", grant=None
    )


async def head_of(device: SyncDevice) -> NotedHead:
    """What a careful owner writes on the sheet."""
    said: Any = (await device.sync.fresh_status())["verified"]
    return NotedHead(said["n"], tuple(said["words"]))


async def test_words_alone_bring_everything_back_and_shut_the_lost_device_out(
    server: RunningServer, made: Devices
) -> None:
    lost, member = await with_words(server, made)
    await lost.membership.rotate()
    await lost.remember("under the second key")
    await lost.sync.sync_now()
    noted = await head_of(lost)
    back = await made.new("back")
    await back.remember("already here")
    again = await recover(back, server.url, member.vault, noted=noted, key=member.server_key)
    await back.sync.sync_now()
    await back.membership.revoke("one")  # names travel in marks
    await back.sync.sync_now()
    with pytest.raises(SyncServerRefused) as refused:
        await lost.sync.client.roster()
    assert refused.value.reason == "REVOKED_DEVICE"
    assert again.server_key == member.server_key
    assert await back.texts() == {"first", "second", "under the second key", "already here"}
    assert (await back.store.read(roster_log.load)).epoch == 3  # type: ignore[union-attr]


async def test_a_device_that_changed_nothing_is_known_by_its_name_after_a_recovery(
    server: RunningServer, made: Devices
) -> None:
    lost, member = await with_words(server, made)
    back = await made.new("back")
    await recover(back, server.url, member.vault)
    await back.sync.sync_now()
    names = {view.id: view.name for view in (await back.membership.devices())[0]}
    assert (names[lost.id], names[back.id]) == ("one", "back")
    assert (await back.membership.revoke("one")).id == lost.id


@pytest.mark.parametrize("way", ["by the words", "under a new id"])
async def test_who_comes_back_says_so_in_the_log_though_it_has_nothing_to_write(
    server: RunningServer, made: Devices, way: str
) -> None:
    """Whoever leaves out its entry has to leave out that row."""
    first, member = await with_words(server, made)
    n = (await first.verified())[0]
    if way == "by the words":
        back = await made.new("back")
        await recover(back, server.url, member.vault)
    else:
        back = await made.join(first, server.url, "two")
        n = (await back.verified())[0]
        await renewed(back)
        await back.membership.renew(grant=None)
    await back.sync.sync_now()
    written = "SELECT entry FROM entry WHERE device = ?"
    (raw,) = await back.store.read(lambda c: c.execute(written, (back.id,)).fetchone())
    assert unpack_entry(raw).roster_hash == (await roster(back)).head
    assert (await back.verified())[0] == n + 1


async def test_the_other_devices_are_asked_about_a_recovery(
    server: RunningServer, made: Devices
) -> None:
    first, member = await with_words(server, made)
    back = await made.new("back")
    await recover(back, server.url, member.vault)
    await first.sync.sync_now()
    assert await first.codes() == ["ROSTER_CHANGED"]


async def test_other_words_and_other_vaults_recover_nothing(
    server: RunningServer, made: Devices
) -> None:
    _, member = await with_words(server, made)
    back = await made.new("back")
    with pytest.raises(RecoveryRefused):
        await recover(back, server.url, member.vault, OTHER_WORDS)
    with pytest.raises(RecoveryRefused):
        await recover(back, server.url, bytes(16))
    with pytest.raises(WrongRecoveryWords):
        await recover(back, server.url, member.vault, "zoo " * 24)
    with pytest.raises(SyncRefused) as refused:
        await recover(back, server.url, member.vault, key=bytes(32))
    assert refused.value.reason is SyncCode.SERVER_KEY
    assert await back.state() == "off"


async def test_head_words_from_the_sheet_find_out_a_server_that_went_back(
    server: RunningServer, made: Devices
) -> None:
    async with between(server) as proxy:
        lost, member = await with_words(server, made, proxy.url)
        noted = await head_of(lost)

        async def set_back(call: Call) -> Answer | None:
            if call.path != PULL:
                return None
            empty = signed_head(server.host.key.signing, member.vault, 0, bytes(32))
            body = pack_page(Page((), (), empty, empty))
            return Answer(200, "application/octet-stream", body)

        proxy.rule = set_back
        back = await made.new("back")
        with pytest.raises(RecoveryRefused, match="set back"):
            await recover(back, proxy.url, member.vault, noted=noted)
        assert await back.state() == "off"
        assert len(await lost.store.read(roster_log.chain)) == 1
        proxy.rule = None
        wrong = NotedHead(noted.n, tuple(reversed(noted.words)))
        with pytest.raises(RecoveryRefused, match="head words"):
            await recover(back, proxy.url, member.vault, noted=wrong)
        await recover(back, proxy.url, member.vault, noted=noted)
        proxy.rule = set_back  # and it goes back after all
        await back.sync.sync_now()
        assert await back.codes() == ["ROLLBACK"]


async def test_a_recovery_whose_answer_was_lost_can_be_repeated(
    server: RunningServer, made: Devices
) -> None:
    async with between(server) as proxy:
        _, member = await with_words(server, made, proxy.url)
        back = await made.new("back")

        proxy.rule = lose_the_roster_answer
        with pytest.raises(SyncUnreachable):
            await recover(back, proxy.url, member.vault)
        assert await back.state() == "off"
        proxy.rule = None
        await recover(back, proxy.url, member.vault)
        await back.sync.sync_now()
        assert await back.texts() == {"first", "second"}
        assert len(await back.store.read(roster_log.chain)) == 2


async def test_new_words_replace_the_old_ones(server: RunningServer, made: Devices) -> None:
    first, member = await with_words(server, made)
    fresh = " ".join(words_of(new_entropy()))
    assert await first.membership.replace_words(fresh)
    assert not await first.membership.replace_words(fresh)
    await first.sync.sync_now()
    back = await made.new("back")
    with pytest.raises(RecoveryRefused):
        await recover(back, server.url, member.vault)
    await recover(back, server.url, member.vault, fresh)
    await back.sync.sync_now()
    assert await back.texts() == {"first", "second"}


async def test_words_can_be_added_to_a_vault_without(server: RunningServer, made: Devices) -> None:
    first = await made.found(server)
    await first.remember("only one")
    await first.sync.sync_now()
    vault = (await first.store.read(state.require)).vault
    back = await made.new("back")
    with pytest.raises(RecoveryRefused):
        await recover(back, server.url, vault)
    assert await first.membership.replace_words(WORDS)
    await first.sync.sync_now()
    await recover(back, server.url, vault)
    await back.sync.sync_now()
    assert await back.texts() == {"only one"}


async def test_a_vault_put_back_from_yesterday_goes_on_as_a_new_device(
    server: RunningServer, made: Devices, tmp_path: Path
) -> None:
    first, _ = await with_words(server, made)
    old = first.id
    await first.close()
    shutil.copytree(first.home.root, tmp_path / "yesterday")
    await first.open()
    await first.remember("written after the copy")
    await first.sync.sync_now()
    with pytest.raises(NothingToConfirm):
        await first.membership.renew(grant=None)
    await first.close()
    shutil.rmtree(first.home.root)
    shutil.copytree(tmp_path / "yesterday", first.home.root)
    await first.open()
    assert first.lifecycle is not None
    await first.sync.close()
    await asyncio.to_thread(renew_device, first.lifecycle)
    await first.close()
    await first.open()
    assert await first.state() == "stopped"
    await first.membership.renew(grant=None)
    await first.sync.sync_now()
    await first.remember("goes on")
    await first.sync.sync_now()
    assert first.id != old
    assert await first.texts() == {"first", "second", "written after the copy", "goes on"}
    assert await first.state() == "ok"
    assert key_file_of(first.home).exists()


@pytest.mark.parametrize("typed", ["", "12", "g" * 32, "0" * 31, "0" * 64])
def test_a_vault_id_has_32_hex_digits(typed: str) -> None:
    with pytest.raises(InvalidInput):
        parse_vault_id(typed)


def test_a_vault_id_is_read_as_it_is_written_down() -> None:
    assert parse_vault_id("2a02-11bc-8d05-7e07-65ca-14b7-d416-a0db").hex() == (
        "2a0211bc8d057e0765ca14b7d416a0db"
    )


@pytest.mark.parametrize(
    ("n", "words"), [(None, ["a"] * 6), (3, []), (3, ["a"] * 5), (0, ["a"] * 6)]
)
def test_head_words_and_row_go_together(n: int | None, words: list[str]) -> None:
    with pytest.raises(InvalidInput):
        parse_noted_head(n, words)


async def test_a_mark_names_its_author_and_those_without_a_name_and_nonsense_is_passed_over(
    server: RunningServer, made: Devices
) -> None:
    device, _ = await with_words(server, made)
    for name in ("author", "other"):
        await made.join(device, server.url, name)
    author, other = (each.id for each in made.made[1:])
    await device.store.write(device_names.forget)
    await device.store.write(lambda tx: device_names.put(tx, {device.id: "one"}))
    said: dict[str, object] = {
        author.hex(): "the\x1b[2J author",
        other.hex(): "another",
        device.id.hex(): "taken over",
        "08" * 16: "nobody",
        "no id": "x",
        "09" * 16: ["no", "text"],
    }
    await device.store.write(lambda tx: device_names.learn(tx, author, {"names": said}))
    await device.store.write(lambda tx: device_names.learn(tx, author, {"names": "none"}))
    known = await device.store.read(device_names.read)
    assert known == {device.id: "one", author: "the[2J author", other: "another"}


def test_a_server_key_has_64_hex_digits_or_six_words() -> None:
    with pytest.raises(InvalidInput):
        parse_server_key("ab")
    assert parse_server_key(" " + "ab" * 32) == b"\xab" * 32
    assert parse_server_key(" One two three four five six") == tuple(
        "one two three four five six".split()
    )


async def test_a_restored_vault_may_join_as_a_new_device_and_keeps_what_it_verified(
    server: RunningServer, made: Devices
) -> None:
    first, _ = await with_words(server, made)
    second = await made.join(first, server.url, "two")
    await second.remember("not sent before the loss")
    n = (await second.verified())[0]
    await renewed(second)
    invited = await second.membership.ask_to_join(
        ServerAddress(server.url), name="two again", grant=None
    )
    handle, _ = await first.membership.look_at_offer(invited.text)
    await first.membership.let_in(handle)
    assert await second.membership.look_for_welcome() is not None
    for device in (second, first):
        await device.sync.sync_now()
    assert (await second.verified())[0] > n
    assert await first.texts() == {"first", "second", "not sent before the loss"}
    assert (await first.sync.fresh_status())["conflicts"] == 0


async def renewed(device: SyncDevice) -> None:
    """As after a restored backup: the device has another id than its ledger knows."""
    assert device.lifecycle is not None
    await device.sync.close()
    await asyncio.to_thread(renew_device, device.lifecycle)
    await device.close()
    await device.open()
    assert await device.state() == "stopped"


async def test_a_new_id_is_signed_again_where_another_device_was_faster(
    server: RunningServer, made: Devices
) -> None:
    async with between(server) as proxy:
        first, _ = await with_words(server, made, proxy.url)
        await renewed(first)
        sent: list[bytes] = []

        async def second_place(call: Call) -> Answer | None:
            if (call.method, call.path) != ("POST", ROSTER):
                return None
            sent.append(call.body)
            return refusal(409, "ROSTER_HEAD") if len(sent) == 1 else None

        proxy.rule = second_place
        await first.membership.renew(grant=None)
        await first.sync.sync_now()
        assert len(sent) == 2
        assert await first.state() == "ok"


async def test_a_new_id_whose_answer_was_lost_goes_on_when_repeated(
    server: RunningServer, made: Devices
) -> None:
    async with between(server) as proxy:
        first, _ = await with_words(server, made, proxy.url)
        second = await made.join(first, proxy.url, "two")
        await first.sync.sync_now()
        await renewed(first)
        proxy.rule = lose_the_roster_answer
        with pytest.raises(SyncUnreachable):
            await first.membership.renew(grant=None)
        assert await first.state() == "stopped"
        proxy.rule = None
        await agree(second)
        await second.membership.rotate()  # its key is sealed to the new id, not to the ended one
        await second.remember("written meanwhile")
        await second.sync.sync_now()
        await first.membership.renew(grant=None)
        await first.remember("goes on")
        await first.sync.sync_now()
        assert await first.state() == "ok"
        assert await first.texts() == {"first", "second", "written meanwhile", "goes on"}
        assert await first.store.read(roster_log.chain) == await second.store.read(roster_log.chain)
        views, _ = await second.membership.devices()
        assert [v.ended_by for v in views if not v.is_active] == [Operation.FORK_CLOSE]


async def test_a_lost_state_of_a_revoked_device_is_no_way_back(
    server: RunningServer, made: Devices
) -> None:
    first, _ = await with_words(server, made)
    second = await made.join(first, server.url, "two")
    await renewed(second)
    await first.membership.revoke("two")
    with pytest.raises(SyncServerRefused) as refused:
        await second.membership.renew(grant=None)
    assert refused.value.reason == "REVOKED_DEVICE"
    assert await second.state() == "stopped"


async def test_a_restored_vault_may_leave_instead(server: RunningServer, made: Devices) -> None:
    first, _ = await with_words(server, made)
    await renewed(first)
    assert not await first.membership.leave()
    assert await first.state() == "off"
    assert await first.texts() == {"first", "second"}


async def test_the_server_forgets_a_deleted_vault_and_the_devices_forget_nothing(
    server: RunningServer, made: Devices
) -> None:
    first, member = await with_words(server, made)
    second = await made.join(first, server.url, "two")
    await first.membership.delete_shared()
    await second.sync.sync_now()
    assert await first.state() == "off"
    assert await second.state() != "ok"
    assert not await second.membership.leave()
    assert await first.texts() == await second.texts() == {"first", "second"}
    back = await made.new("back")
    with pytest.raises(RecoveryRefused):
        await recover(back, server.url, member.vault)
