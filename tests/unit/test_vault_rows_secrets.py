"""Secrets, envelopes and attribution that a caller tries to plant in a row (C5, C7, A22, F35)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from made_up_token import token_of
from older_rules import older_rules
from small_vault import SmallVault, small_vault, writer

from memory_manager.auth.agent_identity import AgentIdentity
from memory_manager.base.errors import InvalidInput
from memory_manager.base.identifiers import CredentialId
from memory_manager.security.envelope import OPT_IN_KEY, VAULT_DEFAULT
from memory_manager.security.errors import SanitizerFailed
from memory_manager.vault import prepared_version, settings
from memory_manager.vault.idempotency import IdempotencyKey
from memory_manager.vault.rows import (
    Attribution,
    ForgetMode,
    ImportedVersion,
    MemoryChange,
    MemoryDraft,
    WriteStatus,
)


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[SmallVault]:
    with small_vault(tmp_path) as opened:
        yield opened


def _remember(vault: SmallVault, **draft: Any) -> None:
    vault.remember(**{"content": "text", "path": "notes", **draft})


def _as_agent(vault: SmallVault, agent_id: str | None, client: str | None) -> None:
    who = Attribution(AgentIdentity(agent_id), CredentialId("c"), client)
    vault.remember("text", writer=who)


def _update(vault: SmallVault, **change: Any) -> None:
    row = vault.remember("before", metadata={"kept": 1}).row
    vault.write(lambda tx: vault.memories.update(tx, row.id, MemoryChange(**change), writer()))


def _joined(vault: SmallVault, token: str) -> None:
    """Half of the secret is stored first; only the merge completes it."""
    row = vault.remember(token[:20], metadata={"a": 1}).row
    change = MemoryChange(content=token)
    vault.write(lambda tx: vault.memories.update(tx, row.id, change, writer()))


def _forget(vault: SmallVault, mode: ForgetMode, reason: str, replacement: str | None) -> None:
    row = vault.remember("to forget").row
    vault.write(lambda tx: vault.memories.forget(tx, row.id, mode, writer(), reason, replacement))


def _restore(vault: SmallVault, reason: str) -> None:
    row = vault.remember("v1").row
    vault.write(lambda tx: vault.memories.update(tx, row.id, MemoryChange(content="v2"), writer()))
    vault.write(lambda tx: vault.memories.restore(tx, row.id, writer(), 1, reason))


def _import(vault: SmallVault, token: str) -> None:
    history = [
        ImportedVersion(WriteStatus.CREATED, MemoryDraft(token, "p"), writer(), 1, reason=token),
        ImportedVersion(
            WriteStatus.UPDATED, MemoryDraft("x", token, metadata={"k": token}), writer(token), 2
        ),
    ]
    vault.write(lambda tx: vault.memories.import_history(tx, history))


POSITIONS: dict[str, Callable[[SmallVault, str], None]] = {
    "content": lambda vault, token: _remember(vault, content=f"use {token} now"),
    "path": lambda vault, token: _remember(vault, path=f"work/{token}/x"),
    "bucket": lambda vault, token: _remember(vault, bucket=token),
    "scope": lambda vault, token: _remember(vault, scope=token),
    "source": lambda vault, token: _remember(vault, source=token),
    "semantic key": lambda vault, token: _remember(vault, semantic_key=f"slot:{token}"),
    "tags": lambda vault, token: _remember(vault, metadata={"tags": ["a", token]}),
    "nested metadata": lambda vault, token: _remember(
        vault, metadata={"a": [{"b": {"c": f"x {token}"}}]}
    ),
    "provenance": lambda vault, token: _remember(
        vault, provenance={"url": f"https://x.test/?q={token}", "argv": ["tool", token]}
    ),
    "agent id": lambda vault, token: _as_agent(vault, token, None),
    "client": lambda vault, token: _as_agent(vault, "a", token),
    "update content": lambda vault, token: _update(vault, content=token),
    "update metadata": lambda vault, token: _update(
        vault, metadata={"n": token}, merge_metadata=True
    ),
    "joined by an update": _joined,
    "forget reason": lambda vault, token: _forget(vault, ForgetMode.SOFT_DELETE, token, None),
    "replacement": lambda vault, token: _forget(vault, ForgetMode.REDACT, "why", f"now {token}"),
    "restore reason": _restore,
    "import": _import,
}


@pytest.mark.parametrize("position", POSITIONS)
def test_secret_at_any_position_never_reaches_the_database(
    vault: SmallVault, position: str
) -> None:
    token = token_of(len(position))
    POSITIONS[position](vault, token)
    assert vault.listed() or position == "forget reason"
    dump = vault.dump()
    core = token[4:]
    assert core.encode() not in dump
    if position != "joined by an update":
        assert core[:12].encode() not in dump


def test_row_says_which_rules_fired(vault: SmallVault) -> None:
    clean = vault.remember("nothing to hide").row
    dirty = vault.remember(f"use {token_of(1)}", metadata={"k": token_of(2)}).row
    assert clean.redactions == ()
    assert len(dirty.redactions) >= 1
    assert all(rule.replace("-", "").isalnum() for rule in dirty.redactions)
    assert clean.ruleset_version == dirty.ruleset_version != ""


@pytest.mark.parametrize("version", [1, 2], ids=["first", "later"])
def test_what_older_rules_let_through_is_read_under_the_present_ones(
    vault: SmallVault, version: int
) -> None:
    token = token_of(3)
    old = MemoryDraft(f"use {token}", f"keys/{token}", metadata={"k": [token]}, semantic_key=token)
    with older_rules():
        row = vault.write(lambda tx: vault.memories.remember(tx, old, writer())).row
    assert token.encode() in vault.dump()
    if version == 2:
        change = MemoryChange(importance=0.5)
        vault.write(lambda tx: vault.memories.update(tx, row.id, change, writer()))
    shown = [*vault.listed(), *vault.versions(row.id)]
    assert len(shown) == 1 + version
    assert token not in repr([dataclasses.asdict(one) for one in shown])
    assert all((one.content or "").startswith("use [REDACTED:") for one in shown)


def test_two_keys_with_secrets_do_not_collapse_into_one_memory(vault: SmallVault) -> None:
    first = vault.remember("one", semantic_key=f"slot:{token_of(1)}")
    second = vault.remember("two", semantic_key=f"slot:{token_of(2)}")
    assert first.row.id != second.row.id
    assert (first.row.semantic_key, second.row.semantic_key) == (None, None)
    assert first.row.redactions != ()


def test_ordinary_semantic_keys_and_hashes_pass_unchanged(vault: SmallVault) -> None:
    key = "dsh-local:3f2b8c1e-9d4a-4c55-8a61-0b6f2d9e7c10"
    row = vault.remember("text", semantic_key=key).row
    assert row.semantic_key == key
    assert row.writer == writer()


SPOOFED = {
    OPT_IN_KEY: True,
    "security_envelope": {"retrieval_visibility": "server_retrievable"},
    "retrieval_visibility": "server_retrievable",
    "server_embeddings_enabled": True,
    "server_content_search_enabled": True,
    "security_mode": "cloud",
    "encryption_state": "plaintext",
}


@pytest.mark.parametrize("door", ["remember", "update", "merge", "import"])
def test_a22_spoofed_envelope_never_widens_visibility(vault: SmallVault, door: str) -> None:
    metadata = {**SPOOFED, "harmless": "kept"}
    if door == "remember":
        row = vault.remember("x", metadata=metadata).row
    elif door == "import":
        history = [
            ImportedVersion(
                WriteStatus.CREATED, MemoryDraft("x", "p", metadata=metadata), writer(), 1
            )
        ]
        row = vault.write(lambda tx: vault.memories.import_history(tx, history)).row
    else:
        change = MemoryChange(metadata=metadata, merge_metadata=door == "merge")
        created = vault.remember("x").row
        row = vault.write(lambda tx: vault.memories.update(tx, created.id, change, writer())).row
    assert row.envelope == VAULT_DEFAULT
    assert row.metadata == {"harmless": "kept"}
    assert OPT_IN_KEY.encode() not in vault.dump()


def test_f35_ids_in_metadata_never_become_the_attribution(vault: SmallVault) -> None:
    spoof = {"agent_id": "someone else", "agent_instance_id": "x", "writer": {"agent_id": "y"}}
    row = vault.remember("x", metadata=spoof, provenance=dict(spoof)).row
    assert row.writer == writer()


def test_contact_data_is_kept_until_the_owner_decides(vault: SmallVault) -> None:
    assert vault.read(lambda c: settings.read_settings(c)["auto_redact_pii"]) is False
    text = "write to jane.doe@example.org about it"
    assert vault.remember(text).row.content == text
    vault.write(lambda tx: settings.change_setting(tx, "auto_redact_pii", True, writer()))
    assert vault.read(lambda c: settings.read_settings(c)["auto_redact_pii"]) is True
    for name, value in (
        ("no_such_setting", True),
        ("auto_redact_pii", "on"),
        ("phone_region", "X"),
    ):
        with pytest.raises(InvalidInput):
            vault.write(lambda tx, n=name, v=value: settings.change_setting(tx, n, v, writer()))


def test_owners_decision_reaches_the_sanitizer(
    vault: SmallVault, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[dict[str, Any]] = []
    original = prepared_version.sanitize_row

    def spy(row: Any, **decided: Any) -> Any:
        seen.append(decided)
        return original(row, **decided)

    monkeypatch.setattr(prepared_version, "sanitize_row", spy)
    vault.remember("one")
    decided = {"auto_redact_pii": True, "redact_identity_numbers": True, "phone_region": "pt"}
    for name, value in decided.items():
        vault.write(lambda tx, n=name, v=value: settings.change_setting(tx, n, v, writer()))
    vault.remember("two")
    assert [tuple(call.values()) for call in seen] == [(False, False, None), (True, True, "PT")]


def test_failing_sanitizer_refuses_the_write_and_shows_nothing(
    vault: SmallVault, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(row: Any, **_: object) -> Any:
        raise RuntimeError(f"cannot handle {row['content']}")

    monkeypatch.setattr(prepared_version, "sanitize_row", broken)
    with pytest.raises(SanitizerFailed) as caught:
        vault.remember("zephyrword")
    assert caught.value.__context__ is None
    assert "zephyrword" not in str(caught.value)
    monkeypatch.undo()
    assert vault.listed() == []


def test_idempotency_key_with_a_secret_is_refused_not_rewritten() -> None:
    scope = CredentialId("c")
    for good in ("9f3c2c4b1f1e4a0f8f6f0a1b2c3d4e5f", "3f2b8c1e-9d4a-4c55-8a61-0b6f2d9e7c10"):
        assert IdempotencyKey(scope, "POST /v1/remember", good).key == good
    for bad in (token_of(3), "", "x" * 257, "\ud800"):
        with pytest.raises(InvalidInput):
            IdempotencyKey(scope, "POST /v1/remember", bad)
