"""The log of the server's storage, the same in both databases (sync.md 9.3-9.5, 10)."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable

import pytest
from stored_vault import Opener, Pushed, StoredVault, head_of

from memory_manager.sync.server.refusals import (
    BrokenBatch,
    DeviceCut,
    DeviceUnknown,
    Fork,
    Gap,
    Quantity,
    QuotaExceeded,
    Refused,
    VaultUnknown,
)
from memory_manager.sync.server.storage import OwnQuota, Quota, Storage, StoredPage
from memory_manager.sync.wire.envelope import SealedRow
from memory_manager.sync.wire.framing import LogRow, Page, Signed, pack_page
from memory_manager.sync.wire.log import ServerHead

HUGE = (1 << 64) - 1
WAIT_SECONDS = 20.0


def framed_bytes(page: StoredPage) -> int:
    heads = (Signed(page.head, bytes(64)), Signed(page.tip, bytes(64)))
    return len(pack_page(Page(page.rows, page.checkpoints, *heads)))


async def test_rows_come_back_in_order_with_the_heads_they_make(
    storage: Storage, vault: StoredVault
) -> None:
    pushes = [vault.batch(0, 3), vault.batch(1, 2), vault.batch(0, 1)]
    answers = [await vault.push(storage, pushed) for pushed in pushes]
    page = await vault.pull(storage)

    assert [answer.first_n for answer in answers] == [1, 4, 6]
    assert [answer.added for answer in answers] == [3, 2, 1]
    sent = [row for pushed in pushes for row in pushed.rows]
    assert page.rows == tuple(dataclasses.replace(row, n=n) for n, row in enumerate(sent, 1))
    assert page.head == page.tip == answers[-1].head == head_of(page.rows)
    assert answers[0].head == head_of(page.rows[:3])
    assert page.checkpoints == tuple(pushed.checkpoint for pushed in pushes)
    assert (await storage.vault(vault.id)).head == page.tip


async def test_a_repeated_push_succeeds_and_changes_nothing(
    storage: Storage, vault: StoredVault
) -> None:
    pushed = vault.batch(0, 4)
    await vault.push(storage, vault.batch(1, 2))
    first = await vault.push(storage, pushed)
    await vault.push(storage, vault.batch(1, 1))
    before, state = await vault.pull(storage), await storage.vault(vault.id)

    for repeated in (pushed, vault.again(0, 2, 3), vault.again(0, 4, 4)):
        answer = await vault.push(storage, repeated)
        assert answer.added == 0
        assert answer.head == before.tip
        assert answer.first_n == first.first_n + repeated.rows[0].entry.seq - 1
    assert await vault.pull(storage) == before
    assert await storage.vault(vault.id) == state


async def test_the_new_end_of_a_partly_stored_batch_is_added(
    storage: Storage, vault: StoredVault
) -> None:
    await vault.push(storage, vault.batch(0, 3))
    await vault.push(storage, vault.batch(1, 1))
    vault.batch(0, 2)
    answer = await vault.push(storage, vault.again(0, 2, 5))

    page = await vault.pull(storage)
    assert (answer.first_n, answer.added) == (2, 2)
    assert answer.head == page.tip == head_of(page.rows)
    assert [row.entry.seq for row in page.rows] == [1, 2, 3, 1, 4, 5]


async def test_a_fork_names_both_heads_and_stores_nothing(
    storage: Storage, vault: StoredVault
) -> None:
    await vault.push(storage, vault.batch(0, 4))
    before = await vault.pull(storage)
    forked = vault.fork(0, 3)
    with pytest.raises(Fork) as refused:
        await vault.push(storage, forked)

    own = vault.devices[0].own
    assert refused.value.seq == 3
    assert refused.value.ours == own[2].entry.head
    assert refused.value.theirs == forked.rows[0].entry.head
    assert refused.value.wire_code == "FORK"
    # also behind rows that are the same
    hidden = Pushed((own[1], forked.rows[0]), forked.checkpoint)
    with pytest.raises(Fork):
        await vault.push(storage, hidden)
    assert await vault.pull(storage) == before


async def test_a_gap_tells_where_the_log_ends(storage: Storage, vault: StoredVault) -> None:
    await vault.push(storage, vault.batch(0, 2))
    vault.batch(0, 3)
    with pytest.raises(Gap) as refused:
        await vault.push(storage, vault.again(0, 4, 5))

    assert refused.value.seq == 2
    assert refused.value.head == vault.devices[0].own[1].entry.head
    assert (await storage.vault(vault.id)).head.n == 2


async def test_another_history_before_the_rows_is_a_gap(
    storage: Storage, vault: StoredVault
) -> None:
    await vault.push(storage, vault.batch(0, 2))
    vault.devices[0].own[1:] = vault.fork(0, 2).rows
    pushed = vault.batch(0, 1)
    with pytest.raises(Gap):
        await vault.push(storage, pushed)
    assert (await storage.vault(vault.id)).head.n == 2


def _changed_body(pushed: Pushed) -> Pushed:
    row = pushed.rows[1]
    other = SealedRow(row.row.body[:-1] + bytes([row.row.body[-1] ^ 1]), row.row.wrap)
    return _with_rows(pushed, (pushed.rows[0], LogRow(row.entry, other), *pushed.rows[2:]))


def _short_wrap(pushed: Pushed) -> Pushed:
    row = pushed.rows[0]
    other = LogRow(row.entry, SealedRow(row.row.body, row.row.wrap[:-1]))
    return _with_rows(pushed, (other, *pushed.rows[1:]))


def _with_rows(pushed: Pushed, rows: tuple[LogRow, ...]) -> Pushed:
    return Pushed(rows, pushed.checkpoint)


def _said(pushed: Pushed, **changes: object) -> Pushed:
    checkpoint = pushed.checkpoint
    value = dataclasses.replace(checkpoint.value, **changes)
    return Pushed(pushed.rows, dataclasses.replace(checkpoint, value=value))


BROKEN: dict[str, Callable[[Pushed], Pushed]] = {
    "empty": lambda pushed: _with_rows(pushed, ()),
    "reordered": lambda pushed: _with_rows(pushed, pushed.rows[::-1]),
    "one left out": lambda pushed: _with_rows(pushed, (pushed.rows[0], pushed.rows[2])),
    "one twice": lambda pushed: _with_rows(pushed, (pushed.rows[0], *pushed.rows)),
    "another body": _changed_body,
    "a short wrap": _short_wrap,
    "a checkpoint before the end": lambda pushed: _with_rows(pushed, pushed.rows[:2]),
    "a checkpoint of another head": lambda pushed: _said(pushed, head=bytes(32)),
    "a checkpoint of another device": lambda pushed: _said(pushed, device=bytes(16)),
    "a checkpoint of another vault": lambda pushed: _said(pushed, vault=bytes(16)),
}


@pytest.mark.parametrize("name", BROKEN)
async def test_what_is_no_batch_is_refused(storage: Storage, vault: StoredVault, name: str) -> None:
    pushed = BROKEN[name](vault.batch(0, 3))
    with pytest.raises(BrokenBatch):
        await vault.push(storage, pushed)
    assert (await storage.vault(vault.id)).head.n == 0


async def test_rows_of_two_authors_are_no_batch(storage: Storage, vault: StoredVault) -> None:
    other, pushed = vault.batch(1, 1), vault.batch(0, 1)
    mixed = Pushed((*other.rows, *pushed.rows), pushed.checkpoint)
    with pytest.raises(BrokenBatch):
        await vault.push(storage, mixed)


async def test_rows_of_another_vault_are_refused(
    storage: Storage, vault: StoredVault, request: pytest.FixtureRequest
) -> None:
    stranger = StoredVault(request.node.nodeid + "stranger")
    await stranger.create(storage)
    pushed = stranger.batch(0, 1)
    with pytest.raises(BrokenBatch):
        await storage.append(vault.id, pushed.rows, pushed.checkpoint)
    assert [row for row in (await vault.pull(storage)).rows] == []


async def test_who_is_no_member_cannot_be_an_author(
    storage: Storage, request: pytest.FixtureRequest
) -> None:
    vault = StoredVault(request.node.nodeid, devices=1)
    await vault.create(storage)
    vault.devices.append(vault.device(vault.founded.add()))  # its entry never reaches the server
    with pytest.raises(DeviceUnknown):
        await vault.push(storage, vault.batch(1, 1))


async def test_rows_up_to_the_cut_are_taken_and_none_behind_it(
    storage: Storage, vault: StoredVault
) -> None:
    await vault.push(storage, vault.batch(1, 1))
    vault.batch(1, 3)
    cut = vault.devices[1].own[2].entry
    await vault.revoke(storage, 1, cut.seq, cut.head)

    with pytest.raises(DeviceCut):
        await vault.push(storage, vault.again(1, 2, 4))
    assert (await vault.push(storage, vault.again(1, 2, 3))).added == 2
    assert (await vault.push(storage, vault.again(1, 1, 3))).added == 0
    with pytest.raises(DeviceCut):
        await vault.push(storage, vault.again(1, 4, 4))


async def test_a_log_that_is_seeded_again_has_the_same_heads(
    storage: Storage, vault: StoredVault, request: pytest.FixtureRequest
) -> None:
    pushes = [vault.batch(0, 3), vault.batch(1, 2), vault.batch(0, 2)]
    for pushed in pushes:
        await vault.push(storage, pushed)
    before = await vault.pull(storage)
    await storage.delete_vault(vault.id)
    await vault.create(storage)
    for pushed in pushes:
        await vault.push(storage, pushed)
    assert await vault.pull(storage) == before


async def test_pages_end_where_they_must_and_carry_the_checkpoints_in_them(
    storage: Storage, vault: StoredVault
) -> None:
    pushes = [vault.batch(0, 3), vault.batch(1, 3), vault.batch(0, 3)]
    for pushed in pushes:
        await vault.push(storage, pushed)
    whole = await vault.pull(storage)

    page = await vault.pull(storage, after=2, limit=5)
    assert [row.n for row in page.rows] == [3, 4, 5, 6, 7]
    assert page.checkpoints == (pushes[0].checkpoint, pushes[1].checkpoint)
    assert page.head == head_of(whole.rows[:7])
    assert page.tip == whole.tip
    for after in (9, 10, HUGE):
        assert await vault.pull(storage, after=after) == StoredPage((), (), whole.tip, whole.tip)
    assert len((await vault.pull(storage, after=0, limit=0)).rows) == 1


async def test_a_page_has_at_most_the_octets_asked_for_and_at_least_a_row(
    storage: Storage, vault: StoredVault
) -> None:
    for _ in range(6):
        await vault.push(storage, vault.batch(0, 2))
    whole = await vault.pull(storage)
    size = framed_bytes(whole)

    assert await storage.page(vault.id, 0, 100, size) == whole
    assert len((await storage.page(vault.id, 0, 100, size - 1)).rows) == len(whole.rows) - 1
    for limit in range(1, size, size // 7):
        page = await storage.page(vault.id, 0, 100, limit)
        assert page.rows == whole.rows[: len(page.rows)]
        assert len(page.rows) == 1 or framed_bytes(page) <= limit
        assert page.head == head_of(page.rows)


async def test_numbers_beyond_every_log_are_answered_like_others(
    storage: Storage, vault: StoredVault
) -> None:
    pushed = vault.batch(0, 1)
    entry = dataclasses.replace(pushed.rows[0].entry, seq=HUGE)
    far = _said(
        Pushed((LogRow(entry, pushed.rows[0].row),), pushed.checkpoint),
        **{"seq": HUGE, "head": entry.head, "n": HUGE},
    )
    with pytest.raises(Gap):
        await vault.push(storage, far)
    assert (await storage.roster(vault.id, HUGE)).entries == ()
    assert (await storage.wraps(vault.id, HUGE, 10)).wraps == ()


async def test_the_newest_wrap_travels_and_the_others_can_be_asked_for(
    storage: Storage, vault: StoredVault
) -> None:
    await vault.push(storage, vault.batch(0, 3))
    rows = (await vault.pull(storage)).rows
    unknown = dataclasses.replace(vault.rewrap(rows[0], 2), body_hash=b"\x07" * 32)
    second = [vault.rewrap(rows[0], 2), unknown, vault.rewrap(rows[1], 2)]
    third = [vault.rewrap(rows[0], 3)]

    assert await storage.put_wraps(vault.id, second) == 2
    assert await storage.put_wraps(vault.id, third) == 1
    assert await storage.put_wraps(vault.id, []) == 0
    newest = [row.row.wrap for row in (await vault.pull(storage)).rows]
    assert newest == [third[0].wrap, second[2].wrap, rows[2].row.wrap]
    page = await storage.wraps(vault.id, 0, 2)
    assert page.wraps == (second[0], second[2])
    rest = await storage.wraps(vault.id, page.cursor, 2)
    assert rest.wraps == (third[0],)
    assert await storage.wraps(vault.id, rest.cursor, 2) == dataclasses.replace(rest, wraps=())


async def test_a_wrap_of_the_same_epoch_is_replaced_and_comes_again(
    storage: Storage, vault: StoredVault
) -> None:
    await vault.push(storage, vault.batch(0, 1))
    (row,) = (await vault.pull(storage)).rows
    cursor = (await storage.wraps(vault.id, 0, 10)).cursor
    octets = (await storage.vault(vault.id)).bytes
    for epoch in (1, 1, 2, 2):
        wrap = vault.rewrap(row, epoch)
        assert await storage.put_wraps(vault.id, [vault.rewrap(row, epoch), wrap]) == 2
        page = await storage.wraps(vault.id, cursor, 10)
        assert page.wraps == (wrap,)
        cursor = page.cursor
    # the wrap that came with the row was replaced: only one is new
    assert (await storage.vault(vault.id)).bytes == octets + 32 + 92


async def test_vaults_see_nothing_of_each_other(
    storage: Storage, vault: StoredVault, request: pytest.FixtureRequest
) -> None:
    twin = StoredVault(request.node.nodeid + "twin")
    await twin.create(storage)
    await vault.push(storage, vault.batch(0, 3))
    await twin.push(storage, twin.batch(1, 2))
    mine, theirs = (await vault.pull(storage)).rows, (await twin.pull(storage)).rows

    assert {row.entry.vault for row in mine} == {vault.id}
    assert {row.entry.vault for row in theirs} == {twin.id}
    # ids of the other vault look like ids of nobody
    assert await storage.put_wraps(twin.id, [vault.rewrap(mine[0], 2)]) == 0
    for device in (vault.devices[1].keys.id, bytes(16)):
        with pytest.raises(DeviceUnknown):
            await storage.device(twin.id, device)
    assert (await storage.vault(twin.id)).head == head_of(theirs)
    assert (await storage.roster(twin.id, -1)).entries == tuple(twin.founded.chain)


async def test_a_vault_that_is_not_there_is_unknown_to_every_call(
    storage: Storage, request: pytest.FixtureRequest
) -> None:
    vault = StoredVault(request.node.nodeid)
    pushed = vault.batch(0, 1)
    entry = vault.founded.chain[1]
    calls = [
        storage.vault(vault.id),
        storage.devices(vault.id),
        storage.delete_vault(vault.id),
        storage.set_quota(vault.id, OwnQuota()),
        storage.append(vault.id, pushed.rows, pushed.checkpoint),
        storage.page(vault.id, 0, 10, 1 << 20),
        storage.wait_beyond(vault.id, 0, 1.0),
        storage.put_wraps(vault.id, []),
        storage.wraps(vault.id, 0, 10),
        storage.roster(vault.id, -1),
        storage.append_roster(vault.id, 1, bytes(32), entry, ()),
    ]
    for call in calls:
        with pytest.raises(VaultUnknown):
            await call


async def test_a_full_vault_takes_no_more_rows_but_repeats(
    storage: Storage, vault: StoredVault
) -> None:
    await storage.set_quota(vault.id, OwnQuota(rows=3))
    assert (await storage.vault(vault.id)).quota == Quota(rows=3)
    pushed = vault.batch(0, 3)
    await vault.push(storage, pushed)
    with pytest.raises(QuotaExceeded) as refused:
        await vault.push(storage, vault.batch(0, 1))
    assert (refused.value.what, refused.value.limit) == (Quantity.ROWS, 3)
    assert (await vault.push(storage, pushed)).added == 0
    await storage.set_quota(vault.id, OwnQuota())
    assert (await vault.push(storage, vault.again(0, 4, 4))).added == 1


async def test_octets_are_counted_and_limited(storage: Storage, vault: StoredVault) -> None:
    before = (await storage.vault(vault.id)).bytes
    assert before == sum(len(entry.document) + 64 for entry in vault.founded.chain)
    pushed = vault.batch(0, 4)
    size = sum(137 + len(row.row.body) + 32 + 92 for row in pushed.rows)
    await storage.set_quota(vault.id, OwnQuota(bytes=before + size - 1))
    with pytest.raises(QuotaExceeded) as refused:
        await vault.push(storage, pushed)
    assert refused.value.what is Quantity.BYTES

    await storage.set_quota(vault.id, OwnQuota(bytes=before + size))
    await vault.push(storage, pushed)
    assert (await storage.vault(vault.id)).bytes == before + size
    with pytest.raises(QuotaExceeded):
        await storage.put_wraps(vault.id, [vault.rewrap(pushed.rows[0], 2)])
    assert (await storage.wraps(vault.id, 0, 10)).wraps == ()


async def test_the_servers_quota_holds_for_who_has_none_of_its_own(
    opened: Opener, request: pytest.FixtureRequest
) -> None:
    vault = StoredVault(request.node.nodeid)
    async with opened(Quota(rows=2)) as storage:
        await vault.create(storage)
        with pytest.raises(QuotaExceeded):
            await vault.push(storage, vault.batch(0, 3))
        assert (await storage.vault(vault.id)).quota.rows == 2


async def looks_behind(storage: Storage, vault: StoredVault) -> None:
    """Return when reads that were asked before have been answered, so that waiters wait."""
    for _ in range(10):
        await storage.vault(vault.id)


async def test_a_waiter_hears_of_the_next_row(storage: Storage, vault: StoredVault) -> None:
    assert await storage.wait_beyond(vault.id, 0, 0.0) == 0
    async with asyncio.timeout(WAIT_SECONDS), asyncio.TaskGroup() as group:
        waiters = [group.create_task(storage.wait_beyond(vault.id, 0, 55.0)) for _ in range(3)]
        await looks_behind(storage, vault)
        await vault.push(storage, vault.batch(0, 2))
    assert [waiter.result() for waiter in waiters] == [2, 2, 2]
    assert await storage.wait_beyond(vault.id, 1, 55.0) == 2


async def test_a_waiter_is_told_the_length_when_its_time_is_over(
    storage: Storage, vault: StoredVault
) -> None:
    await vault.push(storage, vault.batch(0, 2))
    assert await storage.wait_beyond(vault.id, 5, 0.05) == 2


async def test_a_waiter_learns_that_the_vault_is_gone(storage: Storage, vault: StoredVault) -> None:
    async def refused() -> type[Refused]:
        with pytest.raises(VaultUnknown) as raised:
            await storage.wait_beyond(vault.id, 0, 55.0)
        return raised.type

    async with asyncio.timeout(WAIT_SECONDS), asyncio.TaskGroup() as group:
        waiter = group.create_task(refused())
        await looks_behind(storage, vault)
        await storage.delete_vault(vault.id)
    assert waiter.result() is VaultUnknown


async def test_pushes_at_the_same_time_make_one_contiguous_log(
    storage: Storage, request: pytest.FixtureRequest
) -> None:
    vault = StoredVault(request.node.nodeid, devices=4)
    await vault.create(storage)

    async def pushes(who: int) -> list[ServerHead]:
        heads: list[ServerHead] = []
        for rows in (1, 3, 2, 1, 4):
            answer = await vault.push(storage, vault.batch(who, rows))
            heads.append(answer.head)
            assert answer.head.n >= answer.first_n + rows - 1
        return heads

    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(pushes(who)) for who in range(4)]
    page = await vault.pull(storage)
    assert [row.n for row in page.rows] == list(range(1, 45))
    assert page.tip == head_of(page.rows)
    for head in (head for task in tasks for head in task.result()):
        assert head == head_of(page.rows[: head.n])


async def test_one_push_sent_twice_at_once_is_stored_once(
    storage: Storage, vault: StoredVault
) -> None:
    pushed = vault.batch(0, 5)
    answers = await asyncio.gather(*(vault.push(storage, pushed) for _ in range(4)))
    assert sorted(answer.added for answer in answers) == [0, 0, 0, 5]
    assert {(answer.head, answer.first_n) for answer in answers} == {(answers[0].head, 1)}


async def test_the_log_is_there_when_the_server_starts_again(
    opened: Opener, request: pytest.FixtureRequest
) -> None:
    vault = StoredVault(request.node.nodeid)
    async with opened() as storage:
        await vault.create(storage)
        await vault.push(storage, vault.batch(0, 3))
        before = await vault.pull(storage)
    async with opened() as storage:
        assert await vault.pull(storage) == before
        assert (await vault.push(storage, vault.batch(0, 1))).first_n == 4
