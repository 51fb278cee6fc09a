"""Enrolment by pasted string, honest and attacked: what does not fit is refused on both sides."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from typing import Any

import pytest
from nacl.public import PrivateKey
from nacl.signing import SigningKey
from sync_devices import MARK, Devices, SyncDevice
from sync_pair import agree, lose_the_roster_answer
from sync_proxy import PULL, Answer, Call, SyncProxy, signed_head

from memory_manager.base.times import now_ms
from memory_manager.sync.engine.errors import SyncUnreachable
from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.ledger import device_names, roster_log, state
from memory_manager.sync.membership.errors import (
    EnrolmentExpired,
    EnrolmentRefused,
    SyncAlreadyOn,
)
from memory_manager.sync.membership.founding import ServerAddress
from memory_manager.sync.membership.letters import Offer
from memory_manager.sync.server.running import RunningServer
from memory_manager.sync.wire import canonical
from memory_manager.sync.wire.enrolment import (
    Invitation,
    NewKeys,
    read_invitation,
    sign_possession,
)
from memory_manager.sync.wire.framing import Page, pack_page

MAILBOX = "/v1/mailbox/"


async def ask(device: SyncDevice, url: str, name: str = "second") -> str:
    address = ServerAddress(url)
    return str((await device.membership.ask_to_join(address, name=name, grant=None)).text)


async def active(device: SyncDevice) -> set[bytes]:
    views, _ = await device.membership.devices()
    return {view.id for view in views if view.is_active}


async def hashes(device: SyncDevice) -> list[bytes]:
    """Of the roster's entries, as this device has them."""
    return [entry.hash for entry in await device.store.read(roster_log.chain)]


def letters(side: str, change: Callable[[bytes], bytes]) -> Any:
    """A server that changes what it hands out of mailboxes."""

    async def rule(call: Call) -> Answer | None:
        if call.method != "GET" or not call.path.startswith(MAILBOX):
            return None
        answer = await call.forward()
        if call.query["side"] != side or answer.status != 200:
            return answer
        return dataclasses.replace(answer, body=change(answer.body))

    return rule


async def test_a_new_device_gets_everything_and_gives_what_it_had(
    server: RunningServer, made: Devices
) -> None:
    first = await made.found(server)
    await first.remember("deploys run on Thursdays")
    await first.sync.sync_now()
    second = await made.new("second")
    await second.remember("the second laptop knew this before")
    handle, offer = await first.membership.look_at_offer(await ask(second, server.url))
    assert offer.name == "second"
    assert await second.membership.look_for_welcome() is None
    await first.membership.let_in(handle)
    joined = await second.membership.look_for_welcome()
    for device in (first, second, first):
        await device.sync.sync_now()
    assert joined is not None
    assert await first.texts() == await second.texts()
    assert await first.texts() == {
        "deploys run on Thursdays",
        "the second laptop knew this before",
    }
    assert await first.verified() == await second.verified()
    assert await active(second) == {first.id, second.id}
    names = {view.name for view in (await second.membership.devices())[0]}
    assert names == {"one", "second"}


async def test_the_mark_of_the_one_who_lets_in_is_in_the_log_at_once(
    server: RunningServer, made: Devices
) -> None:
    first = await made.found(server)
    second = await made.new("second")
    handle, _ = await first.membership.look_at_offer(await ask(second, server.url))
    await first.membership.let_in(handle)
    said = await first.sync.sync_now()
    assert said["outbox"] == 0
    assert await first.count("entry") > 0


async def test_a_vault_that_is_shared_joins_no_other(server: RunningServer, made: Devices) -> None:
    first = await made.found(server)
    with pytest.raises(SyncAlreadyOn):
        await ask(first, server.url)


async def test_a_used_string_lets_nobody_in_again(server: RunningServer, made: Devices) -> None:
    first = await made.found(server)
    second = await made.new("second")
    text = await ask(second, server.url)
    handle, _ = await first.membership.look_at_offer(text)
    with pytest.raises(EnrolmentExpired):
        await first.membership.look_at_offer(text)
    await first.membership.let_in(handle)
    assert await second.membership.look_for_welcome() is not None
    with pytest.raises(EnrolmentExpired):
        await first.membership.let_in(handle)
    with pytest.raises(EnrolmentExpired):
        await second.membership.look_for_welcome()


async def test_a_string_is_worth_nothing_after_ten_minutes(
    server: RunningServer, made: Devices
) -> None:
    first = await made.found(server)
    second = await made.new("second")
    text = await ask(second, server.url)
    server.host.clock_ms = lambda: now_ms() + 600_001
    with pytest.raises(EnrolmentExpired):
        await first.membership.look_at_offer(text)
    assert await active(first) == {first.id}


def _other_hash(invitation: Invitation) -> Invitation:
    return dataclasses.replace(invitation, key_hash=os.urandom(32))


def _other_mailbox(invitation: Invitation) -> Invitation:
    return dataclasses.replace(invitation, mailbox=os.urandom(16))


@pytest.mark.parametrize(
    ("change", "error"),
    [(_other_hash, EnrolmentRefused), (_other_mailbox, EnrolmentExpired)],
    ids=["hash", "mailbox"],
)
async def test_a_string_that_is_not_the_shown_one_adds_nobody(
    server: RunningServer,
    made: Devices,
    change: Callable[[Invitation], Invitation],
    error: type[Exception],
) -> None:
    first = await made.found(server)
    second = await made.new("second")
    shown = read_invitation(await ask(second, server.url))
    with pytest.raises(error):
        await first.membership.look_at_offer(change(shown).text())
    assert await active(first) == {first.id}


async def test_a_string_for_another_server_is_not_followed(
    server: RunningServer, made: Devices
) -> None:
    first = await made.found(server)
    elsewhere = Invitation(os.urandom(16), bytes(32), os.urandom(16), "https://sync.example.org")
    for text in (elsewhere.text(), "mlk1:AAAA", "no string at all"):
        with pytest.raises(EnrolmentRefused):
            await first.membership.look_at_offer(text)


async def test_a_wrong_secret_is_refused_by_the_new_device(
    server: RunningServer, made: Devices
) -> None:
    first = await made.found(server)
    second = await made.new("second")
    shown = read_invitation(await ask(second, server.url))
    typed = dataclasses.replace(shown, secret=os.urandom(16))
    handle, _ = await first.membership.look_at_offer(typed.text())
    await first.membership.let_in(handle)
    with pytest.raises(EnrolmentRefused):
        await second.membership.look_for_welcome()
    assert await second.state() == "off"


async def test_keys_that_the_server_swaps_in_an_offer_add_nobody(
    server: RunningServer, proxy: SyncProxy, made: Devices
) -> None:
    first = await made.found(server, proxy.url)
    second = await made.new("second")
    text = await ask(second, proxy.url)
    mailbox = read_invitation(text).mailbox
    mallory = SigningKey.generate()

    def swap(_: bytes) -> bytes:
        box = bytes(PrivateKey.generate().public_key)
        keys = NewKeys(second.id, bytes(mallory.verify_key), box)
        return Offer(keys, "second", sign_possession(keys, mailbox, mallory)).pack()

    proxy.rule = letters("offer", swap)
    with pytest.raises(EnrolmentRefused):
        await first.membership.look_at_offer(text)
    assert await active(first) == {first.id}


@pytest.mark.parametrize("member", ["ed25519", "x25519", "box", "nonce", "mac"])
async def test_a_welcome_that_the_server_changed_is_refused(
    server: RunningServer, proxy: SyncProxy, made: Devices, member: str
) -> None:
    first = await made.found(server, proxy.url)
    second = await made.new("second")
    handle, _ = await first.membership.look_at_offer(await ask(second, proxy.url))
    await first.membership.let_in(handle)

    def flip(letter: bytes) -> bytes:
        members = json.loads(letter)
        raw = bytearray.fromhex(members[member])
        raw[-1] ^= 1
        return canonical.encode({**members, member: raw.hex()})

    proxy.rule = letters("welcome", flip)
    with pytest.raises(EnrolmentRefused):
        await second.membership.look_for_welcome()
    assert await second.state() == "off"


async def test_a_new_device_that_is_not_on_the_list_joins_nothing(
    server: RunningServer, proxy: SyncProxy, made: Devices
) -> None:
    first = await made.found(server, proxy.url)
    second = await made.new("second")
    handle, _ = await first.membership.look_at_offer(await ask(second, proxy.url))
    await first.membership.let_in(handle)

    async def without_the_last(call: Call) -> Answer | None:
        if call.path != "/v1/roster":
            return None
        answer = await call.forward()
        said = json.loads(answer.body)
        said["entries"] = said["entries"][:-1]
        said["head"] = (await hashes(first))[-2].hex()
        return dataclasses.replace(answer, body=json.dumps(said).encode())

    proxy.rule = without_the_last
    with pytest.raises(EnrolmentRefused):
        await second.membership.look_for_welcome()
    assert await second.state() == "off"


@pytest.mark.parametrize(
    ("lie", "code"),
    [((0, bytes(32)), SyncCode.ROLLBACK), ((9, b"\x11" * 32), SyncCode.EQUIVOCATION)],
    ids=["went-back", "another-history"],
)
async def test_a_server_with_another_log_than_the_greeter_saw_lets_nobody_join(
    server: RunningServer,
    proxy: SyncProxy,
    made: Devices,
    lie: tuple[int, bytes],
    code: SyncCode,
) -> None:
    first = await made.found(server, proxy.url)
    await first.remember_many(3)
    await first.sync.sync_now()
    assert (await first.verified())[0] == MARK + 3
    second = await made.new("second")
    handle, _ = await first.membership.look_at_offer(await ask(second, proxy.url))
    await first.membership.let_in(handle)
    vault = (await first.store.read(state.require)).vault

    async def show(call: Call) -> Answer | None:
        if call.path != PULL:
            return None
        head = signed_head(server.host.key.signing, vault, *lie)
        return Answer(200, "application/octet-stream", pack_page(Page((), (), head, head)))

    proxy.rule = show
    with pytest.raises(SyncRefused) as refused:
        await second.membership.look_for_welcome()
    assert refused.value.reason is code
    assert await second.state() == "off"


async def test_a_second_try_after_a_lost_welcome_needs_no_second_add(
    server: RunningServer, made: Devices
) -> None:
    first = await made.found(server)
    second = await made.new("second")
    handle, _ = await first.membership.look_at_offer(await ask(second, server.url))
    await first.membership.let_in(handle)
    handle, _ = await first.membership.look_at_offer(await ask(second, server.url))
    await first.membership.let_in(handle)
    assert await second.membership.look_for_welcome() is not None
    assert len(await hashes(first)) == 2


async def test_the_others_hear_the_name_of_a_device_whose_entry_was_answered_by_nobody(
    server: RunningServer, proxy: SyncProxy, made: Devices
) -> None:
    first = await made.found(server, proxy.url)
    second = await made.join(first, proxy.url, "two")
    third = await made.new("three")
    handle, _ = await first.membership.look_at_offer(await ask(third, proxy.url, "three"))
    proxy.rule = lose_the_roster_answer
    with pytest.raises(SyncUnreachable):
        await first.membership.let_in(handle)
    proxy.rule = None
    await first.membership.let_in(handle)
    await first.sync.sync_now()
    await agree(second)
    names = {view.id: view.name for view in (await second.membership.devices())[0]}
    assert names[third.id] == "three"


async def test_names_of_nobody_are_neither_handed_over_nor_kept(
    server: RunningServer, made: Devices
) -> None:
    first = await made.found(server)
    nobodies = {bytes([number] * 16): "nobody" for number in range(70)}
    await first.store.write(lambda tx: device_names.put(tx, nobodies))
    second = await made.join(first, server.url, "two")
    expected = {first.id: "one", second.id: "two"}
    assert await first.store.read(device_names.read) == expected
    await first.store.write(lambda tx: device_names.put(tx, nobodies))
    await first.membership.call_device("one", "desk")
    for device in (first, second):
        await device.sync.sync_now()
    assert await second.store.read(device_names.read) == expected | {first.id: "desk"}
