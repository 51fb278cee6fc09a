"""Who belongs to a vault: a signed chain of canonical JSON entries (sync.md 7.1, 8).

The server's opinion does not count: a roster is what this chain says, and the vault id commits to
its first entry.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

from nacl.signing import SigningKey

from memory_manager.sync.errors import MalformedMessage, SyncCode, SyncRefused
from memory_manager.sync.wire import canonical, labels
from memory_manager.sync.wire.canonical import hex_bytes, is_count
from memory_manager.sync.wire.log import signature_verifies
from memory_manager.vault.kdf import labelled_hash

VERSION: Final = 1
_COMMON: Final = frozenset({"v", "vault", "idx", "prev", "op", "by", "at_seq"})
_NO_VAULT: Final = bytes(labels.ID_BYTES).hex()


class Role(enum.StrEnum):
    DEVICE = "device"
    RECOVERY = "recovery"


class Operation(enum.StrEnum):
    GENESIS = "genesis"
    ADD = "add"
    REVOKE = "revoke"
    ROTATE = "rotate"
    GRANT_KEY = "grant_key"
    LEAVE = "leave"
    FORK_CLOSE = "fork_close"


_EXTRA: Final[Mapping[Operation, tuple[frozenset[str], frozenset[str]]]] = {
    # required and optional members beside the common ones
    Operation.GENESIS: (frozenset({"device", "epoch"}), frozenset({"recovery"})),
    Operation.ADD: (frozenset({"device"}), frozenset({"sealed"})),
    Operation.REVOKE: (frozenset({"target", "cut_seq", "cut_head", "epoch"}), frozenset()),
    Operation.ROTATE: (frozenset({"epoch"}), frozenset()),
    Operation.GRANT_KEY: (frozenset({"target", "grant"}), frozenset()),
    Operation.LEAVE: (frozenset(), frozenset()),
    Operation.FORK_CLOSE: (
        frozenset({"target", "last_seq", "last_head", "new_device"}),
        frozenset(),
    ),
}


@dataclasses.dataclass(frozen=True, slots=True)
class Member:
    """A device or the paper device. ``cut`` is the last log position that counts, None: no end."""

    id: bytes
    role: Role
    ed25519: bytes
    x25519: bytes
    grant: bytes
    joined_idx: int
    cut: int | None = None
    cut_head: bytes | None = None

    @property
    def is_active(self) -> bool:
        return self.cut is None


@dataclasses.dataclass(frozen=True, slots=True)
class SignedEntry:
    """One roster entry as it travels."""

    document: bytes
    signature: bytes

    @property
    def hash(self) -> bytes:
        return labelled_hash(self.document, labels.ROSTER)


@dataclasses.dataclass(frozen=True, slots=True)
class Roster:
    """The verified state after the last entry of the chain."""

    vault: bytes
    positions: Mapping[bytes, int]  # of every entry hash on the chain
    head: bytes
    members: Mapping[bytes, Member]
    epoch: int
    key_ids: Mapping[int, bytes]  # kid of each epoch, from the entry that opened it

    def active(self) -> tuple[Member, ...]:
        return tuple(member for member in self.members.values() if member.is_active)

    def verify(self, chain: tuple[SignedEntry, ...]) -> Roster:
        """This roster advanced by ``chain``; SyncRefused at the first entry that does not hold."""
        roster = self
        for entry in chain:
            roster = _advance(roster, entry)
        return roster


def vault_id(genesis: Mapping[str, Any]) -> bytes:
    """The id that commits to a genesis document, whatever its ``vault`` member says."""
    zeroed = canonical.encode({**genesis, "vault": _NO_VAULT})
    return labels.short_hash(zeroed, labels.VAULT_ID)


def sign_entry(document: Mapping[str, Any], key: SigningKey) -> SignedEntry:
    raw = canonical.encode(document)
    return SignedEntry(raw, key.sign(labels.ROSTER + raw).signature)


def roster_of(chain: Sequence[SignedEntry], vault: bytes) -> Roster:
    """The roster after a whole chain; SyncRefused, ROSTER_FORK for an empty one too."""
    if not chain:
        raise SyncRefused(SyncCode.ROSTER_FORK)
    return found(chain[0], vault).verify(tuple(chain[1:]))


def found(entry: SignedEntry, vault: bytes) -> Roster:
    """The roster of a genesis; SyncRefused if it is not that of ``vault``."""
    document = _read(entry)
    if document["op"] != Operation.GENESIS or document["vault"] != vault.hex():
        raise SyncRefused(SyncCode.ROSTER_FORK)
    if vault_id(document) != vault or document["idx"] != 0 or any(bytes.fromhex(document["prev"])):
        raise SyncRefused(SyncCode.ROSTER_FORK)
    first = _member(document["device"], 0)
    members = {first.id: first}
    if "recovery" in document:
        paper = _member(document["recovery"], 0)
        if paper.role is not Role.RECOVERY or paper.id in members:
            raise SyncRefused(SyncCode.UNKNOWN_DEVICE)
        members[paper.id] = paper
    if first.role is not Role.DEVICE or document["by"] != first.id.hex():
        raise SyncRefused(SyncCode.UNKNOWN_DEVICE)
    _check_signature(entry, first)
    epoch, kid = _epoch(document["epoch"])
    if epoch != 1:
        raise SyncRefused(SyncCode.ROSTER_FORK)
    key_ids = MappingProxyType({epoch: kid})
    return Roster(vault, {entry.hash: 0}, entry.hash, MappingProxyType(members), epoch, key_ids)


def _advance(roster: Roster, entry: SignedEntry) -> Roster:
    document = _read(entry)
    idx = len(roster.positions)
    if document["vault"] != roster.vault.hex() or document["idx"] != idx:
        raise SyncRefused(SyncCode.ROSTER_FORK)
    if document["prev"] != roster.head.hex():
        raise SyncRefused(SyncCode.ROSTER_FORK)
    signer = roster.members.get(bytes.fromhex(document["by"]))
    if signer is None:
        raise SyncRefused(SyncCode.UNKNOWN_DEVICE)
    if not signer.is_active:
        raise SyncRefused(SyncCode.REVOKED_DEVICE, device=signer.id)
    _check_signature(entry, signer)
    members, epoch, key_ids = _applied(roster, document, signer, idx)
    return Roster(
        roster.vault,
        MappingProxyType({**roster.positions, entry.hash: idx}),
        entry.hash,
        MappingProxyType(members),
        epoch,
        MappingProxyType(key_ids),
    )


def _applied(
    roster: Roster, document: Mapping[str, Any], signer: Member, idx: int
) -> tuple[dict[bytes, Member], int, dict[int, bytes]]:
    members, key_ids, epoch = dict(roster.members), dict(roster.key_ids), roster.epoch
    operation = Operation(document["op"])
    if operation is Operation.GENESIS:
        raise SyncRefused(SyncCode.ROSTER_FORK)
    if operation is Operation.ADD:
        new = _member(document["device"], idx)
        if new.id in members or (new.role is Role.RECOVERY) != ("sealed" in document):
            raise SyncRefused(SyncCode.UNKNOWN_DEVICE)
        members[new.id] = new
    elif operation is Operation.REVOKE:
        target = _target(members, document)
        if target.id == signer.id or not target.is_active:
            raise SyncRefused(SyncCode.UNKNOWN_DEVICE, device=target.id)
        members[target.id] = _cut(target, document["cut_seq"], document["cut_head"])
    elif operation is Operation.GRANT_KEY:
        target = _target(members, document)
        if target.id != signer.id:
            raise SyncRefused(SyncCode.UNKNOWN_DEVICE, device=target.id)
        members[target.id] = dataclasses.replace(target, grant=_grant(document))
    elif operation is Operation.LEAVE:
        members[signer.id] = dataclasses.replace(signer, cut=document["at_seq"])
    elif operation is Operation.FORK_CLOSE:
        target = _target(members, document)
        successor = _member(document["new_device"], idx)
        if target.id != signer.id or successor.id in members or successor.role is not target.role:
            raise SyncRefused(SyncCode.UNKNOWN_DEVICE, device=target.id)
        members[target.id] = _cut(target, document["last_seq"], document["last_head"])
        members[successor.id] = successor
    if "epoch" in document:
        epoch, kid = _epoch(document["epoch"])
        if epoch != roster.epoch + 1 or signer.role is not _rotator(operation, signer):
            raise SyncRefused(SyncCode.ROSTER_FORK)
        key_ids[epoch] = kid
    return members, epoch, key_ids


def _rotator(operation: Operation, signer: Member) -> Role:
    """Recovery may revoke, which rotates; a mere rotation is a device's."""
    return signer.role if operation is Operation.REVOKE else Role.DEVICE


def _read(entry: SignedEntry) -> dict[str, Any]:
    """The checked members of an entry; SyncRefused for a document of another form."""
    try:
        document = canonical.decode(entry.document)
        operation = Operation(document["op"])
        required, optional = _EXTRA[operation]
        names = set(document) - _COMMON
        complete = set(document) >= _COMMON and required <= names <= required | optional
        counts = (document["idx"], document["at_seq"])
        if not complete or document["v"] != VERSION or not all(map(is_count, counts)):
            raise MalformedMessage
        hex_bytes(document["vault"], labels.ID_BYTES)
        hex_bytes(document["by"], labels.ID_BYTES)
        hex_bytes(document["prev"], labels.HASH_BYTES)
    except (MalformedMessage, KeyError, ValueError, TypeError):
        raise SyncRefused(SyncCode.ROSTER_FORK, "A roster entry is malformed.") from None
    return document


def _check_signature(entry: SignedEntry, signer: Member) -> None:
    if not signature_verifies(labels.ROSTER + entry.document, entry.signature, signer.ed25519):
        raise SyncRefused(SyncCode.UNKNOWN_DEVICE, device=signer.id)


def _member(document: object, idx: int) -> Member:
    try:
        if not isinstance(document, Mapping):
            raise MalformedMessage
        return Member(
            hex_bytes(document["id"], labels.ID_BYTES),
            Role(document["role"]),
            _key(document["ed25519"]),
            _key(document["x25519"]),
            _key(document["grant"]),
            idx,
        )
    except (MalformedMessage, KeyError, ValueError, TypeError):
        raise SyncRefused(SyncCode.UNKNOWN_DEVICE) from None


def _target(members: Mapping[bytes, Member], document: Mapping[str, Any]) -> Member:
    try:
        return members[hex_bytes(document["target"], labels.ID_BYTES)]
    except (KeyError, ValueError, TypeError):
        raise SyncRefused(SyncCode.UNKNOWN_DEVICE) from None


def _cut(member: Member, seq: object, head: object) -> Member:
    try:
        if not is_count(seq):
            raise ValueError("a cut is a log position")
        return dataclasses.replace(member, cut=seq, cut_head=hex_bytes(head, labels.HASH_BYTES))
    except (ValueError, TypeError):
        raise SyncRefused(SyncCode.ROSTER_FORK, "A roster entry is malformed.") from None


def _epoch(document: object) -> tuple[int, bytes]:
    try:
        if not isinstance(document, Mapping) or not is_count(document["e"]):
            raise MalformedMessage
        return int(document["e"]), hex_bytes(document["kid"], labels.ID_BYTES)
    except (MalformedMessage, KeyError, ValueError, TypeError):
        raise SyncRefused(SyncCode.ROSTER_FORK, "A roster entry is malformed.") from None


def _grant(document: Mapping[str, Any]) -> bytes:
    try:
        return _key(document["grant"])
    except (ValueError, TypeError):
        raise SyncRefused(SyncCode.ROSTER_FORK, "A roster entry is malformed.") from None


def _key(text: object) -> bytes:
    return hex_bytes(text, labels.HASH_BYTES)
