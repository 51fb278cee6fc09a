"""The two doors: a Unix socket 0600 in a private directory, and 127.0.0.1 with a random port.

Contract: desktop.md 8, 11.1, 11.4, 11.8.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import stat
import tempfile
from pathlib import Path
from typing import Final

from aiohttp import web

from memory_manager.api.protocol import DoorProtocol
from memory_manager.base.private_files import UnsafeFile, check_private_directory
from memory_manager.service.errors import PortUnavailable, SocketPathTooLong
from memory_manager.service.ports import LOOPBACK, RESERVED_PORT, bind_loopback, bound_port

SOCKET_NAME: Final = "daemon.sock"
MAX_SOCKET_PATH_BYTES: Final = 100

_SHORT_PREFIX: Final = "memlocket-"
_SHORT_ROOTS: Final = ("/tmp", "/var/tmp")  # noqa: S108 - only mkdtemp writes there
_BACKLOG: Final = 128
_PORT_ATTEMPTS: Final = 20


def socket_path(runtime_directory: Path) -> tuple[Path, Path | None]:
    """Where door 1 goes, and the directory that was made for it if the usual path is too long.

    The directory for temporary files is named by the environment and may be deep too: then a
    shorter one of the system. Raises SocketPathTooLong where none can take a directory.
    """
    usual = runtime_directory / SOCKET_NAME
    if _fits(usual):
        return usual, None
    for root in (tempfile.gettempdir(), *_SHORT_ROOTS):
        with contextlib.suppress(OSError):
            made = Path(tempfile.mkdtemp(prefix=_SHORT_PREFIX, dir=root))  # 0700, unpredictable
            if _fits(made / SOCKET_NAME):
                return made / SOCKET_NAME, made
            made.rmdir()
    raise SocketPathTooLong


def _fits(path: Path) -> bool:
    return len(os.fsencode(path)) <= MAX_SOCKET_PATH_BYTES


def remove_leftover(path: Path) -> None:
    """Remove a short directory that a killed daemon left behind; anything odd is left alone."""
    folder = path.parent
    if path.name != SOCKET_NAME or not folder.name.startswith(_SHORT_PREFIX):
        return
    with contextlib.suppress(OSError, UnsafeFile):
        check_private_directory(folder)
        if stat.S_ISSOCK(path.lstat().st_mode):
            path.unlink()
            folder.rmdir()


def bind_unix(path: Path) -> socket.socket:
    """A bound, not yet listening socket of mode 0600. Only call it while the instance lock is held:
    whatever stands at the path is a leftover and is removed.
    """
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise UnsafeFile(f"{path} is not a socket of ours.") from error
    door = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        door.setblocking(False)
        door.bind(os.fspath(path))
        path.chmod(0o600)  # umask 077 alone leaves 0700
    except BaseException:
        door.close()
        raise
    return door


def bind_tcp(pinned_port: int | None) -> socket.socket:
    """A bound socket on 127.0.0.1, never on the reserved port; or PortUnavailable."""
    if pinned_port is not None:
        return bound_port(pinned_port)
    for _ in range(_PORT_ATTEMPTS):
        door = bind_loopback(0)
        if door.getsockname()[1] != RESERVED_PORT:
            return door
        door.close()
    raise PortUnavailable("No free TCP port was found.")


class Doors:
    """Both listening sockets. ``listen`` starts them, ``close`` ends them and removes the files."""

    def __init__(self, runtime_directory: Path, pinned_port: int | None) -> None:
        self.path, self._made_directory = socket_path(runtime_directory)
        self._unix: socket.socket | None = None
        self._tcp: socket.socket | None = None
        self._pinned_port = pinned_port
        self._servers: list[asyncio.Server] = []

    def bind(self) -> None:
        """Take both addresses; nobody is answered yet."""
        self._tcp = bind_tcp(self._pinned_port)
        self._unix = bind_unix(self.path)

    @property
    def port(self) -> int | None:
        return None if self._tcp is None else int(self._tcp.getsockname()[1])

    @property
    def url(self) -> str | None:
        return None if self.port is None else f"http://{LOOPBACK}:{self.port}"

    async def listen(self, server: web.Server) -> None:
        """Answer on both doors."""
        if self._unix is None or self._tcp is None:
            raise RuntimeError("bind comes first")
        loop = asyncio.get_running_loop()

        def connection() -> DoorProtocol:
            return DoorProtocol(server, loop=loop)

        self._servers = [
            await loop.create_unix_server(connection, sock=self._unix, backlog=_BACKLOG),
            await loop.create_server(connection, sock=self._tcp, backlog=_BACKLOG),
        ]

    def stop_accepting(self) -> None:
        """No new connection from here on; open ones go on."""
        for server in self._servers:
            server.close()

    def touch(self) -> None:
        """Keep cleaners of temporary directories away from a socket that lives there."""
        with contextlib.suppress(OSError):
            os.utime(self.path)
            if self._made_directory is not None:
                os.utime(self._made_directory)

    def close(self) -> None:
        """Close the sockets and remove their files; the instance lock must still be held."""
        self.stop_accepting()
        for door in (self._unix, self._tcp):
            if door is not None:
                door.close()
        with contextlib.suppress(OSError):
            self.path.unlink()
        if self._made_directory is not None:
            with contextlib.suppress(OSError):
                self._made_directory.rmdir()
