"""The row opener: only what was sealed opens, everything else has its code (sync.md 3.3)."""

from __future__ import annotations

import dataclasses
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_manager.sync.errors import RowRefused, SyncCode
from memory_manager.sync.wire import labels
from memory_manager.sync.wire.envelope import (
    MAX_PAYLOAD_BYTES,
    Dot,
    EpochKey,
    OpenedRow,
    Policy,
    RowHeader,
    SealedRow,
    open_row,
    padme,
    read_header,
    seal_row,
    wrap_cek,
)
from memory_manager.sync.wire.payload import (
    DeletionMode,
    HybridTime,
    Kind,
    encode_payload,
    read_payload,
)
from memory_manager.vault.kdf import labelled_hash, seal

VAULT, DEVICE = b"\x01" * 16, b"\x02" * 16
RECORD, INDEXED_RECORD = b"\x03" * 16, b"\x83" * 16
DOT = Dot(DEVICE, 7)
KEYS = {1: EpochKey(1, bytearray(b"\x05" * 32)), 2: EpochKey(2, bytearray(b"\x06" * 32))}


def _seal(payload: bytes, policy: Policy = Policy.VAULT, record: bytes = RECORD) -> SealedRow:
    return seal_row(
        payload,
        policy=policy,
        vault=VAULT,
        record=record,
        dot=DOT,
        parents=(),
        under=KEYS[2],
        cek=b"\x07" * 32,
        body_nonce=b"\x08" * 24,
        wrap_nonce=b"\x09" * 24,
    )


def _open(row: SealedRow, min_epoch: int = 1) -> OpenedRow:
    return open_row(row, vault=VAULT, dot=DOT, keys=KEYS, min_epoch=min_epoch)


def _refusal(row: SealedRow, **options: int) -> SyncCode:
    with pytest.raises(RowRefused) as caught:
        _open(row, **options)
    return caught.value.reason


@given(st.binary(max_size=3000))
def test_what_was_sealed_opens_and_its_length_is_a_padding_class(payload: bytes) -> None:
    row = _seal(payload)
    assert _open(row).payload == payload
    assert len(row.body) == 172 + padme(4 + len(payload))


@settings(max_examples=400)
@given(st.integers(0, 2**32), st.integers(1, 255))
def test_any_changed_byte_is_refused(position: int, change: int) -> None:
    row = _seal(b"the lighthouse is green")
    whole = bytearray(row.body + row.wrap)
    whole[position % len(whole)] ^= change
    with pytest.raises(RowRefused):
        _open(SealedRow(bytes(whole[:-92]), bytes(whole[-92:])))


@settings(max_examples=200)
@given(st.binary(max_size=1200))
def test_arbitrary_bytes_are_refused(body: bytes) -> None:
    assert _refusal(SealedRow(body, bytes(92))) is SyncCode.ROW_FORMAT


def _forged(row: SealedRow, **changes: object) -> SealedRow:
    header = dataclasses.replace(read_header(row.body), **changes)  # type: ignore[arg-type]
    return SealedRow(header.pack() + row.body[132:], row.wrap)


def test_class_and_policy_stand_or_fall_together() -> None:
    """T27: the policy byte, the class bit, both."""
    vault = _seal(b"kept")
    assert _refusal(_forged(vault, policy=Policy.INDEXED)) is SyncCode.CLASS_POLICY
    assert _refusal(_forged(vault, record=INDEXED_RECORD)) is SyncCode.CLASS_POLICY
    both = _forged(vault, policy=Policy.INDEXED, record=INDEXED_RECORD)
    assert _refusal(both) is SyncCode.ROW_AUTH
    with pytest.raises(ValueError, match="class"):
        _seal(b"kept", Policy.VAULT, INDEXED_RECORD)
    assert _open(_seal(b"kept", Policy.TOMBSTONE, INDEXED_RECORD)).payload == b"kept"


def test_epochs_and_keys() -> None:
    """T28: wrong key id, unknown epoch, epoch number changed, old wrap."""
    row = _seal(b"kept")
    assert _refusal(row, min_epoch=3) is SyncCode.STALE_EPOCH
    third = wrap_cek(row.body, EpochKey(3, bytearray(32)), b"\x07" * 32, bytes(24))
    assert _refusal(SealedRow(row.body, third)) is SyncCode.WAITING_KEY
    foreign = wrap_cek(row.body, EpochKey(2, bytearray(32)), b"\x07" * 32, bytes(24))
    assert _refusal(SealedRow(row.body, foreign)) is SyncCode.WRONG_KEY
    renumbered = SealedRow(row.body, b"\x00\x00\x00\x01" + row.wrap[4:])
    assert _refusal(renumbered) is SyncCode.WRONG_KEY
    other_cek = wrap_cek(row.body, KEYS[2], b"\x0a" * 32, bytes(24))
    assert _refusal(SealedRow(row.body, other_cek)) is SyncCode.ROW_AUTH


def test_body_and_wrap_of_two_rows_do_not_mix() -> None:
    """T26: each is bound to the other's header."""
    one, two = _seal(b"one"), _seal(b"two", Policy.TOMBSTONE)
    assert _refusal(SealedRow(one.body, two.wrap)) is SyncCode.ROW_AUTH
    assert _refusal(SealedRow(two.body, one.wrap)) is SyncCode.ROW_AUTH
    assert _refusal(_forged(one, record=b"\x04" * 16)) is SyncCode.ROW_AUTH
    assert _refusal(_forged(one, dot=Dot(DEVICE, 8))) is SyncCode.ROW_FORMAT
    assert _refusal(_forged(one, vault=b"\x0b" * 16)) is SyncCode.ROW_FORMAT
    assert _refusal(_forged(one, parents_hash=bytes(32))) is SyncCode.ROW_AUTH


def test_length_bombs_are_refused_before_anything_is_allocated() -> None:
    """T29: declared lengths of 4 GiB, odd classes, flags, trailing bytes."""
    row = _seal(b"kept")
    for padded in (2**32 - 1, 540_673, 257, 0):
        assert _refusal(_forged(row, padded_bytes=padded)) is SyncCode.ROW_FORMAT
    assert _refusal(SealedRow(row.body + b"\x00", row.wrap)) is SyncCode.ROW_FORMAT
    assert _refusal(SealedRow(row.body, row.wrap + b"\x00")) is SyncCode.ROW_FORMAT
    flagged = row.body[:7] + b"\x01" + row.body[8:]
    assert _refusal(SealedRow(flagged, row.wrap)) is SyncCode.ROW_FORMAT
    with pytest.raises(ValueError, match="524"):
        _seal(bytes(MAX_PAYLOAD_BYTES + 1))


def test_padding_that_is_not_zero_is_refused() -> None:
    """An author's own fault: it is authentic and still not what the format says."""
    cek, nonce = b"\x07" * 32, b"\x08" * 24
    header = RowHeader(
        Policy.VAULT,
        VAULT,
        RECORD,
        DOT,
        labelled_hash(b"", labels.PARENTS),
        labelled_hash(cek, labels.CEK_COMMITMENT),
        256,
    ).pack()
    for plain in (b"\x00\x00\x00\x04kept".ljust(255, b"\x00") + b"\x01", b"\x00\x00\x01\x00" * 64):
        body = header + nonce + seal(cek, nonce, plain, labels.RECORD + header)
        row = SealedRow(body, wrap_cek(header, KEYS[2], cek, bytes(24)))
        assert _refusal(row) is SyncCode.ROW_AUTH


TIME = HybridTime(1_764_500_000_000, 3, DEVICE.hex())


def test_payloads_come_back_and_lies_about_parents_or_content_do_not() -> None:
    parents = (Dot(DEVICE, 2), Dot(b"\x01" * 16, 9))
    made = encode_payload(Kind.TOMBSTONE, TIME, parents, {"mode": "forget"})

    def opened(payload: bytes, parents: tuple[Dot, ...]) -> OpenedRow:
        row = seal_row(
            payload,
            policy=Policy.TOMBSTONE,
            vault=VAULT,
            record=RECORD,
            dot=DOT,
            parents=parents,
            under=KEYS[2],
            cek=b"\x07" * 32,
            body_nonce=bytes(24),
            wrap_nonce=bytes(24),
        )
        return _open(row)

    payload = read_payload(opened(made, parents))
    assert (payload.kind, payload.mode) == (Kind.TOMBSTONE, DeletionMode.FORGET)
    assert (payload.time, set(payload.parents)) == (TIME, set(parents))
    for bytes_, told in (
        (made, parents[:1]),
        (made.replace(b"forget", b"banish"), parents),
        (made.replace(b'"v":1', b'"v": 1'), parents),
        (made.replace(b'"v":1', b'"v":2'), parents),
        (b"hello vault", ()),
        (encode_payload(Kind.MEMORY, TIME, (), {"content": "a", "content_sha256": "00"}), ()),
        (encode_payload(Kind.MEMORY, TIME, (), {"content": 1, "content_sha256": "00"}), ()),
    ):
        with pytest.raises(RowRefused):
            read_payload(opened(bytes_, told))


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_fuzzed_envelopes_never_open_and_never_break(thorough: bool) -> None:
    """T29, the fuzzing of the opener: always a share of the million mutations, of one seed."""
    source = random.Random(29)
    row = _seal(source.randbytes(900))
    for _ in range(1_000_000 if thorough else 20_000):
        whole = bytearray(row.body + row.wrap)
        for _ in range(source.randint(1, 4)):
            whole[source.randrange(len(whole))] ^= source.randint(1, 255)
        if source.random() < 0.2:
            del whole[source.randrange(len(whole)) :]
        body, wrap = bytes(whole[:-92]), bytes(whole[-92:])
        if (body, wrap) == (row.body, row.wrap):
            continue
        with pytest.raises(RowRefused):
            _open(SealedRow(body, wrap))
