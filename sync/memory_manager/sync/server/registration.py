"""Tokens that let somebody make one vault: given by the operator, kept as a hash, used once."""

from __future__ import annotations

import hashlib
import secrets
from typing import Final

PREFIX: Final = "mlkreg-"
VALID_MS: Final = 7 * 86_400_000

_RANDOM_BYTES: Final = 24


def new_registration_token() -> str:
    """A fresh token, to be shown once."""
    return PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)


def registration_hash(token: str) -> bytes:
    """What the storage keeps of it: 32 bytes."""
    raw = token.encode("utf-8", "surrogatepass")
    return hashlib.blake2b(raw, digest_size=32, person=b"mlk-register").digest()
