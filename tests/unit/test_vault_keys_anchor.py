"""The freshness record: its MAC, its copy, and what each combination of witnesses means."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memory_manager.vault.anchor import (
    Anchor,
    Freshness,
    Identity,
    KeyringCopy,
    Progress,
    check_freshness,
    parse_anchor,
    parse_keyring_copy,
)
from memory_manager.vault.errors import AnchorDamaged

KEY = bytes(range(32))
IDENTITY = Identity(b"v" * 16, b"i" * 16, b"d" * 16)
PROGRESS = Progress(generation=10, own_seq=5, n=7, min_epoch=1)


def anchor_at(progress: Progress = PROGRESS, identity: Identity = IDENTITY) -> Anchor:
    return Anchor(identity, progress, last_auth=1_700_000_000)


def copy_of(anchor: Anchor) -> KeyringCopy:
    copy = parse_keyring_copy(anchor.keyring_copy())
    assert copy is not None
    return copy


@given(
    generation=st.integers(0, 2**64 - 1),
    seq=st.integers(0, 2**64 - 1),
    n=st.integers(0, 2**64 - 1),
    epoch=st.integers(0, 2**32 - 1),
    last_auth=st.integers(0, 2**64 - 1),
    hashes=st.binary(min_size=96, max_size=96),
)
def test_round_trip(generation, seq, n, epoch, last_auth, hashes) -> None:
    anchor = Anchor(
        IDENTITY,
        Progress(generation, seq, n, epoch),
        last_auth,
        hashes[:32],
        hashes[32:64],
        hashes[64:],
    )
    data = anchor.encode(KEY)
    assert len(data) == 220
    assert parse_anchor(data, KEY) == anchor
    assert copy_of(anchor).progress == anchor.progress
    assert len(anchor.keyring_copy()) == 64


@given(position=st.integers(0, 219), bit=st.integers(0, 7))
def test_any_flipped_bit_is_damage(position: int, bit: int) -> None:
    data = bytearray(anchor_at().encode(KEY))
    data[position] ^= 1 << bit
    with pytest.raises(AnchorDamaged):
        parse_anchor(bytes(data), KEY)


@pytest.mark.parametrize("size", [0, 187, 188, 219, 221])
def test_other_sizes_are_damage(size: int) -> None:
    with pytest.raises(AnchorDamaged):
        parse_anchor((anchor_at().encode(KEY) + b"\0")[:size], KEY)


def test_another_vaults_key_is_damage() -> None:
    with pytest.raises(AnchorDamaged):
        parse_anchor(anchor_at().encode(KEY), bytes(32))


OLDER = [
    dataclasses.replace(PROGRESS, generation=9),
    dataclasses.replace(PROGRESS, own_seq=4),
    dataclasses.replace(PROGRESS, n=6),
    dataclasses.replace(PROGRESS, min_epoch=0),
]
NEWER = dataclasses.replace(PROGRESS, generation=99)


def verdict(
    *, file: bytes | None, copy: KeyringCopy | None = None, database: Progress = PROGRESS
) -> Freshness:
    return check_freshness(file, KEY, copy, database, IDENTITY)[0]


def test_equal_and_newer_databases_are_fresh() -> None:
    anchor = anchor_at()
    file, copy = anchor.encode(KEY), copy_of(anchor)
    assert verdict(file=file, copy=copy) is Freshness.FRESH
    assert verdict(file=file) is Freshness.FRESH
    assert verdict(file=file, copy=copy, database=NEWER) is Freshness.FRESH


@pytest.mark.parametrize("older", OLDER, ids=["generation", "seq", "n", "epoch"])
def test_each_component_of_the_database_counts(older: Progress) -> None:
    file = anchor_at().encode(KEY)
    assert verdict(file=file, database=older) is Freshness.DATABASE_ROLLED_BACK


@pytest.mark.parametrize("older", OLDER, ids=["generation", "seq", "n", "epoch"])
def test_each_component_of_the_anchor_counts(older: Progress) -> None:
    copy = copy_of(anchor_at())
    file = anchor_at(older).encode(KEY)
    assert verdict(file=file, copy=copy) is Freshness.ANCHOR_ROLLED_BACK


def test_an_older_keyring_copy_is_fresh() -> None:
    copy = copy_of(anchor_at(OLDER[0]))
    assert verdict(file=anchor_at().encode(KEY), copy=copy) is Freshness.FRESH


def test_a_missing_anchor_is_never_fresh() -> None:
    assert verdict(file=None, copy=copy_of(anchor_at())) is Freshness.ANCHOR_ROLLED_BACK
    assert verdict(file=None) is Freshness.ANCHOR_DAMAGED


def test_a_broken_mac_is_damage_whatever_the_copy_says() -> None:
    file = anchor_at().encode(bytes(32))
    assert verdict(file=file) is Freshness.ANCHOR_DAMAGED
    assert verdict(file=file, copy=copy_of(anchor_at())) is Freshness.ANCHOR_DAMAGED


@pytest.mark.parametrize("field", ["vault", "install", "device"])
def test_other_ids_are_noticed(field: str) -> None:
    other = dataclasses.replace(IDENTITY, **{field: b"x" * 16})
    file = anchor_at(identity=other).encode(KEY)
    assert verdict(file=file) is Freshness.WRONG_IDENTITY


def test_keyring_items_of_other_sizes_are_ignored() -> None:
    assert parse_keyring_copy(b"") is None
    assert parse_keyring_copy(bytes(63)) is None
