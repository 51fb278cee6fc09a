"""Takes roster entries into the ledger together with the epoch keys they hand to this device.

Also decides between two chains that went apart (sync.md 7.1). Called inside vault transactions.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from memory_manager.sync.engine.device_secrets import DeviceSecrets
from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.ledger import keybag, marks, roster_log, state
from memory_manager.sync.membership.epoch_keys import collect_keys
from memory_manager.sync.wire import canonical, labels
from memory_manager.sync.wire.log import ENTRY_BYTES
from memory_manager.sync.wire.roster import Operation, Roster, SignedEntry
from memory_manager.vault.kdf import KeyMaterial

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction

_ROSTER_HASH_AT: Final = ENTRY_BYTES - labels.HASH_BYTES + 1  # of the last member, counted from 1


def follow(
    transaction: Transaction, entries: Sequence[SignedEntry], secrets: DeviceSecrets
) -> Roster:
    """Verify and store entries that follow our chain, and keep every key they let us read.

    Where this device signed one that is new here, a mark of our log names it at once (sync.md 4.3):
    whoever leaves out the entry would have to leave out that row. One that leaves writes no more.
    SyncRefused, and nothing is stored, for an entry that does not hold (ROSTER_FORK for another one
    at a position that is taken) and for a key that is not what the roster names (WRONG_KEY).
    """
    connection = transaction.connection
    last = state.require(connection).roster_idx
    roster = roster_log.append(transaction, entries)
    with KeyMaterial() as held:
        known = keybag.keep_all(connection, held)
        chain = roster_log.chain(connection)
        found = collect_keys(chain, roster, secrets.device, bytes(secrets.box_key()), known)
        for epoch, vrk in found.items():
            held.keep(vrk)
            if epoch not in known:
                keybag.put(transaction, epoch, vrk)
    us = roster.members.get(secrets.device)
    if us is not None and us.is_active and any(_is_by(each, us.id) for each in chain[last + 1 :]):
        marks.write_mark(transaction)
    return roster


def adopt_rotation(
    transaction: Transaction, theirs: Sequence[SignedEntry], secrets: DeviceSecrets
) -> Roster:
    """Take the server's last entries for ours after a fork of two rotations that theirs won.

    Only where nothing was written under the one that lost. SyncRefused(ROSTER_FORK) otherwise, and
    nothing is changed.
    """
    connection = transaction.connection
    ours = roster_log.chain(connection)
    lost = ours[-1]
    if (
        settle_fork(ours, theirs) is not ForkWinner.THEIRS
        or ours[:-1] != tuple(theirs[: len(ours) - 1])
        or _is_named(connection, lost.hash)
    ):
        raise SyncRefused(SyncCode.ROSTER_FORK, n=len(ours) - 1)
    epoch = canonical.decode(lost.document)["epoch"]["e"]
    connection.execute("DELETE FROM keybag WHERE epoch = ?", (epoch,))
    roster_log.drop_last(transaction)
    return follow(transaction, theirs[len(ours) - 1 :], secrets)


def _is_named(connection: Connection, roster_hash: bytes) -> bool:
    """Whether a log entry, numbered or not, was written on top of that roster entry."""
    found = connection.execute(
        "SELECT 1 FROM entry WHERE substr(entry, ?, ?) = ? LIMIT 1",
        (_ROSTER_HASH_AT, labels.HASH_BYTES, roster_hash),
    ).fetchone()
    return found is not None


class ForkWinner(enum.Enum):
    """Whose entry stands where two have one ``prev``."""

    OURS = "ours"
    THEIRS = "theirs"


def settle_fork(ours: Sequence[SignedEntry], theirs: Sequence[SignedEntry]) -> ForkWinner | None:
    """Which of two whole chains stands; None where one is the beginning of the other.

    Two pure rotations: the lower hash. Anything else is SyncRefused(ROSTER_FORK), for a person.
    """
    for our, their in zip(ours, theirs, strict=False):
        if our.document == their.document:
            continue
        if not (_is_rotation(our) and _is_rotation(their)):
            raise SyncRefused(SyncCode.ROSTER_FORK)
        return ForkWinner.OURS if our.hash < their.hash else ForkWinner.THEIRS
    return None


def _is_by(entry: SignedEntry, device: bytes) -> bool:
    return bool(canonical.decode(entry.document)["by"] == device.hex())


def _is_rotation(entry: SignedEntry) -> bool:
    return bool(canonical.decode(entry.document).get("op") == Operation.ROTATE)
