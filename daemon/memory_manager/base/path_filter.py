"""The path filter of a request: one path and what is below it, or whatever begins with a text.

Contract: xmemo.md 4.7.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class PathFilter:
    """``projects`` or at ``projects/...``; ``prefix_only``: all that starts with the text."""

    text: str = dataclasses.field(repr=False)
    prefix_only: bool = False

    def admits(self, path: str) -> bool:
        if self.prefix_only:
            return path.startswith(self.text)
        return path == self.text or path.startswith(self.text + "/")


def parse_path_filter(value: str | None) -> PathFilter | None:
    """The path filter that a request asks for: None when it filters nothing.

    With a trailing ``%`` or ``*`` the rest is a prefix; without, the path itself or anything below
    it. A slash at the end of a whole path is not needed.
    """
    if not value:
        return None
    prefix = value.rstrip("%*")
    if prefix != value:
        return PathFilter(prefix, prefix_only=True) if prefix else None
    return PathFilter(value.rstrip("/") or value)
