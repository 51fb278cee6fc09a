"""What makes a passphrase good enough, and the six generated words offered instead (vault.md 3)."""

from __future__ import annotations

import math
import secrets
import unicodedata

from memory_manager.vault import recovery_words
from memory_manager.vault.errors import WeakPassphrase

MIN_BITS = 50.0
GENERATED_WORDS = 6
_PUBLISHED = ("correct horse battery staple", "correcthorsebatterystaple", "tr0ub4dor&3")
"""Examples that everybody has read; the estimator does not know them as one word each."""
_ESTIMATED_CHARACTERS = 72  # the estimator is quadratic and refuses more


def estimate_bits(passphrase: str) -> float:
    """log2 of the guesses zxcvbn expects; what stands after 72 characters counts as nothing."""
    from zxcvbn import zxcvbn

    text = unicodedata.normalize("NFKC", passphrase)[:_ESTIMATED_CHARACTERS]
    if not text:
        return 0.0
    return math.log2(max(1, int(zxcvbn(text, user_inputs=_PUBLISHED)["guesses"])))


def check_strength(passphrase: str) -> None:
    """Raise WeakPassphrase below 50 bits; neither the text nor the estimate is in the error."""
    if estimate_bits(passphrase) < MIN_BITS:
        raise WeakPassphrase


def generate_passphrase() -> str:
    """Six random words of the BIP39 list, 66 bits."""
    words = recovery_words.word_list()
    return " ".join(secrets.choice(words) for _ in range(GENERATED_WORDS))
