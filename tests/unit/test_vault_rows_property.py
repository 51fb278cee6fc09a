"""Random sequences of writes keep what the vault promises, whatever their order."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    rule,
    run_state_machine_as_test,
)
from small_vault import KEY, SALT, empty_database, writer

from memory_manager.base.errors import InvalidInput, NotFound
from memory_manager.base.identifiers import MemoryId
from memory_manager.vault import queries
from memory_manager.vault.connection import open_database
from memory_manager.vault.filters import RowFilter
from memory_manager.vault.memories import Memories
from memory_manager.vault.prepared_version import normalised_text
from memory_manager.vault.rows import (
    ForgetMode,
    MemoryChange,
    MemoryDraft,
    MemoryRow,
    RowStatus,
    WriteStatus,
)
from memory_manager.vault.transaction import Transaction

TEXTS = st.sampled_from(["alpha", "alpha ", "Alpha", "beta  gamma", "beta gamma", "δ", ""])
PATHS = st.sampled_from(["p", "p/q"])
BUCKETS = st.sampled_from(["public", "work"])
KEYS = st.sampled_from([None, "k1", "k2"])


class LiveRows:
    """A derived index that remembers exactly what it is told."""

    def __init__(self) -> None:
        self.rows: dict[int, MemoryRow] = {}

    def row_changed(
        self, transaction: Transaction, before: MemoryRow | None, after: MemoryRow | None
    ) -> None:
        if before is not None:
            assert self.rows.pop(before.rowid) == before
        if after is not None:
            assert after.rowid not in self.rows
            self.rows[after.rowid] = after


class MemoryLife(RuleBasedStateMachine):
    memories_known: Bundle[MemoryId] = Bundle("memories_known")

    def __init__(self) -> None:
        super().__init__()
        os.umask(0o077)
        self.folder = Path(tempfile.mkdtemp())
        path = self.folder / "vault.db"
        path.write_bytes(empty_database())
        self.connection = open_database(path, KEY, SALT)
        self.connection.execute("PRAGMA synchronous = OFF")
        self.index = LiveRows()
        self.memories = Memories([self.index])
        self.clock_ms = 1_000_000
        self.destroyed: set[MemoryId] = set()

    def teardown(self) -> None:
        self.connection.close()
        shutil.rmtree(self.folder)

    def transaction(self) -> Transaction:
        self.clock_ms += 7
        return Transaction(self.connection, self.clock_ms)

    @rule(
        target=memories_known,
        text=TEXTS,
        path=PATHS,
        bucket=BUCKETS,
        key=KEYS,
        dedupe=st.booleans(),
    )
    def remember(self, text: str, path: str, bucket: str, key: str | None, dedupe: bool) -> object:
        draft = MemoryDraft(text, path, bucket=bucket, semantic_key=key, dedupe=dedupe)
        before = self.live()
        outcome = self.memories.remember(self.transaction(), draft, writer())
        twins = [
            row
            for row in before
            if (row.bucket, row.path, row.status) == (bucket, path, RowStatus.ACTIVE)
            and normalised_text(row.content) == normalised_text(text)
        ]
        holders = [row for row in before if key and (row.semantic_key, row.bucket) == (key, bucket)]
        if holders:
            assert outcome.status is WriteStatus.UPDATED
            assert [outcome.row.id] == [row.id for row in holders]
        elif dedupe and key is None and twins:
            assert outcome.status is WriteStatus.DEDUPLICATED
            assert outcome.row in twins
        else:
            assert outcome.status is WriteStatus.CREATED
            return outcome.row.id
        return multiple()

    @rule(memory_id=memories_known, text=TEXTS)
    def update(self, memory_id: MemoryId, text: str) -> None:
        row = queries.get_row(self.connection, memory_id)
        change = MemoryChange(content=text)
        try:
            outcome = self.memories.update(self.transaction(), memory_id, change, writer("codex"))
        except NotFound:
            assert row is None
            return
        assert row is not None
        same = row.content == text
        assert outcome.status is (WriteStatus.UNCHANGED if same else WriteStatus.UPDATED)
        assert outcome.row.version == row.version + (0 if same else 1)

    @rule(memory_id=memories_known, mode=st.sampled_from(list(ForgetMode)))
    def forget(self, memory_id: MemoryId, mode: ForgetMode) -> None:
        outcomes = [
            self.memories.forget(self.transaction(), memory_id, mode, writer()) for _ in range(2)
        ]
        assert outcomes[0] == outcomes[1]
        row = queries.get_row(self.connection, memory_id)
        assert row is None or row.status is RowStatus.REDACTED

    @rule(memory_id=consumes(memories_known))
    def destroy(self, memory_id: MemoryId) -> None:
        self.memories.forget(
            self.transaction(), memory_id, ForgetMode.HARD_DELETE, writer(), owner_confirmed=True
        )
        self.destroyed.add(memory_id)

    @rule(memory_id=memories_known, back=st.integers(0, 4))
    def restore(self, memory_id: MemoryId, back: int) -> None:
        row = queries.get_row(self.connection, memory_id, include_deleted=True)
        assert row is not None
        version = row.version - back if back else None
        try:
            outcome = self.memories.restore(self.transaction(), memory_id, writer(), version)
        except InvalidInput:
            return
        if outcome.status is WriteStatus.UNCHANGED:
            assert outcome.row == row
            return
        assert outcome.row.version == row.version + 1
        chosen = queries.versions(self.connection, memory_id)
        if version is not None:
            assert outcome.row.content == chosen[version - 1].content
        again = self.memories.restore(self.transaction(), memory_id, writer(), row.version + 1)
        assert again.status is WriteStatus.UNCHANGED

    def live(self) -> list[MemoryRow]:
        return queries.list_rows(self.connection, RowFilter(), self.clock_ms, limit=1_000)

    @invariant()
    def index_holds_exactly_the_live_rows(self) -> None:
        assert {row.rowid: row for row in self.live()} == self.index.rows

    @invariant()
    def every_memory_has_contiguous_versions_and_one_current_row(self) -> None:
        every = RowFilter(include_deleted=True, include_hidden=True)
        rows = queries.list_rows(self.connection, every, self.clock_ms, limit=1_000)
        total = 0
        for row in rows:
            history = queries.versions(self.connection, row.id)
            total += len(history)
            assert [entry.version for entry in history] == list(range(1, row.version + 1))
            last = history[-1]
            assert (last.content, last.status, last.path) == (row.content, row.status, row.path)
            times = [entry.written_at_ms for entry in history]
            assert times == sorted(times)
        (stored,) = self.connection.execute("SELECT count(*) FROM record_version").fetchone()
        assert stored == total

    @invariant()
    def one_live_holder_per_semantic_key(self) -> None:
        held = [(row.semantic_key, row.bucket) for row in self.live() if row.semantic_key]
        assert len(held) == len(set(held))

    @invariant()
    def nothing_may_be_erased_outside_a_write(self) -> None:
        permits = self.connection.execute("SELECT count(*) FROM version_erasure").fetchone()
        assert permits == (0,)

    @invariant()
    def destroyed_memories_leave_nothing(self) -> None:
        for memory_id in self.destroyed:
            assert queries.get_row(self.connection, memory_id, include_deleted=True) is None


@pytest.mark.timeout(600)
def test_life_of_memories_keeps_its_invariants(thorough: bool) -> None:
    examples, steps = (100, 50) if thorough else (15, 25)
    run_state_machine_as_test(  # type: ignore[no-untyped-call]
        MemoryLife,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
