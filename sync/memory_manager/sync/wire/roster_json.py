"""A roster entry as it travels in JSON: the document in base64url, its signature in hex."""

from __future__ import annotations

from collections.abc import Mapping

from memory_manager.sync.wire.base64url import base64_bytes, base64_text
from memory_manager.sync.wire.canonical import hex_bytes
from memory_manager.sync.wire.labels import SIGNATURE_BYTES
from memory_manager.sync.wire.roster import SignedEntry


def entry_json(entry: SignedEntry) -> dict[str, str]:
    """The members ``entry`` and ``signature``."""
    return {"entry": base64_text(entry.document), "signature": entry.signature.hex()}


def read_entry(members: Mapping[str, object]) -> SignedEntry:
    """The entry of these members, not verified; KeyError, TypeError or ValueError otherwise."""
    document = base64_bytes(members["entry"])
    return SignedEntry(document, hex_bytes(members["signature"], SIGNATURE_BYTES))
