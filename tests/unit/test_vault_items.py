"""Records beside memories in the vault: slots, redaction, references, the gate, older vaults."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_vault import KEY, SALT, SmallVault, connect, small_vault, writer

from memory_manager.base.errors import InvalidInput, TooLarge
from memory_manager.base.times import now_ms
from memory_manager.recall.fulltext import FullTextIndex
from memory_manager.recall.live_vectors import LiveVectors
from memory_manager.recall.row_gate import RowGate
from memory_manager.recall.vector_indexer import VectorIndexer
from memory_manager.vault import counts, items, migrations, queries, snapshots
from memory_manager.vault.connection import open_database
from memory_manager.vault.counts import CountBy
from memory_manager.vault.filters import RowFilter
from memory_manager.vault.item_fields import check_item, item_columns, texts_of_item, without_text
from memory_manager.vault.items import ItemFilter
from memory_manager.vault.rows import (
    ForgetMode,
    MemoryChange,
    MemoryDraft,
    MemoryRow,
    RecordKind,
    SkippedCapture,
    WriteStatus,
)
from memory_manager.vault.snapshots import Place

FULL_ITEMS: dict[RecordKind, dict[str, Any]] = {
    RecordKind.STATE: {"current_task": "t", "next_action": "n", "blocked_reason": "b"},
    RecordKind.EVENT: {"event_type": "note", "occurred_at_ms": 5, "session_id": "s"},
    RecordKind.REMINDER: {"item_status": "open", "due_at_ms": 7, "note": "n", "session_id": "s"},
    RecordKind.DECISION: {"item_status": "resolved", "options": ["a", "b"], "resolution": "a"},
    RecordKind.SNAPSHOT: {"label": "l", "state_key": "k", "session_id": "s", "state": []},
    RecordKind.EXPENSE: {"amount_micros": 1, "currency": "EUR", "spent_at_ms": 9},
}


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[SmallVault]:
    with small_vault(tmp_path) as opened:
        yield opened


def stored(vault: SmallVault, kind: RecordKind, content: str = "text", **draft: Any) -> MemoryRow:
    draft.setdefault("item", FULL_ITEMS[kind])
    if kind is RecordKind.STATE:
        draft.setdefault("semantic_key", "active_task")
    return vault.remember(content, kind=kind, **draft).row


def listed(vault: SmallVault, **chosen: Any) -> list[str]:
    found = vault.read(lambda c: items.list_items(c, ItemFilter(**chosen), now_ms(), limit=100))
    assert vault.read(lambda c: items.count_items(c, ItemFilter(**chosen), now_ms())) == len(found)
    return [row.content for row in found]


# -- slots


@settings(max_examples=8, deadline=None)
@given(
    writes=st.lists(
        st.tuples(
            st.sampled_from(["work", "other"]),
            st.sampled_from([None, "s", "t"]),
            st.sampled_from(["active_task", "plan"]),
            st.text(min_size=0, max_size=8),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_a_slot_is_one_row_whose_version_counts_its_writes(
    tmp_path_factory: pytest.TempPathFactory, writes: list[tuple[str, str | None, str, str]]
) -> None:
    with small_vault(tmp_path_factory.mktemp("slots")) as vault:
        model: dict[tuple[str, str | None, str], tuple[str, int, str]] = {}
        for bucket, scope, key, text in writes:
            slot = (bucket, scope, key)
            row = stored(
                vault, RecordKind.STATE, text, bucket=bucket, scope=scope, semantic_key=key
            )
            known = model.get(slot)
            assert row.version == (known[1] + 1 if known else 1)
            assert known is None or known[0] == row.id
            model[slot] = (row.id, row.version, row.content)
        assert len({entry[0] for entry in model.values()}) == len(model)
        for (bucket, scope, key), (row_id, version, text) in model.items():
            found = vault.read(
                lambda c, b=bucket, s=scope, k=key: items.state_in_slot(c, b, s, k, now_ms())
            )
            assert found is not None
            assert (found.id, found.version, found.content) == (row_id, version, text)


def test_forgotten_state_frees_its_slot_and_comes_back_without_it(vault: SmallVault) -> None:
    first = stored(vault, RecordKind.STATE, "one")
    vault.write(lambda tx: vault.memories.forget(tx, first.id, ForgetMode.SOFT_DELETE, writer()))
    second = stored(vault, RecordKind.STATE, "two")
    assert (second.id != first.id, second.version) == (True, 1)
    restored = vault.write(lambda tx: vault.memories.restore(tx, first.id, writer())).row
    assert restored.semantic_key is None
    kept = vault.read(lambda c: items.state_in_slot(c, "public", None, "active_task", now_ms()))
    assert kept is not None
    assert kept.id == second.id


def test_state_key_with_a_secret_is_refused_not_rewritten(vault: SmallVault) -> None:
    key = "password=" + "Kestrel-" + "9481-quartz"
    with pytest.raises(InvalidInput) as caught:
        stored(vault, RecordKind.STATE, semantic_key=key)
    assert "Kestrel" not in str(caught.value)


# -- the item on its way in


@pytest.mark.parametrize("kind", list(FULL_ITEMS))
def test_item_is_kept_as_given_with_every_version(vault: SmallVault, kind: RecordKind) -> None:
    row = stored(vault, kind)
    assert dict(row.item) == FULL_ITEMS[kind]
    assert row.kind is kind
    changed = vault.write(
        lambda tx: vault.memories.update(tx, row.id, MemoryChange(content="new"), writer())
    )
    assert changed.row.item == row.item
    assert [version.item for version in vault.versions(row.id)] == [row.item, row.item]
    assert {version.kind for version in vault.versions(row.id)} == {kind}


@pytest.mark.parametrize(
    ("kind", "item"),
    [
        (RecordKind.MEMORY, {"note": "x"}),
        (RecordKind.REMINDER, {"unknown": 1}),
        (RecordKind.REMINDER, {"due_at_ms": "soon"}),
        (RecordKind.REMINDER, {"due_at_ms": True}),
        (RecordKind.REMINDER, {"due_at_ms": 10**18}),
        (RecordKind.REMINDER, {"item_status": "closed"}),
        (RecordKind.REMINDER, {"note": 5}),
        (RecordKind.DECISION, {"options": "a"}),
        (RecordKind.DECISION, {"options": [1]}),
        (RecordKind.EXPENSE, {"amount_micros": 1.5}),
        (RecordKind.EXPENSE, {"amount_micros": 10**19}),
        (RecordKind.SNAPSHOT, {"state": [{"id": "x", "version": 1}]}),
        (RecordKind.SNAPSHOT, {"state": [{"id": 5, "version": 1}]}),
        (RecordKind.SNAPSHOT, {"state": ["x"]}),
        (RecordKind.EVENT, {"event_type": "\ud800"}),
    ],
    ids=lambda value: value.value if isinstance(value, RecordKind) else next(iter(value)),
)
def test_items_of_other_types_are_refused(kind: RecordKind, item: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput):
        check_item(kind, item)


def test_long_items_are_refused() -> None:
    with pytest.raises(TooLarge):
        check_item(RecordKind.DECISION, {"options": ["x"] * 101})
    with pytest.raises(TooLarge):
        check_item(RecordKind.STATE, {"current_task": "x" * 100_001})


def test_texts_of_an_item_are_sanitized_and_numbers_are_not(vault: SmallVault) -> None:
    secret = "Kestrel-" + "9481-quartz"
    item = {"current_task": f"password={secret}", "next_action": "plain"}
    row = stored(vault, RecordKind.STATE, item=item)
    assert secret not in str(row.item)
    assert row.item["next_action"] == "plain"
    assert row.redactions
    options = stored(vault, RecordKind.DECISION, item={"options": ["a", f"password={secret}"]})
    assert secret not in str(options.item)
    assert secret.encode() not in vault.dump()


def test_every_member_with_text_is_seen_by_the_sanitizer_and_gone_after_a_redaction() -> None:
    for kind, item in FULL_ITEMS.items():
        texts = texts_of_item(item)
        for name, value in item.items():
            is_text = isinstance(value, str) or (isinstance(value, list) and value != [])
            assert (name in texts) == (is_text and name != "item_status"), (kind, name)
        left = without_text(kind, item)
        assert set(left) <= {
            "event_type", "occurred_at_ms", "session_id", "item_status", "due_at_ms", "state_key",
            "state", "amount_micros", "currency", "spent_at_ms",
        }  # fmt: skip
        assert item_columns(kind, left) == item_columns(kind, item)


def test_capture_skips_private_keys_and_keeps_only_the_rules(vault: SmallVault) -> None:
    body = "\n".join("MIIEow" + "IBAAKCAQEA" * 5 for _ in range(4))
    begin, end = (f"-----{word} RSA PRIVATE " + "KEY-----" for word in ("BEGIN", "END"))
    draft = MemoryDraft(f"look: {begin}\n{body}\n{end}", "timeline", kind=RecordKind.EVENT)
    outcome = vault.write(lambda tx: vault.memories.capture(tx, draft, writer()))
    assert isinstance(outcome, SkippedCapture)
    assert outcome.rules == ("private-key",)
    assert listed(vault, kind=RecordKind.EVENT) == []
    assert b"IBAAKCAQEA" not in vault.dump()
    assert b"event.skipped" in vault.dump()
    kept = vault.write(lambda tx: vault.memories.remember(tx, draft, writer()))
    assert kept.status is WriteStatus.CREATED  # an explicit write is stored redacted
    assert "IBAAKCAQEA" not in kept.row.content


# -- forgetting


def test_redaction_leaves_no_text_of_an_item_anywhere(vault: SmallVault) -> None:
    word = "hippopotamus"
    item = {"options": [f"{word} one"], "resolution": word, "due_at_ms": 7}
    row = stored(vault, RecordKind.DECISION, word, item=item)
    vault.write(lambda tx: vault.memories.forget(tx, row.id, ForgetMode.REDACT, writer()))
    after = vault.row(row.id)
    assert after is not None
    assert dict(after.item) == {"due_at_ms": 7}
    assert word.encode() not in vault.dump()
    again = vault.write(lambda tx: vault.memories.forget(tx, row.id, ForgetMode.REDACT, writer()))
    assert again.row.version == after.version


def test_destroyed_items_leave_no_column(vault: SmallVault) -> None:
    row = stored(vault, RecordKind.EVENT, item={"event_type": "hippopotamus"})
    vault.write(
        lambda tx: vault.memories.forget(
            tx, row.id, ForgetMode.HARD_DELETE, writer(), owner_confirmed=True
        )
    )
    assert vault.read(lambda c: c.execute("SELECT count(*) FROM record_item").fetchone()) == (0,)
    assert b"hippopotamus" not in vault.dump()


def test_restoring_a_version_brings_its_item_and_columns_back(vault: SmallVault) -> None:
    row = stored(vault, RecordKind.REMINDER, item={"item_status": "open"})
    done = MemoryChange(item={"item_status": "completed"})
    vault.write(lambda tx: vault.memories.update(tx, row.id, done, writer()))
    assert listed(vault, kind=RecordKind.REMINDER, item_status="open") == []
    vault.write(lambda tx: vault.memories.restore(tx, row.id, writer(), version=1))
    assert listed(vault, kind=RecordKind.REMINDER, item_status="open") == ["text"]
    assert listed(vault, kind=RecordKind.REMINDER, item_status="completed") == []


# -- snapshots


def place(**changes: Any) -> Place:
    values = {"bucket": "public", "scope": None, "state_key": "active_task"}
    limits = {"timeline_limit": 9, "reminder_limit": 9, "decision_limit": 9}
    return Place(**{**values, **limits, **changes})


def test_snapshot_shows_nothing_that_was_forgotten_or_erased(vault: SmallVault) -> None:
    state = stored(vault, RecordKind.STATE, "the state")
    event = stored(vault, RecordKind.EVENT, "the event")
    item = vault.read(lambda c: snapshots.references(c, place(), now_ms()))
    check_item(RecordKind.SNAPSHOT, item)
    stored(vault, RecordKind.STATE, "a later state")

    def shown() -> tuple[str | None, list[str]]:
        found = vault.read(lambda c: snapshots.captured(c, item))
        return found.state.content if found.state else None, [r.content for r in found.timeline]

    assert shown() == ("the state", ["the event"])
    vault.write(lambda tx: vault.memories.forget(tx, event.id, ForgetMode.SOFT_DELETE, writer()))
    assert shown() == ("the state", [])
    vault.write(lambda tx: vault.memories.forget(tx, state.id, ForgetMode.REDACT, writer()))
    assert shown() == (None, [])


def test_snapshot_without_a_scope_takes_unscoped_items_only(vault: SmallVault) -> None:
    stored(vault, RecordKind.REMINDER, "here", item={})
    stored(vault, RecordKind.REMINDER, "there", scope="s", item={})
    stored(vault, RecordKind.REMINDER, "done", item={"item_status": "completed"})

    def reminders(scope: str | None) -> list[str]:
        item = vault.read(lambda c: snapshots.references(c, place(scope=scope), now_ms()))
        found = vault.read(lambda c: snapshots.captured(c, item))
        return [row.content for row in found.reminders]

    assert reminders(None) == ["here"]
    assert reminders("s") == ["there"]
    assert reminders("t") == []


# -- the gate


def test_hidden_items_are_in_no_list_count_sum_slot_or_snapshot(vault: SmallVault) -> None:
    for kind in FULL_ITEMS:
        stored(vault, kind, "shown" if kind is not RecordKind.STATE else "slot")
    item = vault.read(lambda c: snapshots.references(c, place(), now_ms()))
    vault.write(
        lambda tx: tx.connection.execute("UPDATE record SET retrieval_visibility='not_retrievable'")
    )
    for kind in FULL_ITEMS:
        assert listed(vault, kind=kind) == []
    assert vault.read(lambda c: items.spent(c, ItemFilter(RecordKind.EXPENSE), now_ms())) == []
    assert vault.read(lambda c: items.state_in_slot(c, "public", None, "active_task", 0)) is None
    everything = RowFilter(kinds=None)
    assert vault.read(lambda c: counts.count_by(c, CountBy.KIND, everything, now_ms())) == {}
    found = vault.read(lambda c: snapshots.captured(c, item))
    assert (found.state, found.timeline, found.reminders, found.decisions) == (None, (), (), ())
    assert not any(vault.read(lambda c: snapshots.references(c, place(), now_ms())).values())


def test_lists_filter_by_every_column(vault: SmallVault) -> None:
    stored(vault, RecordKind.EVENT, "a", item={"event_type": "x", "occurred_at_ms": 10})
    stored(vault, RecordKind.EVENT, "b", item={"session_id": "s", "occurred_at_ms": 20})
    stored(vault, RecordKind.EVENT, "c", item={"occurred_at_ms": 15}, bucket="w", scope="q")
    assert listed(vault, kind=RecordKind.EVENT) == ["b", "c", "a"]
    assert listed(vault, kind=RecordKind.EVENT, label="x") == ["a"]
    assert listed(vault, kind=RecordKind.EVENT, session_id="s") == ["b"]
    assert listed(vault, kind=RecordKind.EVENT, since_ms=10, until_ms=20) == ["c", "a"]
    assert listed(vault, kind=RecordKind.EVENT, bucket="w", scope="q") == ["c"]
    assert listed(vault, kind=RecordKind.EVENT, unscoped=True) == ["b", "a"]
    assert listed(vault, kind=RecordKind.REMINDER) == []


def test_lists_of_items_use_their_indexes(vault: SmallVault) -> None:
    for chosen, index in (
        (ItemFilter(RecordKind.EVENT, since_ms=1), "record_item_time"),
        (ItemFilter(RecordKind.REMINDER, item_status="open"), "record_item_status"),
    ):
        condition, parameters = chosen.condition(0)
        plan = vault.read(
            lambda c, sql=condition, values=parameters: c.execute(
                "EXPLAIN QUERY PLAN SELECT i.record_rowid FROM record_item i JOIN record c"
                f" ON c.rowid = i.record_rowid WHERE {sql} ORDER BY i.at_ms DESC LIMIT 5",
                values,
            ).fetchall()
        )
        assert index in str(plan), plan
        assert "SCAN c" not in str(plan)


def test_only_memories_and_states_are_in_the_word_index_and_the_queue(tmp_path: Path) -> None:
    """A row that recall never shows must not change the scores of those it shows."""
    live = LiveVectors(RowGate())
    with small_vault(tmp_path, [FullTextIndex(), VectorIndexer(live, lambda _: None)]) as vault:
        ids = {kind: stored(vault, kind, "common words").rowid for kind in FULL_ITEMS}
        ids[RecordKind.MEMORY] = vault.remember("common words").row.rowid
        wanted = sorted((ids[RecordKind.MEMORY], ids[RecordKind.STATE]))
        for table in ("fts_source", "embedding_queue"):
            rows = vault.read(
                lambda c, name=table: c.execute(
                    f"SELECT record_rowid FROM {name} ORDER BY record_rowid"
                ).fetchall()
            )
            assert [rowid for (rowid,) in rows] == wanted, table


# -- vaults from before


def test_vault_of_an_older_schema_becomes_one_of_memories(tmp_path: Path) -> None:
    path = tmp_path / "vault.db"
    connection = open_database(path, KEY, SALT, create=True)
    for migration in migrations.migrations()[:3]:
        migrations._apply(connection, migration)
    connection.execute(
        "INSERT INTO record(id, version, status, bucket, path, memory_type, semantic_key,"
        " created_at_ms, updated_at_ms, dedupe_key, security_mode, encryption_state,"
        " retrieval_visibility, server_embeddings_enabled, server_content_search_enabled)"
        " VALUES(zeroblob(16), 1, 'active', 'b', 'p', 'semantic', 'k', 1, 1, zeroblob(16),"
        " 'vault', 'ciphertext', 'client_local_only', 0, 0)"
    )
    connection.execute(
        "INSERT INTO record_version(slot, version, action, status, content, path, bucket,"
        " memory_type, metadata, provenance, redactions, ruleset_version, written_at_ms)"
        " VALUES((1 << 24) + 1, 1, 'created', 'active', 'old text', 'p', 'b', 'semantic', '{}',"
        " '{}', '[]', '1', 1)"
    )
    connection.close()
    connection = connect(path)
    migrations.migrate(connection)
    row = queries.row_by_rowid(connection, 1)
    assert row is not None
    assert (row.kind, dict(row.item), row.content) == (RecordKind.MEMORY, {}, "old text")
    assert queries.list_rows(connection, RowFilter(), now_ms()) == [row]
    with pytest.raises(Exception, match="keeps its kind"):
        connection.execute("UPDATE record SET kind = 'event'")
    connection.close()
