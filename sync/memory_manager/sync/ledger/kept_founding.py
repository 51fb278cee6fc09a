"""A founding that a server was asked for and whose answer is not here yet, kept to be repeated.

A registration token makes one vault: so the very same genesis is sent until the answer arrives.
The key of its first epoch waits with it inside the vault, as those of the keybag do.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Final

from memory_manager.sync.wire import canonical, labels
from memory_manager.sync.wire.roster import SignedEntry
from memory_manager.vault import kdf, state_rows

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction

_KEY: Final = "sync_founding"
_VRK_AT: Final = labels.HASH_BYTES
_SIGNATURE_AT: Final = _VRK_AT + kdf.KEY_BYTES
_DOCUMENT_AT: Final = _SIGNATURE_AT + labels.SIGNATURE_BYTES


@dataclasses.dataclass(frozen=True, slots=True)
class KeptFounding:
    """For the server of that key; ``vrk`` is wiped by whoever holds this."""

    server_key: bytes
    vault: bytes
    genesis: SignedEntry = dataclasses.field(repr=False)
    vrk: bytearray = dataclasses.field(repr=False)


def put(transaction: Transaction, founding: KeptFounding) -> None:
    """Keep it, in place of what was kept."""
    genesis = founding.genesis
    value = founding.server_key + founding.vrk + genesis.signature + genesis.document
    transaction.connection.execute(
        "INSERT INTO vault_state(key, value) VALUES(?, ?)"
        " ON CONFLICT(key) DO UPDATE SET value = excluded.value",
        (_KEY, bytes(value)),
    )


def read(connection: Connection, server_key: bytes) -> KeptFounding | None:
    """What was kept for that server by this device; a restored vault is another device."""
    row = connection.execute("SELECT value FROM vault_state WHERE key = ?", (_KEY,)).fetchone()
    if row is None or row[0][:_VRK_AT] != server_key:
        return None
    raw: bytes = row[0]
    document = canonical.decode(raw[_DOCUMENT_AT:])
    if document["by"] != state_rows.read_identity(connection).device.hex():
        return None
    return KeptFounding(
        server_key,
        bytes.fromhex(document["vault"]),
        SignedEntry(raw[_DOCUMENT_AT:], raw[_SIGNATURE_AT:_DOCUMENT_AT]),
        bytearray(raw[_VRK_AT:_SIGNATURE_AT]),
    )


def forget(transaction: Transaction) -> None:
    """It is done with, one way or the other."""
    transaction.connection.execute("DELETE FROM vault_state WHERE key = ?", (_KEY,))
