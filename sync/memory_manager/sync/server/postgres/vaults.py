"""The owner, vaults, their members and rosters: statements inside a transaction of the caller's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

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

if TYPE_CHECKING:
    from asyncpg import Record

    from memory_manager.sync.server.postgres.database import Line

VAULT_TABLES: Final = (
    "device",  # before session: a login that is under way holds its device
    "entry",
    "blob",
    "wrap",
    "checkpoint",
    "roster",
    "session",
)
"""Every table with rows of one vault, beside ``vault`` itself."""

_VAULT: Final = """SELECT n, g, wrap_n, roster_idx, roster_head, bytes,
  coalesce(quota_rows, $2) AS rows_quota, coalesce(quota_bytes, $3) AS bytes_quota,
  coalesce(quota_devices, $4) AS devices_quota FROM vault WHERE id = $1"""
_DEVICE: Final = "SELECT id, role, ed25519, cut, seq, head, session_epoch FROM device"
_PUT_MEMBER: Final = """INSERT INTO device VALUES ($1, $2, $3, $4, $5, 0, $6, 0)
  ON CONFLICT(vault, id) DO UPDATE
  SET role = excluded.role, ed25519 = excluded.ed25519, cut = excluded.cut"""
_PUT_ROSTER: Final = "INSERT INTO roster VALUES ($1, $2, $3, $4)"


async def owner(line: Line) -> bytes | None:
    key: bytes | None = await line.fetchval("SELECT public FROM server_key")
    return key


async def claim(line: Line, public_key: bytes) -> bytes:
    await line.execute("INSERT INTO server_key VALUES (1, $1) ON CONFLICT DO NOTHING", public_key)
    return await owner(line) or public_key


async def vault_row(line: Line, vault: bytes, default: Quota, *, lock: bool = False) -> Record:
    """The row of the vault; with ``lock`` no other process appends to it until COMMIT."""
    statement = _VAULT + (" FOR UPDATE" if lock else "")
    row = await line.fetchrow(statement, vault, default.rows, default.bytes, default.devices)
    if row is None:
        raise VaultUnknown
    return row


async def vault_state(
    line: Line, vault: bytes, default: Quota, *, lock: bool = False
) -> VaultState:
    return state_of(await vault_row(line, vault, default, lock=lock))


def state_of(row: Record) -> VaultState:
    quota = Quota(row["rows_quota"], row["bytes_quota"], row["devices_quota"])
    head = ServerHead(row["n"], row["g"])
    return VaultState(head, row["roster_idx"], row["roster_head"], row["bytes"], quota)


async def device_state(line: Line, vault: bytes, device: bytes) -> DeviceState:
    row = await line.fetchrow(f"{_DEVICE} WHERE vault = $1 AND id = $2", vault, device)
    if row is None:
        raise DeviceUnknown
    return _device(row)


async def device_states(line: Line, vault: bytes) -> tuple[DeviceState, ...]:
    rows = await line.fetch(f"{_DEVICE} WHERE vault = $1 ORDER BY id", vault)
    return tuple(map(_device, rows))


def _device(row: Record) -> DeviceState:
    return DeviceState(
        row["id"],
        Role(row["role"]),
        row["ed25519"],
        row["cut"],
        row["seq"],
        row["head"],
        row["session_epoch"],
    )


async def add_registration(line: Line, token_hash: bytes, expires_at_ms: int) -> None:
    await line.execute(
        "INSERT INTO registration VALUES ($1, $2) ON CONFLICT(token_hash)"
        " DO UPDATE SET expires_at_ms = excluded.expires_at_ms",
        token_hash,
        expires_at_ms,
    )


async def use_registration(line: Line, token_hash: bytes, now_ms: int) -> None:
    used = await line.fetchval(
        "DELETE FROM registration WHERE token_hash = $1 AND expires_at_ms > $2 RETURNING 1",
        token_hash,
        now_ms,
    )
    if used is None:
        raise RegistrationUnknown


async def create(
    line: Line, vault: bytes, genesis: SignedEntry, members: Sequence[Member], default: Quota
) -> None:
    octets = len(genesis.document) + len(genesis.signature)
    check_quota(default, octets=octets, devices=len(members))
    made = await line.fetchval(
        "INSERT INTO vault VALUES ($1, 0, $2, 0, $3, 0, $4) ON CONFLICT DO NOTHING RETURNING 1",
        vault,
        FIRST_GLOBAL_HEAD,
        octets,
        genesis.hash,
    )
    if made is None:
        raise VaultExists
    await line.execute(_PUT_ROSTER, vault, 0, genesis.document, genesis.signature)
    for member in members:
        await _put_member(line, vault, member)


async def delete(line: Line, vault: bytes) -> None:
    if await line.fetchval("DELETE FROM vault WHERE id = $1 RETURNING 1", vault) is None:
        raise VaultUnknown
    for table in VAULT_TABLES:
        await line.execute(f"DELETE FROM {table} WHERE vault = $1", vault)


async def set_quota(line: Line, vault: bytes, quota: OwnQuota) -> None:
    changed = await line.fetchval(
        "UPDATE vault SET quota_rows = $2, quota_bytes = $3, quota_devices = $4 WHERE id = $1"
        " RETURNING 1",
        vault,
        quota.rows,
        quota.bytes,
        quota.devices,
    )
    if changed is None:
        raise VaultUnknown


async def roster_page(line: Line, vault: bytes, after: int) -> RosterPage:
    last = await line.fetchrow("SELECT roster_idx, roster_head FROM vault WHERE id = $1", vault)
    if last is None:
        raise VaultUnknown
    rows = await line.fetch(
        "SELECT document, signature FROM roster WHERE vault = $1 AND idx > $2 ORDER BY idx",
        vault,
        min(after, last["roster_idx"]),
    )
    entries = tuple(SignedEntry(row["document"], row["signature"]) for row in rows)
    return RosterPage(entries, last["roster_idx"], last["roster_head"])


async def append_roster(
    line: Line,
    vault: bytes,
    idx: int,
    prev: bytes,
    entry: SignedEntry,
    members: Sequence[Member],
    default: Quota,
) -> None:
    state = await vault_state(line, vault, default, lock=True)
    if (state.roster_idx, state.roster_head) == (idx, entry.hash):
        return  # its answer was lost
    if (state.roster_idx + 1, state.roster_head) != (idx, prev):
        raise RosterHead(state.roster_idx, state.roster_head)
    octets = len(entry.document) + len(entry.signature)
    active = sum(member.is_active for member in members)
    check_quota(state.quota, octets=state.bytes + octets, devices=active)
    await line.execute(_PUT_ROSTER, vault, idx, entry.document, entry.signature)
    await line.execute(
        "UPDATE vault SET roster_idx = $2, roster_head = $3, bytes = bytes + $4 WHERE id = $1",
        vault,
        idx,
        entry.hash,
        octets,
    )
    known = {device.id: device for device in await device_states(line, vault)}
    for member in members:
        device = known.get(member.id)
        if device is None or (member.cut, member.ed25519) != (device.cut, device.ed25519):
            if device is not None and member.cut is not None and member.cut < device.seq:
                raise CutBehind(device.seq, device.head)
            await _put_member(line, vault, member)
        if not member.is_active:
            await _close_sessions(line, vault, member.id)


async def _put_member(line: Line, vault: bytes, member: Member) -> None:
    await line.execute(
        _PUT_MEMBER,
        vault,
        member.id,
        member.role.value,
        member.ed25519,
        member.cut,
        labels.ZERO_HASH,
    )


async def _close_sessions(line: Line, vault: bytes, device: bytes) -> None:
    await line.execute("DELETE FROM session WHERE vault = $1 AND device = $2", vault, device)


async def heads(line: Line) -> tuple[VaultHead, ...]:
    rows = await line.fetch("SELECT id, n, g FROM vault ORDER BY id")
    return tuple(VaultHead(row["id"], ServerHead(row["n"], row["g"])) for row in rows)
