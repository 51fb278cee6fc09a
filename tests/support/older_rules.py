"""Writes as a program of an older rule set did, which found nothing of what is found today."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from memory_manager.security.redact import RowResult
from memory_manager.vault import prepared_version, second_pass

OLDER = "0"


@contextlib.contextmanager
def older_rules() -> Iterator[None]:
    """Inside, this process lets every text through, notes the older rule set and reads it so."""

    def nothing_found(row: Mapping[str, Any], **_: object) -> RowResult:
        return RowResult(dict(row), (), False, False)

    with pytest.MonkeyPatch.context() as patched:
        for module in (prepared_version, second_pass):
            patched.setattr(module, "RULESET_VERSION", OLDER)
        patched.setattr(prepared_version, "sanitize_row", nothing_found)
        yield
