"""What a credential may do. Contract: sessions.md 9.2, xmemo.md 9."""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final

from memory_manager.auth.errors import InvalidScope


class Scope(enum.StrEnum):
    MEMORY_READ = "memory:read"
    MEMORY_WRITE = "memory:write"
    MEMORY_RESTORE = "memory:restore"
    LEDGER_READ = "ledger:read"
    LEDGER_WRITE = "ledger:write"


ALL_SCOPES: Final[frozenset[Scope]] = frozenset(Scope)
MEMORY_SCOPES: Final = frozenset({Scope.MEMORY_READ, Scope.MEMORY_WRITE})
"""What a login that names no right we know asks for."""

_BY_NAME: Final = {scope.value: scope for scope in Scope}


def parse_scopes(value: str | Iterable[str]) -> frozenset[Scope]:
    """Scopes from a list, or from text separated by blanks or commas.

    InvalidScope for an unknown name or an empty set: a credential without rights is a mistake.
    """
    names = _names(value)
    if not names or any(name not in _BY_NAME for name in names):
        raise InvalidScope
    return frozenset(_BY_NAME[name] for name in names)


def known_scopes(value: str | Iterable[str]) -> frozenset[Scope]:
    """The part of what a client asked for that exists here; MEMORY_SCOPES when there is none."""
    return frozenset(_BY_NAME[name] for name in _names(value) if name in _BY_NAME) or MEMORY_SCOPES


def _names(value: str | Iterable[str]) -> list[str]:
    return value.replace(",", " ").split() if isinstance(value, str) else list(value)


def format_scopes(scopes: Iterable[Scope]) -> list[str]:
    """The names in sorted order, for storage and replies."""
    return sorted(scope.value for scope in scopes)
