"""T57: every derived value of the contract's fixed inputs, byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from nacl.public import PrivateKey
from nacl.signing import SigningKey

from memory_manager.vault import argon, device_key, kdf, slots
from memory_manager.vault.anchor import (
    Anchor,
    Identity,
    Progress,
    parse_anchor,
    parse_keyring_copy,
)
from memory_manager.vault.slots import SlotType

VECTORS = json.loads((Path(__file__).parents[1] / "vectors/vault_keys.json").read_text())
INPUTS = VECTORS["inputs"]


def given(name: str) -> bytes:
    return bytes.fromhex(INPUTS[name])


def expected(name: str) -> bytes:
    return bytes.fromhex(VECTORS[name])


@pytest.fixture(scope="module")
def kek() -> bytearray:
    parameters = argon.ArgonParameters(INPUTS["t"], INPUTS["m_kib"])
    return argon.passphrase_key(INPUTS["passphrase"], given("salt"), parameters)


@pytest.mark.parametrize(
    ("derive", "name"),
    [
        (kdf.database_key, "dbk"),
        (kdf.device_wrap_key, "device_wrap"),
        (kdf.anchor_key, "anchor_mac_key"),
        (kdf.backup_wrap_key, "backup_wrap"),
    ],
)
def test_keys_of_the_luk(derive, name) -> None:
    assert derive(given("luk")) == expected(name)


@pytest.mark.parametrize(
    ("derive", "name"),
    [
        (kdf.recovery_key, "kek_rec"),
        (kdf.paper_signing_seed, "paper_ed25519_seed"),
        (kdf.paper_box_secret, "paper_x25519_secret"),
    ],
)
def test_keys_of_the_recovery_entropy(derive, name) -> None:
    assert derive(given("recovery_entropy")) == expected(name)


def test_public_keys_of_the_paper_device() -> None:
    seed = bytes(kdf.paper_signing_seed(given("recovery_entropy")))
    secret = bytes(kdf.paper_box_secret(given("recovery_entropy")))
    assert bytes(SigningKey(seed).verify_key) == expected("paper_ed25519_public")
    assert bytes(PrivateKey(secret).public_key) == expected("paper_x25519_public")


def test_database_commitment() -> None:
    assert slots.database_commitment(expected("dbk")) == expected("db_commit")


def test_passphrase_slot(kek) -> None:
    assert kek == expected("kek_pw")
    slot = slots.make_slot(
        given("vault"),
        given("install"),
        no=0,
        slot_type=SlotType.PASSPHRASE,
        kek=kek,
        luk=given("luk"),
        salt=given("salt"),
        t=INPUTS["t"],
        m_kib=INPUTS["m_kib"],
        p=1,
        nonce=given("slot_nonce"),
    )
    assert slot.kc == expected("kc")
    aad = slots.slot_context(given("vault"), given("install"), slot)
    assert len(aad) == 74
    assert aad == expected("slot_aad")
    assert slot.ct == expected("slot_ct")


def test_wrapped_grant_key(kek) -> None:
    wrapped = slots.wrap_grant_key(
        given("vault"), given("install"), kek, given("gsk_seed"), given("gsk_nonce")
    )
    assert wrapped.ct == expected("gsk_ct")


def test_device_key() -> None:
    key = device_key.DeviceKey(given("device"), bytearray(b"\xaa" * 32 + b"\xcc" * 32))
    data = device_key.encode(
        key, given("vault"), given("install"), expected("device_wrap"), given("device_nonce")
    )
    assert data.endswith(expected("device_ct"))
    assert len(data) == device_key.FILE_BYTES
    again = device_key.parse(data, given("vault"), given("install"), expected("device_wrap"))
    assert again == key


def test_anchor_and_its_keyring_copy() -> None:
    anchor = Anchor(
        identity=Identity(given("vault"), given("install"), given("device")),
        progress=Progress(
            INPUTS["generation"], INPUTS["own_seq"], INPUTS["n"], INPUTS["min_epoch"]
        ),
        last_auth=INPUTS["last_auth"],
        own_head=given("own_head"),
        global_head=given("global_head"),
        roster_hash=given("roster_hash"),
    )
    key = expected("anchor_mac_key")
    assert anchor.body() == expected("anchor_body")
    assert anchor.encode(key) == expected("anchor_body") + expected("anchor_mac")
    assert parse_anchor(anchor.encode(key), key) == anchor
    assert anchor.keyring_copy() == expected("keyring_copy")
    copy = parse_keyring_copy(anchor.keyring_copy())
    assert copy is not None
    assert copy.progress == anchor.progress
    assert copy.names(anchor)
