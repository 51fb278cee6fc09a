"""Secrets from file descriptors: one line, or 24 words on any number of lines."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from memory_manager.cli.errors import Usage
from memory_manager.cli.prompts import MAX_SECRET_BYTES, read_descriptor, read_words

Reader = Callable[[int], str]
READERS = pytest.mark.parametrize("read", [read_descriptor, read_words])


def piped(read: Reader, content: bytes) -> str:
    reader, writer = os.pipe()
    try:
        os.write(writer, content)
        os.close(writer)
        return read(reader)
    finally:
        os.close(reader)


def test_a_secret_is_the_first_line_and_words_may_stand_on_several() -> None:
    content = b" walnut orbit\r\ncactus\n"
    assert piped(read_descriptor, content) == " walnut orbit"
    assert piped(read_words, content) == "walnut orbit cactus"


@READERS
@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "Nothing to read"), (b"\xff\xfe\n", "UTF-8")],
    ids=["empty", "bytes"],
)
def test_a_descriptor_without_text_is_refused(read: Reader, content: bytes, said: str) -> None:
    with pytest.raises(Usage, match=said):
        piped(read, content)


@READERS
def test_a_descriptor_that_nobody_opened_is_refused(read: Reader) -> None:
    reader, writer = os.pipe()
    os.close(writer)
    os.close(reader)
    with pytest.raises(Usage, match="cannot be read"):
        read(reader)


def test_a_secret_that_does_not_end_is_refused() -> None:
    assert piped(read_descriptor, b"x" * MAX_SECRET_BYTES) == "x" * MAX_SECRET_BYTES
    with pytest.raises(Usage, match="More than"):
        piped(read_descriptor, b"x" * (MAX_SECRET_BYTES + 1))
