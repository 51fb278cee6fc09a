"""base64url without padding, in one spelling only."""

from __future__ import annotations

import base64


def base64_text(raw: bytes) -> str:
    """base64url without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


def base64_bytes(text: object) -> bytes:
    """What ``base64_text`` made into this very text; ValueError or TypeError otherwise."""
    if not isinstance(text, str):
        raise TypeError("base64 is text")
    raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    if base64_text(raw) != text:
        raise ValueError("base64 of another spelling")
    return raw
