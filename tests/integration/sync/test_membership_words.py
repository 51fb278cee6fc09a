"""Whether the vault's present recovery words recover the shared memory, as ``status`` says it."""

from __future__ import annotations

import asyncio

import pytest
from sync_devices import Devices, SyncDevice
from sync_pair import end_at_the_roster, lose_the_answer
from sync_proxy import SyncProxy
from sync_server import registration_token

from memory_manager.sync.engine.errors import SyncUnreachable
from memory_manager.sync.membership.founding import ServerAddress
from memory_manager.sync.server.running import RunningServer
from memory_manager.vault.recovery_words import words_of

PASSPHRASE = "walnut orbit cactus lantern meadow pixel"
WORDS = " ".join(words_of(bytes(range(32))))
OTHER_WORDS = " ".join(words_of(bytes(range(1, 33))))


async def new(made: Devices, name: str) -> SyncDevice:
    """A device whose owner may change its words."""
    device = await made.new(name)
    assert device.lifecycle is not None
    await asyncio.to_thread(device.lifecycle.change_passphrase, None, PASSPHRASE)
    return device


async def give(device: SyncDevice, words: str) -> None:
    """These open the vault from now on."""
    assert device.lifecycle is not None
    await asyncio.to_thread(device.lifecycle.take_recovery_words, words, confirmed=True)


async def set_up(device: SyncDevice, url: str, token: str, words: str | None) -> None:
    await device.membership.set_up(ServerAddress(url), token, name="one", grant=None, words=words)


async def said(device: SyncDevice) -> object:
    return (await device.sync.fresh_status())["words_recover"]


async def test_words_count_until_there_are_new_ones_and_again_after_the_act(
    server: RunningServer, made: Devices
) -> None:
    one = await new(made, "one")
    await give(one, WORDS)
    assert await said(one) is None
    await set_up(one, server.url, await registration_token(server), WORDS)
    assert await said(one) is True
    await give(one, OTHER_WORDS)
    assert await said(one) is False
    await one.close()
    await one.open()
    assert await said(one) is False
    await one.membership.replace_words(OTHER_WORDS)
    assert await said(one) is True
    await one.membership.leave()
    noted = "SELECT count(*) FROM vault_state WHERE key = 'sync_words'"
    assert await one.store.read(lambda c: c.execute(noted).fetchone()) == (0,)


@pytest.mark.parametrize("first_words_are_the_vaults", [False, True])
async def test_a_setup_that_was_cut_off_before_its_words_counted_says_whose_do(
    server: RunningServer, proxy: SyncProxy, made: Devices, first_words_are_the_vaults: bool
) -> None:
    one = await new(made, "one")
    await give(one, WORDS)
    token = await registration_token(server)
    proxy.rule = lose_the_answer
    with pytest.raises(SyncUnreachable):
        await set_up(one, proxy.url, token, WORDS)
    if not first_words_are_the_vaults:
        await give(one, OTHER_WORDS)
    await end_at_the_roster(set_up(one, proxy.url, token, OTHER_WORDS), proxy)
    await one.close()
    await one.open()
    assert await said(one) is first_words_are_the_vaults
    await one.membership.replace_words(OTHER_WORDS)
    assert await said(one) is not first_words_are_the_vaults


async def test_what_another_device_was_given_cannot_be_told(
    server: RunningServer, made: Devices
) -> None:
    one, two = await new(made, "one"), await new(made, "two")
    await set_up(one, server.url, await registration_token(server), WORDS)
    await made.let_in(one, two, server.url)
    await give(two, WORDS)
    assert await said(two) is None
    assert await said(one) is False  # its owner gave words that do not open it


async def test_without_words_on_the_list_those_of_the_vault_do_not_count(
    server: RunningServer, made: Devices
) -> None:
    one = await new(made, "one")
    await set_up(one, server.url, await registration_token(server), None)
    assert await said(one) is None
    await give(one, WORDS)
    assert await said(one) is False
