"""What each code asks of whom: does sync go on, wait or stop, and one sentence for the owner.

Contract: sync.md 9.5. Pure; the sentences never hold content of a row.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from memory_manager.base.errors import MemlocketError, Outcome
from memory_manager.sync.engine.errors import SyncServerRefused, SyncUnreachable
from memory_manager.sync.errors import MalformedMessage, ServerKeyChanged, SyncCode, SyncRefused
from memory_manager.vault.errors import VaultError

EVICTED: Final = "SESSION_EPOCH"
GAP: Final = "GAP"
ROSTER_HEAD: Final = "ROSTER_HEAD"
LOCAL_ERROR: Final = "LOCAL_ERROR"
OFFLINE: Final = "OFFLINE"
ENROL_AGAIN: Final = "ENROL_AGAIN"
UNUSABLE: Final = "CONNECTION_UNUSABLE"


class Reaction(enum.Enum):
    """``AGAIN``: by itself, with back-off. The others stop until the owner acts."""

    AGAIN = "again"
    ASK = "ask"  # a confirmation goes on
    RETRY = "retry"  # goes on when the owner asks for it
    FINAL = "final"  # never again with this server


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """How a round ended when it did not end well. ``device`` is an id, ``n`` a log position."""

    code: str
    reaction: Reaction
    device: bytes | None = None
    n: int | None = None
    retry_after_seconds: float | None = None
    detail: Mapping[str, str | int] = dataclasses.field(default_factory=dict[str, str | int])

    @property
    def stops(self) -> bool:
        return self.reaction is not Reaction.AGAIN

    @property
    def is_offline(self) -> bool:
        return self.code == OFFLINE


class RoundStopped(Exception):
    """Ends a round with what was found; never leaves the engine."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.code)
        self.finding = finding


_ADVICE: Final[Mapping[str, tuple[Reaction, str]]] = MappingProxyType(
    {
        SyncCode.BODY_HASH: (
            Reaction.RETRY,
            "A row is not the one its author signed: the server or the way to it altered it;"
            " nothing of it was taken.",
        ),
        SyncCode.BREAKER: (
            Reaction.ASK,
            "Another device deletes unusually many memories at once: look at what it did, and"
            " confirm if that was meant.",
        ),
        SyncCode.CHAIN_BREAK: (
            Reaction.RETRY,
            "The log of a device is broken on the server: rows are missing or in another order.",
        ),
        SyncCode.CLASS_POLICY: (
            Reaction.RETRY,
            "A row claims another privacy class than its own, or the server offers what nobody"
            " asked for: a mistake in the program or an attack. It was not followed.",
        ),
        SyncCode.CLONED: (
            Reaction.RETRY,
            "Two copies of this device are at work: remove one of them, or let it join as a new"
            " device.",
        ),
        SyncCode.EQUIVOCATION: (
            Reaction.FINAL,
            "The server signed two different histories: do not use it any more; the proof can be"
            " exported.",
        ),
        SyncCode.FORK: (
            Reaction.RETRY,
            "The server holds other rows of this device: it was restored from an older state and"
            " has to continue as a new device.",
        ),
        SyncCode.REVOKED_DEVICE: (
            Reaction.RETRY,
            "A device was revoked: its newer rows are refused; if it is this one, local memories"
            " stay and sync ends.",
        ),
        SyncCode.ROLLBACK: (
            Reaction.ASK,
            "The server knows less than it has shown before, as after restoring a backup: nothing"
            " here is deleted; confirm to send it the missing rows again.",
        ),
        SyncCode.ROSTER_CHANGED: (
            Reaction.ASK,
            "Another device changed who belongs to this vault: check the list of devices, and"
            " confirm if that was meant.",
        ),
        SyncCode.ROSTER_FORK: (
            Reaction.RETRY,
            "There are two different lists of devices: find out which device signed which, and"
            " revoke the one that should not have.",
        ),
        SyncCode.ROW_AUTH: (Reaction.AGAIN, "A row cannot be opened; it is kept and tried again."),
        SyncCode.ROW_FORMAT: (
            Reaction.AGAIN,
            "A device wrote a row of another form: update Memlocket on both, or ask what it runs.",
        ),
        SyncCode.SERVER_KEY: (
            Reaction.RETRY,
            "Something else answers in the place of your server, or it lost its key: compare its"
            " six words before you trust it.",
        ),
        SyncCode.STALE_EPOCH: (
            Reaction.AGAIN,
            "A row is under a key that was destroyed; it stays closed.",
        ),
        SyncCode.TRUNCATED: (
            Reaction.RETRY,
            "The server holds back rows it has signed for; nothing was taken.",
        ),
        SyncCode.UNKNOWN_DEVICE: (
            Reaction.RETRY,
            "Rows or statements come from a device that is not on this vault's list; nothing was"
            " taken.",
        ),
        SyncCode.WAITING_KEY: (
            Reaction.AGAIN,
            "A row waits for its key; it opens once this device has it.",
        ),
        SyncCode.WRONG_KEY: (
            Reaction.RETRY,
            "This device has another key than the vault's: nothing is sent; let it join again.",
        ),
        SyncCode.SERVER_REFUSED: (
            Reaction.RETRY,
            "The server refuses what this program sends: update the older of the two, or ask its"
            " owner.",
        ),
        SyncCode.NOT_APPLIED: (
            Reaction.AGAIN,
            "A row was opened, but this vault's rules do not take what it says; it is kept aside.",
        ),
        ENROL_AGAIN: (
            Reaction.RETRY,
            "This vault was restored from a backup or has lost its newest state: let this device"
            " join again as a new one, and revoke its old entry then.",
        ),
        "TOO_LARGE": (
            Reaction.AGAIN,
            "The server takes less at once than it should: ask its owner.",
        ),
        "RATE": (Reaction.AGAIN, "The server asks for patience; sync goes on by itself."),
        "QUOTA": (Reaction.AGAIN, "The server has no room left for this vault: ask its owner."),
        EVICTED: (Reaction.AGAIN, "The server ended the session; sync logs in again by itself."),
        GAP: (Reaction.AGAIN, "The server misses earlier rows of this device; sync tries again."),
        ROSTER_HEAD: (Reaction.AGAIN, "The list of devices changed meanwhile; sync tries again."),
        OFFLINE: (
            Reaction.AGAIN,
            "The server cannot be reached; memories stay here and are sent later.",
        ),
        UNUSABLE: (
            Reaction.RETRY,
            "The connection to the server cannot be used: the file with its certificates is gone or"
            " is none.",
        ),
        LOCAL_ERROR: (Reaction.AGAIN, "Something went wrong on this device; sync tries again."),
    }
)
_STRANGER: Final = frozenset({"LOGIN", "UNKNOWN_DEVICE", "NOT_FOUND"})
"""How a server answers a device it has never seen."""
_UNKNOWN_HERE: Final = (
    "The server does not know this device; was it set back, or does it answer under another"
    " address? Ask its owner; nothing here is lost."
)
THIS_ONE_REVOKED: Final = (
    "This device was shut out by another one: it gets and sends nothing any more. Its memories"
    " stay here; 'memlocket sync leave' ends sync on this machine."
)
_OURS: Final = frozenset({SyncCode.SERVER_REFUSED, ENROL_AGAIN, UNUSABLE, LOCAL_ERROR, OFFLINE})
"""Codes that this device gives itself; a server that answers with one is not believed."""
_STOPPING_STATUS: Final = frozenset({403, 409, 422})


def advice(code: str, answer: object = None) -> str:
    """One sentence for a code; ``answer`` is the server's own, if it gave one."""
    if code == SyncCode.SERVER_REFUSED and answer in _STRANGER:
        return _UNKNOWN_HERE
    known = _ADVICE.get(code) or _ADVICE[SyncCode.SERVER_REFUSED]
    return known[1]


def reaction(code: str) -> Reaction:
    known = _ADVICE.get(code) or _ADVICE[SyncCode.SERVER_REFUSED]
    return known[0]


def finding_of(error: Exception) -> Finding:
    """What an exception of a round means."""
    if isinstance(error, RoundStopped):
        return error.finding
    if isinstance(error, ServerKeyChanged):
        return Finding(
            error.reason.value,
            reaction(error.reason.value),
            detail={"expected": error.expected, "seen": error.seen},
        )
    if isinstance(error, SyncRefused):
        code = error.reason.value
        return Finding(code, reaction(code), error.device, error.n)
    if isinstance(error, SyncServerRefused):
        return _refusal(error)
    if isinstance(error, SyncUnreachable):
        return Finding(OFFLINE, Reaction.AGAIN, retry_after_seconds=error.retry_after_seconds)
    if isinstance(error, MalformedMessage):
        return Finding(OFFLINE, Reaction.AGAIN)
    return Finding(LOCAL_ERROR, Reaction.AGAIN)


def _refusal(error: SyncServerRefused) -> Finding:
    """403, 409 and 422 stop; what is busy, full or gone is asked again later."""
    stops = error.status in _STOPPING_STATUS
    if error.reason in _ADVICE and error.reason not in _OURS:
        kind = reaction(error.reason)
        return Finding(error.reason, kind, retry_after_seconds=error.retry_after_seconds)
    return Finding(
        SyncCode.SERVER_REFUSED.value,
        Reaction.RETRY if stops else Reaction.AGAIN,
        retry_after_seconds=error.retry_after_seconds,
        detail={"answer": error.reason},
    )


def is_ordinary(error: Exception) -> bool:
    """Whether the log need not hold a trace: the network, the server, or a vault that locks."""
    if isinstance(error, VaultError):
        return True
    return isinstance(error, MemlocketError) and error.outcome is not Outcome.BUG
