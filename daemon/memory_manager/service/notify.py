"""Messages to a service manager over ``NOTIFY_SOCKET`` (desktop.md 7)."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping

_MICROSECONDS = 1_000_000


class ServiceNotifier:
    """Silent when no service manager asked to be told."""

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        address = environ.get("NOTIFY_SOCKET", "")
        # "@name" is how an abstract socket is written; its real first byte is NUL
        self._address = "\0" + address[1:] if address.startswith("@") else address
        self._watchdog_us = _positive(environ.get("WATCHDOG_USEC"))

    @property
    def watchdog_seconds(self) -> float | None:
        """How often to call ``alive``: half the time the manager waits; None when it does not."""
        if not self._address or self._watchdog_us is None:
            return None
        return self._watchdog_us / _MICROSECONDS / 2

    def ready(self) -> None:
        self._send(b"READY=1")

    def alive(self) -> None:
        self._send(b"WATCHDOG=1")

    def stopping(self) -> None:
        self._send(b"STOPPING=1")

    def _send(self, message: bytes) -> None:
        if not self._address:
            return
        # a manager that went away must not take the daemon down
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as channel,
        ):
            channel.sendto(message, self._address)


def _positive(text: str | None) -> int | None:
    if text is None or not (text.isascii() and text.isdigit()):
        return None
    return int(text) or None
