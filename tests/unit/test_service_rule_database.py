"""The cache of the sanitizer's native rules: built once, private, never trusted unread."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_manager.security.redact import anchors, sanitize_server_write
from memory_manager.service import rule_database
from memory_manager.service.rule_database import FILE_NAME, use_native_rules


@pytest.fixture(autouse=True)
def portable_again() -> Iterator[None]:
    yield
    anchors.use_portable_tier()


async def test_the_database_is_built_once_and_then_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache"
    assert await use_native_rules(cache)
    file = cache / FILE_NAME
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert sanitize_server_write("token=not-a-real-secret").text.startswith("token=[REDACTED:")

    def fail() -> bytes:
        raise AssertionError("built again")

    monkeypatch.setattr(rule_database.anchors, "compile_native_database", fail)
    anchors.use_portable_tier()
    assert await use_native_rules(cache)

    damaged = bytearray(file.read_bytes())
    damaged[-1] ^= 1
    file.write_bytes(damaged)
    anchors.use_portable_tier()
    assert not await use_native_rules(cache)  # it would have to be built, which fails here
    assert sanitize_server_write("token=not-a-real-secret").applied


async def test_a_cache_that_cannot_be_written_leaves_the_portable_tier(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file is in the way")
    assert not await use_native_rules(tmp_path / "cache")
    assert sanitize_server_write("token=not-a-real-secret").applied
