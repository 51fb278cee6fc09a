"""The owner, vaults, their members and rosters: statements inside a transaction of the caller's."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Final

from memory_manager.sync.server.batches import check_quota
from memory_manager.sync.server.refusals import (
    CutBehind,
    DeviceUnknown,
    RegistrationUnknown,
    RosterHead,
    VaultExists,
    VaultUnknown,
)
from memory_manager.sync.server.storage import (
    DeviceState,
    OwnQuota,
    Quota,
    RosterPage,
    VaultHead,
    VaultState,
)
from memory_manager.sync.wire import labels
from memory_manager.sync.wire.log import FIRST_GLOBAL_HEAD, ServerHead
from memory_manager.sync.wire.roster import Member, Role, SignedEntry

VAULT_TABLES: Final = (
    "device",
    "entry",
    "blob",
    "wrap",
    "checkpoint",
    "roster",
    "session",
)
"""Every table with rows of one vault, beside ``vault`` itself."""

_DEVICE: Final = "SELECT id, role, ed25519, cut, seq, head, session_epoch FROM device"


def owner(connection: sqlite3.Connection) -> bytes | None:
    row = connection.execute("SELECT public FROM server_key").fetchone()
    return None if row is None else row[0]


def claim(connection: sqlite3.Connection, public_key: bytes) -> bytes:
    connection.execute("INSERT INTO server_key VALUES (1, ?) ON CONFLICT DO NOTHING", (public_key,))
    return owner(connection) or public_key


def vault_state(connection: sqlite3.Connection, vault: bytes, default: Quota) -> VaultState:
    row = connection.execute(
        "SELECT n, g, roster_idx, roster_head, bytes, coalesce(quota_rows, ?),"
        " coalesce(quota_bytes, ?), coalesce(quota_devices, ?) FROM vault WHERE id = ?",
        (default.rows, default.bytes, default.devices, vault),
    ).fetchone()
    if row is None:
        raise VaultUnknown
    n, g, roster_idx, roster_head, octets, *quota = row
    return VaultState(ServerHead(n, g), roster_idx, roster_head, octets, Quota(*quota))


def device_state(connection: sqlite3.Connection, vault: bytes, device: bytes) -> DeviceState:
    row = connection.execute(f"{_DEVICE} WHERE vault = ? AND id = ?", (vault, device)).fetchone()
    if row is None:
        raise DeviceUnknown
    return _device(row)


def device_states(connection: sqlite3.Connection, vault: bytes) -> tuple[DeviceState, ...]:
    rows = connection.execute(f"{_DEVICE} WHERE vault = ? ORDER BY id", (vault,))
    return tuple(map(_device, rows))


def _device(row: tuple[bytes, str, bytes, int | None, int, bytes, int]) -> DeviceState:
    device, role, ed25519, cut, seq, head, session_epoch = row
    return DeviceState(device, Role(role), ed25519, cut, seq, head, session_epoch)


def add_registration(connection: sqlite3.Connection, token_hash: bytes, expires: int) -> None:
    connection.execute("INSERT OR REPLACE INTO registration VALUES (?, ?)", (token_hash, expires))


def use_registration(connection: sqlite3.Connection, token_hash: bytes, now_ms: int) -> None:
    used = connection.execute(
        "DELETE FROM registration WHERE token_hash = ? AND expires_at_ms > ?", (token_hash, now_ms)
    )
    if used.rowcount != 1:
        raise RegistrationUnknown


def create(
    connection: sqlite3.Connection,
    vault: bytes,
    genesis: SignedEntry,
    members: Sequence[Member],
    default: Quota,
) -> None:
    if connection.execute("SELECT 1 FROM vault WHERE id = ?", (vault,)).fetchone():
        raise VaultExists
    octets = len(genesis.document) + len(genesis.signature)
    check_quota(default, octets=octets, devices=len(members))
    connection.execute(
        "INSERT INTO vault VALUES (?, 0, ?, 0, ?, 0, ?, NULL, NULL, NULL)",
        (vault, FIRST_GLOBAL_HEAD, octets, genesis.hash),
    )
    _insert_roster(connection, vault, 0, genesis)
    for member in members:
        _put_member(connection, vault, member)


def delete(connection: sqlite3.Connection, vault: bytes) -> None:
    if connection.execute("DELETE FROM vault WHERE id = ?", (vault,)).rowcount != 1:
        raise VaultUnknown
    for table in VAULT_TABLES:
        connection.execute(f"DELETE FROM {table} WHERE vault = ?", (vault,))


def set_quota(connection: sqlite3.Connection, vault: bytes, quota: OwnQuota) -> None:
    changed = connection.execute(
        "UPDATE vault SET quota_rows = ?, quota_bytes = ?, quota_devices = ? WHERE id = ?",
        (quota.rows, quota.bytes, quota.devices, vault),
    )
    if changed.rowcount != 1:
        raise VaultUnknown


def roster_page(connection: sqlite3.Connection, vault: bytes, after: int) -> RosterPage:
    last = connection.execute(
        "SELECT roster_idx, roster_head FROM vault WHERE id = ?", (vault,)
    ).fetchone()
    if last is None:
        raise VaultUnknown
    rows = connection.execute(
        "SELECT document, signature FROM roster WHERE vault = ? AND idx > ? ORDER BY idx",
        (vault, min(after, last[0])),
    )
    return RosterPage(tuple(SignedEntry(*row) for row in rows), last[0], last[1])


def append_roster(
    connection: sqlite3.Connection,
    vault: bytes,
    idx: int,
    prev: bytes,
    entry: SignedEntry,
    members: Sequence[Member],
    default: Quota,
) -> None:
    state = vault_state(connection, vault, default)
    if (state.roster_idx, state.roster_head) == (idx, entry.hash):
        return  # its answer was lost
    if (state.roster_idx + 1, state.roster_head) != (idx, prev):
        raise RosterHead(state.roster_idx, state.roster_head)
    octets = len(entry.document) + len(entry.signature)
    active = sum(member.is_active for member in members)
    check_quota(state.quota, octets=state.bytes + octets, devices=active)
    _insert_roster(connection, vault, idx, entry)
    connection.execute(
        "UPDATE vault SET roster_idx = ?, roster_head = ?, bytes = bytes + ? WHERE id = ?",
        (idx, entry.hash, octets, vault),
    )
    known = {device.id: device for device in device_states(connection, vault)}
    for member in members:
        device = known.get(member.id)
        if device is None or (member.cut, member.ed25519) != (device.cut, device.ed25519):
            if device is not None and member.cut is not None and member.cut < device.seq:
                raise CutBehind(device.seq, device.head)
            _put_member(connection, vault, member)
        if not member.is_active:
            _close_sessions(connection, vault, member.id)


def _insert_roster(
    connection: sqlite3.Connection, vault: bytes, idx: int, entry: SignedEntry
) -> None:
    connection.execute(
        "INSERT INTO roster VALUES (?, ?, ?, ?)", (vault, idx, entry.document, entry.signature)
    )


def _put_member(connection: sqlite3.Connection, vault: bytes, member: Member) -> None:
    connection.execute(
        "INSERT INTO device VALUES (?, ?, ?, ?, ?, 0, ?, 0) ON CONFLICT(vault, id)"
        " DO UPDATE SET role = excluded.role, ed25519 = excluded.ed25519, cut = excluded.cut",
        (vault, member.id, member.role.value, member.ed25519, member.cut, labels.ZERO_HASH),
    )


def _close_sessions(connection: sqlite3.Connection, vault: bytes, device: bytes) -> None:
    connection.execute("DELETE FROM session WHERE vault = ? AND device = ?", (vault, device))


def heads(connection: sqlite3.Connection) -> tuple[VaultHead, ...]:
    rows = connection.execute("SELECT id, n, g FROM vault ORDER BY id")
    return tuple(VaultHead(vault, ServerHead(n, g)) for vault, n, g in rows)
