"""What older rules let through goes from every version and from all that was made of it
(redaction.md 10).
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_up_token import token_of
from older_rules import OLDER, older_rules
from small_vault import SmallVault, small_vault, writer

from memory_manager.auth.agent_identity import AgentIdentity
from memory_manager.base.errors import TooLarge
from memory_manager.base.identifiers import CredentialId, MemoryId
from memory_manager.recall.fulltext import FullTextIndex
from memory_manager.security.errors import SanitizerFailed
from memory_manager.security.redact import RULESET_VERSION, RowResult, engine, sanitize
from memory_manager.vault import (
    audit,
    cleaning,
    idempotency,
    prepared_version,
    settings,
    state_rows,
)
from memory_manager.vault.anchor import SyncMark
from memory_manager.vault.cleaning import Cleaning
from memory_manager.vault.idempotency import IdempotencyKey
from memory_manager.vault.rows import (
    MAX_CONTENT_CHARACTERS,
    Attribution,
    ForgetMode,
    MemoryChange,
    MemoryDraft,
    MemoryRow,
    RecordKind,
)
from memory_manager.vault.savepoint import all_or_nothing
from memory_manager.vault.transaction import Transaction


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[SmallVault]:
    with small_vault(tmp_path, [FullTextIndex()]) as opened:
        yield opened


def walk(vault: SmallVault, *, whole: bool = False) -> Cleaning:
    """The whole walk, as the daemon's job makes it."""
    if whole:
        vault.write(lambda tx: cleaning.start(tx, whole=True))
    while not (now := vault.write(lambda tx: cleaning.step(tx, vault.memories))).done:
        pass
    return now


def remember(vault: SmallVault, who: Attribution | None = None, **draft: Any) -> MemoryRow:
    proposed = MemoryDraft(**{"content": "text", "path": "notes", **draft})
    return vault.write(lambda tx: vault.memories.remember(tx, proposed, who or writer())).row


def update(
    vault: SmallVault, row: MemoryRow, who: Attribution | None = None, **change: Any
) -> None:
    proposed = MemoryChange(**change)
    vault.write(lambda tx: vault.memories.update(tx, row.id, proposed, who or writer()))


def forget(vault: SmallVault, row: MemoryRow, mode: ForgetMode, reason: str | None = None) -> None:
    vault.write(lambda tx: vault.memories.forget(tx, row.id, mode, writer(), reason))


def labelled(token: str) -> Attribution:
    return Attribution(AgentIdentity(token), CredentialId("c"), token)


PLACES: dict[str, dict[str, Any]] = {
    "content": {"content": "use {} today"},
    "path": {"path": "keys/{}"},
    "bucket": {"bucket": "b {}"},
    "scope": {"scope": "s {}"},
    "source": {"source": "from {}"},
    "metadata": {"metadata": {"deep": [{"k": "{}"}]}},
    "provenance": {"provenance": {"url": "https://x.example/?q={}"}},
    "semantic key": {"semantic_key": "slot:{}"},
    "item": {"kind": RecordKind.REMINDER, "item": {"note": "call {}", "item_status": "open"}},
    "label of an item": {"kind": RecordKind.EVENT, "item": {"event_type": "login {}"}},
}


def filled(value: Any, token: str) -> Any:
    if type(value) is str:
        return value.replace("{}", token)
    if isinstance(value, dict):
        return {name: filled(entry, token) for name, entry in value.items()}
    return [filled(entry, token) for entry in value] if isinstance(value, list) else value


@pytest.mark.parametrize("later", [None, "updated", "deleted"])
@pytest.mark.parametrize("place", PLACES)
def test_nothing_that_was_stored_or_derived_holds_it_any_more(
    vault: SmallVault, place: str, later: str | None
) -> None:
    token = token_of(len(place))
    with older_rules():
        row = remember(vault, labelled(token), **filled(PLACES[place], token))
    if later == "updated":
        update(vault, row, importance=0.5)
    if later == "deleted":
        with older_rules():
            forget(vault, row, ForgetMode.SOFT_DELETE, f"because {token}")
    assert token[4:].encode() in vault.dump()
    before = vault.versions(row.id)
    done = walk(vault)
    assert (done.looked, done.cleaned, done.failed) == (1, 1, 0)
    assert token[4:].encode() not in vault.dump()
    after = vault.versions(row.id)
    assert [facts(version) for version in after] == [facts(version) for version in before]
    assert {version.ruleset_version for version in after} == {RULESET_VERSION}


def facts(version: Any) -> tuple[object, ...]:
    """What cleaning must not touch."""
    return (
        version.version,
        version.status,
        version.action,
        version.written_at_ms,
        version.writer.identity.instance_hash,
        version.writer.credential_id,
        version.importance,
    )


def test_counts_by_rule_and_what_the_audit_keeps(vault: SmallVault) -> None:
    token = token_of(1)
    with older_rules():
        row = remember(vault, content=f"use {token}")
        update(vault, row, content=f"now use {token}")
    remember(vault, content="nothing to find")
    done = walk(vault)
    (rule, count), *others = done.by_rule.items()
    assert (count, others) == (2, [])
    found = vault.read(audit.events)
    by_action = {event.action: event for event in found}
    assert by_action["memory.cleaned"].detail == {"version": 2, "redactions": [rule]}
    assert by_action["vault.cleaned"].detail == {
        "rules": RULESET_VERSION,
        "looked": 2,
        "cleaned": 1,
        "failed": 0,
        "redactions": [f"{rule}:2"],
    }
    (shown,) = [one for one in vault.listed() if one.id == row.id]
    assert (shown.version, shown.redactions) == (2, (rule,))


def test_what_is_harmless_stays_to_the_byte_and_is_looked_at_once(vault: SmallVault) -> None:
    with older_rules():
        row = remember(
            vault,
            content="Prefers tabs. \u0916\u0924 e\u0301",
            metadata={
                "b": 1,
                "a": [
                    None,
                    1.5,
                    {"z": "\ud83d\ude00".encode("utf-16", "surrogatepass").decode("utf-16")},
                ],
            },
            semantic_key="style",
            scope="repo",
        )
    columns = "content, path, bucket, scope, metadata, provenance, semantic_key, item, redactions"
    stored = f"SELECT {columns} FROM record_version"
    before = vault.read(lambda c: c.execute(stored).fetchall())
    assert (walk(vault).cleaned, vault.read(lambda c: c.execute(stored).fetchall())) == (0, before)
    (now,) = vault.listed()
    assert (now.ruleset_version, now.semantic_key, now.updated_at_ms) == (
        RULESET_VERSION,
        "style",
        row.updated_at_ms,
    )
    generation = vault.store.generation()
    assert vault.read(cleaning.read).done
    assert walk(vault).looked == 1, "a second walk under the same rules looks at nothing"
    assert walk(vault, whole=True).cleaned == 0
    assert vault.store.generation() > generation
    assert vault.read(lambda c: c.execute(stored).fetchall()) == before


def test_words_find_the_cleaned_text_and_not_the_secret(vault: SmallVault) -> None:
    with older_rules():
        row = remember(vault, content=f"deploy key {token_of(2)} of the harbour")
    walk(vault)

    def rows_with(word: str) -> list[int]:
        matched = "SELECT rowid FROM memory_fts WHERE memory_fts MATCH ?"
        return [rowid for (rowid,) in vault.read(lambda c: c.execute(matched, (word,)).fetchall())]

    assert rows_with("harbour") == [row.rowid]
    assert rows_with(f'"{token_of(2)}"') == []
    check = "INSERT INTO memory_fts(memory_fts, rank) VALUES('integrity-check', 1)"
    vault.write(lambda tx: tx.connection.execute(check))


def test_a_walk_that_was_cut_off_goes_on_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaning, "SECONDS_PER_STEP", 0.0)
    with small_vault(tmp_path) as vault:
        with older_rules():
            for number in range(6):
                remember(vault, content=f"use {token_of(number)}")
        first = vault.write(lambda tx: cleaning.step(tx, vault.memories))
        assert (first.looked, first.done) == (1, False)
        vault.write(lambda tx: cleaning.step(tx, vault.memories))
    with small_vault(tmp_path) as vault:
        assert vault.read(lambda c: cleaning.remaining(c, cleaning.read(c))) == 4
        done = walk(vault)
        assert (done.looked, done.cleaned, sum(done.by_rule.values())) == (6, 6, 6)


def test_another_rule_set_begins_anew(vault: SmallVault, monkeypatch: pytest.MonkeyPatch) -> None:
    remember(vault)
    assert walk(vault).done
    monkeypatch.setattr(cleaning, "RULESET_VERSION", "next")
    assert vault.read(cleaning.read) == Cleaning("next")


def test_one_that_cannot_be_checked_stays_withheld_and_stops_nothing(
    vault: SmallVault, monkeypatch: pytest.MonkeyPatch
) -> None:
    with older_rules():
        for content in ("unreadable here", f"use {token_of(3)}"):
            remember(vault, content=content)
    original = prepared_version.sanitize_row

    def fails_once(row: Any, **settings: Any) -> RowResult:
        if "unreadable" in str(row.get("content")):
            raise SanitizerFailed
        return original(row, **settings)

    with monkeypatch.context() as patched:
        patched.setattr(prepared_version, "sanitize_row", fails_once)
        done = walk(vault)
    assert (done.looked, done.cleaned, done.failed) == (2, 1, 1)
    versions = vault.read(
        lambda c: c.execute("SELECT content, ruleset_version FROM record_version").fetchall()
    )
    assert versions[0] == ("unreadable here", OLDER)
    assert versions[1][1] == RULESET_VERSION
    again = walk(vault, whole=True)
    assert (again.cleaned, again.failed) == (0, 0)


def test_rows_that_a_cleaned_place_brings_together_both_stay(vault: SmallVault) -> None:
    with older_rules():
        rows = [
            remember(vault, content=f"number {n}", bucket=f"b {token_of(n)}", semantic_key="slot")
            for n in (1, 2)
        ]
    done = walk(vault)
    assert (done.cleaned, done.failed) == (2, 0)
    now = {row.id: row for row in vault.listed()}
    assert {now[row.id].content for row in rows} == {"number 1", "number 2"}
    assert len({row.bucket for row in now.values()}) == 1
    assert sorted(row.semantic_key is None for row in now.values()) == [False, True]


def test_states_with_secret_keys_stay_apart(vault: SmallVault) -> None:
    with older_rules():
        rows = [
            remember(
                vault,
                kind=RecordKind.STATE,
                semantic_key=token_of(n),
                item={"current_task": f"task {n}"},
            )
            for n in (1, 2)
        ]
    done = walk(vault)
    assert (done.cleaned, done.failed) == (2, 0)
    found = [vault.row(row.id) for row in rows]
    assert [row.semantic_key for row in found if row] == [f"state-{row.id}" for row in rows]
    assert [row.item["current_task"] for row in found if row] == ["task 1", "task 2"]
    assert walk(vault, whole=True).cleaned == 0


def test_an_erased_version_stays_erased_and_loses_its_label(vault: SmallVault) -> None:
    token = token_of(4)
    with older_rules():
        row = remember(vault, labelled(token), content="old text")
        forget(vault, row, ForgetMode.REDACT)
    walk(vault)
    assert token.encode() not in vault.dump()
    first, second = vault.versions(row.id)
    assert (first.content, second.content) == (None, "[REDACTED]")


def test_replays_of_earlier_answers_do_not_quote_it(vault: SmallVault) -> None:
    token = token_of(5)
    key = IdempotencyKey(CredentialId("c"), "POST /v1/remember", "key-1")
    with older_rules():
        row = remember(vault, content=f"use {token}")
        body = json.dumps({"id": row.id, "memory_id": row.id, "content": f"use {token}"})
        vault.write(lambda tx: idempotency.save(tx, key, 201, body))
    walk(vault)
    answer = vault.read(lambda c: idempotency.lookup(c, key))
    assert answer is not None
    assert json.loads(answer.body_json) == {"id": row.id, "memory_id": row.id}


def test_contact_data_goes_only_when_the_owner_asks(vault: SmallVault) -> None:
    text = "write to jane.doe@harbour-works.pt about it"
    with older_rules():
        row = remember(vault, content=text)
    vault.write(lambda tx: settings.change_setting(tx, "auto_redact_pii", True, writer()))
    walk(vault)
    assert content_of(vault, row.id) == text
    assert walk(vault, whole=True).cleaned == 1
    assert "jane.doe" not in content_of(vault, row.id)
    assert walk(vault, whole=True).cleaned == 0


def content_of(vault: SmallVault, memory_id: MemoryId) -> str:
    row = vault.row(memory_id)
    assert row is not None
    return row.content


def test_both_look_at_the_same_row_as_readers_do(vault: SmallVault) -> None:
    """What a reader is shown of an older row is what the walk leaves there."""
    token = token_of(6)
    with older_rules():
        row = remember(
            vault,
            content=f"use {token}",
            path=f"p/{token}",
            metadata={"k": token, "n": 1},
            semantic_key="plain",
        )
    shown = vault.row(row.id)
    walk(vault)
    kept = vault.row(row.id)
    assert shown is not None
    assert kept is not None
    assert dataclasses.replace(kept, ruleset_version=OLDER, redactions=()) == shown


def test_a_record_of_many_versions_holds_nobody_up(
    vault: SmallVault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaning, "SECONDS_PER_STEP", 0.0)
    with older_rules():
        row = remember(vault, content=f"use {token_of(0)}")
        for number in range(1, 5):
            update(vault, row, content=f"use {token_of(number)}")
    steps = [vault.write(lambda tx: cleaning.step(tx, vault.memories)) for _ in range(3)]
    assert [step.within.version for step in steps] == [1, 2, 3]
    update(vault, row, importance=0.5)  # others write meanwhile
    rules = [version.ruleset_version == RULESET_VERSION for version in vault.versions(row.id)]
    assert rules == [True, True, True, False, False, True]
    done = walk(vault)
    assert (done.looked, done.cleaned, done.failed, sum(done.by_rule.values())) == (1, 1, 0, 5)
    assert not any(token_of(number).encode() in vault.dump() for number in range(5))


def test_a_place_inside_a_record_that_is_destroyed_is_left_behind(
    vault: SmallVault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cleaning, "SECONDS_PER_STEP", 0.0)
    with older_rules():
        rows = [remember(vault, content=f"use {token_of(number)}") for number in range(2)]
        update(vault, rows[0], content=f"now {token_of(3)}")
    vault.write(lambda tx: cleaning.step(tx, vault.memories))
    vault.write(
        lambda tx: vault.memories.forget(
            tx, rows[0].id, ForgetMode.HARD_DELETE, writer(), owner_confirmed=True
        )
    )
    walk(vault)
    assert token_of(1).encode() not in vault.dump()
    assert content_of(vault, rows[1].id) == "use [REDACTED:github-token]"


def test_a_text_too_costly_to_check_is_not_thrown_away(
    vault: SmallVault, monkeypatch: pytest.MonkeyPatch
) -> None:
    with older_rules():
        row = remember(vault, content=f"use {token_of(0)}")
        update(vault, row, content="harmless, but nobody can tell")
    original = engine.scan

    def gives_up(text: str, budget: engine.Budget) -> Any:
        if "harmless" in text:
            raise engine.OverBudgetError
        return original(text, budget)

    with monkeypatch.context() as patched:
        patched.setattr(sanitize, "scan", gives_up)
        done = walk(vault)
    assert (done.looked, done.cleaned, done.failed) == (1, 1, 1), "its other version was cleaned"
    assert token_of(0).encode() not in vault.dump()
    assert content_of(vault, row.id) == "harmless, but nobody can tell"


def test_what_grows_beyond_what_may_be_sent_in_can_be_looked_at_and_changed_again(
    vault: SmallVault,
) -> None:
    secrets = "\n".join(f"password: {token_of(number)[4:12]}9!" for number in range(60))
    note = ("x" * (MAX_CONTENT_CHARACTERS - len(secrets) - 1)) + "\n" + secrets
    with older_rules():
        reminder = remember(vault, kind=RecordKind.REMINDER, item={"note": note})
        row = remember(vault)
        forget(vault, row, ForgetMode.SOFT_DELETE, secrets[:1000])
    assert walk(vault).failed == 0
    grown = vault.row(reminder.id)
    assert grown is not None
    assert len(grown.item["note"]) > MAX_CONTENT_CHARACTERS
    assert len(vault.versions(row.id)[-1].reason or "") > 1000
    done = walk(vault, whole=True)
    assert (done.looked, done.cleaned, done.failed) == (2, 0, 0)
    update(vault, reminder, importance=0.5)
    forget(vault, reminder, ForgetMode.SOFT_DELETE)
    with pytest.raises(TooLarge):
        remember(vault, kind=RecordKind.REMINDER, item={"note": grown.item["note"]})


def test_notes_of_a_program_with_other_members_are_read_as_far_as_they_go(
    vault: SmallVault,
) -> None:
    remember(vault)

    def note(**stored: object) -> None:
        document = json.dumps(stored)
        vault.write(lambda tx: state_rows.write_cleaning(tx.connection, document))

    note(rules=RULESET_VERSION, reached=7, within={"version": 3, "later": 1}, later=[1])
    found = vault.read(cleaning.read)
    assert (found.reached, found.within.version, found.done) == (7, 3, False)
    note(rules="another", reached=7, later=[1])
    assert vault.read(cleaning.read) == Cleaning(RULESET_VERSION)


def test_what_is_refused_after_it_was_sealed_leaves_no_mark_for_the_anchor(
    vault: SmallVault,
) -> None:
    before, after = SyncMark(1, b"a" * 32, 1, b"g" * 32, 1, b"r" * 32), None

    def work(transaction: Transaction) -> SyncMark | None:
        transaction.sync_reached(before)
        with contextlib.suppress(TooLarge), all_or_nothing(transaction):
            transaction.sync_reached(dataclasses.replace(before, own_seq=2))
            raise TooLarge("refused")
        return transaction.mark

    after = vault.write(work)
    assert after == before
