"""The frame codec takes any portion of bytes and trusts none of them."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_manager.recall.frames import (
    MAX_FRAME_BYTES,
    Decoder,
    Frame,
    FrameError,
    FrameType,
    encode,
)

_VECTORS = Frame(FrameType.VECTORS, {"id": 3, "n": 1, "dim": 2, "pieces": [1]}, b"\n\x00\n12345")


@given(st.lists(st.text(), max_size=5), st.binary(max_size=100), st.integers(1, 40))
def test_frames_survive_any_cut(texts: list[str], body: bytes, size: int) -> None:
    sent = [Frame(FrameType.EMBED, {"id": 1, "texts": texts}, body), _VECTORS]
    data = b"".join(encode(frame) for frame in sent)
    decoder = Decoder()
    found = [
        frame
        for start in range(0, len(data), size)
        for frame in decoder.feed(data[start : start + size])
    ]
    assert found == sent


def test_lone_surrogates_arrive() -> None:
    (found,) = Decoder().feed(encode(Frame(FrameType.EMBED, {"texts": ["\ud800"]})))
    assert found.strings("texts") == ["\ud800"]


@pytest.mark.parametrize(
    "payload",
    [b"", b"no newline", b"{}\n", b"[]\n", b'{"type":"shout"}\n', b'{"type":1}\n', b"\xff\n"],
)
def test_bad_payloads_are_refused_without_quoting_them(payload: bytes) -> None:
    with pytest.raises(FrameError) as caught:
        list(Decoder().feed(struct.pack(">I", len(payload)) + payload))
    assert caught.value.__cause__ is None
    assert "newline" not in str(caught.value)
    assert "shout" not in str(caught.value)


def test_a_frame_above_the_limit_is_refused_before_it_is_read() -> None:
    with pytest.raises(FrameError):
        list(Decoder().feed(struct.pack(">I", MAX_FRAME_BYTES + 1)))
    with pytest.raises(FrameError):
        encode(Frame(FrameType.VECTORS, {}, bytes(MAX_FRAME_BYTES)))


@pytest.mark.parametrize("value", [None, -1, True, "1", 1.5])
def test_fields_of_the_wrong_type_are_protocol_errors(value: object) -> None:
    frame = Frame(FrameType.VECTORS, {"n": value, "pieces": [value], "texts": [value]})
    with pytest.raises(FrameError):
        frame.integer("n")
    if value is not True:
        with pytest.raises(FrameError):
            frame.integers("pieces")
    if not isinstance(value, str):
        with pytest.raises(FrameError):
            frame.strings("texts")
    with pytest.raises(FrameError):
        frame.string("absent")


def test_a_frame_does_not_show_its_text() -> None:
    assert "hidden" not in repr(Frame(FrameType.EMBED, {"texts": ["hidden"]}, b"hidden"))
