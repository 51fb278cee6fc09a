"""Which token a request presents (xmemo.md 4.3)."""

from __future__ import annotations

import pytest

from memory_manager.api.callers import presented_token
from memory_manager.api.errors import MissingCredential, WrongCredential

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
