"""What a credential may do. Contract: sessions.md 9.2."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from memory_manager.auth.errors import InvalidScope


class Scope(enum.StrEnum):
    MEMORY_READ = "memory:read"
    MEMORY_WRITE = "memory:write"


ALL_SCOPES: frozenset[Scope] = frozenset(Scope)


def parse_scopes(value: str | Iterable[str]) -> frozenset[Scope]:
    """Scopes from a list, or from text separated by blanks or commas.

    InvalidScope for an unknown name or an empty set: a credential without rights is a mistake.
    """
    names = value.replace(",", " ").split() if isinstance(value, str) else list(value)
    known = {scope.value: scope for scope in Scope}
    if not names or any(name not in known for name in names):
        raise InvalidScope
    return frozenset(known[name] for name in names)


def format_scopes(scopes: Iterable[Scope]) -> list[str]:
    """The names in sorted order, for storage and replies."""
    return sorted(scope.value for scope in scopes)
