"""What can be done for keys and texts in this process's memory: no swap, no leftovers on the heap.

Python copies what it is given: the ``bytes`` of a derivation, a passphrase as ``str``, the text of
a request. Those copies cannot be zeroed; they are freed, and their pages are handed back at lock.
"""

from __future__ import annotations

import ctypes
import functools
import gc
import sys
from collections.abc import Callable
from typing import Any


@functools.cache
def _libc(name: str) -> Callable[..., Any] | None:
    """A function of the C library, None where there is no such library or function."""
    if sys.platform == "win32":
        return None
    try:
        found: Callable[..., Any] = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (OSError, AttributeError):
        return None
    return found


def keep_out_of_swap(*buffers: bytearray) -> bool:
    """mlock the pages that these keys stand in; whether that worked for all of them.

    The pages are not unlocked again: Python's allocator puts the next keys into the same few.
    """
    lock = _libc("mlock")
    if lock is None:
        return False
    locked = True
    for buffer in buffers:
        if not buffer:
            continue
        view = (ctypes.c_char * len(buffer)).from_buffer(buffer)
        result = lock(ctypes.c_void_p(ctypes.addressof(view)), ctypes.c_size_t(len(buffer)))
        locked = locked and result == 0
        del view  # a buffer in use elsewhere cannot be resized
    return locked


def give_back_freed_memory() -> None:
    """Collect garbage and return free heap pages to the system, which zeroes them.

    Page caches of the database and the strings of past requests are freed without being wiped; this
    takes most of them away. Takes 20-200 ms.
    """
    gc.collect()
    trim = _libc("malloc_trim")  # glibc only; elsewhere the pages wait for their next use
    if trim is not None:
        trim(ctypes.c_size_t(0))
