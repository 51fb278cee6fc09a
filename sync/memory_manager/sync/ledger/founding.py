"""Turning sync on, off and on again as another device: the ledger's first and last rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from memory_manager.sync.ledger.journal import SyncJournal
from memory_manager.sync.ledger.state import SyncState
from memory_manager.sync.wire.roster import SignedEntry
from memory_manager.vault.kdf import SecretBytes

if TYPE_CHECKING:
    from memory_manager.vault.transaction import Transaction


def turn_on(
    transaction: Transaction,
    journal: SyncJournal,
    *,
    vault: bytes,
    server_url: str,
    server_key: bytes,
    chain: Sequence[SignedEntry],
    keys: Mapping[int, SecretBytes],
) -> SyncState:
    """Become a member: genesis and join alike. ``chain`` is the whole roster, which must hold this
    device (the database's own id) as active; ``keys`` are VRK by epoch.

    From this transaction on every write is sealed; rows from before by ``seeding.seal_some``.
    SyncRefused for a chain that does not hold, Conflict when sync is on already.
    """
    raise NotImplementedError


def enrol_again(
    transaction: Transaction,
    journal: SyncJournal,
    *,
    chain: Sequence[SignedEntry],
    keys: Mapping[int, SecretBytes],
) -> SyncState:
    """Go on as the device the database now has (restored backup, ``fork_close``): what was
    verified stays, the old device's entries without a number go, what they said is sealed anew.
    """
    raise NotImplementedError


def turn_off(transaction: Transaction, journal: SyncJournal) -> None:
    """Empty every table of the ledger; the records stay as they are."""
    raise NotImplementedError
