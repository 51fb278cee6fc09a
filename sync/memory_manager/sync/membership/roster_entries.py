"""Roster entries of every kind, built and signed on top of a verified roster (sync.md 7.1).

Pure: who may sign what is decided by ``wire.roster``, which every entry built here passes.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Sequence
from typing import Any, Final

from nacl.public import PrivateKey
from nacl.signing import SigningKey

from memory_manager.sync.membership.epoch_keys import (
    NO_VAULT,
    Recipient,
    epoch_document,
    seal_to,
)
from memory_manager.sync.wire import labels
from memory_manager.sync.wire.enrolment import NO_GRANT_KEY, NewKeys
from memory_manager.sync.wire.roster import (
    VERSION,
    Member,
    Operation,
    Role,
    Roster,
    SignedEntry,
    sign_entry,
    vault_id,
)
from memory_manager.vault import kdf, recovery_words
from memory_manager.vault.credential_slots import recovery_commitment

_PAPER_LABEL: Final = labels.NEW_KEYS


@dataclasses.dataclass(frozen=True, slots=True)
class Signer:
    """A member that signs: its id, its Ed25519 key and its own log position."""

    id: bytes
    key: SigningKey = dataclasses.field(repr=False)
    at_seq: int = 0


@dataclasses.dataclass(frozen=True, slots=True)
class PaperDevice:
    """The secret half of the recovery words as a roster member; ``wipe`` it after use.

    ``commitment`` is that of the vault's recovery slot while it is made of these words.
    """

    keys: NewKeys
    commitment: bytes
    signing: SigningKey = dataclasses.field(repr=False)
    box_secret: bytearray = dataclasses.field(repr=False)

    def signer(self) -> Signer:
        return Signer(self.keys.device, self.signing)

    def recipient(self) -> Recipient:
        return Recipient(self.keys.device, self.keys.x25519)

    def wipe(self) -> None:
        kdf.wipe(self.box_secret)


@dataclasses.dataclass(frozen=True, slots=True)
class Possession:
    """Proof, in an ``add``, that the new device holds its key: signature and mailbox id."""

    signature: bytes
    mailbox: bytes


def paper_device(words: str | Sequence[str]) -> PaperDevice:
    """The paper device of 24 recovery words; WrongRecoveryWords for a mistyped one.

    Its id is derived from its public keys, so that words, server and vault id are enough to log in.
    """
    with kdf.KeyMaterial() as made:
        entropy = made.keep(recovery_words.entropy_of(words))
        seed = made.keep(kdf.paper_signing_seed(entropy))
        box_secret = kdf.paper_box_secret(entropy)
        signing = SigningKey(bytes(seed))
        commitment = recovery_commitment(entropy)
    ed25519 = bytes(signing.verify_key)
    x25519 = bytes(PrivateKey(bytes(box_secret)).public_key)
    keys = NewKeys(paper_id(ed25519, x25519), ed25519, x25519)
    return PaperDevice(keys, commitment, signing, box_secret)


def paper_id(ed25519: bytes, x25519: bytes) -> bytes:
    """The member id of a paper device."""
    return hashlib.blake2b(
        ed25519 + x25519, digest_size=labels.ID_BYTES, person=_PAPER_LABEL
    ).digest()


def device_document(
    keys: NewKeys, role: Role = Role.DEVICE, possession: Possession | None = None
) -> dict[str, Any]:
    """The ``device`` member of an entry."""
    document = {
        "id": keys.device.hex(),
        "role": role.value,
        "ed25519": keys.ed25519.hex(),
        "x25519": keys.x25519.hex(),
        "grant": keys.grant.hex(),
    }
    if possession is not None:
        document["pop"] = possession.signature.hex()
        document["mailbox"] = possession.mailbox.hex()
    return document


def genesis(
    by: Signer, first: NewKeys, paper: PaperDevice | None, vrk: kdf.SecretBytes
) -> tuple[bytes, SignedEntry]:
    """The vault id and the first entry; ``vrk`` is the key of epoch 1."""
    recipients = () if paper is None else (paper.recipient(),)
    document = {
        **_common(0, labels.ZERO_HASH, Operation.GENESIS, by),
        "vault": NO_VAULT.hex(),
        "device": device_document(first),
        "epoch": epoch_document(1, vrk, recipients, NO_VAULT),
    }
    if paper is not None:
        document["recovery"] = device_document(paper.keys, Role.RECOVERY)
    vault = vault_id(document)
    return vault, sign_entry({**document, "vault": vault.hex()}, by.key)


def add(roster: Roster, by: Signer, keys: NewKeys, possession: Possession | None) -> SignedEntry:
    """A new device; its keys reach it through the mailbox, or it has them already."""
    return _entry(roster, by, Operation.ADD, device=device_document(keys, possession=possession))


def add_paper(roster: Roster, by: Signer, paper: PaperDevice, vrk: kdf.SecretBytes) -> SignedEntry:
    """New recovery words; ``vrk`` is the key of the current epoch."""
    sealed = seal_to(paper.recipient(), roster.vault, roster.epoch, vrk)
    return _entry(
        roster,
        by,
        Operation.ADD,
        device=device_document(paper.keys, Role.RECOVERY),
        sealed={"e": roster.epoch, "key": sealed.hex()},
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Rotation:
    """The key of the next epoch and that of the present one; None where it was not received."""

    vrk: bytearray = dataclasses.field(repr=False)
    previous: kdf.SecretBytes | None = dataclasses.field(repr=False)


def rotate(roster: Roster, by: Signer, rotation: Rotation) -> SignedEntry:
    """The next epoch, its key sealed to every active member."""
    epoch = _next_epoch(roster, rotation, roster.active())
    return _entry(roster, by, Operation.ROTATE, epoch=epoch)


def revoke(
    roster: Roster, by: Signer, target: bytes, cut: tuple[int, bytes], rotation: Rotation
) -> SignedEntry:
    """End a member at ``cut`` (seq, head) and open the next epoch without it, in one entry."""
    seq, head = cut
    remaining = tuple(member for member in roster.active() if member.id != target)
    return _entry(
        roster,
        by,
        Operation.REVOKE,
        target=target.hex(),
        cut_seq=seq,
        cut_head=head.hex(),
        epoch=_next_epoch(roster, rotation, remaining),
    )


def leave(roster: Roster, by: Signer) -> SignedEntry:
    """The signer's own end; what follows is encrypted under a key that another device makes."""
    return _entry(roster, by, Operation.LEAVE)


def grant_key(roster: Roster, by: Signer, public_key: bytes | None) -> SignedEntry:
    """The signer's new grant key; None takes it away."""
    grant = public_key or NO_GRANT_KEY
    return _entry(roster, by, Operation.GRANT_KEY, target=by.id.hex(), grant=grant.hex())


def fork_close(
    roster: Roster, by: Signer, last: tuple[int, bytes], successor: NewKeys
) -> SignedEntry:
    """End the signer's own lost log at ``last`` (seq, head); it goes on under another id."""
    seq, head = last
    return _entry(
        roster,
        by,
        Operation.FORK_CLOSE,
        target=by.id.hex(),
        last_seq=seq,
        last_head=head.hex(),
        new_device=device_document(successor),
    )


def _next_epoch(roster: Roster, rotation: Rotation, members: Sequence[Member]) -> dict[str, Any]:
    recipients = tuple(Recipient.of(member) for member in members)
    return epoch_document(
        roster.epoch + 1, rotation.vrk, recipients, roster.vault, rotation.previous
    )


def _entry(roster: Roster, by: Signer, operation: Operation, **extra: object) -> SignedEntry:
    document = {
        **_common(len(roster.positions), roster.head, operation, by),
        "vault": roster.vault.hex(),
        **extra,
    }
    return sign_entry(document, by.key)


def _common(idx: int, prev: bytes, operation: Operation, by: Signer) -> dict[str, Any]:
    return {
        "v": VERSION,
        "idx": idx,
        "prev": prev.hex(),
        "op": operation.value,
        "by": by.id.hex(),
        "at_seq": by.at_seq,
    }
