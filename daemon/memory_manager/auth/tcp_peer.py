"""Which user owns the other end of a loopback TCP connection; Linux only (desktop.md 11.7)."""

from __future__ import annotations

import socket
import struct
import sys
from pathlib import Path
from typing import Final

_ESTABLISHED: Final = "01"
_TABLES: Final = ("/proc/net/tcp", "/proc/net/tcp6")
_MAPPED_PREFIX: Final = "0000000000000000FFFF0000"  # ::ffff:0:0/96 as the kernel prints it


def is_supported() -> bool:
    return sys.platform == "linux"


def tcp_peer_uid(local: tuple[str, int], remote: tuple[str, int]) -> int | None:
    """The uid of the process at ``remote``, as the kernel's table says; None if it does not.

    The row wanted has both addresses the other way round and is established: after the peer
    closed, the row says uid 0. Reads files: not for the event loop.
    """
    theirs, ours = _printed(remote), _printed(local)
    for table in _TABLES:
        try:
            lines = Path(table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if len(fields) > 7 and (
                fields[1].removeprefix(_MAPPED_PREFIX) == theirs
                and fields[2].removeprefix(_MAPPED_PREFIX) == ours
                and fields[3] == _ESTABLISHED
            ):
                return int(fields[7])
    return None


def _printed(address: tuple[str, int]) -> str:
    """An IPv4 address as the kernel prints it: the number in host order, in hexadecimal."""
    (number,) = struct.unpack("=I", socket.inet_aton(address[0]))
    return f"{number:08X}:{address[1]:04X}"
