"""What the server's storage refuses. Each class has the code that goes over the wire (sync.md 9.5).

None of them holds row content, tokens or keys; hashes and positions are the caller's own.
"""

from __future__ import annotations

import enum
from typing import ClassVar

from memory_manager.base.errors import MemlocketError, Outcome


class Refused(MemlocketError):
    """The server does not do it, and nothing was changed; ``wire_code`` tells the client why."""

    code = "sync_storage_refused"
    title = "Refused by the sync server"
    outcome = Outcome.ASK_USER
    exit_code = 16
    default_message = "The sync server refused the request; nothing was changed."
    wire_code: ClassVar[str] = "REFUSED"


class VaultUnknown(Refused):
    """No vault has this id, or it was deleted."""

    wire_code = "NOT_FOUND"
    default_message = "There is no such vault."


class VaultExists(Refused):
    """The vault is there already; since an id commits to a genesis, with the same genesis."""

    wire_code = "VAULT_EXISTS"
    default_message = "The vault exists already."


class RegistrationUnknown(Refused):
    """The registration token is not known, is used up, or its time is over."""

    wire_code = "REGISTRATION"
    default_message = "The registration token is not valid."


class DeviceUnknown(Refused):
    """No member of the vault has this device id."""

    wire_code = "UNKNOWN_DEVICE"
    default_message = "The device is no member of the vault."


class DeviceCut(Refused):
    """A row lies behind the cut that the roster set for its author."""

    wire_code = "REVOKED_DEVICE"
    default_message = "The device was revoked."


class BrokenBatch(Refused):
    """Rows that are no single batch of one author: authors, order, hashes or checkpoint differ."""

    wire_code = "MALFORMED"
    default_message = "The rows are not one batch of one device."


class Fork(Refused):
    """Another entry has this position of the author's log. ``ours`` and ``theirs`` are heads."""

    wire_code = "FORK"
    default_message = "The device's log has another row at this position."

    def __init__(self, seq: int, ours: bytes, theirs: bytes) -> None:
        super().__init__()
        self.seq = seq
        self.ours = ours
        self.theirs = theirs


class Gap(Refused):
    """Rows that do not follow the author's last one here, which is ``seq`` with ``head``."""

    wire_code = "GAP"
    default_message = "The rows do not follow the last one of the device."

    def __init__(self, seq: int, head: bytes) -> None:
        super().__init__()
        self.seq = seq
        self.head = head


class CutBehind(Gap):
    """A roster entry cuts a device before rows that the log already has, up to ``seq``.

    Taken, it would make every client stop at those rows; its author pulls and cuts again.
    """

    default_message = "The log has rows of the device beyond this cut."


class RosterHead(Refused):
    """The entry does not follow the roster's last one, which is ``idx`` with hash ``head``."""

    wire_code = "ROSTER_HEAD"
    default_message = "The roster has a newer entry."

    def __init__(self, idx: int, head: bytes) -> None:
        super().__init__()
        self.idx = idx
        self.head = head


class Quantity(enum.StrEnum):
    """What a quota limits."""

    ROWS = "rows"
    BYTES = "bytes"
    DEVICES = "devices"


class QuotaExceeded(Refused):
    """It would pass the vault's ``limit`` of ``what``."""

    wire_code = "QUOTA"
    default_message = "The vault's quota on the server is used up."

    def __init__(self, what: Quantity, limit: int) -> None:
        super().__init__()
        self.what = what
        self.limit = limit


class SessionEnd(enum.StrEnum):
    """Why a token counts no longer."""

    SUPERSEDED = "superseded"
    EXPIRED = "expired"
    UNKNOWN = "unknown"


class SessionRefused(Refused):
    """The token opens nothing (any more)."""

    wire_code = "SESSION_EPOCH"
    default_message = "The session is over."

    def __init__(self, reason: SessionEnd) -> None:
        super().__init__()
        self.reason = reason


class NonceUsed(Refused):
    """A challenge was answered twice."""

    wire_code = "CHALLENGE"
    default_message = "The challenge was already answered."


class MailTaken(Refused):
    """This side of the mailbox has been posted to."""

    wire_code = "MAILBOX_TAKEN"
    default_message = "The mailbox is in use."


class MailAbsent(Refused):
    """Nothing was posted to this side of the mailbox yet."""

    wire_code = "NOT_FOUND"
    default_message = "Nothing is in the mailbox."


class MailGone(Refused):
    """It was read already, or its time is over."""

    wire_code = "GONE"
    default_message = "The mailbox was read already, or its time is over."


class MailboxesFull(Refused):
    """One origin has as many unexpired mailboxes as it may."""

    wire_code = "RATE"
    default_message = "There are too many open mailboxes from this address."


class StorageUnavailable(MemlocketError):
    """The database cannot be used right now; nothing of the request was stored."""

    code = "sync_storage_unavailable"
    title = "Server storage unavailable"
    outcome = Outcome.RETRY_LATER
    exit_code = 12
    default_message = "The server's database cannot be used right now; nothing was stored."
    default_hint = "Look at the disk, or at the PostgreSQL server that --database-url names."


class StorageMismatch(MemlocketError):
    """The database was made by a newer program, or its schema is not the one we ship."""

    code = "sync_storage_mismatch"
    title = "Server storage of another version"
    outcome = Outcome.ASK_USER
    exit_code = 15
    default_message = "The server's database was made by another version of Memlocket."
    default_hint = "Start the version that made it, or restore a backup."
