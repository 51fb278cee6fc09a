"""Remember, update, forget, restore: what each leaves behind (xmemo.md 4.12, 6.5; recall.md 10)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from small_vault import SmallVault, small_vault, writer

from memory_manager.base.errors import InvalidInput, NotFound, TooLarge
from memory_manager.base.identifiers import MemoryId, new_memory_id
from memory_manager.vault import audit, housekeeping, queries
from memory_manager.vault.errors import Conflict
from memory_manager.vault.rows import (
    ForgetMode,
    ImportedVersion,
    MemoryChange,
    MemoryDraft,
    MemoryRow,
    MemoryType,
    RowStatus,
    WriteOutcome,
    WriteStatus,
)
from memory_manager.vault.transaction import Transaction

DAY_MS = 24 * 3600 * 1000
UNKNOWN = MemoryId("01a00000-0000-7000-8000-000000000000")


class RecordingIndexer:
    """Keeps what the write path tells a derived index."""

    def __init__(self) -> None:
        self.calls: list[tuple[str | None, str | None]] = []

    def row_changed(
        self, transaction: Transaction, before: MemoryRow | None, after: MemoryRow | None
    ) -> None:
        self.calls.append((before.content if before else None, after.content if after else None))


@pytest.fixture
def indexer() -> RecordingIndexer:
    return RecordingIndexer()


@pytest.fixture
def vault(tmp_path: Path, indexer: RecordingIndexer) -> Iterator[SmallVault]:
    with small_vault(tmp_path, [indexer]) as opened:
        yield opened


def update(vault: SmallVault, memory_id: MemoryId, **change: object) -> WriteOutcome:
    proposed = MemoryChange(**change)  # type: ignore[arg-type]
    return vault.write(lambda tx: vault.memories.update(tx, memory_id, proposed, writer("codex")))


def forget(
    vault: SmallVault,
    memory_id: MemoryId,
    mode: ForgetMode = ForgetMode.SOFT_DELETE,
    replacement: str | None = None,
    *,
    owner: bool = False,
) -> WriteOutcome:
    return vault.write(
        lambda tx: vault.memories.forget(
            tx, memory_id, mode, writer(), "no longer true", replacement, owner_confirmed=owner
        )
    )


def restore(vault: SmallVault, memory_id: MemoryId, version: int | None = None) -> WriteOutcome:
    return vault.write(lambda tx: vault.memories.restore(tx, memory_id, writer(), version))


def test_new_memory_has_its_writer_the_default_envelope_and_a_type(vault: SmallVault) -> None:
    outcome = vault.remember("the deploy port is 22", "ops/ssh", bucket="work", scope="a/b")
    row = vault.row(outcome.row.id)
    assert outcome.status is WriteStatus.CREATED
    assert row == outcome.row
    assert row is not None
    assert (row.version, row.status, row.memory_type) == (1, RowStatus.ACTIVE, MemoryType.SEMANTIC)
    assert row.writer == writer()
    assert row.envelope.as_json() == {
        "security_mode": "vault",
        "encryption_state": "ciphertext",
        "retrieval_visibility": "client_local_only",
        "server_embeddings_enabled": False,
        "server_content_search_enabled": False,
    }
    assert row.id[14] == "7"


def test_same_semantic_key_updates_in_place_and_keeps_type_and_id(vault: SmallVault) -> None:
    place = {"bucket": "private", "scope": "dsh", "semantic_key": "dsh-local:7"}
    first = vault.remember("port is 22", memory_type=MemoryType.WORKING, **place)
    second = vault.remember("port is 49222", **place)
    elsewhere = vault.remember("port is 1", **{**place, "scope": None})
    assert (second.status, second.row.id, second.row.version) == (
        WriteStatus.UPDATED,
        first.row.id,
        2,
    )
    assert second.row.memory_type is MemoryType.WORKING
    assert second.row.created_at_ms == first.row.created_at_ms
    assert elsewhere.row.id != first.row.id
    assert [entry.content for entry in vault.versions(first.row.id)] == [
        "port is 22",
        "port is 49222",
    ]


@pytest.mark.parametrize(
    ("twin", "same"),
    [
        ("The  port\tis 22\n", True),
        ("Ｔhe port is 22", True),  # full-width letter: equal under NFKC
        ("the port is 22", False),
        ("The port is 23", False),
        ("The port is 22.", False),
    ],
)
def test_dedupe_knows_normalised_text_but_not_case_digits_or_marks(
    vault: SmallVault, twin: str, same: bool
) -> None:
    first = vault.remember("The port is 22", dedupe=True)
    second = vault.remember(twin, dedupe=True)
    assert (second.row.id == first.row.id) is same
    assert second.status is (WriteStatus.DEDUPLICATED if same else WriteStatus.CREATED)
    assert len(vault.listed()) == (1 if same else 2)


def test_dedupe_stays_within_bucket_scope_and_path(vault: SmallVault) -> None:
    vault.remember("same text", "a", dedupe=True)
    others = [
        vault.remember("same text", "b", dedupe=True),
        vault.remember("same text", "a", bucket="work", dedupe=True),
        vault.remember("same text", "a", scope="s", dedupe=True),
        vault.remember("same text", "a"),
    ]
    assert {outcome.status for outcome in others} == {WriteStatus.CREATED}


@pytest.mark.parametrize("mode", list(ForgetMode))
def test_forgotten_text_can_be_stored_again(vault: SmallVault, mode: ForgetMode) -> None:
    first = vault.remember("try again", dedupe=True)
    forget(vault, first.row.id, mode)
    second = vault.remember("try again", dedupe=True)
    assert second.status is WriteStatus.CREATED
    assert second.row.id != first.row.id


def test_dedupe_does_not_take_a_redacted_row_for_its_replacement_text(vault: SmallVault) -> None:
    row = vault.remember("a name").row
    forget(vault, row.id, ForgetMode.REDACT, "removed")
    assert vault.remember("removed", dedupe=True).status is WriteStatus.CREATED


def test_dedupe_never_answers_with_an_expired_or_hidden_row(vault: SmallVault) -> None:
    expired = vault.remember("once", dedupe=True, expires_at_ms=1_000)
    fresh = vault.remember("once", dedupe=True)
    assert fresh.row.id != expired.row.id
    vault.write(
        lambda tx: tx.connection.execute(
            "UPDATE record SET retrieval_visibility = 'not_retrievable' WHERE rowid = ?",
            (fresh.row.rowid,),
        )
    )
    assert vault.remember("once", dedupe=True).status is WriteStatus.CREATED


def test_update_changes_only_what_it_names_and_knows_its_writer(
    vault: SmallVault, indexer: RecordingIndexer
) -> None:
    first = vault.remember("old", "p", metadata={"a": 1, "b": 2}, importance=0.25).row
    merged = update(vault, first.id, content="new", metadata={"b": 3}, merge_metadata=True).row
    assert (merged.content, merged.path, merged.metadata) == ("new", "p", {"a": 1, "b": 3})
    assert merged.importance == 0.25
    assert merged.writer.identity.agent_id == "codex"
    assert [v.writer.identity.agent_id for v in vault.versions(first.id)] == ["hermes", "codex"]
    replaced = update(vault, first.id, metadata={"c": None}).row
    assert replaced.metadata == {"c": None}
    assert update(vault, first.id, content="new").status is WriteStatus.UNCHANGED
    assert len(vault.versions(first.id)) == 3
    assert indexer.calls == [(None, "old"), ("old", "new"), ("new", "new")]


def test_update_refuses_a_taken_semantic_key_and_unknown_or_deleted_rows(
    vault: SmallVault,
) -> None:
    vault.remember("holder", semantic_key="k")
    other = vault.remember("other").row
    with pytest.raises(Conflict):
        update(vault, other.id, semantic_key="k")
    with pytest.raises(NotFound):
        update(vault, UNKNOWN, content="x")
    forget(vault, other.id)
    with pytest.raises(NotFound):
        update(vault, other.id, content="x")
    assert vault.versions(other.id)[-1].version == 2


def test_forgetting_twice_answers_the_same(vault: SmallVault, indexer: RecordingIndexer) -> None:
    row = vault.remember("gone soon").row
    first, second = forget(vault, row.id), forget(vault, row.id)
    assert first.status is second.status is WriteStatus.DELETED
    assert first.row == second.row
    assert vault.row(row.id) is None
    assert vault.listed() == []
    assert indexer.calls[-1] == ("gone soon", None)
    with pytest.raises(NotFound):
        forget(vault, UNKNOWN)


def test_soft_delete_is_restored_by_one_call(vault: SmallVault, indexer: RecordingIndexer) -> None:
    row = vault.remember("keep me", semantic_key="k", metadata={"t": ["x"]}).row
    forget(vault, row.id)
    back = restore(vault, row.id)
    assert back.status is WriteStatus.RESTORED
    assert (back.row.content, back.row.semantic_key, back.row.metadata, back.row.version) == (
        "keep me",
        "k",
        {"t": ["x"]},
        3,
    )
    assert indexer.calls[-1] == (None, "keep me")


def test_f09_restore_of_a_restore_works(vault: SmallVault) -> None:
    row = vault.remember("the good note").row
    update(vault, row.id, content="garbage")
    assert restore(vault, row.id).row.content == "the good note"
    assert restore(vault, row.id).row.content == "garbage"
    assert restore(vault, row.id, version=1).row.content == "the good note"
    assert [(v.version, v.action.value) for v in vault.versions(row.id)] == [
        (1, "created"),
        (2, "updated"),
        (3, "restored"),
        (4, "restored"),
        (5, "restored"),
    ]
    with pytest.raises(InvalidInput):
        restore(vault, row.id, version=9)


def test_restore_without_anything_to_undo_changes_nothing(vault: SmallVault) -> None:
    row = vault.remember("only one version").row
    assert restore(vault, row.id).status is WriteStatus.UNCHANGED
    with pytest.raises(NotFound):
        restore(vault, UNKNOWN)


def test_restored_row_gives_way_to_the_new_holder_of_its_key(vault: SmallVault) -> None:
    old = vault.remember("old holder", semantic_key="k").row
    forget(vault, old.id)
    new = vault.remember("new holder", semantic_key="k").row
    back = restore(vault, old.id).row
    assert new.id != old.id
    assert back.semantic_key is None
    assert {row.content for row in vault.listed()} == {"old holder", "new holder"}


def test_restoring_an_expired_memory_makes_it_visible(vault: SmallVault) -> None:
    row = vault.remember("short lived", expires_at_ms=1_000).row
    forget(vault, row.id)
    assert restore(vault, row.id).row.expires_at_ms is None
    assert [found.content for found in vault.listed()] == ["short lived"]


def test_redact_leaves_no_readable_old_version(
    vault: SmallVault, indexer: RecordingIndexer
) -> None:
    row = vault.remember("first zephyrword", "quagga/path", metadata={"keep": "me"}).row
    update(vault, row.id, content="second zephyrword", path="elsewhere", metadata={"keep": "me"})
    redacted = forget(vault, row.id, ForgetMode.REDACT)
    assert redacted.status is WriteStatus.REDACTED
    assert (redacted.row.status, redacted.row.content) == (RowStatus.REDACTED, "[REDACTED]")
    assert redacted.row.metadata == {"keep": "me"}
    history = vault.versions(row.id)
    assert [entry.content for entry in history] == [None, None, "[REDACTED]"]
    assert [entry.writer.identity.agent_id for entry in history] == ["hermes", "codex", "hermes"]
    assert indexer.calls[-1] == ("second zephyrword", "[REDACTED]")
    dump = vault.dump()
    assert b"zephyrword" not in dump
    assert b"quagga" not in dump
    with pytest.raises(InvalidInput):
        restore(vault, row.id, version=1)
    again = forget(vault, row.id, ForgetMode.REDACT)
    assert (again.status, again.row) == (WriteStatus.REDACTED, redacted.row)
    other = forget(vault, row.id, ForgetMode.REDACT, "a name was here")
    assert other.row.content == "a name was here"


def test_redacting_a_deleted_memory_does_not_bring_it_back(vault: SmallVault) -> None:
    row = vault.remember("zephyrword").row
    forget(vault, row.id, ForgetMode.HARD_DELETE)
    redacted = forget(vault, row.id, ForgetMode.REDACT)
    assert redacted.row.status is RowStatus.DELETED
    assert b"zephyrword" not in vault.dump()
    assert vault.read(queries.awaiting_destruction) == [row.id]


def test_agents_hard_delete_waits_for_the_owner(vault: SmallVault) -> None:
    row = vault.remember("zephyrword").row
    assert forget(vault, row.id, ForgetMode.HARD_DELETE).status is WriteStatus.DELETED
    assert vault.read(queries.awaiting_destruction) == [row.id]
    assert b"zephyrword" in vault.dump()
    assert restore(vault, row.id).row.content == "zephyrword"
    assert vault.read(queries.awaiting_destruction) == []


def test_owners_hard_delete_destroys_every_version(vault: SmallVault) -> None:
    row = vault.remember("zephyrword one", metadata={"m": "quagga"}).row
    update(vault, row.id, content="zephyrword two")
    vault.remember("a bystander")
    first = forget(vault, row.id, ForgetMode.HARD_DELETE, owner=True)
    # The text must not wait in the write-ahead log for some later checkpoint either.
    assert (vault.path.parent / "vault.db-wal").stat().st_size == 0
    second = forget(vault, row.id)
    assert first.status is second.status is WriteStatus.DELETED
    assert first.row.content == second.row.content == ""
    assert vault.versions(row.id) == []
    assert [found.content for found in vault.listed()] == ["a bystander"]
    dump = vault.dump()
    assert b"zephyrword" not in dump
    assert b"quagga" not in dump
    with pytest.raises(NotFound):
        restore(vault, row.id)
    with pytest.raises(Conflict):
        vault.remember("back again", id=row.id)


def test_trash_is_emptied_after_thirty_days(vault: SmallVault) -> None:
    old, young = vault.remember("old trash").row, vault.remember("young trash").row
    now = old.created_at_ms
    for row, age_days in ((old, 31), (young, 29)):
        vault.write_at(
            now - age_days * DAY_MS,
            lambda tx, row=row: vault.memories.forget(tx, row.id, ForgetMode.SOFT_DELETE, writer()),
        )
    assert vault.write(housekeeping.tidy) == housekeeping.Tidied(1, 0, 0, more=False)
    assert vault.row(old.id, include_deleted=True) is None
    assert vault.versions(old.id) == []
    assert restore(vault, young.id).row.content == "young trash"


def test_a_clock_set_back_does_not_make_a_later_version_older(vault: SmallVault) -> None:
    row = vault.remember("now").row
    change = MemoryChange(content="later")
    later = vault.write_at(1_000, lambda tx: vault.memories.update(tx, row.id, change, writer()))
    assert later.row.updated_at_ms == row.updated_at_ms


def test_mark_used_counts_and_makes_no_version(vault: SmallVault) -> None:
    row = vault.remember("used").row
    for _ in range(3):
        vault.write(lambda tx: vault.memories.mark_used(tx, row.id))
    found = vault.read(lambda c: c.execute("SELECT use_count FROM record_use").fetchall())
    assert found == [(3,)]
    assert vault.row(row.id) == row
    with pytest.raises(NotFound):
        vault.write(lambda tx: vault.memories.mark_used(tx, UNKNOWN))


@pytest.mark.parametrize(
    ("draft", "error"),
    [
        (MemoryDraft("x" * 100_001, "p"), TooLarge),
        (MemoryDraft("x", "p", metadata={"k": "y" * 65_536}), TooLarge),
        (MemoryDraft("x", ""), InvalidInput),
        (MemoryDraft("x", "p", importance=1.5), InvalidInput),
        (MemoryDraft("x", "p", confidence=float("nan")), InvalidInput),
        (MemoryDraft("\ud800", "p"), InvalidInput),
        (MemoryDraft("x", "p", metadata={"k": "\udfff"}), InvalidInput),
        (MemoryDraft("x", "p", metadata={"k": float("inf")}), InvalidInput),
    ],
)
def test_impossible_values_store_nothing(
    vault: SmallVault, draft: MemoryDraft, error: type[Exception]
) -> None:
    with pytest.raises(error):
        vault.write(lambda tx: vault.memories.remember(tx, draft, writer()))
    assert vault.listed() == []


def test_deeply_nested_metadata_is_refused(vault: SmallVault) -> None:
    nested: object = "leaf"
    for _ in range(2_000):
        nested = [nested]
    with pytest.raises(InvalidInput):
        vault.remember("x", metadata={"deep": nested})


def test_text_that_cleaning_made_too_long_can_still_be_changed_and_forgotten(
    vault: SmallVault,
) -> None:
    row = vault.remember("token=a1b2c3d4\n" * 6_600).row
    assert len(row.content) > 100_000
    assert update(vault, row.id, metadata={"k": 1}).status is WriteStatus.UPDATED
    forget(vault, row.id)
    assert restore(vault, row.id).row.content == row.content
    with pytest.raises(TooLarge):
        update(vault, row.id, content=row.content + "x")


def test_largest_content_and_odd_characters_come_back_unchanged(vault: SmallVault) -> None:
    text = "界\x00'\"%_\U0001f9e0" * 14_285
    row = vault.remember(text, "odd/ú\x00%_", metadata={"k\x00": [1, None, True, 1.5, "界"]}).row
    found = vault.row(row.id)
    assert found is not None
    assert (found.content, found.path) == (text, "odd/ú\x00%_")
    assert found.metadata == {"k\x00": [1, None, True, 1.5, "界"]}


def test_imported_history_keeps_times_writers_versions_and_erasures(vault: SmallVault) -> None:
    memory_id = new_memory_id()
    history = [
        ImportedVersion(
            WriteStatus.CREATED,
            MemoryDraft("first", "a", semantic_key="k"),
            writer("claude", "desktop"),
            1_000,
        ),
        ImportedVersion(
            WriteStatus.UPDATED, MemoryDraft("", "a"), writer("claude"), 1_500, erased=True
        ),
        ImportedVersion(
            WriteStatus.UPDATED,
            MemoryDraft("final", "b", bucket="work", semantic_key="k", importance=0.5),
            writer("codex"),
            2_000,
            reason="fixed",
        ),
    ]
    vault.remember("holds the key of version 1", semantic_key="k")
    outcome = vault.write(
        lambda tx: vault.memories.import_history(
            tx, history, memory_id=memory_id, created_at_ms=500
        )
    )
    row = vault.row(memory_id)
    assert row == outcome.row
    assert row is not None
    assert (row.created_at_ms, row.updated_at_ms, row.version) == (500, 2_000, 3)
    stored = vault.versions(memory_id)
    assert [(v.content, v.semantic_key, v.written_at_ms, v.reason) for v in stored] == [
        ("first", "k", 1_000, None),
        (None, None, 1_500, None),
        ("final", "k", 2_000, "fixed"),
    ]
    assert stored[0].writer.identity == writer("claude", "desktop").identity
    with pytest.raises(Conflict):
        vault.write(lambda tx: vault.memories.import_history(tx, history, memory_id=memory_id))


def test_audit_has_one_entry_per_act_and_no_text(vault: SmallVault) -> None:
    row = vault.remember("zephyrword").row
    update(vault, row.id, content="other zephyrword")
    forget(vault, row.id, ForgetMode.HARD_DELETE, owner=True)
    entries = vault.read(lambda c: audit.events(c, target_id=row.id))
    assert [entry.action for entry in reversed(entries)] == [
        "memory.created",
        "memory.updated",
        "memory.deleted",
        "memory.destroyed",
    ]
    assert entries[0].actor == writer()
    assert "zephyrword" not in str(entries)
    assert vault.read(lambda c: audit.events(c, action="memory.updated"))[0].detail == {
        "version": 2
    }
    with pytest.raises(ValueError, match="code"):
        vault.write(lambda tx: audit.record(tx, "x", None, None, {"note": "a free text"}))


def test_audit_entries_about_records_are_bounded_and_those_about_keys_stay(
    vault: SmallVault, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = vault.remember("the newest").row.created_at_ms

    def fill(tx: Transaction) -> None:
        for age_days in (400, 366, 364):
            tx.now_ms = now - age_days * DAY_MS
            audit.record(tx, "memory.created", None, None)
            audit.record(tx, "credential.issued", None, None)

    vault.write(fill)
    tidied = vault.write(housekeeping.tidy)
    assert (tidied.swept_audit_entries, tidied.more) == (2, False)
    monkeypatch.setattr(audit, "MAX_RECORD_ENTRIES", 2)  # the two newest: of 364 days ago
    assert vault.write(lambda tx: audit.sweep(tx, limit=1)) == 1
    assert vault.write(lambda tx: audit.sweep(tx, limit=1)) == 0
    actions = [event.action for event in vault.read(audit.events)]
    assert sorted(actions) == ["credential.issued"] * 3 + ["memory.created"]
