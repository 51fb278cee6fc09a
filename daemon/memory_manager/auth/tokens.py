"""Local bearer tokens: their form, their stored digest and their comparison.

Contract: xmemo.md 3 and 4.3, desktop.md 11.7. The module keeps no token and logs none.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import re

TOKEN_PREFIX = "mlk_"  # noqa: S105 - a public prefix
TOKEN_RANDOM_BYTES = 32

_TOKEN = re.compile(r"mlk_[A-Za-z0-9_-]{43}")


def new_token(random32: bytes) -> str:
    """``mlk_`` + 43 URL-safe characters from 32 random bytes; ValueError on any other length."""
    if len(random32) != TOKEN_RANDOM_BYTES:
        raise ValueError("a token needs 32 random bytes")
    return TOKEN_PREFIX + base64.urlsafe_b64encode(random32).rstrip(b"=").decode("ascii")


def is_token(text: str) -> bool:
    """Whether the text has the form of a local token; says nothing about its validity."""
    return _TOKEN.fullmatch(text) is not None


def token_digest(token: str) -> bytes:
    """SHA-256 of the token, 32 bytes: the only form that is stored.

    256 random bits need no salt and no slow hash. Any text has a digest, so that a malformed
    credential takes the same path as a wrong one.
    """
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


def same_digest(left: bytes, right: bytes) -> bool:
    """Compare two digests in constant time."""
    return hmac.compare_digest(left, right)
