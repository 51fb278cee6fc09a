"""OAuth grants inside the vault: rotation, reuse, expiry, what is stored (xmemo.md 10)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_vault import SmallVault, small_vault

from memory_manager.auth.agent_identity import identity_from_headers
from memory_manager.auth.scopes import MEMORY_SCOPES, Scope
from memory_manager.auth.tokens import is_token
from memory_manager.base.identifiers import CredentialId, new_uuid7
from memory_manager.vault import credentials, grants
from memory_manager.vault.credentials import CredentialKind
from memory_manager.vault.grants import ACCESS_SECONDS, REFRESH_SECONDS, GrantTokens, OAuthClient

CLIENT = OAuthClient("mlc-1", "editor", ("http://127.0.0.1/cb",))
START_MS = 1_800_000_000_000


@pytest.fixture
def vault(tmp_path: Path) -> Iterator[SmallVault]:
    with small_vault(tmp_path) as opened:
        yield opened


def issue(vault: SmallVault, client: OAuthClient = CLIENT, at_ms: int = START_MS) -> GrantTokens:
    wanted = CredentialId(str(new_uuid7()))
    return vault.write_at(at_ms, lambda tx: grants.issue_grant(tx, client, MEMORY_SCOPES, wanted))


def refresh(vault: SmallVault, token: str, at_ms: int = START_MS) -> GrantTokens | None:
    return vault.write_at(at_ms, lambda tx: grants.refresh_grant(tx, token, CLIENT.id))


def found(vault: SmallVault, token: str, at_ms: int = START_MS) -> credentials.Credential | None:
    return vault.read(lambda connection: credentials.find_by_token(connection, token, at_ms))


def test_a_grant_is_one_credential(vault: SmallVault) -> None:
    tokens = issue(vault)
    assert is_token(tokens.access_token)
    credential = found(vault, tokens.access_token)
    assert credential is not None
    assert credential.id == tokens.credential.id
    assert credential.kind is CredentialKind.OAUTH_GRANT
    assert credential.client_id == CLIENT.id
    assert credential.scopes == MEMORY_SCOPES
    assert found(vault, tokens.refresh_token) is None  # it opens nothing
    assert vault.read(lambda c: grants.find_client(c, CLIENT.id)) == CLIENT


def test_an_access_token_expires(vault: SmallVault) -> None:
    tokens = issue(vault)
    end = START_MS + ACCESS_SECONDS * 1000
    credential = found(vault, tokens.access_token, end - 1)
    assert credential is not None
    assert credential.expires_at_ms == end
    assert found(vault, tokens.access_token, end) is None


def test_a_refresh_token_expires_after_ninety_days(vault: SmallVault) -> None:
    tokens = issue(vault)
    end = START_MS + REFRESH_SECONDS * 1000
    assert refresh(vault, tokens.refresh_token, end) is None
    assert refresh(vault, tokens.refresh_token, end - 1) is not None


def test_refresh_keeps_the_id_and_clears_what_expired(vault: SmallVault) -> None:
    tokens: GrantTokens | None = issue(vault)
    at_ms = START_MS
    ids = set()
    for _ in range(5):
        assert tokens is not None
        ids.add(tokens.credential.id)
        at_ms += ACCESS_SECONDS * 1000
        tokens = refresh(vault, tokens.refresh_token, at_ms)
    assert len(ids) == 1
    (count,) = vault.read(lambda c: c.execute("SELECT count(*) FROM access_token").fetchone())
    assert count == 1


def test_reuse_ends_the_family_and_only_it(vault: SmallVault) -> None:
    first, other = issue(vault), issue(vault)
    second = refresh(vault, first.refresh_token)
    assert second is not None
    assert refresh(vault, first.refresh_token) is None
    for tokens in (first, second):
        assert found(vault, tokens.access_token) is None
        assert refresh(vault, tokens.refresh_token) is None
    assert found(vault, other.access_token) is not None


def test_two_grants_of_one_client_have_two_names(vault: SmallVault) -> None:
    assert [issue(vault).credential.name for _ in range(3)] == ["editor", "editor 2", "editor 3"]


def test_tokens_are_stored_as_digests(vault: SmallVault) -> None:
    tokens = issue(vault)
    dump = vault.dump()
    assert tokens.access_token.encode() not in dump
    assert tokens.refresh_token.encode() not in dump
    assert CLIENT.id.encode() in dump  # the scan sees these tables


def test_clients_without_a_grant_make_room(
    vault: SmallVault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grants, "MAX_CLIENTS", 3)
    clients = [OAuthClient(f"mlc-{number}", "c", ("http://127.0.0.1/",)) for number in range(8)]
    kept = issue(vault, clients[0])
    for client in clients[1:]:
        ended = issue(vault, client).credential.id
        vault.write(lambda tx, ended=ended: credentials.revoke(tx, ended))
    (count,) = vault.read(lambda c: c.execute("SELECT count(*) FROM oauth_client").fetchone())
    assert count <= 5
    assert vault.read(lambda c: grants.find_client(c, clients[0].id)) is not None
    assert found(vault, kept.access_token) is not None


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(steps=st.lists(st.tuples(st.integers(0, 6), st.booleans()), max_size=12))
def test_any_order_of_refreshes_leaves_one_live_line(
    vault: SmallVault, steps: list[tuple[int, bool]]
) -> None:
    """Model: the newest refresh token works; using any other one ends everything."""
    line, alive = [issue(vault)], True
    for index, newest in steps:
        used = len(line) - 1 if newest else min(index, len(line) - 1)
        after = refresh(vault, line[used].refresh_token)
        if alive and used == len(line) - 1:
            assert after is not None
            line.append(after)
        else:
            alive = False
            assert after is None
    live = [tokens for tokens in line if found(vault, tokens.access_token) is not None]
    assert live == (line if alive else [])


def test_labels_are_remembered_and_bounded(
    vault: SmallVault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(credentials, "MAX_LABELS", 3)
    credential, _ = vault.write(lambda tx: credentials.issue(tx, "k", [Scope.MEMORY_READ]))
    for number in range(5):
        identity = identity_from_headers(f"agent-{number}", "laptop")
        vault.write_at(
            START_MS + number,
            lambda tx, identity=identity: credentials.note_label(tx, credential.id, identity),
        )
    seen = vault.read(credentials.labels)[credential.id]
    assert [label.agent_id for label in seen] == ["agent-4", "agent-3", "agent-2"]
    assert all((label.instance_hash or "").startswith("sha256:") for label in seen)
    assert b"laptop" not in vault.dump()


def test_an_unusable_name_is_replaced(vault: SmallVault) -> None:
    names = ["", "  ", "a\x00b", "ghp_" + "a1B2" * 9, "x" * 300]
    made = [vault.read(lambda c, n=name: credentials.free_name(c, n)) for name in names]
    assert made[:4] == [credentials.UNNAMED_CLIENT] * 4
    assert made[4] == "x" * 80
