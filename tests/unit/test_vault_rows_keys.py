"""Idempotency keys and credentials inside the vault (xmemo.md 4.3, 4.11)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from small_vault import SmallVault, small_vault, writer

from memory_manager.auth.agent_identity import identity_from_headers
from memory_manager.auth.scopes import Scope
from memory_manager.auth.tokens import is_token
from memory_manager.base.errors import InvalidInput, NotFound
from memory_manager.base.identifiers import CredentialId
from memory_manager.vault import audit, credentials, idempotency
from memory_manager.vault.errors import Conflict
from memory_manager.vault.idempotency import IdempotencyKey, StoredAnswer
from memory_manager.vault.rows import ForgetMode, MemoryDraft
from memory_manager.vault.transaction import Transaction

DAY_MS = 24 * 3600 * 1000
ROUTE = "POST /v1/remember"
KEY = IdempotencyKey(CredentialId("one"), ROUTE, "9f3c2c4b1f1e4a0f8f6f0a1b2c3d4e5f")


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[SmallVault]:
    with small_vault(tmp_path) as opened:
        yield opened


def test_known_key_answers_what_it_answered_first(vault: SmallVault) -> None:
    assert vault.read(lambda c: idempotency.lookup(c, KEY)) is None
    vault.write(lambda tx: idempotency.save(tx, KEY, 201, '{"id":"x"}'))
    found = vault.read(lambda c: idempotency.lookup(c, KEY))
    assert found == StoredAnswer(201, '{"id":"x"}')


@pytest.mark.parametrize(
    "other",
    [
        IdempotencyKey(CredentialId("two"), ROUTE, KEY.key),
        IdempotencyKey(KEY.credential_id, "POST /v1/update_state", KEY.key),
        IdempotencyKey(KEY.credential_id, ROUTE, KEY.key.upper()),
    ],
)
def test_key_counts_only_for_its_credential_and_route(
    vault: SmallVault, other: IdempotencyKey
) -> None:
    vault.write(lambda tx: idempotency.save(tx, KEY, 200, "{}"))
    assert vault.read(lambda c: idempotency.lookup(c, other)) is None


def test_failed_answers_are_not_stored(vault: SmallVault) -> None:
    with pytest.raises(ValueError, match="successful"):
        vault.write(lambda tx: idempotency.save(tx, KEY, 422, "{}"))
    assert vault.read(lambda c: idempotency.lookup(c, KEY)) is None


def test_keys_live_at_least_seven_days(vault: SmallVault) -> None:
    saved_at = 1_000_000
    vault.write_at(saved_at, lambda tx: idempotency.save(tx, KEY, 200, "{}"))
    assert vault.write_at(saved_at + 7 * DAY_MS, idempotency.sweep) == 0
    assert vault.read(lambda c: idempotency.lookup(c, KEY)) is not None
    assert vault.write_at(saved_at + 9 * DAY_MS, idempotency.sweep) == 1
    assert vault.read(lambda c: idempotency.lookup(c, KEY)) is None


def test_replayed_answer_does_not_quote_a_destroyed_memory(vault: SmallVault) -> None:
    row = vault.remember("zephyrword").row
    body = f'{{"id":"{row.id}","content":"zephyrword"}}'
    vault.write(lambda tx: idempotency.save(tx, KEY, 200, body))
    vault.write(lambda tx: vault.memories.forget(tx, row.id, ForgetMode.REDACT, writer()))
    found = vault.read(lambda c: idempotency.lookup(c, KEY))
    assert found == StoredAnswer(200, f'{{"id":"{row.id}","memory_id":"{row.id}"}}')
    assert b"zephyrword" not in vault.dump()


def test_erasing_does_not_read_every_stored_answer(vault: SmallVault) -> None:
    row = vault.remember("zephyrword").row
    statements: list[str] = []

    def traced(transaction: Transaction) -> None:
        transaction.connection.set_trace_callback(statements.append)
        vault.memories.forget(transaction, row.id, ForgetMode.REDACT, writer())
        transaction.connection.set_trace_callback(None)

    vault.write(traced)
    blanking = [sql for sql in statements if sql.startswith("UPDATE idempotency")]
    assert blanking
    for sql in blanking:
        plan = vault.read(lambda c, sql=sql: c.execute(f"EXPLAIN QUERY PLAN {sql}").fetchall())
        assert "USING INDEX idempotency_" in str(plan)


def test_same_key_twice_at_once_makes_one_row(vault: SmallVault) -> None:
    def remember_once(transaction: Transaction) -> str:
        stored = idempotency.lookup(transaction.connection, KEY)
        if stored is not None:
            return stored.body_json
        row = vault.memories.remember(transaction, MemoryDraft("once", "p"), writer()).row
        idempotency.save(transaction, KEY, 201, f'{{"id":"{row.id}"}}')
        return f'{{"id":"{row.id}"}}'

    futures = [vault.store.submit(remember_once) for _ in range(20)]
    answers = {future.result(timeout=30) for future in futures}
    assert len(answers) == 1
    assert len(vault.listed()) == 1


def test_token_is_shown_once_and_stored_only_as_a_digest(vault: SmallVault) -> None:
    credential, token = vault.write(
        lambda tx: credentials.issue(tx, " codex ", [Scope.MEMORY_READ], agent_id="codex")
    )
    assert is_token(token)
    assert credential.name == "codex"
    dump = vault.dump()
    assert token.encode() not in dump
    assert token[4:20].encode() not in dump
    assert vault.read(lambda c: credentials.find_by_token(c, token)) == credential
    assert vault.read(lambda c: credentials.list_credentials(c)) == [credential]


@pytest.mark.parametrize("wrong", ["", "mlk_", "mlk_" + "A" * 43, "\ud800", "x" * 100_000])
def test_wrong_token_finds_nothing(vault: SmallVault, wrong: str) -> None:
    vault.write(lambda tx: credentials.issue(tx, "codex", [Scope.MEMORY_READ]))
    assert vault.read(lambda c: credentials.find_by_token(c, wrong)) is None


def test_revoked_token_finds_nothing_and_its_name_is_free_again(vault: SmallVault) -> None:
    scopes = [Scope.MEMORY_READ, Scope.MEMORY_WRITE]
    first, token = vault.write(lambda tx: credentials.issue(tx, "codex", scopes))
    with pytest.raises(Conflict):
        vault.write(lambda tx: credentials.issue(tx, "codex", scopes))
    revoked = vault.write(lambda tx: credentials.revoke(tx, "codex"))
    assert revoked.revoked_at_ms is not None
    assert vault.read(lambda c: credentials.find_by_token(c, token)) is None
    assert vault.write(lambda tx: credentials.revoke(tx, first.id)) == revoked
    second, _ = vault.write(lambda tx: credentials.issue(tx, "codex", scopes))
    assert second.id != first.id
    assert vault.read(lambda c: credentials.list_credentials(c)) == [second]
    everyone = vault.read(lambda c: credentials.list_credentials(c, include_revoked=True))
    assert [entry.id for entry in everyone] == [first.id, second.id]
    with pytest.raises(NotFound):
        vault.write(lambda tx: credentials.revoke(tx, "nobody"))
    actions = [event.action for event in vault.read(audit.events)]
    assert actions == ["credential.issued", "credential.revoked", "credential.issued"]


@pytest.mark.parametrize("name", ["", "  ", "x" * 129, "a\nb"])
def test_unusable_names_are_refused(vault: SmallVault, name: str) -> None:
    with pytest.raises(InvalidInput):
        vault.write(lambda tx: credentials.issue(tx, name, [Scope.MEMORY_READ]))


def test_a_key_used_under_the_name_of_a_second_agent_is_in_the_audit(vault: SmallVault) -> None:
    credential, _ = vault.write(lambda tx: credentials.issue(tx, "codex", [Scope.MEMORY_READ]))

    def used_by(name: str | None, instance: str = "one") -> None:
        identity = identity_from_headers(name, instance)
        # all in one millisecond, in which the latest is still the latest
        vault.write_at(5_000, lambda tx: credentials.note_label(tx, credential.id, identity))

    for name in ("codex", "codex", None, "cursor", "cursor"):
        used_by(name)
    used_by("codex", "another installation")
    found = vault.read(lambda c: audit.events(c, action="credential.second_agent"))
    assert [event.actor and event.actor.identity.agent_id for event in found] == ["cursor"]
    assert found[0].target_id == credential.id
    for number in range(30):
        used_by(f"agent-{number}")
    found = vault.read(lambda c: audit.events(c, action="credential.second_agent"))
    assert len(found) < credentials.MAX_LABELS
    names = [label.agent_id for label in vault.read(credentials.labels)[credential.id]]
    assert names == [f"agent-{number}" for number in range(29, 29 - credentials.MAX_LABELS, -1)]


def test_the_last_use_is_kept_with_the_credential(vault: SmallVault) -> None:
    credential, token = vault.write(lambda tx: credentials.issue(tx, "codex", [Scope.MEMORY_READ]))
    vault.write_at(5_000, lambda tx: credentials.touch(tx, credential.id))
    touched = vault.read(lambda c: credentials.find_by_token(c, token))
    assert touched is not None
    assert touched.last_used_at_ms == 5_000
