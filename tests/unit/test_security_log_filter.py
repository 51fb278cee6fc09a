"""Log records are cleaned by the write path's own rules (redaction.md 10, C15)."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator

import pytest
from secrets_generator import TOKENS, Maker

from memory_manager.security.log_filter import RedactingFilter

TOKEN = TOKENS["github-token"](Maker("log")).text


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s %(detail)s"))
    handler.addFilter(RedactingFilter())
    logger = logging.getLogger("memlocket.test.redaction")
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    yield written
    logger.removeHandler(handler)


def log() -> logging.LoggerAdapter[logging.Logger]:
    logger = logging.getLogger("memlocket.test.redaction.child")
    return logging.LoggerAdapter(logger, {"detail": ""})


def test_messages_arguments_and_extras_are_cleaned(stream: io.StringIO) -> None:
    log().info("got %s", TOKEN)
    logging.getLogger("memlocket.test.redaction").info(
        "%s=%s", "password", "Kestrel-42x", extra={"detail": {"token": [TOKEN]}}
    )
    assert TOKEN not in stream.getvalue()
    assert "Kestrel-42x" not in stream.getvalue()
    assert "password=[REDACTED:labelled-secret]" in stream.getvalue()


def test_exception_texts_are_cleaned(stream: io.StringIO) -> None:
    try:
        raise ValueError(f"cannot use {TOKEN}")
    except ValueError:
        log().exception("failed")
    assert TOKEN not in stream.getvalue()
    assert "ValueError: cannot use [REDACTED:github-token]" in stream.getvalue()


def test_harmless_records_keep_their_form(stream: io.StringIO) -> None:
    log().warning("started pid=%d state=%s", 12, "unlocked")
    assert stream.getvalue() == "WARNING started pid=12 state=unlocked \n"


def test_a_record_that_cannot_be_cleaned_loses_its_text(stream: io.StringIO) -> None:
    log().info("%d things", TOKEN)
    assert TOKEN not in stream.getvalue()
    assert "withheld" in stream.getvalue()
