"""Which token a request presents (xmemo.md 4.3)."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_vault import small_vault

from memory_manager.api import callers
from memory_manager.api.callers import CallerDirectory, presented_token, still_valid
from memory_manager.api.errors import MissingCredential, WrongCredential
from memory_manager.auth.scopes import MEMORY_SCOPES
from memory_manager.base.identifiers import CredentialId
from memory_manager.vault import credentials, grants
from memory_manager.vault.grants import OAuthClient

TOKEN = "mlk_" + "a" * 43
OTHER = "mlk_" + "b" * 43


@pytest.mark.parametrize(
    ("keys", "authorizations"),
    [
        ([TOKEN], []),
        ([], [f"Bearer {TOKEN}"]),
        ([], [f"bearer  {TOKEN} "]),
        ([TOKEN], [f"Bearer {TOKEN}"]),
        ([TOKEN, TOKEN], []),
        ([TOKEN], ["Basic eDp5"]),
        (["", TOKEN], [""]),
    ],
)
def test_one_token_in_either_header_or_both(keys: list[str], authorizations: list[str]) -> None:
    assert presented_token(keys, authorizations) == TOKEN


@pytest.mark.parametrize(
    ("keys", "authorizations"), [([], []), ([""], []), ([" "], [""]), ([], ["  "])]
)
def test_no_token(keys: list[str], authorizations: list[str]) -> None:
    assert presented_token(keys, authorizations) is None


@pytest.mark.parametrize("value", ["Basic eDp5", "Bearer", "Bearer ", TOKEN])
def test_another_scheme_counts_as_missing(value: str) -> None:
    with pytest.raises(MissingCredential):
        presented_token([], [value])


@pytest.mark.parametrize(
    ("keys", "authorizations"),
    [([TOKEN], [f"Bearer {OTHER}"]), ([TOKEN, OTHER], []), ([], ["Bearer a", "Bearer b"])],
)
def test_two_different_tokens_are_wrong(keys: list[str], authorizations: list[str]) -> None:
    with pytest.raises(WrongCredential):
        presented_token(keys, authorizations)


async def test_an_access_token_ends_although_it_is_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its caller is remembered between requests; the hour of its end is, too."""
    with small_vault(tmp_path) as vault:
        client = OAuthClient("mlc-1", "editor", ("http://127.0.0.1/cb",))
        tokens = vault.write(
            lambda tx: grants.issue_grant(tx, client, MEMORY_SCOPES, CredentialId("grant-1"))
        )
        directory = CallerDirectory(b"\0" * 32, lambda: vault.store)
        caller = await directory.caller_of(tokens.access_token)
        assert caller.credential_id == "grant-1"
        end = caller.expires_at_ms
        assert end is not None
        moment = end - 1
        for module in (callers, credentials):
            monkeypatch.setattr(module, "now_ms", lambda: moment)
        assert await directory.caller_of(tokens.access_token) == caller
        vault.read(lambda connection: still_valid(connection, caller))
        moment = end
        for _ in range(2):
            with pytest.raises(WrongCredential):
                await directory.caller_of(tokens.access_token)
        with pytest.raises(WrongCredential):
            vault.read(lambda connection: still_valid(connection, caller))
