"""Devices with real encrypted databases and the product's ledger, around a simulated server.

The rounds here are those of the engine without its network: pull, verify, commit; then push.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import pytest
from small_vault import SmallVault, writer
from sync_world import Founded, Keys, Server

from memory_manager.base.identifiers import MemoryId, memory_id_bytes
from memory_manager.sync.ledger import (
    conflicts,
    founding,
    incoming,
    outbox,
    quarantine,
    revisions,
    roster_log,
    sealed_rows,
    seeding,
    state,
    verified,
)
from memory_manager.sync.ledger.incoming import PageOutcome
from memory_manager.sync.ledger.journal import SyncJournal
from memory_manager.sync.ledger.state import SyncState
from memory_manager.sync.wire.framing import LogRow, Page, Signed
from memory_manager.sync.wire.log import Checkpoint, ServerHead, sign_checkpoint
from memory_manager.vault import cleaning, state_rows
from memory_manager.vault.anchor import Identity
from memory_manager.vault.memories import Memories
from memory_manager.vault.rows import ForgetMode, MemoryChange, MemoryDraft, MemoryRow, WriteOutcome
from memory_manager.vault.transaction import RowIndexer, Transaction

T = TypeVar("T")

URL = "https://sync.example.org:8443"


class BatchServer(Server):
    """Takes whole batches, keeps their checkpoints and passes over rows that it has."""

    def __init__(self, vault: bytes, source: random.Random) -> None:
        super().__init__(vault, source)
        self.seen: dict[tuple[bytes, int], bytes] = {}

    def take(self, batch: outbox.Batch) -> Signed[ServerHead]:
        new: list[LogRow] = []
        for row in batch.rows:
            place = (row.entry.device, row.entry.seq)
            if place in self.seen:
                assert self.seen[place] == row.entry.pack(), "a log was forked"
            else:
                assert row.entry.seq == 1 or (row.entry.device, row.entry.seq - 1) in self.seen
                self.seen[place] = row.entry.pack()
                new.append(row)
        self.push(new)
        self.checkpoints.append(batch.checkpoint)
        return self.head(len(self.rows))

    def page(self, after: int, limit: int) -> Page:
        page = self.pull(after, limit)
        ends = {(row.entry.device, row.entry.seq) for row in page.rows}
        said = tuple(c for c in self.checkpoints if (c.value.device, c.value.seq) in ends)
        return Page(page.rows, said, page.page_head, page.tip)


def turning_on(
    founded: Founded, server: Server, journal: SyncJournal
) -> Callable[[Transaction], SyncState]:
    """The unit of work that makes a database with its ids a member."""
    return lambda tx: founding.turn_on(
        tx,
        journal,
        vault=founded.vault,
        server_url=URL,
        server_key=server.public_key,
        chain=tuple(founded.chain),
        keys=dict(founded.vrk),
    )


class LedgerDevice:
    """One member: its vault, its keys, its journal."""

    def __init__(
        self,
        folder: Path,
        founded: Founded,
        keys: Keys,
        server: BatchServer,
        indexers: Sequence[RowIndexer] = (),
        **store: Any,
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.founded, self.keys, self.server = founded, keys, server
        self.journal = SyncJournal()
        self.vault = SmallVault(folder, indexers, **store)
        self.memories = self.vault.memories = Memories(indexers, journal=self.journal)
        self.clock_ms: int | None = None
        self.indexers, self.options = indexers, store
        self.saved: bytes | None = None

    def save(self) -> None:
        """Keep a copy of the database as it is now."""
        self.vault.close()
        self.saved = self.vault.path.read_bytes()
        self._open()

    def bring_back(self, keys: Keys) -> None:
        """The saved copy as a new device; everything since is forgotten here."""
        assert self.saved is not None
        self.vault.close()
        self.vault.path.write_bytes(self.saved)
        self._open()
        self.keys = keys
        self.name()
        chain = tuple(self.founded.chain)
        self.write(lambda tx: founding.enrol_again(tx, self.journal, chain=chain, keys={}))
        self.pull()
        self.seed()

    def _open(self) -> None:
        self.vault = SmallVault(self.vault.path.parent, self.indexers, **self.options)
        self.vault.memories = self.memories

    def write(self, work: Callable[[Transaction], T]) -> T:
        if self.clock_ms is None:
            return self.vault.write(work)
        return self.vault.write_at(self.clock_ms, work)

    def read(self, work: Callable[[Any], T]) -> T:
        return self.vault.read(work)

    def name(self) -> None:
        """Give the database the ids that a real vault has."""
        identity = Identity(b"v" * 16, b"i" * 16, self.keys.id)
        self.write(lambda tx: state_rows.write_identity(tx.connection, identity))

    def turn_on(self, *, seed: bool = True) -> None:
        self.name()
        self.write(turning_on(self.founded, self.server, self.journal))
        if seed:
            self.seed()

    def seed(self) -> None:
        while self.write(lambda tx: seeding.seal_some(tx, self.journal, limit=8)):
            pass

    @property
    def state(self) -> SyncState:
        found = self.read(state.read)
        assert found is not None
        return found

    def learn_roster(self) -> None:
        chain = tuple(self.founded.chain)
        self.write(lambda tx: roster_log.append(tx, chain))

    def pull(self, limit: int = 500) -> list[PageOutcome]:
        outcomes: list[PageOutcome] = []
        while True:
            page = self.server.page(self.state.n, limit)
            outcomes.append(self.take(page))
            if self.state.n == page.tip.value.n:
                return outcomes

    def take(self, page: Page) -> PageOutcome:
        def work(tx: Transaction) -> PageOutcome:
            roster = roster_log.load(tx.connection)
            assert roster is not None
            accepted = verified.verifier(tx.connection, roster).accept(
                verified.load(tx.connection), page
            )
            return incoming.commit_page(tx, self.memories, page, accepted)

        return self.write(work)

    def sign(self, checkpoint: Checkpoint) -> bytes:
        return sign_checkpoint(self.keys.signing, checkpoint)

    def batch(self, **limits: int) -> outbox.Batch | None:
        return self.write(lambda tx: outbox.next_batch(tx, self.sign, **limits))

    def push(self, **limits: int) -> int:
        sent = 0
        while (batch := self.batch(**limits)) is not None:
            head = self.server.take(batch)
            sent += len(batch.rows)
            if not self.write(lambda tx, head=head: incoming.acknowledge(tx, head)):
                self.pull()
        return sent

    def sync(self, limit: int = 500) -> None:
        self.pull(limit)
        self.push()
        self.pull(limit)

    def remember(self, content: str, path: str = "notes", **draft: Any) -> MemoryId:
        """The id of a new memory, written when the device's clock says."""
        proposed = MemoryDraft(content, path, **draft)
        return self.write(lambda tx: self.memories.remember(tx, proposed, writer())).row.id

    def update(self, memory_id: MemoryId, **change: Any) -> WriteOutcome:
        return self.write(
            lambda tx: self.memories.update(tx, memory_id, MemoryChange(**change), writer())
        )

    def forget(
        self,
        memory_id: MemoryId,
        mode: ForgetMode = ForgetMode.SOFT_DELETE,
        replacement: str | None = None,
    ) -> None:
        confirmed = mode is ForgetMode.HARD_DELETE
        self.write(
            lambda tx: self.memories.forget(
                tx, memory_id, mode, writer(), replacement=replacement, owner_confirmed=confirmed
            )
        )

    def restore(self, memory_id: MemoryId) -> None:
        self.write(lambda tx: self.memories.restore(tx, memory_id, writer()))

    def clean(self, *, steps: int | None = None) -> None:
        """As the daemon does after an upgrade: all of it, or a few steps of one version each."""
        if steps is None:
            while not self.write(lambda tx: cleaning.step(tx, self.memories)).done:
                pass
            return
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(cleaning, "SECONDS_PER_STEP", 0.0)
            for _ in range(steps):
                self.write(lambda tx: cleaning.step(tx, self.memories))

    def sealed_texts(self, memory_id: MemoryId) -> list[str]:
        """What the sealed rows of a record say that this device could open."""

        def opened(connection: Any) -> list[str]:
            known = revisions.everything(connection, memory_id_bytes(memory_id))
            rows = (sealed_rows.payload_of(connection, revision.dot) for revision in known)
            return [str(row.fields) for row in rows if row is not None]

        return self.read(opened)

    def row(self, memory_id: MemoryId) -> MemoryRow | None:
        return self.vault.row(memory_id)

    def content(self, memory_id: MemoryId) -> str | None:
        row = self.row(memory_id)
        return None if row is None else row.content

    def conflict(self, memory_id: MemoryId) -> conflicts.ConflictedRecord | None:
        return self.read(lambda c: conflicts.of_record(c, memory_id))

    def quarantined(self) -> dict[str, int]:
        return self.read(quarantine.by_code)

    def waiting(self) -> int:
        return self.read(outbox.count)

    def shown(self) -> dict[str, object]:
        """Everything that devices must agree on about live records."""
        return {
            row.id: (
                row.content,
                row.path,
                row.bucket,
                row.scope,
                row.status,
                row.memory_type,
                row.importance,
                row.confidence,
                row.source,
                row.metadata,
                row.provenance,
                row.semantic_key,
                row.expires_at_ms,
                row.created_at_ms,
                row.updated_at_ms,
                row.kind,
                row.item,
                row.writer.identity,
                row.writer.client,
            )
            for row in self.vault.listed()
        }

    def in_conflict(self) -> dict[str, list[bytes]]:
        return {
            record.id: [sibling.dot.pack() for sibling in record.siblings]
            for record in self.read(lambda c: conflicts.listed(c, limit=1000))
        }

    def close(self) -> None:
        self.vault.close()


Pair: TypeAlias = tuple[LedgerDevice, LedgerDevice]


def row_counts(device: LedgerDevice | SmallVault) -> dict[str, int]:
    """How many rows each table of the ledger has."""
    return {
        table: device.read(lambda c, t=table: c.execute(f"SELECT count(*) FROM {t}").fetchone()[0])
        for table in founding.TABLES
    }


class LedgerWorld:
    """Some members of one vault."""

    def __init__(self, folder: Path, seed: int = 7) -> None:
        self.folder = folder
        self.source = random.Random(seed)
        self.founded = Founded(self.source)
        self.server = BatchServer(self.founded.vault, self.source)
        self.devices: list[LedgerDevice] = []

    def device(self, *, turned_on: bool = True, **options: Any) -> LedgerDevice:
        keys = self.founded.add() if self.devices else self.founded.first
        folder = self.folder / f"device-{len(self.devices)}"
        made = LedgerDevice(folder, self.founded, keys, self.server, **options)
        self.devices.append(made)
        if turned_on:
            made.turn_on()
        for other in self.devices:
            if other is not made and other.read(state.read) is not None:
                other.learn_roster()
        return made

    def settle(self, limit: int = 500) -> None:
        """Everybody syncs until nobody has anything new."""
        for _ in range(3):
            for device in self.devices:
                device.sync(limit)

    def close(self) -> None:
        for device in self.devices:
            device.close()
