"""After a round: who opened an epoch wraps older rows anew, a piece at a time (sync.md 8).

Resumable anywhere: the server has a wrap before it counts as done here. Nothing waits for it.
"""

from __future__ import annotations

from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from memory_manager.sync.engine import own_state
from memory_manager.sync.engine.errors import SyncServerRefused
from memory_manager.sync.engine.own_state import Rewrapping
from memory_manager.sync.engine.parts import Parts
from memory_manager.sync.ledger import quarantine, rewrapping
from memory_manager.sync.ledger.rewrapping import Rewrapped
from memory_manager.sync.wire import canonical

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction

BATCH_ROWS: Final = 500
ROUND_BATCHES: Final = 20
_PATIENCE: Final = frozenset({HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.INSUFFICIENT_STORAGE})


async def rewrap(parts: Parts) -> None:
    """At most so many rows in one round; a server that is busy or full is asked another time."""
    for _ in range(ROUND_BATCHES):
        todo = await parts.store.read(partial(_todo, parts))
        if todo is None:
            return
        found = await parts.store.read(partial(_some, epoch=todo.epoch, after=todo.after))
        try:
            if found.wraps:
                await parts.client.push_wraps(found.wraps)
        except SyncServerRefused as error:
            if error.status in _PATIENCE:
                return
            raise
        await parts.store.write(partial(_done, todo.epoch, found))


def _todo(parts: Parts, connection: Connection) -> Rewrapping | None:
    """Where to go on; None when this is done, or another device's."""
    epoch = parts.roster.at(connection).epoch
    at = own_state.rewrapping(connection)
    if at is not None and at.epoch == epoch:
        return None if at.done else at
    if epoch == 1 or _opener(connection) != parts.secrets.device:
        return None
    return Rewrapping(epoch, 0, done=False)


def _some(connection: Connection, *, epoch: int, after: int) -> Rewrapped:
    return rewrapping.rewrap_some(connection, epoch, after, limit=BATCH_ROWS)


def _done(epoch: int, found: Rewrapped, transaction: Transaction) -> None:
    quarantine.store_wraps(transaction, found.wraps)
    at = Rewrapping(epoch, found.reached, done=found.reached == 0)
    own_state.write_rewrapping(transaction, at)


def _opener(connection: Connection) -> bytes | None:
    """Who signed the entry that opened the present epoch."""
    rows = connection.execute("SELECT document FROM roster_log ORDER BY idx DESC")
    for (raw,) in rows:
        document = canonical.decode(raw)
        if "epoch" in document:
            return bytes.fromhex(document["by"])
    return None
