"""After ROLLBACK and the owner's word: the server gets back what it has lost, byte for byte.

Roster entries first, then the original batches of every author with their checkpoints; the server
recomputes the very heads that we hold. Nothing is deleted anywhere (sync.md 9.5).
"""

from __future__ import annotations

import itertools
from functools import partial
from typing import TYPE_CHECKING

from memory_manager.sync.engine.parts import Parts, Progress
from memory_manager.sync.engine.rosters import newer_entries
from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.ledger import reseed, roster_log, state, verified
from memory_manager.sync.ledger.outbox import Batch
from memory_manager.sync.ledger.state import SyncState
from memory_manager.sync.wire.framing import Push, Signed
from memory_manager.sync.wire.log import ServerHead, server_head_verifies

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection


async def give_back(parts: Parts) -> None:
    """Until the server's head is ours. SyncRefused: SERVER_KEY, EQUIVOCATION, ROSTER_FORK, or
    TRUNCATED when the server takes a batch and does not move.
    """
    ours = await parts.store.read(state.require)
    tip = (await parts.client.pull(ours.n)).tip
    begun = at = min(await _verified_position(parts, ours, tip), ours.n)
    await _give_back_roster(parts)
    while at < ours.n:
        batch = await parts.store.read(partial(_batch_after, at))
        if batch is None:
            raise SyncRefused(SyncCode.TRUNCATED, n=at)
        head = (await parts.client.push(Push(0, batch.checkpoint, batch.rows))).head
        reached = await _verified_position(parts, ours, head)
        if reached <= at:
            raise SyncRefused(SyncCode.TRUNCATED, n=at)
        at = reached
        parts.tell(Progress("reseed", at - begun, ours.n - begun))


async def _verified_position(parts: Parts, ours: SyncState, head: Signed[ServerHead]) -> int:
    """The n of a head that is signed and lies on our log; one beyond our log counts too."""
    said = head.value
    if not server_head_verifies(ours.vault, said, head.signature, ours.server_key):
        raise SyncRefused(SyncCode.SERVER_KEY)
    if said.n <= ours.n:
        known = await parts.store.read(partial(_global_head, said.n))
        if known != said.g:
            raise SyncRefused(SyncCode.EQUIVOCATION, n=said.n)
    return said.n


async def _give_back_roster(parts: Parts) -> None:
    chain = await parts.store.read(roster_log.chain)
    theirs = (await parts.client.roster()).entries
    try:
        newer_entries(chain, theirs)  # it may have more than we: the next round takes that over
    except SyncRefused as error:
        if error.reason is not SyncCode.ROLLBACK:
            raise
    for entry in chain[len(theirs) :]:
        await parts.client.post_roster(entry)


def _global_head(n: int, connection: Connection) -> bytes:
    return verified.global_head(connection, n)


def _batch_after(n: int, connection: Connection) -> Batch | None:
    return next(itertools.islice(reseed.batches_after(connection, n), 1), None)
