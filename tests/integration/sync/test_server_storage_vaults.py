"""Vaults, rosters, sessions and mailboxes of the server's storage, the same in both databases."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from postgres_server import PostgresServer, database_of
from stored_vault import StoredVault, head_of
from sync_world import new_keys

from memory_manager.sync.server.refusals import (
    CutBehind,
    DeviceCut,
    DeviceUnknown,
    MailAbsent,
    MailboxesFull,
    MailGone,
    MailTaken,
    NonceUsed,
    Quantity,
    QuotaExceeded,
    RegistrationUnknown,
    RosterHead,
    SessionEnd,
    SessionRefused,
    VaultExists,
    VaultUnknown,
)
from memory_manager.sync.server.storage import (
    SESSION_MEMORY_MS,
    MailSide,
    Quota,
    Session,
    Storage,
    VaultHead,
)
from memory_manager.sync.wire.roster import Role

NOW = 1_764_500_000_000
MINUTE = 60_000


@pytest.fixture
def token(request: pytest.FixtureRequest) -> Callable[[int], bytes]:
    """Hashes that no other test of this database uses."""
    stem = StoredVault(request.node.nodeid).source.randbytes(31)
    return lambda number: stem + bytes([number])


async def log_in(
    storage: Storage, vault: StoredVault, token_hash: bytes, who: int = 0, *, nonce: bytes = b""
) -> int:
    device = vault.devices[who].keys.id
    return await storage.open_session(
        vault.id,
        device,
        nonce=nonce or token_hash,
        token_hash=token_hash,
        expires_at_ms=NOW + 15 * MINUTE,
    )


async def ended(storage: Storage, token_hash: bytes, now_ms: int = NOW) -> SessionEnd:
    with pytest.raises(SessionRefused) as refused:
        await storage.session(token_hash, now_ms)
    return refused.value.reason


async def test_a_database_belongs_to_the_first_key_alone(storage: Storage) -> None:
    assert await storage.owner() is None
    keys = [bytes([number] * 32) for number in range(4)]
    (owner,) = set(await asyncio.gather(*map(storage.claim, keys)))
    assert owner in keys
    assert await storage.owner() == owner
    assert {await storage.claim(key) for key in keys} == {owner}


async def test_a_vault_is_founded_once_with_its_members(
    storage: Storage, vault: StoredVault
) -> None:
    founded = vault.founded
    devices = {device.id: device for device in await storage.devices(vault.id)}
    assert set(devices) == set(founded.roster.members)
    assert all(device.is_active and device.seq == 0 for device in devices.values())
    assert devices[founded.paper.id].role is Role.RECOVERY
    first = await storage.device(vault.id, founded.first.id)
    assert first == devices[founded.first.id]
    assert first.ed25519 == founded.first.signing.verify_key.encode()
    state = await storage.vault(vault.id)
    assert (state.roster_idx, state.roster_head) == (1, founded.roster.head)
    with pytest.raises(VaultExists):
        await vault.create(storage)
    assert await storage.vault(vault.id) == state


async def test_a_registration_founds_one_vault(
    storage: Storage, request: pytest.FixtureRequest, token: Callable[[int], bytes]
) -> None:
    vaults = [StoredVault(f"{request.node.nodeid} {i}") for i in range(3)]
    await storage.add_registration(token(1), expires_at_ms=1)
    await storage.add_registration(token(2), expires_at_ms=0)  # over
    for refused in (token(2), token(3)):
        with pytest.raises(RegistrationUnknown):
            await vaults[0].create(storage, registration=refused)
    await vaults[0].create(storage, registration=token(1))
    with pytest.raises(RegistrationUnknown):
        await vaults[1].create(storage, registration=token(1))
    with pytest.raises(VaultUnknown):
        await storage.vault(vaults[1].id)


async def test_a_refused_foundation_does_not_use_the_registration_up(
    storage: Storage,
    vault: StoredVault,
    token: Callable[[int], bytes],
    request: pytest.FixtureRequest,
) -> None:
    await storage.add_registration(token(1), expires_at_ms=1)
    with pytest.raises(VaultExists):
        await vault.create(storage, registration=token(1))
    await StoredVault(request.node.nodeid + "other").create(storage, registration=token(1))


async def test_the_roster_grows_by_its_next_entry_alone(
    storage: Storage, vault: StoredVault
) -> None:
    founded = vault.founded
    chain = founded.chain
    members = list(founded.roster.members.values())
    page = await storage.roster(vault.id, 0)
    assert page.entries == (chain[1],)
    assert (page.idx, page.head) == (1, chain[1].hash)

    rotated = founded.entry("rotate", founded.first, epoch=founded.epoch_document(1))
    for idx, prev in ((1, chain[0].hash), (2, chain[0].hash), (3, chain[1].hash)):
        with pytest.raises(RosterHead) as refused:
            await storage.append_roster(vault.id, idx, prev, rotated, members)
        assert (refused.value.idx, refused.value.head) == (1, chain[1].hash)
    for _ in range(2):  # the second time is a repetition
        await storage.append_roster(vault.id, 2, chain[1].hash, rotated, members)
    assert (await storage.roster(vault.id, -1)).entries == (*chain, rotated)


async def test_of_two_entries_at_once_one_wins(storage: Storage, vault: StoredVault) -> None:
    founded = vault.founded
    members = list(founded.roster.members.values())
    entries = [
        founded.entry("rotate", by, epoch=founded.epoch_document(1))
        for by in (founded.first, vault.devices[1].keys)
    ]

    prev = founded.roster.head
    answers = await asyncio.gather(
        *(storage.append_roster(vault.id, 2, prev, entry, members) for entry in entries),
        return_exceptions=True,
    )
    (loser,) = (answer for answer in answers if answer is not None)
    assert isinstance(loser, RosterHead)
    assert loser.head == entries[1 - answers.index(loser)].hash


async def test_a_roster_has_at_most_as_many_devices_as_the_quota(
    storage: Storage, vault: StoredVault
) -> None:
    founded = vault.founded
    await storage.set_quota(vault.id, Quota(devices=3))
    prev = founded.roster.head
    founded.add()
    members = list(founded.roster.members.values())
    with pytest.raises(QuotaExceeded) as refused:
        await storage.append_roster(vault.id, 2, prev, founded.chain[2], members)
    assert refused.value.what is Quantity.DEVICES
    assert len(await storage.devices(vault.id)) == 3
    await storage.set_quota(vault.id, Quota(devices=4))
    await storage.append_roster(vault.id, 2, prev, founded.chain[2], members)
    await vault.revoke(storage, 1, 0, bytes(32))  # who is cut no longer counts
    founded.add()
    members = list(founded.roster.members.values())
    await storage.append_roster(vault.id, 4, founded.chain[3].hash, founded.chain[4], members)


async def test_a_cut_ends_the_sessions_of_its_device_at_once(
    storage: Storage, vault: StoredVault, token: Callable[[int], bytes]
) -> None:
    await log_in(storage, vault, token(1), 1)
    await log_in(storage, vault, token(2), 0)
    await vault.push(storage, vault.batch(1, 2))
    device = await storage.device(vault.id, vault.devices[1].keys.id)
    await vault.revoke(storage, 1, device.seq, device.head)

    assert await ended(storage, token(1)) is SessionEnd.UNKNOWN
    assert (await storage.session(token(2), NOW)).device == vault.devices[0].keys.id
    cut = await storage.device(vault.id, vault.devices[1].keys.id)
    assert not cut.is_active
    assert (cut.cut, cut.seq, cut.head) == (2, device.seq, device.head)
    with pytest.raises(DeviceCut):
        await log_in(storage, vault, token(3), 1)


async def test_a_cut_before_rows_of_the_log_is_refused_with_their_end(
    storage: Storage, vault: StoredVault
) -> None:
    await vault.push(storage, vault.batch(1, 3))
    own = vault.devices[1].own
    with pytest.raises(CutBehind) as refused:
        await vault.revoke(storage, 1, 2, own[1].entry.head)
    assert (refused.value.seq, refused.value.head) == (3, own[2].entry.head)
    assert refused.value.wire_code == "GAP"
    assert (await storage.roster(vault.id, -1)).idx == 1
    assert (await storage.device(vault.id, vault.devices[1].keys.id)).is_active


async def test_a_newer_session_ends_the_older_ones(
    storage: Storage, vault: StoredVault, token: Callable[[int], bytes]
) -> None:
    first = await log_in(storage, vault, token(1))
    expected = Session(vault.id, vault.devices[0].keys.id, Role.DEVICE, first, NOW + 15 * MINUTE)
    assert await storage.session(token(1), NOW) == expected
    assert await log_in(storage, vault, token(2)) == first + 1
    await log_in(storage, vault, token(3), 1)

    assert await ended(storage, token(1)) is SessionEnd.SUPERSEDED
    assert (await storage.session(token(2), NOW)).epoch == first + 1
    assert (await storage.device(vault.id, vault.devices[0].keys.id)).session_epoch == first + 1


async def test_logins_at_once_leave_one_session(
    storage: Storage, vault: StoredVault, token: Callable[[int], bytes]
) -> None:
    epochs = await asyncio.gather(*(log_in(storage, vault, token(i)) for i in range(5)))
    assert sorted(epochs) == [1, 2, 3, 4, 5]
    for number, epoch in enumerate(epochs):
        if epoch == 5:
            assert (await storage.session(token(number), NOW)).epoch == 5
        else:
            assert await ended(storage, token(number)) is SessionEnd.SUPERSEDED


async def test_a_session_is_over_at_its_end_and_told_so_for_a_while(
    storage: Storage, vault: StoredVault, token: Callable[[int], bytes]
) -> None:
    await log_in(storage, vault, token(1))
    end = NOW + 15 * MINUTE
    assert (await storage.session(token(1), end - 1)).epoch == 1
    assert await ended(storage, token(1), end) is SessionEnd.EXPIRED
    await storage.expire(end + SESSION_MEMORY_MS - 1)
    assert await ended(storage, token(1), end) is SessionEnd.EXPIRED
    await storage.expire(end + SESSION_MEMORY_MS)
    assert await ended(storage, token(1), end) is SessionEnd.UNKNOWN


async def test_a_challenge_is_answered_once(
    storage: Storage, vault: StoredVault, token: Callable[[int], bytes]
) -> None:
    await log_in(storage, vault, token(1), nonce=bytes(32))
    with pytest.raises(NonceUsed):
        await log_in(storage, vault, token(2), nonce=bytes(32))
    assert (await storage.session(token(1), NOW)).epoch == 1  # the refused one ended nothing


async def test_strangers_get_no_session(
    storage: Storage, vault: StoredVault, token: Callable[[int], bytes]
) -> None:
    vault.devices.append(vault.device(new_keys(vault.source)))
    with pytest.raises(DeviceUnknown):
        await log_in(storage, vault, token(1), 2)
    assert await ended(storage, token(1)) is SessionEnd.UNKNOWN


async def put(
    storage: Storage,
    mailbox: bytes,
    side: MailSide = MailSide.OFFER,
    *,
    origin: bytes = b"origin",
    limit: int = 100,
    now_ms: int = NOW,
) -> None:
    await storage.put_mail(
        mailbox,
        side,
        mailbox + side.encode(),
        origin=origin,
        max_per_origin=limit,
        now_ms=now_ms,
        expires_at_ms=now_ms + 10 * MINUTE,
    )


async def test_each_side_of_a_mailbox_is_read_once(
    storage: Storage, token: Callable[[int], bytes]
) -> None:
    box = token(1)[-16:]
    with pytest.raises(MailAbsent):
        await storage.take_mail(box, MailSide.OFFER, NOW)
    await put(storage, box, MailSide.OFFER)
    with pytest.raises(MailAbsent):
        await storage.take_mail(box, MailSide.WELCOME, NOW)
    await put(storage, box, MailSide.WELCOME)
    for side in MailSide:
        assert await storage.take_mail(box, side, NOW) == box + side.encode()
        with pytest.raises(MailGone):
            await storage.take_mail(box, side, NOW)
        with pytest.raises(MailTaken):
            await put(storage, box, side)


async def test_of_readers_at_once_one_gets_the_message(
    storage: Storage, token: Callable[[int], bytes]
) -> None:
    box = token(2)[-16:]
    await put(storage, box)
    results = await asyncio.gather(
        *(storage.take_mail(box, MailSide.OFFER, NOW) for _ in range(4)), return_exceptions=True
    )
    assert sum(result == box + b"offer" for result in results) == 1
    assert sum(isinstance(result, MailGone) for result in results) == 3


async def test_a_message_is_gone_when_its_time_is_over(
    storage: Storage, token: Callable[[int], bytes]
) -> None:
    box = token(3)[-16:]
    await put(storage, box)
    end = NOW + 10 * MINUTE
    with pytest.raises(MailGone):
        await storage.take_mail(box, MailSide.OFFER, end)
    await storage.expire(end - 1)
    assert await storage.take_mail(box, MailSide.OFFER, end - 1) == box + b"offer"
    await storage.expire(end)
    with pytest.raises(MailAbsent):
        await storage.take_mail(box, MailSide.OFFER, end)
    await put(storage, box, now_ms=end)


async def test_one_origin_has_only_so_many_mailboxes(
    storage: Storage, token: Callable[[int], bytes]
) -> None:
    origin = token(4)
    results = await asyncio.gather(
        *(put(storage, token(i)[-16:], origin=origin, limit=3) for i in range(10, 18)),
        return_exceptions=True,
    )
    assert sum(isinstance(result, MailboxesFull) for result in results) == 5
    await put(storage, token(20)[-16:], origin=token(5), limit=3)
    await put(storage, token(21)[-16:], origin=origin, limit=3, now_ms=NOW + 10 * MINUTE)


async def test_figures_and_heads_cover_all_vaults(
    storage: Storage, vault: StoredVault, token: Callable[[int], bytes]
) -> None:
    before = await storage.usage(NOW)
    await vault.push(storage, vault.batch(0, 3))
    for number in (1, 2):  # the first one is ended by the second
        await log_in(storage, vault, token(number))
    await put(storage, token(3)[-16:])
    after = await storage.usage(NOW)
    state = await storage.vault(vault.id)
    assert after.rows - before.rows == 3
    assert after.sessions - before.sessions == 1
    assert after.mails - before.mails == 1
    later = await storage.usage(NOW + 60 * MINUTE)
    assert (later.sessions, later.mails) == (0, 0)

    heads = await storage.heads()
    assert [head.vault for head in heads] == sorted(head.vault for head in heads)
    assert VaultHead(vault.id, state.head) in heads
    assert after.vaults == len(heads)
    await storage.delete_vault(vault.id)
    gone = await storage.usage(NOW)
    assert (gone.vaults, gone.devices) == (after.vaults - 1, after.devices - 3)
    assert (gone.rows, gone.bytes) == (after.rows - 3, after.bytes - state.bytes)


def sqlite_tables_with(path: Path, vault: bytes) -> dict[str, int]:
    """How many rows of each table hold the id in any column; all tables are looked at."""
    with closing(sqlite3.connect(path)) as connection:
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        found: dict[str, int] = {}
        for (name,) in names.fetchall():
            rows = connection.execute(f"SELECT * FROM {name}").fetchall()
            found[name] = sum(
                any(isinstance(value, bytes) and vault in value for value in row) for row in rows
            )
        return found


def postgres_tables_with(server: PostgresServer, database: str, vault: bytes) -> dict[str, int]:
    names = server.sql(
        "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace"
        " AND relkind IN ('r', 'p') AND NOT relispartition",
        database,
    ).split()
    counts = " UNION ALL ".join(
        f"SELECT '{name}', count(*) FROM {name} AS r WHERE r::text LIKE '%{vault.hex()}%'"
        for name in names
    )
    rows = (line.split("|") for line in server.sql(counts, database).splitlines())
    return {name: int(count) for name, count in rows}


async def test_deleting_a_vault_leaves_no_row_of_it_in_any_table(
    storage: Storage,
    vault: StoredVault,
    token: Callable[[int], bytes],
    request: pytest.FixtureRequest,
    tmp_path: Path,
) -> None:
    other = StoredVault(request.node.nodeid + "other")
    await other.create(storage)
    for each, number in ((vault, 1), (other, 2)):
        await each.push(storage, each.batch(0, 3))
        await log_in(storage, each, token(number))
        rows = (await each.pull(storage)).rows
        await storage.put_wraps(each.id, [each.rewrap(rows[0], 2)])

    def tables_with(vault_id: bytes) -> dict[str, int]:
        if "sqlite" in request.node.name:
            return sqlite_tables_with(tmp_path / "server" / "sync.db", vault_id)
        server: PostgresServer = request.getfixturevalue("postgres_server")
        url: str = request.getfixturevalue("postgres_url")
        return postgres_tables_with(server, database_of(url), vault_id)

    of_vaults = {"vault", "device", "entry", "blob", "wrap", "checkpoint", "roster", "session"}
    no_vault = {"mail", "registration", "schema_migration", "server_key"}
    before = tables_with(vault.id)
    assert set(before) == of_vaults | no_vault  # a new table must be in one of the two
    assert {name for name, count in before.items() if count} == of_vaults
    kept = tables_with(other.id)

    await storage.delete_vault(vault.id)
    assert set(tables_with(vault.id).values()) == {0}
    assert tables_with(other.id) == kept
    assert head_of((await other.pull(storage)).rows) == (await storage.vault(other.id)).head
    assert await ended(storage, token(1)) is SessionEnd.UNKNOWN
    await vault.create(storage)
    assert (await storage.vault(vault.id)).head.n == 0
