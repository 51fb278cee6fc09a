"""What of the vault's log was verified, as the acceptance rule asks for it (sync.md 4.3)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory_manager.sync.wire.acceptance import VerifiedLog, Verifier
from memory_manager.sync.wire.roster import Roster

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection


def load(connection: Connection) -> VerifiedLog:
    """n, G_n and every device's last numbered entry."""
    raise NotImplementedError


def own_entry(connection: Connection, seq: int) -> bytes | None:
    """Our entry at ``seq``, 137 bytes; None beyond the end of our log."""
    raise NotImplementedError


def global_head(connection: Connection, n: int) -> bytes:
    """G_n of the verified log; LookupError beyond it."""
    raise NotImplementedError


def verifier(connection: Connection, roster: Roster) -> Verifier:
    """The acceptance rule over this database; use it only while ``connection`` may be used."""
    raise NotImplementedError
