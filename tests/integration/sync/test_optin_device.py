"""The owner opts rows in and out on a real device, against a real server behind a proxy."""

from __future__ import annotations

import asyncio
import dataclasses
import hashlib
import time
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from pathlib import Path

import pytest
from leak_scan import scan_bytes, scan_folders
from nacl.signing import SigningKey
from optin_devices import OptInWorld, Owner, opt_in_world
from small_vault import writer
from sync_devices import devices
from sync_proxy import Answer, Call
from vault_harness import OTHER_PASSPHRASE, PASSPHRASE

from memory_manager.base.errors import InvalidInput, NotFound
from memory_manager.security.envelope import VAULT_DEFAULT
from memory_manager.sync.engine.errors import SyncOff
from memory_manager.sync.ledger import roster_log, sealed_rows
from memory_manager.sync.optin import table, upkeep
from memory_manager.sync.optin.approval import Approval, Signatures, approve
from memory_manager.sync.optin.delivery import Delivery
from memory_manager.sync.optin.egress import send_row
from memory_manager.sync.optin.errors import (
    GrantBroken,
    OptInBlocked,
    OptInChanged,
    OptInCountWrong,
)
from memory_manager.sync.optin.owner_signature import owner_key
from memory_manager.sync.optin.requests import file_request
from memory_manager.sync.optin.service import OptIns
from memory_manager.sync.optin.table import OptedIn
from memory_manager.sync.optin.verified import VerifiedGrant, verify_grant
from memory_manager.sync.wire.envelope import Dot, Policy, is_indexable, read_header
from memory_manager.sync.wire.grants import sign_grant
from memory_manager.sync.wire.roster import Member
from memory_manager.vault import queries
from memory_manager.vault.errors import WrongPassphrase
from memory_manager.vault.rows import MemoryChange

OPTED_IN, KEPT = "canary-quokka-7731-in", "canary-wombat-4402-kept"
NOW = int(time.time())
SECRET = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5"


@pytest.fixture
async def opted(tmp_path: Path) -> AsyncGenerator[OptInWorld]:
    async with opt_in_world(tmp_path) as world:
        yield world


async def test_the_opted_in_text_is_on_the_index_only_and_the_other_nowhere(
    opted: OptInWorld,
) -> None:
    """T58: a recording proxy sees every octet; the server's files are searched, too."""
    owner = opted.owner
    chosen = await owner.remember(OPTED_IN, "team/chosen")
    await owner.remember(KEPT, "team/kept")
    await owner.opt_in(chosen)
    assert await owner.states() == ["sent"]
    canaries = {"in": OPTED_IN, "kept": KEPT, "path": "team/kept"}
    found = {
        (path, name)
        for path, sent, answer in opted.recording.seen
        for name, _ in scan_bytes(sent + answer, canaries)
    }
    assert found == {("/v1/index/rows", "in")}
    assert "/v1/log/push" in {path for path, _, _ in opted.recording.seen}
    leaks = scan_folders([opted.data], canaries)
    assert {leak.canary for leak in leaks} == {"in"}
    assert {leak.file.name.split("-")[0] for leak in leaks} == {"index.db"}


async def test_opting_in_makes_a_new_record_and_leaves_the_old_one_alone(
    opted: OptInWorld,
) -> None:
    owner = opted.owner
    chosen = await owner.remember(OPTED_IN)
    before = await owner.device.rows()
    await owner.opt_in(chosen)
    assert await owner.device.rows() == before
    assert before[0].envelope == VAULT_DEFAULT
    (copy,) = await owner.rows()
    assert is_indexable(copy.record)
    assert copy.dot is not None
    dot = copy.dot
    sealed = await owner.device.store.read(lambda c: sealed_rows.stored(c, dot))
    assert sealed is not None
    assert read_header(sealed.body).policy is Policy.INDEXED
    payload = await owner.device.store.read(lambda c: sealed_rows.payload_of(c, dot))
    assert payload is not None
    assert payload.fields["copy_of"] != copy.record.hex()
    assert payload.fields["retrieval_visibility"] == "server_retrievable"
    assert payload.fields["vault_semantic_index_opt_in"] is True
    assert "id" not in payload.fields


async def test_a_request_waits_and_nothing_leaves_without_the_passphrase(
    opted: OptInWorld,
) -> None:
    owner = opted.owner
    chosen = await owner.remember(OPTED_IN)
    assert await owner.ask(chosen, f"please, token={SECRET}")
    assert not await owner.ask(chosen)
    listing = await owner.opt_ins.listing()
    assert [request.memory_id for request in listing.requests] == [chosen]
    assert SECRET not in str(listing.requests[0].reason)
    seen = await owner.opt_ins.preview([chosen])
    with pytest.raises(WrongPassphrase):
        await owner.grant([chosen], seen=seen, passphrase=OTHER_PASSPHRASE)
    assert not await owner.deliver()
    assert await owner.rows() == []
    assert not any(path.startswith("/v1/index") for path, _, _ in opted.recording.seen)
    await owner.opt_ins.decline([chosen], writer())
    assert (await owner.opt_ins.listing()).requests == ()
    acts = [event.action for event in await owner.audit()]
    assert acts == ["opt_in.declined", "opt_in.requested"]


async def test_what_is_approved_is_what_was_shown(opted: OptInWorld) -> None:
    owner = opted.owner
    chosen = await owner.remember("the first text")
    seen = await owner.opt_ins.preview([chosen])
    assert seen.rows[0].document.content == "the first text"
    change = MemoryChange(content="slipped in afterwards")
    await owner.device.store.write(
        lambda tx: owner.device.memories.update(tx, chosen, change, writer())
    )
    with pytest.raises(OptInChanged):
        await owner.grant([chosen], seen=seen)
    assert await owner.rows() == []


async def test_above_fifty_rows_the_number_is_typed(opted: OptInWorld) -> None:
    owner = opted.owner
    ids = tuple(await owner.device.remember_many(51))
    keys = await _keys(owner)
    digest = (await owner.opt_ins.preview(ids)).digest
    for typed in (None, 50, 52):
        with pytest.raises(OptInCountWrong):
            await _approve(owner, Approval(ids, digest, typed), keys)
    assert await owner.rows() == []
    assert len(await _approve(owner, Approval(ids, digest, 51), keys)) == 51
    fifty = ids[:50]
    digest = (await owner.opt_ins.preview(fifty)).digest
    assert len(await _approve(owner, Approval(fifty, digest, None), keys)) == 50
    assert Counter(await owner.states()) == {"waiting": 51, "leaving": 50}


async def _keys(owner: Owner) -> Signatures:
    def opened() -> Signatures:
        with owner_key(owner.device.lifecycle, PASSPHRASE) as own:
            return Signatures(owner.device.sync.secrets.signing_key(), own)

    return await asyncio.to_thread(opened)


async def _approve(owner: Owner, asked: Approval, keys: Signatures) -> list[OptedIn]:
    """Without Argon2id's time for each of many."""
    return await owner.device.store.write(
        lambda tx: approve(tx, asked, keys, writer(), now=lambda: NOW)
    )


async def test_impossible_batches_are_refused(opted: OptInWorld) -> None:
    owner = opted.owner
    chosen = await owner.remember("text")
    for ids in ([], [chosen, chosen]):
        with pytest.raises(InvalidInput):
            await owner.opt_ins.preview(ids)
    await owner.device.delete(chosen)
    with pytest.raises(NotFound):
        await owner.opt_ins.preview([chosen])
    with pytest.raises(NotFound):
        await owner.ask(chosen)


async def test_nothing_is_sent_under_a_grant_that_does_not_hold(opted: OptInWorld) -> None:
    """T61 on the sending side: whatever came into the table, it does not get out."""
    owner = opted.owner
    chosen = await owner.remember(OPTED_IN)
    device, stranger = owner.device.sync.secrets.signing_key(), SigningKey(bytes(32))
    keys = await _keys(owner)
    own = keys.owner
    changes: dict[str, dict[str, object]] = {
        "expired": {"expires": 1},
        "hash": {"sha256": bytes(32)},
        "server": {"server": bytes(32)},
        "vault": {"vault": bytes(16)},
        "dot": {"dot": Dot(owner.device.id, 1)},
        "one signature": {},
        "another owner": {},
        "another device": {},
    }
    signers = {
        "one signature": (device, device),
        "another owner": (device, stranger),
        "another device": (stranger, own),
    }
    for name, change in changes.items():
        seen = await owner.opt_ins.preview([chosen])
        asked = Approval((chosen,), seen.digest, None)
        (good,) = await _approve(owner, asked, keys)
        await owner.device.sync.sync_now()
        assert good.signed is not None
        grant = dataclasses.replace(good.signed.grant, **change)  # type: ignore[arg-type]
        signed = sign_grant(grant, *signers.get(name, (device, own)))
        bad = dataclasses.replace(good, signed=signed)
        await owner.device.store.write(lambda tx, bad=bad: table.put(tx, bad))
        await owner.opt_ins.delivery.round()
        assert opted.recording.bodies("POST /v1/index/rows") == [], name
        event = (await owner.audit("out"))[0]
        assert event.detail["reason"] == "grant", name
    assert (await owner.opt_ins.listing()).requests[0].memory_id == chosen
    assert len(await owner.audit("out")) == len(changes)


async def test_credential_shaped_bytes_are_not_sent_though_the_owner_signed_them(
    opted: OptInWorld,
) -> None:
    owner = opted.owner
    chosen = await owner.remember(OPTED_IN)
    await owner.grant([chosen])
    await owner.device.sync.sync_now()
    (good,) = await owner.rows()
    assert good.signed is not None
    assert good.document is not None
    dirty = good.document.replace(OPTED_IN.encode(), f"token={SECRET}".encode())
    grant = dataclasses.replace(good.signed.grant, sha256=hashlib.sha256(dirty).digest())
    keys = await _keys(owner)
    signed = sign_grant(grant, keys.device, keys.owner)
    session = owner.device.sync.client
    member = await _own_member(owner)
    granted = verify_grant(
        signed,
        dirty,
        vault=grant.vault,
        member=member,
        server_key=grant.server,
        record=grant.record,
        dot=grant.dot,
        now=grant.expires - 1,
    )
    with pytest.raises(OptInBlocked) as blocked:
        await send_row(owner.device.store, session, granted, chosen, lambda: grant.expires - 1)
    assert blocked.value.rules
    assert SECRET not in str(blocked.value)
    (event,) = await owner.audit("blocked")
    assert event.detail == {"rules": list(blocked.value.rules)}
    assert opted.recording.bodies("POST /v1/index/rows") == []
    late = granted
    with pytest.raises(GrantBroken):
        await send_row(owner.device.store, session, late, chosen, lambda: grant.expires)


async def test_the_exit_takes_a_verified_grant_and_nothing_that_looks_like_one(
    opted: OptInWorld,
) -> None:
    owner = opted.owner
    chosen = await owner.remember(OPTED_IN)
    (row,) = await owner.grant([chosen])
    assert row.signed is not None
    assert row.document is not None
    with pytest.raises(ValueError, match="verify_grant"):
        VerifiedGrant(object(), row.signed, row.document)
    blank = VerifiedGrant.__new__(VerifiedGrant)
    for forged in (row, row.signed, blank):
        with pytest.raises((TypeError, AttributeError)):
            await send_row(owner.device.store, owner.device.sync.client, forged, chosen, lambda: 0)
    assert opted.recording.bodies("POST /v1/index/rows") == []


async def _own_member(owner: Owner) -> Member:
    roster = await owner.device.store.read(roster_log.load)
    assert roster is not None
    return roster.members[owner.device.id]


async def test_opting_out_removes_the_row_everywhere(opted: OptInWorld) -> None:
    owner = opted.owner
    chosen = await owner.remember(OPTED_IN, "team/chosen")
    await owner.opt_in(chosen)
    (copy,) = await owner.rows()
    await owner.opt_out(chosen)
    assert await owner.states() == ["leaving"]
    assert not await owner.deliver()
    assert await owner.rows() == []
    assert scan_folders([opted.data], {"in": OPTED_IN, "path": "team/chosen"}) == []
    assert await owner.device.texts() == {OPTED_IN}
    dot = copy.dot
    assert dot is not None
    assert await owner.device.store.read(lambda c: sealed_rows.payload_of(c, dot)) is None
    acts = [event.action for event in await owner.audit()]
    assert acts == ["opt_in.removed", "opt_in.out", "opt_in.sending", "opt_in.approved"]


async def test_taking_back_is_retried_until_the_server_answers(opted: OptInWorld) -> None:
    owner = opted.owner
    chosen = await owner.remember(OPTED_IN)
    await owner.opt_in(chosen)
    opted.proxy.upstream = "http://127.0.0.1:9"
    await owner.opt_out(chosen)
    for _ in range(2):
        with pytest.raises(Exception, match=r"answer"):
            await owner.opt_ins.delivery.round()
        assert await owner.states() == ["leaving"]
    opted.proxy.upstream = opted.server.url
    assert not await owner.deliver()
    assert await owner.rows() == []
    assert scan_folders([opted.data], {"in": OPTED_IN}) == []


async def test_a_lost_reply_is_no_second_row_and_a_lost_network_no_lost_row(
    opted: OptInWorld,
) -> None:
    """The task of the daemon tries again by itself, both ways, until the server has answered."""
    owner = opted.owner
    chosen = await owner.remember(OPTED_IN)
    lost = 0

    async def rule(call: Call) -> Answer:
        nonlocal lost
        answer = await opted.recording.rule(call)
        if call.path.startswith("/v1/index/rows") and lost < 4:
            lost += 1
            return Answer(502, "text/html", b"<html>")
        return answer

    opted.proxy.rule = rule
    delivery = Delivery(owner.device.sync, first_pause=0.01)
    task = asyncio.get_running_loop().create_task(delivery.run())
    try:
        await owner.grant([chosen])
        await owner.device.sync.sync_now()
        delivery.poke()
        await _until(lambda states: states == ["sent"], owner)
        assert lost == 4
        assert len(set(opted.recording.bodies("POST /v1/index/rows"))) == 1
        checked = await owner.opt_ins.search("quokka", 5)
        assert len(checked.hits) == 1
        lost = 0
        await owner.opt_out(chosen)
        delivery.poke()
        await _until(lambda states: states == [], owner)
        assert lost == 4
    finally:
        task.cancel()
        await asyncio.wait({task})
    assert scan_folders([opted.data], {"in": OPTED_IN}) == []


async def _until(condition: Callable[[list[str]], bool], owner: Owner) -> None:
    async with asyncio.timeout(20):
        while not condition(await owner.states()):  # noqa: ASYNC110 - the vault has no event for it
            await asyncio.sleep(0.01)


async def test_a_changed_memory_leaves_the_server_and_waits_for_the_owner_again(
    opted: OptInWorld,
) -> None:
    owner = opted.owner
    chosen = await owner.remember(OPTED_IN)
    await owner.opt_in(chosen)
    change = MemoryChange(content="another text")
    await owner.device.store.write(
        lambda tx: owner.device.memories.update(tx, chosen, change, writer())
    )
    assert not await owner.deliver()
    assert await owner.rows() == []
    assert scan_folders([opted.data], {"in": OPTED_IN}) == []
    (request,) = (await owner.opt_ins.listing()).requests
    assert (request.memory_id, request.client) == (chosen, "memlocket")


async def test_a_deleted_memory_leaves_the_server(opted: OptInWorld) -> None:
    owner = opted.owner
    chosen = await owner.remember(OPTED_IN)
    await owner.opt_in(chosen)
    await owner.device.delete(chosen)
    assert not await owner.deliver()
    assert await owner.rows() == []
    assert scan_folders([opted.data], {"in": OPTED_IN}) == []
    assert (await owner.opt_ins.listing()).requests == ()


async def test_a_copy_that_was_taken_back_meanwhile_is_not_asked_for_again(
    opted: OptInWorld,
) -> None:
    """The owner's no stands, though the server's answer about the copy comes after it."""
    owner = opted.owner
    chosen = await owner.remember(OPTED_IN)
    await owner.opt_in(chosen)
    (copy,) = await owner.rows()
    await owner.opt_out(chosen)
    await owner.device.store.write(lambda tx: upkeep.let_go(tx, copy, "grant"))
    assert await owner.states() == ["leaving"]
    assert (await owner.opt_ins.listing()).requests == ()
    assert [event.detail for event in await owner.audit("out")] == [{"copies": 1}]


async def test_another_device_knows_the_grant_shows_its_own_text_and_takes_the_row_back(
    opted: OptInWorld,
) -> None:
    owner = opted.owner
    chosen = await owner.remember(OPTED_IN)
    await owner.opt_in(chosen)
    second = await opted.join("two")
    checked = await second.opt_ins.search("quokka", 10)
    assert [hit.row.content for hit in checked.hits] == [OPTED_IN]
    assert not checked.is_alarming
    assert await second.device.texts() == {OPTED_IN}  # the copy is no memory of its own
    await second.opt_out(chosen)
    assert not await second.deliver()
    assert scan_folders([opted.data], {"in": OPTED_IN}) == []
    assert not await owner.deliver()
    assert await owner.rows() == []
    row = await owner.device.store.read(lambda c: queries.get_row(c, chosen))
    assert row is not None
    assert row.content == OPTED_IN


async def test_a_vault_without_a_server_has_nothing_to_opt_in_to(tmp_path: Path) -> None:
    async with devices(tmp_path) as made:
        alone = await made.new("alone")
        chosen = await alone.remember(OPTED_IN)
        with pytest.raises(SyncOff):
            await alone.store.write(lambda tx: file_request(tx, chosen, writer()))
        assert alone.lifecycle is not None
        opt_ins = OptIns(alone.sync, alone.lifecycle)
        with pytest.raises(SyncOff):
            await opt_ins.delivery.round()
        with pytest.raises(SyncOff):
            await opt_ins.approve(Approval((chosen,), "", None), PASSPHRASE, writer())
