"""Nonces that need no memory: any process of one server recognises what one of them gave out.

A nonce carries its end and a keyed hash under a key of the server's own, so that no flood of
challenges fills anything. That each opens one session only is the storage's part.
"""

from __future__ import annotations

import hashlib
import hmac
import os
from typing import Final

from memory_manager.sync.server.server_key import ServerKey

NONCE_BYTES: Final = 32

_MAC_BYTES: Final = 16
_RANDOM_BYTES: Final = 8
_TIME_BYTES: Final = 8


class Tickets:
    """Times are milliseconds since 1970 and come from the caller."""

    def __init__(self, key: ServerKey) -> None:
        self._key = hashlib.blake2b(
            bytes(key.signing), digest_size=32, person=b"mlk-tickets"
        ).digest()

    def nonce(self, vault: bytes, device: bytes, expires_at_ms: int) -> bytes:
        """32 bytes to be signed by this device of this vault, before their time is over."""
        body = expires_at_ms.to_bytes(_TIME_BYTES, "big") + os.urandom(_RANDOM_BYTES)
        return body + self._mac(b"nonce" + body + vault + device)

    def knows_nonce(self, nonce: bytes, vault: bytes, device: bytes, now_ms: int) -> bool:
        """Whether it is one of ours, for this device, and its time is not over."""
        body, mac = nonce[:-_MAC_BYTES], nonce[-_MAC_BYTES:]
        expected = self._mac(b"nonce" + body + vault + device)
        in_time = now_ms <= int.from_bytes(body[:_TIME_BYTES], "big")
        return hmac.compare_digest(mac, expected) and in_time

    def mark(self, what: bytes) -> bytes:
        """16 bytes by which an address is counted, without keeping the address."""
        return self._mac(b"mark" + what)

    def _mac(self, message: bytes) -> bytes:
        return hashlib.blake2b(message, digest_size=_MAC_BYTES, key=self._key).digest()
