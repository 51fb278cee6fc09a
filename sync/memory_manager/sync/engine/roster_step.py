"""First step of a round: take over what the server's roster adds to ours, if it holds.

Changes by other devices wait for the owner (sync.md 5); forks stop (7.1).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from memory_manager.sync.engine.advice import Finding, Reaction, RoundStopped
from memory_manager.sync.engine.errors import SyncUnreachable
from memory_manager.sync.engine.parts import Parts
from memory_manager.sync.engine.rosters import changes, newer_entries
from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.ledger import roster_log
from memory_manager.sync.membership.chain import entries_after
from memory_manager.sync.membership.following import adopt_rotation, follow
from memory_manager.sync.wire.roster import Role, Roster, SignedEntry

if TYPE_CHECKING:
    from memory_manager.vault.transaction import Transaction


async def update_roster(parts: Parts, agreed: bytes | None = None) -> None:
    """RoundStopped with ROSTER_CHANGED when the owner must agree first.

    ``agreed`` is the hash of the newest entry that the owner agreed to. SyncRefused: REVOKED_DEVICE
    when this device is out, ROSTER_FORK, ROLLBACK, UNKNOWN_DEVICE for a chain that does not hold.
    """
    ours = await parts.store.read(roster_log.chain)
    roster = await parts.store.read(parts.roster.at)
    try:
        newer = await _newer_entries(parts, roster, ours)
    except SyncRefused as error:
        if error.reason is not SyncCode.ROSTER_FORK or not await _settled(parts):
            raise
        return
    if not newer:
        return
    after = await asyncio.to_thread(roster.verify, newer)
    us = after.members.get(parts.secrets.device)
    if us is None or not us.is_active:
        raise SyncRefused(SyncCode.REVOKED_DEVICE, device=parts.secrets.device)
    if after.head != agreed:
        _ask_owner(newer, after, parts.secrets.device)
    await parts.store.write(partial(_take_over, newer, parts))


async def _newer_entries(
    parts: Parts, roster: Roster, ours: tuple[SignedEntry, ...]
) -> tuple[SignedEntry, ...]:
    """What the server has behind our last entry; nothing when it has the same chain."""
    found = list[SignedEntry]()
    tail = await parts.client.roster(after=len(ours) - 1)
    while tail.entries and tail.entries[-1].hash != tail.head:  # more than one answer holds
        found.extend(tail.entries)
        tail = await parts.client.roster(after=len(ours) + len(found) - 1)
    found.extend(tail.entries)
    if not found and tail.head == ours[-1].hash:
        return ()
    if found:
        try:
            await asyncio.to_thread(roster.verify, tuple(found))
            return tuple(found)
        except SyncRefused as error:
            if error.reason is not SyncCode.ROSTER_FORK:
                raise
    whole = await parts.client.roster()
    newer = newer_entries(ours, whole.entries)
    if not newer:
        raise SyncUnreachable("The server contradicts itself about the list of devices.")
    return newer


async def _settled(parts: Parts) -> bool:
    """Whether two rotations went apart and the server's stands, which is ours from now on."""
    whole = await entries_after(parts.client, -1)
    secrets = parts.secrets
    try:
        await parts.store.write(lambda tx: adopt_rotation(tx, whole, secrets))
    except SyncRefused:
        return False
    return True


def _ask_owner(newer: tuple[SignedEntry, ...], after: Roster, us: bytes) -> None:
    asked = [change for change in changes(newer, us) if not change.is_harmless]
    if not asked:
        return
    recovery = {member.id for member in after.members.values() if member.role is Role.RECOVERY}
    said = "; ".join(change.said(recovery) for change in asked)
    raise RoundStopped(
        Finding(
            SyncCode.ROSTER_CHANGED.value,
            Reaction.ASK,
            asked[0].by,
            asked[0].idx,
            detail={"head": after.head.hex(), "changes": said},
        )
    )


def _take_over(newer: tuple[SignedEntry, ...], parts: Parts, transaction: Transaction) -> None:
    """Entries and the epoch keys in them; what waited for a key is tried again after the pull."""
    follow(transaction, newer, parts.secrets)
