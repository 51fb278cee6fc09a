"""Push and pull bodies: what was packed comes back, anything else is refused (sync.md 9.3)."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from sync_world import Device, Founded, Server

from memory_manager.sync.errors import MalformedMessage
from memory_manager.sync.wire import canonical
from memory_manager.sync.wire.framing import (
    Push,
    pack_page,
    pack_push,
    unpack_page,
    unpack_push,
)


def _world() -> tuple[Device, Server]:
    source = random.Random(1)
    vault = Founded(source)
    server = Server(vault.vault, source)
    device = Device(vault, vault.first, server.public_key)
    for number in range(3):
        device.write(bytes([number]) * 16, f"row {number}")
    return device, server


DEVICE, SERVER = _world()
PUSH = pack_push(Push(5, DEVICE.checkpoint(), tuple(DEVICE.own)))
DEVICE.push(SERVER)
PAGE = pack_page(SERVER.pull(0, 10))


def test_both_come_back_whole() -> None:
    push = unpack_push(PUSH)
    assert (push.session_epoch, push.rows) == (5, tuple(DEVICE.own))
    assert unpack_page(PAGE) == SERVER.pull(0, 10)


@settings(max_examples=300)
@given(
    st.integers(0, len(PUSH) - 1), st.integers(0, len(PAGE) - 1), st.binary(min_size=1, max_size=9)
)
def test_cut_or_longer_messages_are_refused(push_end: int, page_end: int, more: bytes) -> None:
    for unpack, data in (
        (unpack_push, PUSH[:push_end]),
        (unpack_page, PAGE[:page_end]),
        (unpack_push, PUSH + more),
        (unpack_page, PAGE + more),
    ):
        with pytest.raises(MalformedMessage):
            unpack(data)


@settings(max_examples=300)
@given(st.binary(max_size=600))
@example(bytes(188))  # zeros as long as a push, and as a page, that has no rows
@example(bytes(216))
def test_arbitrary_bytes_are_refused_or_say_that_there_are_no_rows(data: bytes) -> None:
    kinds: tuple[tuple[bytes, Callable[[bytes], Any], Callable[[Any], bytes]], ...] = (
        (b"MLKP", unpack_push, pack_push),
        (b"MLKQ", unpack_page, pack_page),
    )
    for magic, unpack, pack in kinds:
        for head in (b"", magic + b"\x01\x00\x00\x00"):
            with contextlib.suppress(MalformedMessage):
                message = unpack(head + data)
                assert (message.rows, pack(message)) == ((), head + data)


@pytest.mark.parametrize("count", [4, 257, 2**32 - 1])
def test_a_count_without_its_rows_is_refused(count: int) -> None:
    at = 8 + 8 + 112 + 64
    with pytest.raises(MalformedMessage):
        unpack_push(PUSH[:at] + count.to_bytes(4, "big") + PUSH[at + 4 :])


def test_unknown_versions_are_refused() -> None:
    for at in (4, 5, 6, 7):
        changed = bytearray(PUSH)
        changed[at] ^= 2
        with pytest.raises(MalformedMessage):
            unpack_push(bytes(changed))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), JSON, max_size=5))
def test_canonical_json_has_one_spelling(document: dict[str, object]) -> None:
    raw = canonical.encode(document)
    assert canonical.decode(raw) == document
    assert canonical.encode(dict(reversed(document.items()))) == raw


@pytest.mark.parametrize(
    "raw",
    [
        b'{"a":1.0}',
        b'{"a":1,"a":1}',
        b'{"b":1,"a":1}',
        b'{"a": 1}',
        b'{"a":9007199254740992}',
        b'{"a":NaN}',
        b'{"a":"\\ud800"}',
        b'{"a":"\\u0041"}',
        b"[]",
        b"\xff",
        b"",
    ],
)
def test_other_spellings_are_refused(raw: bytes) -> None:
    with pytest.raises(MalformedMessage):
        canonical.decode(raw)
