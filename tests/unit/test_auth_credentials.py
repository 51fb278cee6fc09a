"""Token form, digests, scopes and the peer of a local socket (xmemo.md 3, desktop.md 11)."""

from __future__ import annotations

import hashlib
import os
import re
import socket
import sys

import pytest

from memory_manager.auth.errors import InvalidScope, PeerUnknown
from memory_manager.auth.local_peer import peer_uid_pid
from memory_manager.auth.scopes import (
    ALL_SCOPES,
    MEMORY_SCOPES,
    Scope,
    format_scopes,
    known_scopes,
    parse_scopes,
)
from memory_manager.auth.tokens import is_token, new_token, same_digest, token_digest


def test_a_token_has_the_documented_form_and_carries_all_random_bytes() -> None:
    token = new_token(b"\xff" * 32)
    assert re.fullmatch(r"mlk_[A-Za-z0-9_-]{43}", token)
    assert is_token(token)
    assert new_token(bytes(31) + b"\x01") != new_token(bytes(32))


@pytest.mark.parametrize("size", [0, 16, 31, 33])
def test_a_token_needs_exactly_32_random_bytes(size: int) -> None:
    with pytest.raises(ValueError, match="32 random bytes"):
        new_token(bytes(size))


@pytest.mark.parametrize(
    "text", ["", "mlk_", "mlk_" + "a" * 42, "mlk_" + "a" * 44, "mlk_" + "+" * 43]
)
def test_other_texts_are_no_tokens(text: str) -> None:
    assert not is_token(text)
    assert not is_token(f" {new_token(bytes(32))}")
    assert not is_token(new_token(bytes(32)) + "\n")


def test_only_the_right_token_matches_a_stored_digest() -> None:
    token = new_token(os.urandom(32))
    digest = token_digest(token)
    assert digest == hashlib.sha256(token.encode()).digest()
    assert same_digest(token_digest(token), digest)
    assert not same_digest(token_digest(new_token(os.urandom(32))), digest)
    assert not same_digest(digest, digest[:-1])


def test_a_malformed_credential_has_a_digest_too() -> None:
    assert len(token_digest("no\udc80token")) == 32


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("memory:read", {Scope.MEMORY_READ}),
        ("memory:read memory:write", MEMORY_SCOPES),
        ("memory:write,memory:read", MEMORY_SCOPES),
        (["memory:restore", "ledger:read"], {Scope.MEMORY_RESTORE, Scope.LEDGER_READ}),
        (["memory:write"], {Scope.MEMORY_WRITE}),
    ],
)
def test_scopes_parse_from_text_and_lists(value: str | list[str], expected: set[Scope]) -> None:
    assert parse_scopes(value) == expected


@pytest.mark.parametrize("value", ["", "memory:admin", "memory:read admin", [], "Memory:read"])
def test_unknown_or_empty_scopes_are_refused(value: str | list[str]) -> None:
    with pytest.raises(InvalidScope):
        parse_scopes(value)


def test_scopes_are_formatted_in_a_fixed_order() -> None:
    assert format_scopes(MEMORY_SCOPES) == ["memory:read", "memory:write"]
    assert len(format_scopes(ALL_SCOPES)) == 5


@pytest.mark.parametrize(
    ("asked", "granted"),
    [
        ("memory:read offline_access", {Scope.MEMORY_READ}),
        (["ledger:write", "admin", "memory:*"], {Scope.LEDGER_WRITE}),
        ("", MEMORY_SCOPES),
        ("offline_access", MEMORY_SCOPES),
    ],
)
def test_a_login_gets_the_known_part_of_what_it_asks(
    asked: str | list[str], granted: set[Scope]
) -> None:
    assert known_scopes(asked) == granted


@pytest.mark.skipif(
    sys.platform not in ("linux", "darwin"),
    reason="needs Linux or macOS, which tell the peer of a socket",
)
def test_the_peer_of_a_unix_socket_is_this_process() -> None:
    left, right = socket.socketpair(socket.AF_UNIX)
    with left, right:
        peer = peer_uid_pid(left)
    assert peer.uid == os.getuid()
    assert peer.pid == os.getpid()


def test_a_tcp_socket_has_no_kernel_given_peer() -> None:
    with socket.socket(socket.AF_INET) as connection, pytest.raises(PeerUnknown):
        peer_uid_pid(connection)


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: its rule for unconnected sockets")
def test_a_socket_without_a_peer_is_refused() -> None:
    with socket.socket(socket.AF_UNIX) as connection, pytest.raises(PeerUnknown):
        peer_uid_pid(connection)
