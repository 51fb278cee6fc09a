"""Errors of process life: what stops a daemon from starting."""

from __future__ import annotations

from memory_manager.base.errors import MemlocketError, Outcome


class PortUnavailable(MemlocketError):
    """The pinned TCP port is taken, reserved or out of range."""

    code = "port_unavailable"
    title = "Port unavailable"
    outcome = Outcome.ASK_USER
    exit_code = 2
    default_message = "The requested TCP port cannot be used."
    default_hint = "Choose another --port, or leave it out to get a free one."


class SocketPathTooLong(MemlocketError):
    """No folder at hand is short enough for the address of a Unix socket."""

    code = "socket_path_too_long"
    title = "Socket path too long"
    outcome = Outcome.ASK_USER
    exit_code = 2
    default_message = "The path of the daemon's socket is longer than the system allows."
    default_hint = "Choose a shorter folder in MEMLOCKET_HOME or in TMPDIR."
