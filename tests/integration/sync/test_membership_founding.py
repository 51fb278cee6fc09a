"""A setup that is cut off goes on when it is repeated: no second vault, no second token."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from certificates import make_certificate
from sync_devices import Devices, SyncDevice
from sync_pair import end_at_the_roster, lose_the_answer
from sync_proxy import ROSTER, Answer, Call, SyncProxy, between, refusal
from sync_server import registration_token, server_in_process

from memory_manager.sync.engine.errors import (
    RegistrationRefused,
    SyncServerRefused,
    SyncUnreachable,
)
from memory_manager.sync.ledger import kept_founding, keybag, roster_log, state
from memory_manager.sync.ledger.kept_founding import KeptFounding
from memory_manager.sync.membership.errors import RecoveryRefused, SyncAlreadyOn
from memory_manager.sync.membership.founding import Enrolled, ServerAddress
from memory_manager.sync.server.running import RunningServer
from memory_manager.vault.kdf import SecretBytes
from memory_manager.vault.owner_acts import renew_device
from memory_manager.vault.recovery_words import words_of

WORDS = " ".join(words_of(bytes(range(32))))
OTHER_WORDS = " ".join(words_of(bytes(range(1, 33))))
VAULTS = "/v1/vaults"


async def set_up(
    device: SyncDevice,
    url: str,
    token: str,
    *,
    words: str | None = None,
    grant: bytes | None = None,
) -> Enrolled:
    return await device.membership.set_up(
        ServerAddress(url), token, name="one", grant=grant, words=words
    )


async def lose_the_request(call: Call) -> Answer | None:
    """The server never hears of it."""
    return Answer(502, "text/html", b"gone") if call.path == VAULTS else None


async def kept(device: SyncDevice, server: RunningServer) -> KeptFounding | None:
    key = server.host.key.public
    return await device.store.read(lambda connection: kept_founding.read(connection, key))


async def rows_kept(device: SyncDevice) -> int:
    """However they may be read."""
    asked = "SELECT count(*) FROM vault_state WHERE key = 'sync_founding'"
    found: int = await device.store.read(lambda c: c.execute(asked).fetchone()[0])
    return found


async def cut_off(
    device: SyncDevice,
    proxy: SyncProxy,
    token: str,
    words: str | None = None,
    rule: Callable[[Call], Awaitable[Answer | None]] = lose_the_answer,
) -> None:
    proxy.rule = rule
    with pytest.raises(SyncUnreachable) as cut:
        await set_up(device, proxy.url, token, words=words)
    assert "run this again" in (cut.value.hint or "")
    assert await device.state() == "off"
    assert (await device.count("keybag"), await device.count("roster_log")) == (0, 0)
    proxy.rule = None


@pytest.mark.parametrize("rule", [lose_the_answer, lose_the_request])
@pytest.mark.parametrize("locked_meanwhile", [False, True])
async def test_a_setup_that_was_cut_off_goes_on_with_the_same_token(
    server: RunningServer,
    proxy: SyncProxy,
    made: Devices,
    rule: Callable[[Call], Awaitable[Answer | None]],
    locked_meanwhile: bool,
) -> None:
    one = await made.new("one")
    await one.remember("from before")
    token = await registration_token(server)
    await cut_off(one, proxy, token, rule=rule)
    first = await kept(one, server)
    if locked_meanwhile:
        await one.close()
        await one.open()
    member = await set_up(one, proxy.url, token)
    assert first is not None
    assert member.vault == first.vault
    assert [known.vault for known in await server.host.storage.heads()] == [member.vault]
    assert await one.store.read(roster_log.chain) == (first.genesis,)
    assert await rows_kept(one) == 0
    await one.sync.sync_now()
    assert await one.state() == "ok"
    two = await made.join(one, proxy.url, "two")
    assert await two.texts() == {"from before"}


async def test_what_waits_for_the_answer_is_in_no_file_outside_the_vault(
    server: RunningServer, proxy: SyncProxy, made: Devices
) -> None:
    one = await made.new("one")
    await cut_off(one, proxy, await registration_token(server), WORDS)
    founding = await kept(one, server)
    assert founding is not None
    secret = bytes(founding.vrk)
    await one.close()
    forms = (secret, secret.hex().encode(), base64.b64encode(secret), founding.vault, WORDS[:20])
    looked_at = 0
    for path in made.folder.joinpath("one").rglob("*"):
        if path.is_file():
            looked_at += 1
            octets = path.read_bytes()
            for form in forms:
                assert (form.encode() if isinstance(form, str) else form) not in octets, path
    assert looked_at > 1


async def test_the_words_of_the_last_attempt_are_those_that_recover(
    server: RunningServer, proxy: SyncProxy, made: Devices
) -> None:
    one = await made.new("one")
    token = await registration_token(server)
    await cut_off(one, proxy, token, WORDS)
    member = await set_up(one, proxy.url, token, words=OTHER_WORDS, grant=bytes([7]) * 32)
    await one.remember("kept")
    await one.sync.sync_now()
    (us,) = [view for view in (await one.membership.devices())[0] if view.is_this]
    assert us.may_grant
    back = await made.new("back")
    with pytest.raises(RecoveryRefused):
        await back.membership.recover(
            ServerAddress(proxy.url), member.vault, WORDS, noted=None, name="back", grant=None
        )
    await back.membership.recover(
        ServerAddress(proxy.url), member.vault, OTHER_WORDS, noted=None, name="back", grant=None
    )
    await back.sync.sync_now()
    assert await back.texts() == {"kept"}


async def test_an_attempt_without_words_leaves_no_earlier_ones(
    server: RunningServer, proxy: SyncProxy, made: Devices
) -> None:
    one = await made.new("one")
    token = await registration_token(server)
    await cut_off(one, proxy, token, WORDS)
    member = await set_up(one, proxy.url, token)
    back = await made.new("back")
    with pytest.raises(RecoveryRefused):
        await back.membership.recover(
            ServerAddress(proxy.url), member.vault, WORDS, noted=None, name="back", grant=None
        )


async def test_words_that_did_not_get_through_are_named_with_the_next_step(
    server: RunningServer, proxy: SyncProxy, made: Devices
) -> None:
    one = await made.new("one")
    token = await registration_token(server)
    await cut_off(one, proxy, token, WORDS)

    async def no_roster(call: Call) -> Answer | None:
        lost = (call.method, call.path) == ("POST", ROSTER)
        return Answer(502, "text/html", b"gone") if lost else None

    proxy.rule = no_roster
    with pytest.raises(SyncUnreachable) as told:
        await set_up(one, proxy.url, token, words=OTHER_WORDS)
    assert "shared now" in told.value.message
    assert "memlocket sync words" in (told.value.hint or "")
    proxy.rule = None
    assert await one.state() != "off"
    assert await one.membership.replace_words(OTHER_WORDS)


async def test_words_that_were_cut_off_at_the_very_end_are_named_by_the_next_attempt(
    server: RunningServer, proxy: SyncProxy, made: Devices
) -> None:
    """The memory is shared by then, and those of the earlier attempt recover it until the act."""
    one = await made.new("one")
    token = await registration_token(server)
    await cut_off(one, proxy, token, WORDS)
    await end_at_the_roster(set_up(one, proxy.url, token, words=OTHER_WORDS), proxy)
    await one.close()
    await one.open()
    with pytest.raises(SyncAlreadyOn) as told:
        await set_up(one, proxy.url, token, words=OTHER_WORDS)
    assert "memlocket sync words" in (told.value.hint or "")
    assert await one.membership.replace_words(OTHER_WORDS)
    vault, back = (await one.store.read(state.require)).vault, await made.new("back")
    address = ServerAddress(proxy.url)
    with pytest.raises(RecoveryRefused):
        await back.membership.recover(address, vault, WORDS, noted=None, name="b", grant=None)
    await back.membership.recover(address, vault, OTHER_WORDS, noted=None, name="b", grant=None)


async def test_how_the_server_is_reached_is_known_with_the_first_row(
    made: Devices, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A daemon that ends right there finds its server again."""
    cert, key = make_certificate(tmp_path)
    async with server_in_process(tmp_path / "tls", tls_cert=cert, tls_key=key) as server:
        one, token = await made.new("one"), await registration_token(server)
        address = ServerAddress(server.url, ca_file=str(cert))

        async def ended(_: object) -> None:
            raise asyncio.CancelledError

        monkeypatch.setattr(one.sync, "connect", ended)
        with pytest.raises(asyncio.CancelledError):
            await one.membership.set_up(address, token, name="one", grant=None, words=None)
        await one.close()
        await one.open()
        await one.sync.sync_now()
        assert await one.state() == "ok"


async def test_a_refused_token_leaves_nothing_that_waits(
    server: RunningServer, made: Devices
) -> None:
    one = await made.new("one")
    with pytest.raises(RegistrationRefused):
        await set_up(one, server.url, "", words=WORDS)
    assert await rows_kept(one) == 0
    await set_up(one, server.url, await registration_token(server), words=OTHER_WORDS)
    assert len(await one.store.read(roster_log.chain)) == 1


async def test_a_wrong_token_does_not_lose_what_may_be_at_the_server(
    server: RunningServer, proxy: SyncProxy, made: Devices
) -> None:
    one = await made.new("one")
    token = await registration_token(server)
    await cut_off(one, proxy, token, rule=lose_the_request)
    first = await kept(one, server)
    with pytest.raises(RegistrationRefused):
        await set_up(one, proxy.url, "mistyped")
    assert await kept(one, server) == first
    assert (await set_up(one, proxy.url, token)).vault == (first.vault if first else b"")


async def test_another_server_gets_another_vault(
    server: RunningServer, proxy: SyncProxy, made: Devices
) -> None:
    one = await made.new("one")
    await cut_off(one, proxy, await registration_token(server))
    before = await kept(one, server)
    async with server_in_process(made.folder / "elsewhere") as elsewhere:
        member = await set_up(one, elsewhere.url, await registration_token(elsewhere))
        assert before is not None
        assert member.vault != before.vault
        known: SecretBytes | None = await one.store.read(lambda c: keybag.vrk(c, 1))
        assert known != before.vrk
        assert await rows_kept(one) == 0


async def test_what_waits_is_for_the_server_that_was_asked_last(
    server: RunningServer, proxy: SyncProxy, made: Devices
) -> None:
    one = await made.new("one")
    await cut_off(one, proxy, await registration_token(server))
    async with server_in_process(made.folder / "elsewhere") as elsewhere:
        async with between(elsewhere) as other:
            token = await registration_token(elsewhere)
            await cut_off(one, other, token)
            (asked,) = await elsewhere.host.storage.heads()
            assert await kept(one, server) is None
            assert (await set_up(one, other.url, token)).vault == asked.vault


async def test_a_device_with_a_new_id_founds_anew(
    server: RunningServer, proxy: SyncProxy, made: Devices
) -> None:
    one = await made.new("one")
    await cut_off(one, proxy, await registration_token(server))
    before = await kept(one, server)
    assert one.lifecycle is not None
    renew_device(one.lifecycle)
    await one.close()
    await one.open()
    assert await kept(one, server) is None
    member = await set_up(one, proxy.url, await registration_token(server))
    assert before is not None
    assert member.vault != before.vault


async def test_a_vault_that_was_used_since_is_not_founded_once_more(
    server: RunningServer, proxy: SyncProxy, made: Devices
) -> None:
    one = await made.new("one")
    token = await registration_token(server)

    async def used(call: Call) -> Answer | None:
        return refusal(409, "VAULT_EXISTS") if call.path == VAULTS else None

    await cut_off(one, proxy, token)
    proxy.rule = used
    with pytest.raises(SyncServerRefused) as refused:
        await set_up(one, proxy.url, token)
    assert "new registration token" in (refused.value.hint or "")
    proxy.rule = None
    assert await rows_kept(one) == 0
    await set_up(one, proxy.url, await registration_token(server))
    assert await one.state() != "off"


async def test_who_joins_instead_keeps_nothing_of_an_earlier_setup(
    server: RunningServer, proxy: SyncProxy, made: Devices
) -> None:
    one = await made.found(server, proxy.url)
    two = await made.new("two")
    await cut_off(two, proxy, await registration_token(server))
    assert await rows_kept(two) == 1
    invited = await two.membership.ask_to_join(ServerAddress(proxy.url), name="two", grant=None)
    handle, _ = await one.membership.look_at_offer(invited.text)
    await one.membership.let_in(handle)
    assert await two.membership.look_for_welcome() is not None
    assert await rows_kept(two) == 0
