"""Proof that a server signed two histories: made here, exported as JSON, checked without a network.

Contract: sync.md 4.4. A proof is two statements about the same position: two heads that the server
signed, or one of them and the signed checkpoint of a device to which the server showed another G.
A head may be about a later position if the entries between lead from the one in question to it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Final

from memory_manager.sync.errors import MalformedMessage
from memory_manager.sync.wire.canonical import hex_bytes, is_count
from memory_manager.sync.wire.framing import Signed
from memory_manager.sync.wire.labels import HASH_BYTES, ID_BYTES, SIGNATURE_BYTES
from memory_manager.sync.wire.log import (
    Checkpoint,
    ServerHead,
    checkpoint_verifies,
    next_global_head,
    server_head_verifies,
    unpack_checkpoint,
)

VERSION: Final = 1
KIND: Final = "memlocket-equivocation"
MAX_PATH: Final = 2_000
_POSITIONS: Final = 1 << 63


@dataclasses.dataclass(frozen=True, slots=True)
class Path:
    """From the position in question to a signed head: (device, head) of each entry between."""

    n: int
    g: bytes
    steps: tuple[tuple[bytes, bytes], ...] = ()

    def leads_to(self, head: ServerHead) -> bool:
        g = self.g
        for device, entry_head in self.steps:
            g = next_global_head(g, device, entry_head)
        return self.n + len(self.steps) == head.n and g == head.g


@dataclasses.dataclass(frozen=True, slots=True)
class SignedPath:
    """A position whose G the server signed for, at once or through a later head."""

    head: Signed[ServerHead]
    path: Path


@dataclasses.dataclass(frozen=True, slots=True)
class Proven:
    """The server with that key signed two histories of a vault, which differ at position ``n``.

    ``device_key`` is of the device whose word is one of the two; None for two heads.
    """

    vault: bytes
    server_key: bytes
    n: int
    device_key: bytes | None = None


def at_once(head: Signed[ServerHead]) -> SignedPath:
    return SignedPath(head, Path(head.value.n, head.value.g))


def two_heads(
    vault: bytes, server_key: bytes, first: SignedPath, second: SignedPath
) -> dict[str, object]:
    """The JSON of a proof by two heads of the server."""
    return {**_common(vault, server_key, first.path.n), "heads": [_head(first), _head(second)]}


def head_and_checkpoint(
    vault: bytes,
    server_key: bytes,
    ours: SignedPath,
    theirs: Signed[Checkpoint],
    device_key: bytes,
) -> dict[str, object]:
    """The JSON of a proof by a head of the server and what another device says it was shown."""
    return {
        **_common(vault, server_key, theirs.value.n),
        "heads": [_head(ours)],
        "checkpoint": {
            "statement": theirs.value.pack().hex(),
            "signature": theirs.signature.hex(),
            "device_key": device_key.hex(),
        },
    }


def verify_evidence(
    document: Mapping[str, Any],
    *,
    server_key: bytes | None = None,
    device_keys: Sequence[bytes] | None = None,
) -> Proven | None:
    """What a document proves; None for one that proves nothing and for anything malformed.

    ``server_key`` and ``device_keys`` are what the reader knows to be right; without them the keys
    in the document are taken, which proves it only against those keys.
    """
    try:
        return _verify(document, server_key, device_keys)
    except (KeyError, ValueError, TypeError, AttributeError, MalformedMessage):
        return None


def _verify(
    document: Mapping[str, Any], server_key: bytes | None, device_keys: Sequence[bytes] | None
) -> Proven | None:
    if document["kind"] != KIND or document["v"] != VERSION:
        return None
    vault, key = hex_bytes(document["vault"], ID_BYTES), hex_bytes(document["server_key"], 32)
    if server_key is not None and key != server_key:
        return None
    n, shown = document["n"], list[bytes]()
    device_key: bytes | None = None
    for said in document["heads"]:
        found = _read_head(said)
        signed = server_head_verifies(vault, found.head.value, found.head.signature, key)
        if not signed or found.path.n != n or not found.path.leads_to(found.head.value):
            return None
        shown.append(found.path.g)
    if "checkpoint" in document:
        said = document["checkpoint"]
        device_key = hex_bytes(said["device_key"], HASH_BYTES)
        checkpoint = unpack_checkpoint(bytes.fromhex(said["statement"]))
        signature = hex_bytes(said["signature"], SIGNATURE_BYTES)
        if device_keys is not None and device_key not in device_keys:
            return None
        if not checkpoint_verifies(checkpoint, signature, device_key):
            return None
        if checkpoint.vault != vault or checkpoint.n != n:
            return None
        shown.append(checkpoint.g)
    if len(shown) != 2 or shown[0] == shown[1]:
        return None
    return Proven(vault, key, n, device_key)


def _common(vault: bytes, server_key: bytes, n: int) -> dict[str, object]:
    return {
        "v": VERSION,
        "kind": KIND,
        "vault": vault.hex(),
        "server_key": server_key.hex(),
        "n": n,
    }


def _head(signed: SignedPath) -> dict[str, object]:
    return {
        "n": signed.head.value.n,
        "g": signed.head.value.g.hex(),
        "signature": signed.head.signature.hex(),
        "from": {"n": signed.path.n, "g": signed.path.g.hex()},
        "path": [(device + head).hex() for device, head in signed.path.steps],
    }


def _read_head(said: Mapping[str, Any]) -> SignedPath:
    start, steps = said["from"], list[tuple[bytes, bytes]]()
    positions = said["n"], start["n"]
    if not all(is_count(n) and n < _POSITIONS for n in positions) or len(said["path"]) > MAX_PATH:
        raise ValueError("a position")
    for text in said["path"]:
        raw = hex_bytes(text, ID_BYTES + HASH_BYTES)
        steps.append((raw[:ID_BYTES], raw[ID_BYTES:]))
    head = ServerHead(said["n"], hex_bytes(said["g"], HASH_BYTES))
    signed = Signed(head, hex_bytes(said["signature"], SIGNATURE_BYTES))
    return SignedPath(signed, Path(start["n"], hex_bytes(start["g"], HASH_BYTES), tuple(steps)))
