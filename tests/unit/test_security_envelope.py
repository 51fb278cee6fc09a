"""The security envelope and the retrieval gate (redaction.md 11, xmemo.md 15)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from memory_manager.security.envelope import (
    OPT_IN_KEY,
    OPT_IN_NOTICE,
    UNREADABLE,
    VAULT_DEFAULT,
    EncryptionState,
    RetrievalVisibility,
    SecurityEnvelope,
    SecurityMode,
    parse_envelope,
    read_envelope,
)
from memory_manager.security.errors import InvalidEnvelope
from memory_manager.security.gate import GateReason, Surface, may_recall, opted_in

DEFAULT_JSON = {
    "security_mode": "vault",
    "encryption_state": "ciphertext",
    "retrieval_visibility": "client_local_only",
    "server_embeddings_enabled": False,
    "server_content_search_enabled": False,
}


def test_the_vault_default_is_the_documented_object() -> None:
    assert VAULT_DEFAULT.as_json() == DEFAULT_JSON
    assert parse_envelope(DEFAULT_JSON) == VAULT_DEFAULT


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("security_mode", "sensitive"),
        ("security_mode", None),
        ("security_mode", 1),
        ("encryption_state", "Ciphertext"),
        ("retrieval_visibility", ""),
        ("retrieval_visibility", ["client_local_only"]),
        ("server_embeddings_enabled", "false"),
        ("server_embeddings_enabled", 0),
        ("server_content_search_enabled", None),
        ("server_embeddings_enabled", True),
        ("server_content_search_enabled", True),
    ],
)
def test_an_odd_value_is_refused_on_write_and_not_retrievable_on_read(
    field: str, value: Any
) -> None:
    odd = {**DEFAULT_JSON, field: value}
    with pytest.raises(InvalidEnvelope) as caught:
        parse_envelope(odd)
    assert caught.value.code == "invalid_envelope"
    assert read_envelope(odd) == UNREADABLE
    for surface in Surface:
        assert not may_recall(read_envelope(odd), {}, surface).allowed


@pytest.mark.parametrize("field", DEFAULT_JSON)
def test_a_missing_field_is_refused(field: str) -> None:
    partial = {name: value for name, value in DEFAULT_JSON.items() if name != field}
    with pytest.raises(InvalidEnvelope) as caught:
        parse_envelope(partial)
    assert caught.value.field == field


def test_an_error_never_repeats_the_value() -> None:
    with pytest.raises(InvalidEnvelope) as caught:
        parse_envelope({**DEFAULT_JSON, "security_mode": "planted-value"})
    assert "planted-value" not in f"{caught.value} {caught.value!r}"


def test_no_envelope_counts_as_the_vault_default() -> None:
    assert read_envelope(None) == VAULT_DEFAULT
    assert may_recall(None, {}, Surface.LOCAL) == may_recall(VAULT_DEFAULT, {}, Surface.LOCAL)
    assert not may_recall(None, {OPT_IN_KEY: True}, Surface.SERVER).allowed


def test_the_opt_in_is_called_a_compromise() -> None:
    assert "compromise" in OPT_IN_NOTICE
    assert "semantic index" in OPT_IN_NOTICE
    assert "Keep it" not in OPT_IN_NOTICE  # before a passphrase that reads as an order


@pytest.mark.parametrize(
    "metadata",
    [
        {},
        {OPT_IN_KEY: "true"},
        {OPT_IN_KEY: 1},
        {OPT_IN_KEY: None},
        {OPT_IN_KEY: [True]},
        {"nested": {OPT_IN_KEY: True}},
        {OPT_IN_KEY.upper(): True},
        {"vault_semantic_index_optin": True},
    ],
)
def test_only_json_true_at_the_top_level_opts_in(metadata: dict[str, Any]) -> None:
    assert not opted_in(metadata)
    assert opted_in({**metadata, OPT_IN_KEY: True})


def _envelope(
    mode: SecurityMode, visibility: RetrievalVisibility, vector: bool, content: bool
) -> SecurityEnvelope:
    return SecurityEnvelope(mode, EncryptionState.CIPHERTEXT, visibility, vector, content)


V, C, K = SecurityMode.VAULT, SecurityMode.CLOUD, SecurityMode.KEYGUARD
LOCAL_ONLY = RetrievalVisibility.CLIENT_LOCAL_ONLY
HIDDEN = RetrievalVisibility.NOT_RETRIEVABLE
SERVED = RetrievalVisibility.SERVER_RETRIEVABLE


@pytest.mark.parametrize(
    ("mode", "visibility", "vector", "content", "opt_in", "server", "local"),
    [
        # (vector, content) allowed by the server, then by local recall
        (V, LOCAL_ONLY, False, False, False, (False, False), (True, True)),
        (V, LOCAL_ONLY, False, False, True, (False, False), (True, True)),
        (V, HIDDEN, False, False, False, (False, False), (False, False)),
        (V, HIDDEN, False, False, True, (False, False), (False, False)),
        (V, SERVED, False, False, False, (False, False), (True, True)),
        (V, SERVED, True, False, False, (False, False), (True, True)),
        (V, SERVED, True, False, True, (True, False), (True, True)),
        (V, SERVED, True, True, True, (True, False), (True, True)),
        (V, SERVED, False, False, True, (False, False), (True, True)),
        (C, SERVED, True, True, False, (True, True), (True, True)),
        (C, SERVED, True, False, False, (True, False), (True, True)),
        (C, SERVED, False, True, False, (False, True), (True, True)),
        (C, SERVED, False, False, False, (False, False), (True, True)),
        (C, LOCAL_ONLY, True, True, True, (False, False), (True, True)),
        (K, SERVED, True, True, False, (True, True), (True, True)),
        (K, HIDDEN, True, True, True, (False, False), (False, False)),
    ],
)
def test_the_gate_decides_as_the_table_says(
    mode: SecurityMode,
    visibility: RetrievalVisibility,
    vector: bool,
    content: bool,
    opt_in: bool,
    server: tuple[bool, bool],
    local: tuple[bool, bool],
) -> None:
    envelope = _envelope(mode, visibility, vector, content)
    metadata = {OPT_IN_KEY: True} if opt_in else {}
    for surface, (may_vector, may_content) in ((Surface.SERVER, server), (Surface.LOCAL, local)):
        decision = may_recall(envelope, metadata, surface)
        assert (decision.vector, decision.content) == (may_vector, may_content)
        assert decision.allowed == (may_vector or may_content)
        assert (decision.reason is GateReason.ALLOWED) == decision.allowed


def test_no_combination_serves_hidden_or_local_rows_from_a_server() -> None:
    for mode, visibility, vector, content, opt_in in itertools.product(
        SecurityMode, (LOCAL_ONLY, HIDDEN), (False, True), (False, True), (False, True)
    ):
        envelope = _envelope(mode, visibility, vector, content)
        metadata = {OPT_IN_KEY: opt_in}
        assert not may_recall(envelope, metadata, Surface.SERVER).allowed
        assert may_recall(envelope, metadata, Surface.LOCAL).allowed == (visibility is LOCAL_ONLY)


def test_vault_rows_never_allow_content_search_on_a_server() -> None:
    for vector, content, opt_in in itertools.product((False, True), repeat=3):
        decision = may_recall(
            _envelope(V, SERVED, vector, content), {OPT_IN_KEY: opt_in}, Surface.SERVER
        )
        assert not decision.content
