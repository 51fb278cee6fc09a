"""Roster entries in JSON: the document in base64url without padding, its signature in hex."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Final

from memory_manager.sync.server.call import member_hex, member_text
from memory_manager.sync.server.errors import Malformed
from memory_manager.sync.wire.labels import SIGNATURE_BYTES
from memory_manager.sync.wire.roster import SignedEntry

ENTRY_BODY_BYTES: Final = 1 << 17


def read_signed_entry(document: Mapping[str, object]) -> SignedEntry:
    """The entry of the members ``entry`` and ``signature``; Malformed. Not verified here."""
    text = member_text(document, "entry")
    signature = member_hex(document, "signature", SIGNATURE_BYTES)
    try:
        raw = base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise Malformed from None
    if base64_text(raw) != text:
        raise Malformed
    return SignedEntry(raw, signature)


def signed_entry_json(entry: SignedEntry) -> dict[str, str]:
    return {"entry": base64_text(entry.document), "signature": entry.signature.hex()}


def base64_text(raw: bytes) -> str:
    """base64url without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
