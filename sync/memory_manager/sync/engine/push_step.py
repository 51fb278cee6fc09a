"""Last steps of a round: seal what was there before sync, then send the outbox batch by batch.

A row leaves the outbox only when a verified head of the server covers it (sync.md 9.4).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from memory_manager.sync.engine import own_state, proofs
from memory_manager.sync.engine.advice import GAP, Finding, Reaction, RoundStopped
from memory_manager.sync.engine.errors import SyncServerRefused
from memory_manager.sync.engine.parts import Parts, Progress
from memory_manager.sync.engine.pull_step import pull
from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.ledger import incoming, keybag, outbox, seeding, state, verified
from memory_manager.sync.ledger.outbox import Batch
from memory_manager.sync.membership.epoch_keys import check_key
from memory_manager.sync.wire.framing import Push, Signed
from memory_manager.sync.wire.log import Checkpoint, ServerHead, sign_checkpoint
from memory_manager.vault.kdf import wipe

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction

_SEALED_ROWS = 128


async def seal(parts: Parts) -> None:
    """Rows from before sync was turned on, a few in each transaction."""
    if not (await parts.store.read(state.require)).seeding:
        return
    before = await parts.store.read(seeding.progress)  # looks at every row: once
    sealed = before.sealed
    while count := await parts.store.write(
        lambda tx: seeding.seal_some(tx, parts.journal, limit=_SEALED_ROWS)
    ):
        sealed += count
        parts.tell(Progress("seal", sealed, max(sealed, before.total)))


async def push(parts: Parts, agreed: bytes | None = None) -> None:
    """Until the outbox is empty. SyncRefused(WRONG_KEY) before anything is sent under a wrong key,
    SyncRefused(TRUNCATED) when the server takes rows and does not show them.
    """
    waiting = total = await parts.store.read(outbox.count)
    sent, gap_met = 0, False
    while waiting:
        await parts.store.read(lambda connection: _pass_gate(connection, parts))
        batch = await parts.store.write(lambda tx: outbox.next_batch(tx, lambda c: _sign(parts, c)))
        if batch is None:
            return
        first = batch.rows[0].entry.seq
        if first == sent:
            raise SyncRefused(SyncCode.TRUNCATED, device=parts.secrets.device)
        await asyncio.to_thread(parts.flush_anchor)
        try:
            head = await _send(parts, batch)
        except SyncServerRefused as error:
            if error.reason != GAP or gap_met:
                raise
            gap_met = True
            await pull(parts, agreed)
        else:
            sent = first
            if not await parts.store.write(partial(_acknowledge, parts, head)):
                await pull(parts, agreed)  # other rows came between; they tell about ours
        waiting = await parts.store.read(outbox.count)
        total = max(total, waiting)
        parts.tell(Progress("push", total - waiting, total))


async def _send(parts: Parts, batch: Batch) -> Signed[ServerHead]:
    return (await parts.client.push(Push(0, batch.checkpoint, batch.rows))).head


def _sign(parts: Parts, checkpoint: Checkpoint) -> bytes:
    return sign_checkpoint(parts.secrets.signing_key(), checkpoint)


def _acknowledge(parts: Parts, head: Signed[ServerHead], transaction: Transaction) -> int:
    connection = transaction.connection
    try:
        covered = incoming.acknowledge(transaction, head)
    except SyncRefused as error:
        if error.reason is not SyncCode.EQUIVOCATION:
            raise
        rules = verified.verifier(connection, parts.roster.at(connection))
        raise proofs.equivocation(connection, rules, verified.load(connection), head) from None
    if covered:
        own_state.keep_heads(transaction, [head])
        state.contacted(transaction)
    return covered


def _pass_gate(connection: Connection, parts: Parts) -> None:
    """The wrong-key gate: every key that rows may be sealed under is the one the roster names."""
    roster = parts.roster.at(connection)
    if roster.epoch not in keybag.epochs(connection):
        raise RoundStopped(Finding(SyncCode.WAITING_KEY.value, Reaction.AGAIN))
    for epoch in roster.key_ids:
        key = keybag.vrk(connection, epoch)
        if key is not None:
            try:
                check_key(roster, epoch, key)
            finally:
                wipe(key)
