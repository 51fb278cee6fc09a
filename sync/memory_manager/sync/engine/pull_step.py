"""Second step of a round: pages until our verified position is the server's, then better wraps.

Each page is verified and committed in one transaction or not at all (sync.md 4.3).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from memory_manager.base.times import now_ms
from memory_manager.sync.engine import own_state, proofs
from memory_manager.sync.engine.answers import StoredWrap
from memory_manager.sync.engine.parts import Parts, Progress
from memory_manager.sync.engine.roster_step import update_roster
from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.ledger import incoming, quarantine, state, verified
from memory_manager.sync.wire.acceptance import Accepted
from memory_manager.sync.wire.framing import Page
from memory_manager.sync.wire.log import ServerHead

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction

_RETRIED_ROWS = 200
_CONTACT_MS = 3_600_000
_ASKED_ROWS = 20


async def pull(parts: Parts, agreed: bytes | None = None) -> None:
    """SyncRefused with the code of 4.3 for a page that is not accepted; nothing of it is stored.

    ``agreed`` as for ``update_roster``, which runs again when entries name a newer roster.
    """
    begun: int | None = None
    while True:
        at = (await parts.store.read(state.require)).n
        begun = at if begun is None else begun
        page = await parts.client.pull(at)
        if await parts.store.read(partial(_names_newer_roster, parts, page)):
            await update_roster(parts, agreed)
        if page.rows:
            n = await parts.store.write(partial(_commit, parts, page))
            parts.tell(Progress("pull", n - begun, page.tip.value.n - begun))
        else:
            n = await _look(parts, page)
        if n >= page.tip.value.n:
            return


async def fetch_wraps(parts: Parts) -> None:
    """For rows that wait for a key or whose WRAP is broken: the server may have better ones."""
    if not await parts.store.read(quarantine.wants_wraps):
        return
    while True:
        cursor = (await parts.store.read(state.require)).wrap_cursor
        wraps, reached = await parts.client.pull_wraps(cursor)
        if not wraps or reached <= cursor:
            break
        await parts.store.write(partial(_store_wraps, wraps, reached))
    await _ask_again(parts)
    await parts.store.write(lambda tx: quarantine.retry(tx, parts.memories, limit=_RETRIED_ROWS))


async def _ask_again(parts: Parts) -> None:
    """A WRAP may have been altered on the way: the row itself, once more, a few in each round.

    Only the WRAP is looked at; it opens the BODY that is held, or it is not taken.
    """
    broken = await parts.store.read(_broken_rows)
    for n in [n for n in broken if n not in parts.asked_again][:_ASKED_ROWS]:
        page = await parts.client.pull(n - 1, 1)
        parts.asked_again.add(n)
        pairs = [(row.entry.body_hash, row.row.wrap) for row in page.rows]
        await parts.store.write(partial(_take_wraps, pairs))


def _broken_rows(connection: Connection) -> list[int]:
    rows = connection.execute(
        "SELECT e.n FROM quarantine q JOIN entry e ON e.rowid = q.entry_rowid"
        " WHERE q.code IN (?, ?) AND e.n IS NOT NULL ORDER BY e.n",
        (SyncCode.ROW_AUTH.value, SyncCode.WRONG_KEY.value),
    )
    return [n for (n,) in rows]


def _take_wraps(pairs: list[tuple[bytes, bytes]], transaction: Transaction) -> int:
    return quarantine.store_wraps(transaction, pairs)


def _names_newer_roster(parts: Parts, page: Page, connection: Connection) -> bool:
    known = parts.roster.at(connection).positions
    return any(row.entry.roster_hash not in known for row in page.rows)


def _accept(connection: Connection, parts: Parts, page: Page) -> Accepted:
    roster = parts.roster.at(connection)
    rules, log = verified.verifier(connection, roster), verified.load(connection)
    accepted = proofs.accepted(connection, rules, log, page)
    expected = own_state.expected(connection)
    if expected is not None and log.n < expected.n:
        _check_expected(expected, log.n, accepted, page)
    return accepted


def _check_expected(expected: ServerHead, before: int, accepted: Accepted, page: Page) -> None:
    """The log comes to the head that was known when this device joined."""
    if page.tip.value.n < expected.n:
        raise SyncRefused(SyncCode.ROLLBACK, n=page.tip.value.n)
    if accepted.log.n >= expected.n and (
        accepted.global_heads[expected.n - before - 1] != expected.g
    ):
        raise SyncRefused(SyncCode.EQUIVOCATION, n=expected.n)


def _commit(parts: Parts, page: Page, transaction: Transaction) -> int:
    """The verified position after the page."""
    accepted = _accept(transaction.connection, parts, page)
    incoming.commit_page(transaction, parts.memories, page, accepted)
    _remember(transaction, page)
    return accepted.log.n


async def _look(parts: Parts, page: Page) -> int:
    """A page without rows: nothing is written, but for the time of contact, once an hour."""

    def work(connection: Connection) -> tuple[int, bool]:
        n = _accept(connection, parts, page).log.n
        last = state.require(connection).last_contact_ms or 0
        kept = {head.value.n for head in own_state.heads(connection)}
        return n, page.tip.value.n not in kept or now_ms() - last > _CONTACT_MS

    n, is_news = await parts.store.read(work)
    if is_news:
        await parts.store.write(lambda tx: _remember(tx, page))
    return n


def _remember(transaction: Transaction, page: Page) -> None:
    at_end = page.tip.value.n == page.page_head.value.n
    own_state.keep_heads(transaction, [page.tip if at_end else page.page_head])
    state.contacted(transaction)


def _store_wraps(wraps: list[StoredWrap], reached: int, transaction: Transaction) -> None:
    quarantine.store_wraps(transaction, [(wrap.body_hash, wrap.wrap) for wrap in wraps])
    state.set_wrap_cursor(transaction, reached)
