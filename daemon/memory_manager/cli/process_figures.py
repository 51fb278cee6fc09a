"""What another process of ours costs, read from the system's process table; Linux only.

Everywhere else every figure is None.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def cpu_seconds(pid: int) -> float | None:
    """Processor time of a process and its living children."""
    total, found = 0.0, False
    for process in (pid, *_children(pid)):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parts = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
            total += (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")
            found = True
    return total if found else None


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                with contextlib.suppress(OSError, IndexError):
                    parts = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                    if parts[1] == str(pid):
                        found.append(int(entry.name))
    return found


def rss_bytes(pid: int) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        parts = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(parts[21]) * os.sysconf("SC_PAGE_SIZE")
    return None


def processor_name() -> str | None:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return None
