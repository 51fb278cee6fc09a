"""T56: a slot file is exactly ours or it is refused, and never gives a key for a changed slot."""

from __future__ import annotations

import dataclasses
import json
import os
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory_manager.vault import argon, credential_slots, kdf, slots
from memory_manager.vault.credential_slots import KeyFile, Passphrase, RecoveryWords
from memory_manager.vault.errors import (
    KdfParametersRefused,
    KeyFileRefused,
    SlotDamaged,
    WrongPassphrase,
    WrongRecoveryWords,
)
from memory_manager.vault.slots import SlotFile, SlotType

LUK = bytes(range(32))
FILE_KEY = bytearray(b"\x51" * 32)
PASSPHRASE = "correct horse battery staple"


@pytest.fixture(scope="module")
def slot_file() -> SlotFile:
    dbk = kdf.database_key(LUK)
    empty = SlotFile(
        vault=os.urandom(16),
        install=os.urandom(16),
        gen=0,
        salt=os.urandom(16),
        commit=slots.database_commitment(dbk),
        slots=(),
        gsk=None,
    )
    seed = bytes(32)
    made = credential_slots.put_passphrase(empty, LUK, PASSPHRASE, argon.FLOOR, seed)
    made = credential_slots.put_recovery(made, LUK, bytes(32))
    return credential_slots.put_key(made, LUK, SlotType.INSECURE_FILE, FILE_KEY)


def resummed(body: dict[str, Any]) -> bytes:
    """A changed slot file with a right ``sum``, as an attacker would make it."""
    body = {key: value for key, value in body.items() if key != "sum"}
    text = json.dumps(body, sort_keys=True, separators=(",", ":"))
    body["sum"] = kdf.labelled_hash(text.encode(), b"mlk-slots-v1").hex()
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def test_round_trip(slot_file: SlotFile) -> None:
    assert slots.parse(slots.encode(slot_file)) == slot_file


def test_it_is_canonical_json_in_plain_ascii(slot_file: SlotFile) -> None:
    data = slots.encode(slot_file)
    body = json.loads(data)
    assert json.dumps(body, sort_keys=True, separators=(",", ":")).encode() == data
    assert set(body) == {"v", "vault", "install", "gen", "db", "slots", "gsk", "sum"}


def test_every_slot_opens_with_its_own_key(slot_file: SlotFile) -> None:
    assert Passphrase(PASSPHRASE).open(slot_file) == LUK
    assert RecoveryWords("abandon " * 23 + "art").open(slot_file) == LUK
    assert KeyFile(FILE_KEY).open(slot_file) == LUK


def test_wrong_keys_are_told_from_damage(slot_file: SlotFile) -> None:
    with pytest.raises(WrongPassphrase):
        Passphrase(PASSPHRASE + "r").open(slot_file)
    with pytest.raises(WrongRecoveryWords):
        RecoveryWords("zoo " * 23 + "vote").open(slot_file)
    with pytest.raises(KeyFileRefused):
        KeyFile(bytearray(32)).open(slot_file)


@settings(max_examples=150, deadline=None)
@given(position=st.integers(min_value=0), bit=st.integers(0, 7))
def test_any_flipped_bit_is_damage_never_a_wrong_passphrase(
    slot_file: SlotFile, position: int, bit: int
) -> None:
    data = bytearray(slots.encode(slot_file))
    data[position % len(data)] ^= 1 << bit
    with pytest.raises(SlotDamaged):
        slots.parse(bytes(data))


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(min_value=0))
def test_truncated_files_are_damage(slot_file: SlotFile, cut: int) -> None:
    data = slots.encode(slot_file)
    with pytest.raises(SlotDamaged):
        slots.parse(data[: cut % len(data)])


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=400))
def test_arbitrary_bytes_are_damage(data: bytes) -> None:
    with pytest.raises(SlotDamaged):
        slots.parse(data)


def test_deep_nesting_and_oversize_are_damage() -> None:
    with pytest.raises(SlotDamaged):
        slots.parse(b'{"a":' + b"[" * 30_000 + b"]" * 30_000 + b"}")
    with pytest.raises(SlotDamaged):
        slots.parse(b" " * 70_000)


def test_duplicate_keys_are_refused(slot_file: SlotFile) -> None:
    text = slots.encode(slot_file).decode()
    with pytest.raises(SlotDamaged):
        slots.parse(text.replace('"gen":', '"gen":0,"gen":', 1).encode())


def change_key(body: dict[str, Any]) -> None:
    body["extra"] = 1


def change_nested_key(body: dict[str, Any]) -> None:
    body["slots"][0]["extra"] = 1


def drop_key(body: dict[str, Any]) -> None:
    del body["install"]


def upper_hex(body: dict[str, Any]) -> None:
    body["vault"] = "AB" * 16


def long_hex(body: dict[str, Any]) -> None:
    body["db"]["salt"] += "00"


def float_number(body: dict[str, Any]) -> None:
    body["gen"] = 1.0


def boolean_number(body: dict[str, Any]) -> None:
    body["slots"][0]["t"] = True


def unknown_type(body: dict[str, Any]) -> None:
    body["slots"][0]["type"] = "telepathy"


def same_number_twice(body: dict[str, Any]) -> None:
    body["slots"][1]["no"] = body["slots"][0]["no"]


def no_slots(body: dict[str, Any]) -> None:
    body["slots"] = []


def newer_version(body: dict[str, Any]) -> None:
    body["v"] = 2


@pytest.mark.parametrize(
    "change",
    [
        change_key,
        change_nested_key,
        drop_key,
        upper_hex,
        long_hex,
        float_number,
        boolean_number,
        unknown_type,
        same_number_twice,
        no_slots,
        newer_version,
    ],
    ids=lambda change: change.__name__,
)
def test_other_shapes_are_refused_even_with_a_right_sum(slot_file: SlotFile, change) -> None:
    body = json.loads(slots.encode(slot_file))
    change(body)
    with pytest.raises(SlotDamaged):
        slots.parse(resummed(body))


@pytest.mark.parametrize(
    ("t", "m_kib", "p"),
    [
        (2, 65_536, 1),
        (3, 65_535, 1),
        (11, 65_536, 1),
        (3, 1_048_577, 1),
        (3, 65_536, 2),
        (0, 0, 0),
        (4_294_967_295, 4_294_967_295, 1),
    ],
)
def test_parameters_outside_the_limits_never_run(slot_file: SlotFile, t, m_kib, p) -> None:
    body = json.loads(slots.encode(slot_file))
    body["slots"][0] |= {"t": t, "m_kib": m_kib, "p": p}
    changed = slots.parse(resummed(body))
    spent = []
    for _ in range(3):
        begin = time.thread_time()
        with pytest.raises(KdfParametersRefused):
            Passphrase(PASSPHRASE).open(changed)
        spent.append(time.thread_time() - begin)
    assert min(spent) < 0.1, "Argon2id takes longer"
    assert RecoveryWords("abandon " * 23 + "art").open(changed) == LUK


def swapped_slots(body: dict[str, Any]) -> None:
    first, third = body["slots"][0], body["slots"][2]
    first["no"], third["no"] = third["no"], first["no"]


def other_vault(body: dict[str, Any]) -> None:
    body["vault"] = "ab" * 16


def other_install(body: dict[str, Any]) -> None:
    body["install"] = "cd" * 16


def more_passes(body: dict[str, Any]) -> None:
    body["slots"][2]["t"] = 1


def other_salt_field(body: dict[str, Any]) -> None:
    body["slots"][2]["salt"] = "ef" * 16


def other_nonce(body: dict[str, Any]) -> None:
    body["slots"][2]["nonce"] = "ab" * 24


def other_database(body: dict[str, Any]) -> None:
    body["db"]["commit"] = "ab" * 32


@pytest.mark.parametrize(
    "change",
    [
        swapped_slots,
        other_vault,
        other_install,
        more_passes,
        other_salt_field,
        other_nonce,
        other_database,
    ],
    ids=lambda change: change.__name__,
)
def test_a_deliberate_change_never_opens(slot_file: SlotFile, change) -> None:
    body = json.loads(slots.encode(slot_file))
    change(body)
    with pytest.raises(SlotDamaged):
        KeyFile(FILE_KEY).open(slots.parse(resummed(body)))


def test_a_changed_type_never_opens(slot_file: SlotFile) -> None:
    slot = slot_file.find(SlotType.INSECURE_FILE)
    assert slot is not None
    moved = dataclasses.replace(slot, type=SlotType.OS_KEYRING)
    changed = dataclasses.replace(slot_file, slots=(*slot_file.slots[:2], moved))
    with pytest.raises(SlotDamaged):
        slots.open_slot(changed, moved, FILE_KEY)


def test_a_changed_commitment_is_a_wrong_key(slot_file: SlotFile) -> None:
    body = json.loads(slots.encode(slot_file))
    body["slots"][2]["kc"] = "00" * 32
    with pytest.raises(KeyFileRefused):
        KeyFile(FILE_KEY).open(slots.parse(resummed(body)))


def test_replacing_a_slot_keeps_its_number_and_raises_the_generation(slot_file: SlotFile) -> None:
    changed = credential_slots.put_key(
        slot_file, LUK, SlotType.INSECURE_FILE, bytearray(b"\x52" * 32)
    )
    assert [slot.no for slot in changed.slots] == [slot.no for slot in slot_file.slots]
    assert changed.gen == slot_file.gen + 1
    assert changed.slots[:2] == slot_file.slots[:2]


def test_without_a_passphrase_slot_there_is_no_grant_key(slot_file: SlotFile) -> None:
    changed = credential_slots.without(slot_file, SlotType.PASSPHRASE)
    assert changed.find(SlotType.PASSPHRASE) is None
    assert changed.gsk is None
    assert slots.parse(slots.encode(changed)) == changed
