"""Argon2id under hard limits: parameters, their choice for this machine, and one run at a time.

Contract: vault.md 3. Parameters from a file are checked against the compiled-in floor and ceiling
before anything runs, so a file can neither weaken a passphrase nor exhaust the memory.
"""

from __future__ import annotations

import dataclasses
import os
import threading
import time
import unicodedata
from collections.abc import Callable

from nacl.pwhash import argon2id

from memory_manager.vault.errors import KdfParametersRefused
from memory_manager.vault.kdf import KEY_BYTES

SALT_BYTES = 16
_KIB_PER_MIB = 1024
_TARGET_SECONDS = (0.5, 1.5)
_MEMORY_SHARE = 8  # at most an eighth of the machine's memory

_one_at_a_time = threading.Semaphore(1)


@dataclasses.dataclass(frozen=True, slots=True)
class ArgonParameters:
    """Passes ``t``, memory ``m_kib`` in KiB; parallelism is always 1."""

    t: int
    m_kib: int


FLOOR = ArgonParameters(t=3, m_kib=64 * _KIB_PER_MIB)
CEILING = ArgonParameters(t=10, m_kib=1024 * _KIB_PER_MIB)
START = ArgonParameters(t=3, m_kib=256 * _KIB_PER_MIB)


def check_parameters(parameters: ArgonParameters, parallelism: int = 1) -> None:
    """Raise KdfParametersRefused outside floor and ceiling."""
    if (
        parallelism != 1
        or not FLOOR.t <= parameters.t <= CEILING.t
        or not FLOOR.m_kib <= parameters.m_kib <= CEILING.m_kib
    ):
        raise KdfParametersRefused


def normalise(passphrase: str) -> bytes:
    """The bytes that are hashed: NFKC, UTF-8."""
    return unicodedata.normalize("NFKC", passphrase).encode("utf-8", "surrogatepass")


def passphrase_key(passphrase: str, salt: bytes, parameters: ArgonParameters) -> bytearray:
    """KEK_pw, 32 bytes. Takes up to seconds and the stated memory; never for an event loop."""
    check_parameters(parameters)
    with _one_at_a_time:
        return bytearray(
            argon2id.kdf(
                KEY_BYTES,
                normalise(passphrase),
                salt,
                opslimit=parameters.t,
                memlimit=parameters.m_kib * 1024,
            )
        )


def choose(seconds_at_floor: float, memory_bytes: int) -> ArgonParameters:
    """Parameters that should take 0.5-1.5 s when the floor takes ``seconds_at_floor``.

    Starts from 256 MiB and three passes. A slow or small machine gets less memory, never less than
    the floor; a fast one more passes first, then more memory.
    """
    low, high = _TARGET_SECONDS
    per_pass_kib = seconds_at_floor / (FLOOR.t * FLOOR.m_kib)
    most_kib = max(FLOOR.m_kib, min(CEILING.m_kib, memory_bytes // 1024 // _MEMORY_SHARE))

    def seconds(t: int, m_kib: int) -> float:
        return per_pass_kib * t * m_kib

    t, m_kib = START.t, START.m_kib
    while m_kib > FLOOR.m_kib and (m_kib > most_kib or seconds(t, m_kib) > high):
        m_kib //= 2
    while t < CEILING.t and seconds(t, m_kib) < low:
        t += 1
    while m_kib * 2 <= most_kib and seconds(t, m_kib) < low:
        m_kib *= 2
    return ArgonParameters(t, m_kib)


def calibrate(clock: Callable[[], float] = time.perf_counter) -> ArgonParameters:
    """Measure one run at the floor and choose; takes a few hundred milliseconds."""
    begin = clock()
    passphrase_key("calibration", bytes(SALT_BYTES), FLOOR)
    return choose(clock() - begin, _machine_memory_bytes())


def _machine_memory_bytes() -> int:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, OSError, ValueError):
        return START.m_kib * 1024 * _MEMORY_SHARE
