"""The 24 recovery words: 256 random bits as BIP39 English words (vault.md 3, 4.2)."""

from __future__ import annotations

import functools
import os
import secrets
import unicodedata
from collections.abc import Sequence

from mnemonic import Mnemonic

from memory_manager.vault.errors import WrongRecoveryWords

ENTROPY_BYTES = 32
WORD_COUNT = 24
CONFIRMED_WORDS = 3


@functools.cache
def _codec() -> Mnemonic:
    return Mnemonic("english")


def word_list() -> Sequence[str]:
    """The 2 048 English words."""
    return _codec().wordlist


def new_entropy() -> bytearray:
    """E, 32 random bytes."""
    return bytearray(os.urandom(ENTROPY_BYTES))


def words_of(entropy: bytes | bytearray) -> tuple[str, ...]:
    """The 24 words of E."""
    if len(entropy) != ENTROPY_BYTES:
        raise ValueError("recovery entropy has 32 bytes")
    return tuple(_codec().to_mnemonic(bytes(entropy)).split())


def entropy_of(words: str | Sequence[str]) -> bytearray:
    """E of 24 words, however spaced and capitalised.

    WrongRecoveryWords when a word is unknown, the count differs or the checksum is wrong.
    """
    text = words if isinstance(words, str) else " ".join(words)
    parts = unicodedata.normalize("NFKD", text).lower().split()
    if len(parts) != WORD_COUNT:
        raise WrongRecoveryWords(f"Recovery words are {WORD_COUNT} words; these are {len(parts)}.")
    unknown = [at for at, word in enumerate(parts, 1) if word not in word_list()]
    if unknown:
        raise WrongRecoveryWords(f"Word {unknown[0]} is not on the list of recovery words.")
    try:
        return bytearray(_codec().to_entropy(parts))
    except (ValueError, LookupError):
        raise WrongRecoveryWords from None


def positions_to_confirm() -> tuple[int, ...]:
    """Three random positions, 0-based and ascending, whose words the user has to type."""
    positions = secrets.SystemRandom().sample(range(WORD_COUNT), CONFIRMED_WORDS)
    return tuple(sorted(positions))
