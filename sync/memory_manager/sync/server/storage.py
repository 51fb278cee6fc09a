"""What the sync server keeps, as one interface with two implementations: SQLite and PostgreSQL.

Contract: sync.md 9.3-9.5 and 10. The storage checks no signature; that is its caller's. What must
be atomic is its own: order, hash chains, the global head, cuts, quotas, sessions, mailboxes.
Every call names the vault of the session; none returns anything of another vault. Ids are 16
bytes, hashes and heads 32, signatures 64, tokens are known by their hash alone. Times are
milliseconds since 1970 and come from the caller. Refusals are those of ``refusals``; any call may
raise StorageUnavailable: nothing of it is stored, or all of it if the way to the database broke
during the commit, so the caller repeats it.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Final, Protocol

from memory_manager.sync.wire.envelope import wrap_epoch
from memory_manager.sync.wire.framing import LogRow, Signed
from memory_manager.sync.wire.log import Checkpoint, ServerHead
from memory_manager.sync.wire.roster import Member, Role, SignedEntry

MAX_WAIT_SECONDS: Final = 60.0
SESSION_MEMORY_MS: Final = 3_600_000
"""How long after its end a session's token still gets the true reason instead of ``unknown``."""


@dataclasses.dataclass(frozen=True, slots=True)
class Quota:
    """Limits of one vault: log rows, stored octets of all kinds, members that are not cut."""

    rows: int = 10_000_000
    bytes: int = 20 << 30
    devices: int = 64


@dataclasses.dataclass(frozen=True, slots=True)
class OwnQuota:
    """Limits that a vault has instead of the server's; None: the server's."""

    rows: int | None = None
    bytes: int | None = None
    devices: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class VaultState:
    """One vault at a moment. ``bytes`` counts stored octets: entries, bodies, wraps, roster."""

    head: ServerHead
    roster_idx: int
    roster_head: bytes
    bytes: int
    quota: Quota


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceState:
    """A member as the server sees it; ``seq`` and ``head`` are of its last row in the log.

    ``cut`` is the last log position that counts, None while active.
    """

    id: bytes
    role: Role
    ed25519: bytes
    cut: int | None
    seq: int
    head: bytes
    session_epoch: int

    @property
    def is_active(self) -> bool:
        return self.cut is None


@dataclasses.dataclass(frozen=True, slots=True)
class Appended:
    """A push that is stored. ``first_n`` is the position of its first row, also of a repeated one;
    ``head`` is the log's after it; ``added`` counts the rows that were new.
    """

    head: ServerHead
    first_n: int
    added: int


@dataclasses.dataclass(frozen=True, slots=True)
class StoredPage:
    """A page before the server signs ``head`` (at its last row) and ``tip``.

    Each row carries its wrap of the highest epoch; ``checkpoints`` are those of the batches that
    end in the page, in log order.
    """

    rows: tuple[LogRow, ...]
    checkpoints: tuple[Signed[Checkpoint], ...]
    head: ServerHead
    tip: ServerHead


@dataclasses.dataclass(frozen=True, slots=True)
class WrapRow:
    """A row's content key under another epoch; ``wrap`` is 92 bytes and begins with the epoch."""

    body_hash: bytes
    wrap: bytes

    @property
    def epoch(self) -> int:
        return wrap_epoch(self.wrap)


@dataclasses.dataclass(frozen=True, slots=True)
class WrapPage:
    """``cursor`` is what to ask after next; unchanged when there was nothing more."""

    wraps: tuple[WrapRow, ...]
    cursor: int


@dataclasses.dataclass(frozen=True, slots=True)
class RosterPage:
    """Entries after the asked one; ``head`` is the hash of the roster's last entry, ``idx``."""

    entries: tuple[SignedEntry, ...]
    idx: int
    head: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Session:
    """Whom a token speaks for."""

    vault: bytes
    device: bytes
    role: Role
    epoch: int
    expires_at_ms: int


class MailSide(enum.StrEnum):
    """``offer`` is the new device's message, ``welcome`` the answer."""

    OFFER = "offer"
    WELCOME = "welcome"


@dataclasses.dataclass(frozen=True, slots=True)
class Usage:
    """Sums over all vaults, for metrics; sessions and mails are the unexpired ones."""

    vaults: int
    devices: int
    rows: int
    bytes: int
    sessions: int
    mails: int


@dataclasses.dataclass(frozen=True, slots=True)
class VaultHead:
    """What a backup prints, so that a restore is recognisable."""

    vault: bytes
    head: ServerHead


class Storage(Protocol):
    """Obtained from ``open_storage`` (module of that name), which also closes it."""

    # -- the server

    async def owner(self) -> bytes | None:
        """The public key of the server whose database this is; None when it is nobody's yet."""
        ...

    async def claim(self, public_key: bytes) -> bytes:
        """The owner's public key, which is ``public_key`` from now on if there was none."""
        ...

    # -- vaults and members

    async def add_registration(self, token_hash: bytes, expires_at_ms: int) -> None:
        """Let one vault be created with the token of this hash."""
        ...

    async def create_vault(
        self,
        vault: bytes,
        genesis: SignedEntry,
        members: Sequence[Member],
        *,
        now_ms: int,
        registration: bytes | None,
    ) -> None:
        """A new vault whose roster is ``genesis`` and whose log is empty; VaultExists.

        ``registration`` is the hash of a token, which is used up in the same transaction, or None
        for none needed; RegistrationUnknown when it is unknown, used or expired.
        """
        ...

    async def delete_vault(self, vault: bytes) -> None:
        """Remove every row of the vault in every table, and wake its waiters; VaultUnknown."""
        ...

    async def vault(self, vault: bytes) -> VaultState:
        """VaultUnknown when there is none."""
        ...

    async def set_quota(self, vault: bytes, quota: OwnQuota) -> None:
        """Limits of this vault alone, from its next request on; VaultUnknown."""
        ...

    async def device(self, vault: bytes, device: bytes) -> DeviceState:
        """DeviceUnknown, also when the vault is unknown: both look alike to strangers."""
        ...

    async def devices(self, vault: bytes) -> tuple[DeviceState, ...]:
        """All members, cut ones too, by id; VaultUnknown."""
        ...

    # -- log

    async def append(
        self, vault: bytes, rows: Sequence[LogRow], checkpoint: Signed[Checkpoint]
    ) -> Appended:
        """Store one batch of one author, wholly or not at all, durable when it returns.

        The author is the checkpoint's device. Rows that are stored already with the same entry
        count as done, whether all of them or the first ones. BrokenBatch unless the rows are
        contiguous, chained, of this author and vault, have the bodies they name, and end where the
        checkpoint says; Fork, Gap, DeviceUnknown, DeviceCut (beyond the author's cut),
        QuotaExceeded, VaultUnknown.
        """
        ...

    async def page(self, vault: bytes, after: int, limit: int, max_bytes: int) -> StoredPage:
        """Rows ``after + 1`` and on: at most ``limit``, framed (``framing.pack_page``) in at most
        ``max_bytes``, but one at least while there is any. One snapshot. VaultUnknown.

        With ``after`` at or beyond the tip the page is empty and both heads are the tip's.
        """
        ...

    async def wait_beyond(self, vault: bytes, n: int, timeout_seconds: float) -> int:
        """The log's length as soon as it is above ``n``, or after ``timeout_seconds`` (at most
        MAX_WAIT_SECONDS) whatever it is. VaultUnknown, also when it is deleted meanwhile.
        """
        ...

    # -- wraps

    async def put_wraps(self, vault: bytes, wraps: Sequence[WrapRow]) -> int:
        """Store re-wrapped keys and return how many; those of bodies that the vault does not have
        are passed over. A wrap of the same epoch is replaced. QuotaExceeded, VaultUnknown.

        Pages carry the highest epoch, so the caller refuses epochs beyond the roster's.
        """
        ...

    async def wraps(self, vault: bytes, after: int, limit: int) -> WrapPage:
        """Re-wrapped keys in the order they were stored, behind cursor ``after`` (0: all).
        Wraps that came with their rows are in the pages only. VaultUnknown.
        """
        ...

    # -- roster

    async def roster(self, vault: bytes, after: int) -> RosterPage:
        """Entries with a greater index than ``after`` (-1: all); VaultUnknown."""
        ...

    async def append_roster(
        self,
        vault: bytes,
        idx: int,
        prev: bytes,
        entry: SignedEntry,
        members: Sequence[Member],
    ) -> None:
        """Add the entry that the caller verified as number ``idx`` after ``prev``, and make the
        members what they are after it; a member that is cut loses its sessions at once.

        The roster's last entry once more is success without a change. RosterHead when another one
        came first; CutBehind when the log has rows of a member beyond a new cut; QuotaExceeded,
        VaultUnknown.
        """
        ...

    # -- sessions

    async def open_session(
        self,
        vault: bytes,
        device: bytes,
        *,
        nonce: bytes,
        token_hash: bytes,
        expires_at_ms: int,
    ) -> int:
        """A session for a proven device and its epoch, one above the device's last, which ends all
        earlier ones. DeviceUnknown, DeviceCut; NonceUsed if a session of the vault was opened with
        this nonce before and is remembered (until SESSION_MEMORY_MS after its end).
        """
        ...

    async def session(self, token_hash: bytes, now_ms: int) -> Session:
        """Whose token it is; SessionRefused with the reason otherwise."""
        ...

    # -- mailboxes (no vault: the new device knows none yet)

    async def put_mail(
        self,
        mailbox: bytes,
        side: MailSide,
        payload: bytes,
        *,
        origin: bytes,
        max_per_origin: int,
        now_ms: int,
        expires_at_ms: int,
    ) -> None:
        """Leave one message; MailTaken when this side had one, MailboxesFull when ``origin`` (what
        the caller counts by, such as a keyed hash of an address) has ``max_per_origin`` unexpired.
        """
        ...

    async def take_mail(self, mailbox: bytes, side: MailSide, now_ms: int) -> bytes:
        """The message, once; MailAbsent, MailGone."""
        ...

    # -- upkeep

    async def expire(self, now_ms: int) -> None:
        """Drop sessions, mails and registrations whose time is over; every few minutes."""
        ...

    async def usage(self, now_ms: int) -> Usage:
        """Figures for metrics."""
        ...

    async def heads(self) -> tuple[VaultHead, ...]:
        """(n, G) of every vault in one snapshot, by vault id."""
        ...
