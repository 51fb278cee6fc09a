"""What ``status`` says of sync: codes, numbers, devices, six words; never content of a row."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from memory_manager.base.times import rfc3339
from memory_manager.sync.engine import own_state
from memory_manager.sync.engine.advice import ENROL_AGAIN, THIS_ONE_REVOKED, Finding, advice
from memory_manager.sync.engine.connection import base_url
from memory_manager.sync.engine.parts import Progress, RosterCache
from memory_manager.sync.engine.proofs import EVIDENCE
from memory_manager.sync.errors import SyncCode
from memory_manager.sync.ledger import (
    alarms,
    conflicts,
    device_names,
    outbox,
    quarantine,
    seeding,
    state,
)
from memory_manager.sync.ledger.alarms import Alarm
from memory_manager.sync.ledger.seeding import SeedingProgress
from memory_manager.sync.ledger.state import SyncState
from memory_manager.sync.wire.log import head_words
from memory_manager.sync.wire.roster import Role, Roster

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

_SHOWN_DETAIL = frozenset({"changes", "answer", "expected", "seen"})


@dataclasses.dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything in the vault that status shows, from one moment."""

    state: SyncState
    must_enrol_again: bool
    roster: Roster
    outbox: int
    seeding: SeedingProgress | None
    quarantined: dict[str, int]
    conflicts: int
    alarms: tuple[Alarm, ...]
    names: Mapping[bytes, str]
    words_recover: bool | None


@dataclasses.dataclass(frozen=True, slots=True)
class Live:
    """What only the running engine knows. ``retry_at_ms`` is of the next try after a failure."""

    running: bool = False
    finding: Finding | None = None
    found_at_ms: int | None = None
    retry_at_ms: int | None = None
    contact_ms: int | None = None
    progress: Progress | None = None


def read_snapshot(
    connection: Connection, cache: RosterCache, slot: bytes | None
) -> Snapshot | None:
    """None while sync is off. ``slot`` is the commitment of the vault's present recovery words."""
    now = state.read(connection)
    if now is None:
        return None
    roster = cache.at(connection)
    return Snapshot(
        now,
        state.must_enrol_again(connection),
        roster,
        outbox.count(connection),
        seeding.progress(connection) if now.seeding else None,
        quarantine.by_code(connection),
        conflicts.count(connection),
        tuple(alarms.listed(connection)),
        device_names.read(connection),
        words_recover(roster, own_state.words(connection), slot),
    )


def words_recover(roster: Roster, known: Mapping[bytes, bytes], slot: bytes | None) -> bool | None:
    """Whether the vault's present recovery words recover the shared vault; None: cannot be told.

    Without the words only those can be told that were given here (``own_state.note_words``). Others
    on the list, which another device put there, may be these.
    """
    active = {member.id for member in roster.active() if member.role is Role.RECOVERY}
    if slot is None:
        return False if known else None  # never asked for
    if slot in known:
        return known[slot] in active
    return False if active <= set(known.values()) else None


def status_json(snapshot: Snapshot | None, live: Live) -> dict[str, object]:
    """The object under ``sync`` of a status answer, with all members also while sync is off."""
    if snapshot is None:
        return {"state": "off", **dict.fromkeys(_MEMBERS[1:])}
    now, roster = snapshot.state, snapshot.roster
    progress = live.progress
    if progress is None and snapshot.seeding is not None:
        progress = Progress("seal", snapshot.seeding.sealed, snapshot.seeding.total)
    contact = max(live.contact_ms or 0, now.last_contact_ms or 0)
    values: dict[str, object] = {
        "state": _state(snapshot, live),
        "server": base_url(now.server_url),
        "vault": now.vault.hex(),
        "device": now.device.hex(),
        "verified": {
            "n": now.n,
            "g": now.g.hex(),
            "words": list(head_words(now.vault, now.n, now.g)),
        },
        "outbox": snapshot.outbox,
        "progress": None if progress is None else progress.as_json(),
        "alarms": _alarms(snapshot, live),
        "quarantined": snapshot.quarantined,
        "conflicts": snapshot.conflicts,
        "last_contact_at": rfc3339(contact) if contact else None,
        "next_try_at": None if live.retry_at_ms is None else rfc3339(live.retry_at_ms),
        "epoch": roster.epoch,
        "words_recover": snapshot.words_recover,
        "devices": [
            {
                "id": member.id.hex(),
                "name": snapshot.names.get(member.id),
                "role": member.role.value,
                "active": member.is_active,
            }
            for member in roster.members.values()
        ],
    }
    return {name: values[name] for name in _MEMBERS}


_MEMBERS = (
    "state",
    "server",
    "vault",
    "device",
    "verified",
    "outbox",
    "progress",
    "alarms",
    "quarantined",
    "conflicts",
    "last_contact_at",
    "next_try_at",
    "epoch",
    "words_recover",
    "devices",
)


def _state(snapshot: Snapshot, live: Live) -> str:
    if snapshot.state.stop_code is not None or snapshot.must_enrol_again:
        return "stopped"
    if live.running:
        return "syncing"
    if snapshot.state.paused:
        return "paused"
    if live.finding is not None:
        return "offline" if live.finding.is_offline else "waiting"
    waits = live.contact_ms is None or snapshot.outbox > 0 or snapshot.state.seeding
    return "waiting" if waits else "ok"


def _alarms(snapshot: Snapshot, live: Live) -> list[dict[str, object]]:
    """Those that are stored, what keeps sync waiting now, and a device that has to join anew."""
    found = [
        _alarm(alarm.code.value, alarm.at_ms, alarm.device, alarm.n, alarm.detail)
        for alarm in snapshot.alarms
    ]
    known = {alarm.code.value for alarm in snapshot.alarms}
    finding = live.finding
    if finding is not None and finding.code not in known:
        found.insert(
            0, _alarm(finding.code, live.found_at_ms, finding.device, finding.n, finding.detail)
        )
    if snapshot.must_enrol_again:
        found.insert(0, _alarm(ENROL_AGAIN, None, snapshot.state.device, None, {}))
    own = (None, snapshot.state.device.hex())
    for alarm in found:
        if alarm["code"] == SyncCode.REVOKED_DEVICE and alarm["device"] in own:
            alarm.update(device=snapshot.state.device.hex(), advice=THIS_ONE_REVOKED)
    return found


def _alarm(
    code: str, at_ms: int | None, device: bytes | None, n: int | None, detail: Any
) -> dict[str, object]:
    return {
        "code": code,
        "at": None if at_ms is None else rfc3339(at_ms),
        "device": None if device is None else device.hex(),
        "n": n,
        "advice": advice(code, detail.get("answer")),
        "evidence": EVIDENCE in detail,
        **{name: detail[name] for name in _SHOWN_DETAIL if name in detail},
    }
