"""Patterns that are compiled when they are first asked for.

A start pays only for the patterns that its texts need: compiling all of them takes longer than
everything else about the import. Contract: redaction.md 15.5.
"""

from __future__ import annotations

import re
from typing import Any, Final, cast

_METHODS: Final = ("match", "search", "fullmatch", "finditer", "findall", "sub")


class _Late:
    """Stands for a pattern; its methods are those of the compiled one from the first use on."""

    def __init__(self, pattern: str, flags: int) -> None:
        self._source = (pattern, flags)

    def __getattr__(self, name: str) -> Any:
        compiled = re.compile(*self._source)
        for method in _METHODS:
            setattr(self, method, getattr(compiled, method))
        return getattr(compiled, name)


def late(pattern: str, flags: int = 0) -> re.Pattern[str]:
    """As ``re.compile``, at the first use."""
    return cast("re.Pattern[str]", _Late(pattern, flags))
