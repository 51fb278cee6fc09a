"""Epoch keys inside roster entries: sealed to members, and each wrapped under the next (sync.md 8).

Pure: bytes in, values out. Every VRK is a ``bytearray`` whose owner wipes it.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Generator, Iterable, Mapping
from typing import Any, Final

from nacl.exceptions import CryptoError
from nacl.public import PrivateKey, PublicKey, SealedBox

from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.wire import canonical, labels
from memory_manager.sync.wire.canonical import hex_bytes
from memory_manager.sync.wire.roster import Member, Roster, SignedEntry
from memory_manager.vault.kdf import (
    KEY_BYTES,
    NONCE_BYTES,
    TAG_BYTES,
    SealBroken,
    SecretBytes,
    equal,
    new_nonce,
    open_sealed,
    seal,
    wipe,
)

NO_VAULT: Final = bytes(labels.ID_BYTES)
"""Stands for the vault id in keys sealed inside the genesis, whose hash is that id."""

_EPOCH_BYTES: Final = 4
_PLAIN_BYTES: Final = len(labels.SEALED_KEY) + labels.ID_BYTES + _EPOCH_BYTES + KEY_BYTES
_SEAL_BYTES: Final = 48
_WRAPPED_BYTES: Final = NONCE_BYTES + KEY_BYTES + TAG_BYTES


@dataclasses.dataclass(frozen=True, slots=True)
class Recipient:
    """Where a sealed key goes: a member's id and its X25519 public key."""

    id: bytes
    x25519: bytes

    @classmethod
    def of(cls, member: Member) -> Recipient:
        return cls(member.id, member.x25519)


def kid_of(vrk: SecretBytes) -> bytes:
    """The key id of an epoch's wrapping key, as roster entries and WRAPs name it."""
    rwk = labels.wrapping_key(vrk)
    try:
        return labels.key_id(rwk)
    finally:
        wipe(rwk)


def seal_to(recipient: Recipient, vault: bytes, epoch: int, vrk: SecretBytes) -> bytes:
    """A sealed box only the recipient opens; ``vault`` is NO_VAULT inside the genesis."""
    plain = bytearray(labels.SEALED_KEY + vault + epoch.to_bytes(_EPOCH_BYTES, "big") + bytes(vrk))
    try:
        return SealedBox(PublicKey(recipient.x25519)).encrypt(bytes(plain))
    finally:
        wipe(plain)


def open_sealed_key(sealed: bytes, vault: bytes, epoch: int, secret: SecretBytes) -> bytearray:
    """The VRK in a sealed box; SyncRefused(WRONG_KEY) if it is not one for this vault and epoch."""
    if len(sealed) != _PLAIN_BYTES + _SEAL_BYTES:
        raise SyncRefused(SyncCode.WRONG_KEY)
    try:
        plain = bytearray(SealedBox(PrivateKey(bytes(secret))).decrypt(sealed))
    except CryptoError:
        raise SyncRefused(SyncCode.WRONG_KEY) from None
    try:
        expected = labels.SEALED_KEY + vault + epoch.to_bytes(_EPOCH_BYTES, "big")
        if bytes(plain[: len(expected)]) != expected:
            raise SyncRefused(SyncCode.WRONG_KEY)
        return plain[len(expected) :]
    finally:
        wipe(plain)


def wrap_previous(
    vrk: SecretBytes, previous: SecretBytes, vault: bytes, epoch: int, nonce: bytes | None = None
) -> bytes:
    """``prev_key``: the VRK of ``epoch`` under the ``vrk`` of the one after it, 72 bytes."""
    nonce = nonce or new_nonce()
    key = labels.previous_epoch_key(vrk)
    try:
        return nonce + seal(key, nonce, previous, _previous_context(vault, epoch))
    finally:
        wipe(key)


def unwrap_previous(vrk: SecretBytes, wrapped: bytes, vault: bytes, epoch: int) -> bytearray:
    """Inverse of ``wrap_previous``; SyncRefused(WRONG_KEY) when anything differs."""
    key = labels.previous_epoch_key(vrk)
    try:
        context = _previous_context(vault, epoch)
        return open_sealed(key, wrapped[:NONCE_BYTES], wrapped[NONCE_BYTES:], context)
    except SealBroken:
        raise SyncRefused(SyncCode.WRONG_KEY) from None
    finally:
        wipe(key)


def _previous_context(vault: bytes, epoch: int) -> bytes:
    return labels.PREVIOUS_KEY + vault + epoch.to_bytes(_EPOCH_BYTES, "big")


def epoch_document(
    epoch: int,
    vrk: SecretBytes,
    recipients: Iterable[Recipient],
    vault: bytes,
    previous: SecretBytes | None = None,
) -> dict[str, Any]:
    """The ``epoch`` member of a roster entry; ``previous`` is the VRK of the epoch before."""
    document: dict[str, Any] = {
        "e": epoch,
        "kid": kid_of(vrk).hex(),
        "sealed": {each.id.hex(): seal_to(each, vault, epoch, vrk).hex() for each in recipients},
    }
    if previous is not None:
        document["prev_key"] = wrap_previous(vrk, previous, vault, epoch - 1).hex()
    return document


def check_key(roster: Roster, epoch: int, vrk: SecretBytes) -> None:
    """The wrong-key gate (sync.md 4.3): SyncRefused(WRONG_KEY) for a key of another kid."""
    expected = roster.key_ids.get(epoch)
    if expected is None or not equal(kid_of(vrk), expected):
        raise SyncRefused(SyncCode.WRONG_KEY)


@dataclasses.dataclass(slots=True)
class _Found:
    """What a walk over the chain collected: keys sealed to us, and the wrapped older ones."""

    keys: dict[int, bytearray] = dataclasses.field(default_factory=dict)
    wrapped: dict[int, bytes] = dataclasses.field(default_factory=dict)  # by the newer epoch

    def keep(self, roster: Roster, epoch: int, vrk: bytearray) -> None:
        """SyncRefused(WRONG_KEY), and it is wiped, for a key that the roster does not name."""
        try:
            check_key(roster, epoch, vrk)
        except SyncRefused:
            wipe(vrk)
            raise
        self.keys[epoch] = vrk


def collect_keys(
    chain: Iterable[SignedEntry],
    roster: Roster,
    member: bytes,
    secret: SecretBytes,
    known: Mapping[int, SecretBytes] | None = None,
) -> dict[int, bytearray]:
    """Every epoch key that ``member`` can read from a verified chain, checked against its kid.

    ``known`` are keys held already; their copies are in the result too, and SyncRefused(WRONG_KEY)
    for one of them that is not what the roster names. A key in the chain that cannot be read, or
    is another one, is left out and its rows wait (WAITING_KEY): its author could as well have left
    it out, and must not keep anybody from the entries that follow.
    """
    found = _Found({epoch: bytearray(vrk) for epoch, vrk in (known or {}).items()})
    try:
        for epoch, vrk in found.keys.items():
            check_key(roster, epoch, vrk)
    except SyncRefused:
        wipe(*found.keys.values())
        raise
    for entry in chain:
        with _left_out():
            _read_keys(canonical.decode(entry.document), roster, member, secret, found)
    for epoch in range(roster.epoch, 1, -1):
        newer, wrapped = found.keys.get(epoch), found.wrapped.get(epoch)
        if newer is not None and wrapped is not None and epoch - 1 not in found.keys:
            with _left_out():
                older = unwrap_previous(newer, wrapped, roster.vault, epoch - 1)
                found.keep(roster, epoch - 1, older)
    return found.keys


@contextlib.contextmanager
def _left_out() -> Generator[None]:
    with contextlib.suppress(SyncRefused, KeyError, ValueError, TypeError, AttributeError):
        yield


def _read_keys(
    document: Mapping[str, Any], roster: Roster, member: bytes, secret: SecretBytes, found: _Found
) -> None:
    epoch = document.get("epoch")
    if epoch is not None:
        number = int(epoch["e"])
        with _left_out():
            if "prev_key" in epoch:
                found.wrapped[number] = hex_bytes(epoch["prev_key"], _WRAPPED_BYTES)
        sealed = epoch.get("sealed", {})
        bound_to = NO_VAULT if document["op"] == "genesis" else roster.vault
        if member.hex() in sealed and number not in found.keys:
            raw = hex_bytes(sealed[member.hex()], _PLAIN_BYTES + _SEAL_BYTES)
            found.keep(roster, number, open_sealed_key(raw, bound_to, number, secret))
    if document["op"] == "add" and document["device"]["id"] == member.hex():
        _read_given_key(document, roster, secret, found)


def _read_given_key(
    document: Mapping[str, Any], roster: Roster, secret: SecretBytes, found: _Found
) -> None:
    """The current key that an ``add`` of a paper device carries: ``sealed`` = {e, key}."""
    given = document.get("sealed")
    if given is None or given["e"] in found.keys:
        return
    raw = hex_bytes(given["key"], _PLAIN_BYTES + _SEAL_BYTES)
    found.keep(roster, given["e"], open_sealed_key(raw, roster.vault, given["e"], secret))
