"""What of the vault's log was verified, as the acceptance rule asks for it (sync.md 4.3)."""

from __future__ import annotations

import functools
from types import MappingProxyType
from typing import TYPE_CHECKING

from memory_manager.sync.ledger import state
from memory_manager.sync.wire.acceptance import DeviceHead, VerifiedLog, Verifier
from memory_manager.sync.wire.log import FIRST_GLOBAL_HEAD
from memory_manager.sync.wire.roster import Roster

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection


def load(connection: Connection) -> VerifiedLog:
    """n, G_n and every device's last numbered entry."""
    found = state.require(connection)
    rows = connection.execute("SELECT device, seq, head, roster_idx FROM device_head")
    devices = {device: DeviceHead(seq, head, idx) for device, seq, head, idx in rows}
    return VerifiedLog(found.n, found.g, MappingProxyType(devices))


def own_entry(connection: Connection, seq: int) -> bytes | None:
    """Our entry at ``seq``, 137 bytes; None beyond the end of our log."""
    found = connection.execute(
        "SELECT e.entry FROM sync_state s JOIN entry e ON e.device = s.device WHERE e.seq = ?",
        (seq,),
    ).fetchone()
    return None if found is None else found[0]


def global_head(connection: Connection, n: int) -> bytes:
    """G_n of the verified log; LookupError beyond it."""
    if n == 0:
        return FIRST_GLOBAL_HEAD
    found = connection.execute("SELECT g FROM entry WHERE n = ?", (n,)).fetchone()
    if found is None:
        raise LookupError("the verified log ends before that row")
    g: bytes = found[0]
    return g


def verifier(connection: Connection, roster: Roster) -> Verifier:
    """The acceptance rule over this database; use it only while ``connection`` may be used."""
    found = state.require(connection)
    return Verifier(
        vault=found.vault,
        server_key=found.server_key,
        device=found.device,
        roster=roster,
        own_entry=functools.partial(own_entry, connection),
        global_head=functools.partial(global_head, connection),
    )
