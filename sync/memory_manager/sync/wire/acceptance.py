"""Whether a pulled page is accepted: the client's rule, in order (sync.md 4.3).

Pure: a page either advances the verified log as a whole or is refused with a stable code.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.wire import labels
from memory_manager.sync.wire.envelope import body_hash
from memory_manager.sync.wire.framing import LogRow, Page, Signed
from memory_manager.sync.wire.log import (
    FIRST_GLOBAL_HEAD,
    Checkpoint,
    Entry,
    ServerHead,
    checkpoint_verifies,
    next_global_head,
    server_head_verifies,
)
from memory_manager.sync.wire.roster import Roster


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceHead:
    """The last verified entry of one device and the roster position that it named."""

    seq: int = 0
    head: bytes = labels.ZERO_HASH
    roster_idx: int = 0


NO_ENTRY: Final = DeviceHead()


@dataclasses.dataclass(frozen=True, slots=True)
class VerifiedLog:
    """How far the log of a vault was verified: ``n`` entries, the last global head, all devices."""

    n: int = 0
    g: bytes = FIRST_GLOBAL_HEAD
    devices: Mapping[bytes, DeviceHead] = dataclasses.field(
        default_factory=lambda: MappingProxyType({})
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Accepted:
    """The log after a page, to be committed with its rows in one transaction.

    ``global_heads`` are those of the page's rows, in order.
    """

    log: VerifiedLog
    global_heads: tuple[bytes, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Verifier:
    """What a page is checked against.

    ``own_entry(seq)`` is our own log's entry, None beyond its end; ``global_head(n)`` is G_n of
    the verified log, which the stored entries give.
    """

    vault: bytes
    server_key: bytes
    device: bytes
    roster: Roster
    own_entry: Callable[[int], bytes | None]
    global_head: Callable[[int], bytes]

    def accept(self, log: VerifiedLog, page: Page) -> Accepted:
        """The log after ``page``; SyncRefused with the first failure, and nothing is changed."""
        statements = (page.page_head, page.tip)
        if not all(self._is_signed(statement) for statement in statements):
            raise SyncRefused(SyncCode.SERVER_KEY)
        if page.tip.value.n < log.n:
            raise SyncRefused(SyncCode.ROLLBACK, n=page.tip.value.n)
        advance = _Advance(self, log)
        for statement in statements:
            advance.compare(statement.value.n, statement.value.g)
        if not page.rows and log.n < page.tip.value.n:
            raise SyncRefused(SyncCode.TRUNCATED, n=log.n)
        for row in page.rows:
            advance.row(row)
        for statement in statements:
            advance.compare(statement.value.n, statement.value.g)
        if page.page_head.value.n != advance.n or page.tip.value.n < advance.n:
            raise SyncRefused(SyncCode.TRUNCATED, n=advance.n)
        for checkpoint in page.checkpoints:
            self._check_checkpoint(advance, checkpoint)
        return advance.accepted()

    def _is_signed(self, statement: Signed[ServerHead]) -> bool:
        return server_head_verifies(
            self.vault, statement.value, statement.signature, self.server_key
        )

    def _check_checkpoint(self, advance: _Advance, signed: Signed[Checkpoint]) -> None:
        """Another device's view: where it is signed and within ours, it must be the same."""
        said = signed.value
        author = self.roster.members.get(said.device)
        if author is None or said.vault != self.vault:
            raise SyncRefused(SyncCode.UNKNOWN_DEVICE, device=said.device)
        if not checkpoint_verifies(said, signed.signature, author.ed25519):
            raise SyncRefused(SyncCode.UNKNOWN_DEVICE, device=said.device)
        advance.compare(said.n, said.g, said.device)


class _Advance:
    """One page on top of a verified log."""

    def __init__(self, rules: Verifier, log: VerifiedLog) -> None:
        self._rules = rules
        self._before = log
        self._devices = dict(log.devices)
        self._heads: list[bytes] = []

    @property
    def n(self) -> int:
        return self._before.n + len(self._heads)

    def accepted(self) -> Accepted:
        g = self._heads[-1] if self._heads else self._before.g
        log = VerifiedLog(self.n, g, MappingProxyType(self._devices))
        return Accepted(log, tuple(self._heads))

    def compare(self, n: int, g: bytes, device: bytes | None = None) -> None:
        """EQUIVOCATION if somebody was shown another history up to ``n`` than we were."""
        if n <= self.n and g != self._global_head(n):
            raise SyncRefused(SyncCode.EQUIVOCATION, device=device, n=n)

    def row(self, row: LogRow) -> None:
        entry, n = row.entry, self.n + 1
        if row.n != n:
            raise SyncRefused(SyncCode.TRUNCATED, n=n)
        before = self._devices.get(entry.device, NO_ENTRY)
        roster_idx = self._check_author(entry, before, n)
        if entry.seq != before.seq + 1 or entry.previous != before.head:
            raise SyncRefused(SyncCode.CHAIN_BREAK, device=entry.device, n=n)
        if row.row.body and body_hash(row.row.body) != entry.body_hash:
            raise SyncRefused(SyncCode.BODY_HASH, device=entry.device, n=n)
        head = entry.head
        self._check_cut(entry, head, n)
        own = entry.device == self._rules.device
        if own and self._rules.own_entry(entry.seq) != entry.pack():
            raise SyncRefused(SyncCode.CLONED, device=entry.device, n=n)
        previous = self._heads[-1] if self._heads else self._before.g
        self._heads.append(next_global_head(previous, entry.device, head))
        self._devices[entry.device] = DeviceHead(entry.seq, head, roster_idx)

    def _global_head(self, n: int) -> bytes:
        newer = n - self._before.n
        if newer > 0:
            return self._heads[newer - 1]
        return self._before.g if newer == 0 else self._rules.global_head(n)

    def _check_author(self, entry: Entry, before: DeviceHead, n: int) -> int:
        """The entry's roster position, which never goes back for a device."""
        roster = self._rules.roster
        idx = roster.positions.get(entry.roster_hash)
        author = roster.members.get(entry.device)
        if entry.vault != self._rules.vault or idx is None or author is None:
            raise SyncRefused(SyncCode.UNKNOWN_DEVICE, device=entry.device, n=n)
        if idx < max(author.joined_idx, before.roster_idx):
            raise SyncRefused(SyncCode.UNKNOWN_DEVICE, device=entry.device, n=n)
        return idx

    def _check_cut(self, entry: Entry, head: bytes, n: int) -> None:
        author = self._rules.roster.members[entry.device]
        if author.cut is None or entry.seq < author.cut:
            return
        wrong_head = author.cut_head is not None and head != author.cut_head
        if entry.seq > author.cut or wrong_head:
            raise SyncRefused(SyncCode.REVOKED_DEVICE, device=entry.device, n=n)
