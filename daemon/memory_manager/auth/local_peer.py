"""Who is at the other end of a Unix socket, as the kernel says. Contract: desktop.md 11.4.

The uid is an authority; the pid is only a hint to show to the user.
"""

from __future__ import annotations

import dataclasses
import socket
import struct
import sys

from memory_manager.auth.errors import PeerUnknown

_LINUX_UCRED = struct.Struct("3i")  # pid, uid, gid

# <sys/un.h> and <sys/ucred.h> of macOS; Python exports neither
_MACOS_SOL_LOCAL = 0
_MACOS_LOCAL_PEERCRED = 1
_MACOS_LOCAL_PEERPID = 2
_MACOS_XUCRED_HEAD = struct.Struct("=IIh")  # version, uid, number of groups
_MACOS_XUCRED_BYTES = 76
_MACOS_XUCRED_VERSION = 0


@dataclasses.dataclass(frozen=True, slots=True)
class PeerCredentials:
    """``pid`` is None where the platform does not tell it."""

    pid: int | None
    uid: int


def peer_uid_pid(connection: socket.socket) -> PeerCredentials:
    """Credentials the peer had when it connected; PeerUnknown if the kernel does not tell them."""
    if connection.family != getattr(socket, "AF_UNIX", None):
        raise PeerUnknown
    try:
        if sys.platform == "linux":
            return _linux_peer(connection)
        if sys.platform == "darwin":
            return _macos_peer(connection)
    except (OSError, struct.error):
        raise PeerUnknown from None
    raise PeerUnknown


def _linux_peer(connection: socket.socket) -> PeerCredentials:
    raw = connection.getsockopt(
        socket.SOL_SOCKET, getattr(socket, "SO_PEERCRED", 17), _LINUX_UCRED.size
    )
    pid, uid, _gid = _LINUX_UCRED.unpack(raw)
    if pid <= 0:  # the kernel answers 0, -1, -1 for a socket that never had a peer
        raise PeerUnknown
    return PeerCredentials(pid, uid)


def _macos_peer(connection: socket.socket) -> PeerCredentials:
    raw = connection.getsockopt(_MACOS_SOL_LOCAL, _MACOS_LOCAL_PEERCRED, _MACOS_XUCRED_BYTES)
    version, uid, _groups = _MACOS_XUCRED_HEAD.unpack_from(raw)
    if version != _MACOS_XUCRED_VERSION:
        raise PeerUnknown
    pid = connection.getsockopt(_MACOS_SOL_LOCAL, _MACOS_LOCAL_PEERPID)
    return PeerCredentials(pid if pid > 0 else None, uid)
