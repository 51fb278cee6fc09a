"""The pinned TCP port: which one may be used, and whether it is free (desktop.md 8).

Standard library only: the command line asks before it ends a running service.
"""

from __future__ import annotations

import os
import socket
from typing import Final

from memory_manager.service.errors import PortUnavailable

LOOPBACK: Final = "127.0.0.1"
RESERVED_PORT: Final = 8765  # the default of a public client's own proxy


def check_port_number(port: int) -> None:
    """Raises PortUnavailable for a port that no service of ours may listen on."""
    if port == RESERVED_PORT:
        raise PortUnavailable(f"Port {port} is kept free for another program.")
    if not 0 < port < 1 << 16:
        raise PortUnavailable(f"There is no port {port}: the last one is 65535.")


def bound_port(port: int) -> socket.socket:
    """A bound, not yet listening socket on 127.0.0.1; PortUnavailable when the port is taken."""
    check_port_number(port)
    try:
        return bind_loopback(port)
    except PermissionError as error:
        raise PortUnavailable(f"Port {port} is not open to this user.") from error
    except OSError as error:
        raise PortUnavailable(f"Port {port} is taken.") from error


def check_port_is_free(port: int) -> None:
    """Raises PortUnavailable unless ``bound_port`` would work now."""
    bound_port(port).close()


def bind_loopback(port: int) -> socket.socket:
    """A bound socket on 127.0.0.1; port 0 is a free one. OSError when it cannot be had."""
    door = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        door.setblocking(False)
        if os.name == "posix":
            door.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        door.bind((LOOPBACK, port))
    except BaseException:
        door.close()
        raise
    return door
