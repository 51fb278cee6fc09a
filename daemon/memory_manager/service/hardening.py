"""First acts of the daemon process: private files, no core dump, no peeking by the same user.

Contract: vault.md 12, desktop.md 8. Must run before any file is opened or any key is read.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import sys

_PRIVATE_UMASK = 0o077
_PR_SET_DUMPABLE = 4
_DESCRIPTORS = 8_192


@dataclasses.dataclass(frozen=True, slots=True)
class Hardening:
    """What took effect; ``undumpable`` is False where the platform has no such switch."""

    core_dumps_off: bool
    undumpable: bool


def _switch_core_dumps_off() -> bool:
    try:
        import resource
    except ImportError:
        return False
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    return True


def _forbid_inspection() -> bool:
    if sys.platform != "linux":
        return False
    libc = ctypes.CDLL(None, use_errno=True)
    return bool(libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)


def _allow_many_descriptors() -> None:
    # each client holds a descriptor, and the usual soft limit of 1024, or 256 on macOS, is low
    try:
        import resource
    except ImportError:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, _DESCRIPTORS)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def harden_process() -> Hardening:
    """Umask 077, then no core dumps, then not dumpable: in this order, before the lock file."""
    os.umask(_PRIVATE_UMASK)
    _allow_many_descriptors()
    return Hardening(core_dumps_off=_switch_core_dumps_off(), undumpable=_forbid_inspection())
