"""What the two sides of an enrolment leave in the mailbox (sync.md 7.2). Pure.

The offer announces a new device; the welcome hands it the vault. Every member is checked for its
form here; that they fit the pasted string is checked with ``wire.enrolment``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from nacl.exceptions import CryptoError
from nacl.public import Box, PrivateKey, PublicKey

from memory_manager.sync.errors import MalformedMessage
from memory_manager.sync.membership.errors import EnrolmentDeclined, EnrolmentRefused
from memory_manager.sync.wire import canonical, labels
from memory_manager.sync.wire.canonical import hex_bytes, is_count
from memory_manager.sync.wire.enrolment import (
    MAX_MAILBOX_BYTES,
    Invitation,
    NewKeys,
    newcomer_fits,
    printable_name,
    welcome_fits,
    welcome_mac,
)
from memory_manager.sync.wire.framing import Signed
from memory_manager.sync.wire.log import (
    CHECKPOINT_BYTES,
    Checkpoint,
    checkpoint_verifies,
    unpack_checkpoint,
)
from memory_manager.vault.kdf import KEY_BYTES, new_nonce

_VERSION: Final = 1
_DECLINED: Final = b"declined"  # shorter than any box


@dataclasses.dataclass(frozen=True, slots=True)
class Offer:
    """A new device introduces itself: public keys, a name for people, proof of its key."""

    keys: NewKeys
    name: str
    possession: bytes

    def pack(self) -> bytes:
        return canonical.encode(
            {
                "v": _VERSION,
                "device": self.keys.device.hex(),
                "ed25519": self.keys.ed25519.hex(),
                "x25519": self.keys.x25519.hex(),
                "grant": self.keys.grant.hex(),
                "name": self.name,
                "pop": self.possession.hex(),
            }
        )


@dataclasses.dataclass(frozen=True, slots=True)
class Welcome:
    """The vault as the existing device knows it. ``epochs`` are the VRKs; the reader wipes them."""

    vault: bytes
    epochs: Mapping[int, bytearray] = dataclasses.field(repr=False)
    roster: bytes
    server_key: bytes
    n: int
    g: bytes
    checkpoint: Signed[Checkpoint]
    names: Mapping[bytes, str]


@dataclasses.dataclass(frozen=True, slots=True)
class Greeter:
    """The existing device's public keys, as the MAC bound them to the pasted string."""

    ed25519: bytes
    x25519: bytes


def read_offer(data: bytes, invitation: Invitation) -> Offer:
    """The offer of the device that made the string; EnrolmentRefused for any other."""
    members = _members(data)
    try:
        keys = NewKeys(
            hex_bytes(members["device"], labels.ID_BYTES),
            hex_bytes(members["ed25519"], labels.HASH_BYTES),
            hex_bytes(members["x25519"], labels.HASH_BYTES),
            hex_bytes(members["grant"], labels.HASH_BYTES),
        )
        possession = hex_bytes(members["pop"], labels.SIGNATURE_BYTES)
        name = printable_name(str(members["name"]))
    except (KeyError, ValueError, TypeError):
        raise EnrolmentRefused from None
    if not newcomer_fits(invitation, keys, possession):
        raise EnrolmentRefused
    return Offer(keys, name, possession)


def pack_welcome(
    welcome: Welcome,
    invitation: Invitation,
    greeter: Greeter,
    own_box: PrivateKey,
    newcomer_box: bytes,
) -> bytes:
    """The welcome, readable by the newcomer only and bound to the pasted string."""
    nonce = new_nonce()
    plain = canonical.encode(
        {
            "v": _VERSION,
            "vault": welcome.vault.hex(),
            "epochs": {str(epoch): vrk.hex() for epoch, vrk in welcome.epochs.items()},
            "roster": welcome.roster.hex(),
            "server_key": welcome.server_key.hex(),
            "n": welcome.n,
            "g": welcome.g.hex(),
            "checkpoint": welcome.checkpoint.value.pack().hex(),
            "checkpoint_signature": welcome.checkpoint.signature.hex(),
            "names": {device.hex(): name for device, name in welcome.names.items()},
        }
    )
    sealed = Box(own_box, PublicKey(newcomer_box)).encrypt(plain, nonce).ciphertext
    return _pack_answer(invitation, greeter, nonce, sealed)


def pack_declined(invitation: Invitation, greeter: Greeter) -> bytes:
    """In place of a welcome where the owner said no; only who read the string can make it."""
    return _pack_answer(invitation, greeter, new_nonce(), _DECLINED)


def _pack_answer(invitation: Invitation, greeter: Greeter, nonce: bytes, box: bytes) -> bytes:
    mac = welcome_mac(invitation, nonce, box, greeter.ed25519, greeter.x25519)
    return canonical.encode(
        {
            "v": _VERSION,
            "ed25519": greeter.ed25519.hex(),
            "x25519": greeter.x25519.hex(),
            "nonce": nonce.hex(),
            "box": box.hex(),
            "mac": mac.hex(),
        }
    )


def read_welcome(
    data: bytes, invitation: Invitation, own_box: PrivateKey
) -> tuple[Greeter, Welcome]:
    """Who answered and what it hands over; the MAC is checked before anything else.

    EnrolmentRefused when it was not made with this string for this device, EnrolmentDeclined when
    the owner there said no.
    """
    members = _members(data)
    try:
        greeter = Greeter(
            hex_bytes(members["ed25519"], labels.HASH_BYTES),
            hex_bytes(members["x25519"], labels.HASH_BYTES),
        )
        nonce, box = bytes.fromhex(members["nonce"]), bytes.fromhex(members["box"])
        mac = hex_bytes(members["mac"], labels.HASH_BYTES)
    except (KeyError, ValueError, TypeError):
        raise EnrolmentRefused from None
    if not welcome_fits(invitation, nonce, box, greeter.ed25519, greeter.x25519, mac):
        raise EnrolmentRefused
    if box == _DECLINED:
        raise EnrolmentDeclined
    try:
        plain = Box(own_box, PublicKey(greeter.x25519)).decrypt(box, nonce)
    except (CryptoError, ValueError):
        raise EnrolmentRefused from None
    return greeter, _read_handover(plain, greeter)


def _read_handover(plain: bytes, greeter: Greeter) -> Welcome:
    members = _members(plain)
    try:
        checkpoint = Signed(
            unpack_checkpoint(hex_bytes(members["checkpoint"], CHECKPOINT_BYTES)),
            hex_bytes(members["checkpoint_signature"], labels.SIGNATURE_BYTES),
        )
        if not is_count(members["n"]):
            raise ValueError("n is a count")
        welcome = Welcome(
            vault=hex_bytes(members["vault"], labels.ID_BYTES),
            epochs=_epochs(members["epochs"]),
            roster=hex_bytes(members["roster"], labels.HASH_BYTES),
            server_key=hex_bytes(members["server_key"], labels.HASH_BYTES),
            n=members["n"],
            g=hex_bytes(members["g"], labels.HASH_BYTES),
            checkpoint=checkpoint,
            names=_names(members["names"]),
        )
    except (KeyError, ValueError, TypeError, AttributeError, MalformedMessage):
        raise EnrolmentRefused from None
    said = checkpoint.value
    if said.vault != welcome.vault or not checkpoint_verifies(
        said, checkpoint.signature, greeter.ed25519
    ):
        raise EnrolmentRefused
    return welcome


def _epochs(members: Mapping[str, Any]) -> dict[int, bytearray]:
    found = {int(epoch): bytearray(hex_bytes(key, KEY_BYTES)) for epoch, key in members.items()}
    if not found or min(found) < 1:
        raise ValueError("epochs count from 1")
    return found


def _names(members: Mapping[str, Any]) -> dict[bytes, str]:
    return {
        hex_bytes(device, labels.ID_BYTES): printable_name(str(name))
        for device, name in members.items()
    }


def _members(data: bytes) -> dict[str, Any]:
    try:
        if len(data) > MAX_MAILBOX_BYTES:
            raise MalformedMessage
        members = canonical.decode(data)
        if members["v"] != _VERSION:
            raise MalformedMessage
    except (MalformedMessage, KeyError):
        raise EnrolmentRefused from None
    return members
