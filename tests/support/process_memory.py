"""What stands in the memory of another process: counts of byte strings in its writable pages."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

_RANGE = re.compile(r"([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \d+[ \t]*(.*)")
_CHUNK_BYTES = 1 << 22


def may_be_read(pid: int) -> bool:
    """Whether this user may look at that process: root, or the same user where it allows it."""
    try:
        with open(f"/proc/{pid}/mem", "rb"):
            return True
    except OSError:
        return False


def count_in_memory(pid: int, needles: Mapping[str, bytes]) -> dict[str, int]:
    """How often each needle stands in the readable and writable pages of the process."""
    found = dict.fromkeys(needles, 0)
    overlap = max(len(needle) for needle in needles.values()) - 1
    maps = Path(f"/proc/{pid}/maps").read_text()
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for start, end, rights, name in _RANGE.findall(maps):
            if not rights.startswith("rw") or name in ("[vvar]", "[vsyscall]"):
                continue
            position, last, before = int(start, 16), int(end, 16), b""
            while position < last:
                try:
                    memory.seek(position)
                    data = memory.read(min(_CHUNK_BYTES, last - position))
                except OSError:  # a guard page
                    break
                if not data:
                    break
                window = before + data
                for what, needle in needles.items():
                    found[what] += window.count(needle)
                before = window[-overlap:]
                position += len(data)
    return found
