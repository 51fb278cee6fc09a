"""The row envelope MLK1: an immutable BODY and a WRAP that rotation replaces (sync.md 3)."""

from __future__ import annotations

import dataclasses
import enum
import struct
from collections.abc import Iterable, Mapping
from typing import Final

from memory_manager.sync.errors import RowRefused, SyncCode
from memory_manager.sync.wire import labels
from memory_manager.sync.wire.canonical import hex_bytes
from memory_manager.vault.kdf import (
    KEY_BYTES,
    NONCE_BYTES,
    TAG_BYTES,
    SealBroken,
    SecretBytes,
    equal,
    labelled_hash,
    open_sealed,
    seal,
    wipe,
)

MAGIC: Final = b"MLK1"
SUITE: Final = 1
HEADER_BYTES: Final = 132
MIN_PADDED_BYTES: Final = 256
MAX_PADDED_BYTES: Final = 540_672
MAX_PAYLOAD_BYTES: Final = 524_288
WRAP_BYTES: Final = 92
WRAP_PREFIX_BYTES: Final = 20

_HEADER: Final = struct.Struct(">4sBBH16s16s16sQ32s32sI")
_WRAP_PREFIX: Final = struct.Struct(">I16s")
_LENGTH: Final = struct.Struct(">I")
_CLASS_BIT: Final = 0x80


class Policy(enum.IntEnum):
    """What a row is; vault and indexed rows carry the class in their id as well."""

    VAULT = 0
    INDEXED = 1
    TOMBSTONE = 2


@dataclasses.dataclass(frozen=True, slots=True, order=True)
class Dot:
    """One revision: its author device and the author's log position."""

    device: bytes
    seq: int

    def pack(self) -> bytes:
        """24 bytes."""
        return self.device + self.seq.to_bytes(8, "big")

    def hex(self) -> str:
        return self.pack().hex()


def dot_from_hex(text: object) -> Dot:
    """The dot of 48 lower-case hex digits; ValueError or TypeError otherwise."""
    raw = hex_bytes(text, labels.DOT_BYTES)
    seq = int.from_bytes(raw[labels.ID_BYTES :], "big")
    if seq > labels.MAX_POSITION:
        raise ValueError("a position that no log has")
    return Dot(raw[: labels.ID_BYTES], seq)


@dataclasses.dataclass(frozen=True, slots=True)
class RowHeader:
    """What of a row is readable without a key. ``seq`` is from 1."""

    policy: Policy
    vault: bytes
    record: bytes
    dot: Dot
    parents_hash: bytes
    commitment: bytes
    padded_bytes: int

    def pack(self) -> bytes:
        return _HEADER.pack(
            MAGIC,
            SUITE,
            self.policy,
            0,
            self.vault,
            self.record,
            self.dot.device,
            self.dot.seq,
            self.parents_hash,
            self.commitment,
            self.padded_bytes,
        )


@dataclasses.dataclass(frozen=True, slots=True)
class EpochKey:
    """RWK of an epoch."""

    epoch: int
    key: bytearray = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class SealedRow:
    body: bytes = dataclasses.field(repr=False)
    wrap: bytes = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class OpenedRow:
    """``payload`` is not parsed yet; its parents are still to be compared with the header."""

    header: RowHeader
    payload: bytes = dataclasses.field(repr=False)


def padme(length: int) -> int:
    """The padded size of ``length`` bytes: Padmé with a minimum of 256."""
    if length <= MIN_PADDED_BYTES:
        return MIN_PADDED_BYTES
    exponent = length.bit_length() - 1
    step = 1 << exponent - exponent.bit_length()
    return -(-length // step) * step


def parents_hash(parents: Iterable[Dot]) -> bytes:
    return labelled_hash(b"".join(sorted(dot.pack() for dot in parents)), labels.PARENTS)


def is_indexable(record: bytes) -> bool:
    """The privacy class in the top bit of a record id."""
    return bool(record[0] & _CLASS_BIT)


def body_hash(body: bytes) -> bytes:
    return labels.plain_hash(body)


def seal_row(
    payload: bytes,
    *,
    policy: Policy,
    vault: bytes,
    record: bytes,
    dot: Dot,
    parents: Iterable[Dot],
    under: EpochKey,
    cek: SecretBytes,
    body_nonce: bytes,
    wrap_nonce: bytes,
) -> SealedRow:
    """Encrypt one row. ``cek`` and both nonces are fresh random bytes; ValueError if too large."""
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise ValueError("a payload has at most 524 288 bytes")
    if policy is not Policy.TOMBSTONE and is_indexable(record) != (policy is Policy.INDEXED):
        raise ValueError("the policy of a row is the class of its record id")
    padded = padme(_LENGTH.size + len(payload))
    header = RowHeader(
        policy,
        vault,
        record,
        dot,
        parents_hash(parents),
        labelled_hash(cek, labels.CEK_COMMITMENT),
        padded,
    ).pack()
    plain = (_LENGTH.pack(len(payload)) + payload).ljust(padded, b"\x00")
    sealed = seal(cek, body_nonce, plain, labels.RECORD + header)
    return SealedRow(header + body_nonce + sealed, wrap_cek(header, under, cek, wrap_nonce))


def wrap_cek(header: bytes, under: EpochKey, cek: SecretBytes, nonce: bytes) -> bytes:
    """The WRAP of a content key for an epoch; ``header`` is BODY[0:132]."""
    prefix = _WRAP_PREFIX.pack(under.epoch, labels.key_id(under.key))
    context = labels.CEK_WRAP + header[:HEADER_BYTES] + prefix
    return prefix + nonce + seal(under.key, nonce, cek, context)


def wrap_epoch(wrap: bytes) -> int:
    """The epoch whose key a WRAP is under."""
    return int.from_bytes(wrap[:4], "big")


def read_header(body: bytes) -> RowHeader:
    """Check lengths, format and class of a BODY before anything is allocated; RowRefused."""
    if len(body) < HEADER_BYTES + NONCE_BYTES + MIN_PADDED_BYTES + TAG_BYTES:
        raise RowRefused(SyncCode.ROW_FORMAT)
    (magic, suite, policy, flags, vault, record, device, seq, parents, commitment, padded) = (
        _HEADER.unpack_from(body)
    )
    if padded > MAX_PADDED_BYTES or padded != padme(padded):
        raise RowRefused(SyncCode.ROW_FORMAT)
    if len(body) != HEADER_BYTES + NONCE_BYTES + padded + TAG_BYTES:
        raise RowRefused(SyncCode.ROW_FORMAT)
    if magic != MAGIC or suite != SUITE or flags or policy not in list(Policy):
        raise RowRefused(SyncCode.ROW_FORMAT)
    if policy != Policy.TOMBSTONE and is_indexable(record) != (policy == Policy.INDEXED):
        raise RowRefused(SyncCode.CLASS_POLICY)
    return RowHeader(Policy(policy), vault, record, Dot(device, seq), parents, commitment, padded)


def open_row(
    row: SealedRow,
    *,
    vault: bytes,
    dot: Dot,
    keys: Mapping[int, EpochKey],
    min_epoch: int = 1,
) -> OpenedRow:
    """Open one row whose BODY hash was verified in the log, in the order of sync.md 3.3.

    ``dot`` is that of its log entry, ``keys`` the known epochs. RowRefused with the first failure.
    """
    if len(row.wrap) != WRAP_BYTES:
        raise RowRefused(SyncCode.ROW_FORMAT)
    header = read_header(row.body)
    if header.vault != vault or header.dot != dot:
        raise RowRefused(SyncCode.ROW_FORMAT)
    cek = unwrap_cek(row, keys, min_epoch)
    try:
        return OpenedRow(header, _open_body(row.body, cek))
    finally:
        wipe(cek)


def unwrap_cek(row: SealedRow, keys: Mapping[int, EpochKey], min_epoch: int = 1) -> bytearray:
    """The content key of a row; the caller wipes it. RowRefused."""
    epoch, kid = _WRAP_PREFIX.unpack_from(row.wrap)
    if epoch < min_epoch:
        raise RowRefused(SyncCode.STALE_EPOCH)
    known = keys.get(epoch)
    if known is None:
        raise RowRefused(SyncCode.WAITING_KEY)
    if not equal(labels.key_id(known.key), kid):
        raise RowRefused(SyncCode.WRONG_KEY)
    header, prefix = row.body[:HEADER_BYTES], row.wrap[:WRAP_PREFIX_BYTES]
    nonce_end = WRAP_PREFIX_BYTES + NONCE_BYTES
    try:
        cek = open_sealed(
            known.key,
            row.wrap[WRAP_PREFIX_BYTES:nonce_end],
            row.wrap[nonce_end:],
            labels.CEK_WRAP + header + prefix,
        )
    except SealBroken:
        raise RowRefused(SyncCode.ROW_AUTH) from None
    commitment = header[HEADER_BYTES - _LENGTH.size - KEY_BYTES : -_LENGTH.size]
    if not equal(labelled_hash(cek, labels.CEK_COMMITMENT), commitment):
        wipe(cek)
        raise RowRefused(SyncCode.ROW_AUTH)
    return cek


def _open_body(body: bytes, cek: bytearray) -> bytes:
    header, nonce_end = body[:HEADER_BYTES], HEADER_BYTES + NONCE_BYTES
    try:
        plain = open_sealed(
            cek, body[HEADER_BYTES:nonce_end], body[nonce_end:], labels.RECORD + header
        )
    except SealBroken:
        raise RowRefused(SyncCode.ROW_AUTH) from None
    (length,) = _LENGTH.unpack_from(plain)
    end = _LENGTH.size + length
    if end > len(plain) or any(plain[end:]):
        raise RowRefused(SyncCode.ROW_AUTH)
    return bytes(plain[_LENGTH.size : end])
