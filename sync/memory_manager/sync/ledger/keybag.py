"""The epoch keys of the vault: random, the same on all its devices, kept inside the database.

Contract: vault.md 3, sync.md 8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory_manager.sync.wire import labels
from memory_manager.sync.wire.envelope import EpochKey
from memory_manager.vault.kdf import KeyMaterial, SecretBytes

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction


def put(transaction: Transaction, epoch: int, vrk: SecretBytes) -> None:
    """Keep VRK_e, 32 bytes, in place of what was kept for that epoch."""
    transaction.connection.execute(
        "INSERT INTO keybag(epoch, vrk) VALUES(?, ?)"
        " ON CONFLICT(epoch) DO UPDATE SET vrk = excluded.vrk",
        (epoch, bytes(vrk)),
    )


def vrk(connection: Connection, epoch: int) -> bytearray | None:
    """VRK_e, which the caller wipes; None when it is not known."""
    found = connection.execute("SELECT vrk FROM keybag WHERE epoch = ?", (epoch,)).fetchone()
    return None if found is None else bytearray(found[0])


def epochs(connection: Connection) -> list[int]:
    """The known epochs, oldest first."""
    return [epoch for (epoch,) in connection.execute("SELECT epoch FROM keybag ORDER BY epoch")]


def keep_all(connection: Connection, held: KeyMaterial) -> dict[int, bytearray]:
    """VRK_e of every known epoch, wiped with ``held``."""
    return {
        epoch: held.keep(bytearray(raw))
        for epoch, raw in connection.execute("SELECT epoch, vrk FROM keybag")
    }


def wrapping_keys(connection: Connection) -> dict[int, EpochKey]:
    """RWK_e of every known epoch; the caller wipes them with ``wipe_keys``."""
    return {
        epoch: EpochKey(epoch, labels.wrapping_key(raw))
        for epoch, raw in connection.execute("SELECT epoch, vrk FROM keybag")
    }


def current_key(connection: Connection) -> EpochKey | None:
    """RWK of the newest known epoch, under which new rows are sealed."""
    found = connection.execute("SELECT max(epoch), vrk FROM keybag").fetchone()
    return None if found[0] is None else EpochKey(found[0], labels.wrapping_key(found[1]))
