"""How long this process took until it could answer. Contract: recall.md 12."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

_LONGEST_START_SECONDS: Final = 600.0  # more is a clock that means something else


class StartTimes:
    """Milliseconds from the birth of the process, on the monotonic clock."""

    def __init__(self) -> None:
        self._born = _birth()
        self._doors: float | None = None
        self._vault: float | None = None

    def doors_are_open(self) -> None:
        self._doors = time.monotonic()

    def vault_is_open(self) -> None:
        """Without waiting for a person; a vault that waits says nothing about our start."""
        self._vault = time.monotonic()

    def as_json(self, vectors_loaded: float | None) -> dict[str, int | None]:
        """``words_ms``: a recall could be answered; ``vectors_ms``: also by meaning, once the
        model is in memory. None where it did not come to that by itself.
        """
        opened = None if self._vault is None else max(self._vault, self._doors or 0.0)
        words = None if self._doors is None else opened
        loaded = None if words is None or vectors_loaded is None else max(words, vectors_loaded)
        return {
            "doors_ms": self._passed(self._doors),
            "words_ms": self._passed(words),
            "vectors_ms": self._passed(loaded),
        }

    def _passed(self, moment: float | None) -> int | None:
        return None if moment is None else round((moment - self._born) * 1000)


def _birth() -> float:
    """When the kernel made this process; this moment where it does not tell."""
    now = time.monotonic()
    try:
        fields = Path("/proc/self/stat").read_text().rsplit(")", 1)[1].split()
        since_boot = int(fields[19]) / os.sysconf("SC_CLK_TCK")
        age = time.clock_gettime(time.CLOCK_BOOTTIME) - since_boot
    except (OSError, ValueError, IndexError, AttributeError):
        return now
    return now - age if 0 <= age < _LONGEST_START_SECONDS else now
