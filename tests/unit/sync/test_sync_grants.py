"""A grant covers one revision, these bytes, this server, until it expires (sync.md 6, T61)."""

from __future__ import annotations

import dataclasses
import hashlib
import random
from typing import Any

import pytest
from sync_world import Founded, Keys

from memory_manager.sync.errors import MalformedMessage
from memory_manager.sync.wire import canonical
from memory_manager.sync.wire.enrolment import (
    Invitation,
    NewKeys,
    newcomer_fits,
    read_invitation,
    sign_possession,
    welcome_fits,
    welcome_mac,
)
from memory_manager.sync.wire.envelope import Dot
from memory_manager.sync.wire.grants import (
    Grant,
    SignedGrant,
    grant_fits,
    read_grant,
    sign_grant,
)

VAULT = Founded(random.Random(5))
OTHER: Keys = VAULT.add()
RECORD, DOT, SHOWN, SERVER = b"\x91" * 16, Dot(VAULT.first.id, 4), b"what was shown", b"\x05" * 32
GRANT = Grant(
    VAULT.vault,
    RECORD,
    DOT,
    hashlib.sha256(SHOWN).digest(),
    ("content", "tags"),
    SERVER,
    b"\x06" * 16,
    1_764_500_000,
)
SIGNED = sign_grant(GRANT, VAULT.first.signing, VAULT.first.grant)


def _fits(signed: SignedGrant = SIGNED, **changes: Any) -> bool:
    given: dict[str, Any] = {
        "vault": VAULT.vault,
        "member": VAULT.roster.members[VAULT.first.id],
        "server_key": SERVER,
        "record": RECORD,
        "dot": DOT,
        "shown": SHOWN,
        "now": 1_764_499_999,
        **changes,
    }
    return grant_fits(signed, **given)


def test_the_grant_of_this_revision_fits() -> None:
    assert _fits()
    assert read_grant(GRANT.document()) == GRANT


@pytest.mark.parametrize(
    "changes",
    [
        {"now": 1_764_500_000},
        {"shown": b"something else"},
        {"server_key": b"\x07" * 32},
        {"vault": b"\x07" * 16},
        {"record": b"\x92" * 16},
        {"dot": Dot(VAULT.first.id, 5)},
        {"member": VAULT.roster.members[OTHER.id]},
        {"member": dataclasses.replace(VAULT.roster.members[VAULT.first.id], cut=3)},
    ],
    ids=[
        "expired",
        "other-bytes",
        "other-server",
        "other-vault",
        "other-row",
        "new-revision",
        "device",
        "revoked",
    ],
)
def test_it_fits_nothing_else(changes: dict[str, Any]) -> None:
    assert not _fits(**changes)


def test_both_signatures_are_needed() -> None:
    one_key = sign_grant(GRANT, VAULT.first.signing, VAULT.first.signing)
    foreign = sign_grant(GRANT, VAULT.first.signing, OTHER.grant)
    swapped = SignedGrant(GRANT, SIGNED.by_owner, SIGNED.by_device)
    for signed in (one_key, foreign, swapped):
        assert not _fits(signed)


def test_a_device_grants_revisions_of_its_own_alone() -> None:
    dot = Dot(OTHER.id, 4)
    grant = dataclasses.replace(GRANT, dot=dot)
    signed = sign_grant(grant, VAULT.first.signing, VAULT.first.grant)
    assert not _fits(signed, dot=dot)


def test_a_row_of_the_vault_class_can_have_no_grant() -> None:
    record = b"\x11" * 16
    grant = dataclasses.replace(GRANT, record=record)
    signed = sign_grant(grant, VAULT.first.signing, VAULT.first.grant)
    assert not _fits(signed, record=record)


def test_other_spellings_of_a_grant_are_refused() -> None:
    raw = GRANT.document()
    for changed in (raw.replace(b":", b": ", 1), raw[:-1], raw.replace(b"expires", b"expiry")):
        with pytest.raises(MalformedMessage):
            read_grant(changed)


@pytest.mark.parametrize(
    "members",
    [
        {"expires": "never"},
        {"expires": True},
        {"fields": [1]},
        {"fields": "content"},
        {"record": ""},
        {"nonce": "06"},
        {"dot": 7},
        {"v": 2},
    ],
    ids=lambda members: "-".join(members),
)
def test_a_grant_with_members_of_another_form_is_refused(members: dict[str, Any]) -> None:
    document = {**canonical.decode(GRANT.document()), **members}
    with pytest.raises(MalformedMessage):
        read_grant(canonical.encode(document))


# -- enrolment (T63)

KEYS = NewKeys(
    OTHER.id,
    OTHER.signing.verify_key.encode(),
    OTHER.box.public_key.encode(),
    OTHER.grant.verify_key.encode(),
)
INVITATION = Invitation(b"\x0a" * 16, KEYS.hash, b"\x0b" * 16, "https://sync.example.org")
POSSESSION = sign_possession(KEYS, INVITATION.mailbox, OTHER.signing)


def test_a_newcomer_is_the_one_of_the_string() -> None:
    assert newcomer_fits(INVITATION, KEYS, POSSESSION)
    swapped = dataclasses.replace(KEYS, x25519=VAULT.first.box.public_key.encode())
    assert not newcomer_fits(INVITATION, swapped, POSSESSION)
    assert not newcomer_fits(INVITATION, KEYS, POSSESSION[::-1])
    elsewhere = dataclasses.replace(INVITATION, mailbox=b"\x0c" * 16)
    assert not newcomer_fits(elsewhere, KEYS, POSSESSION)


def test_a_welcome_needs_the_secret_of_the_string() -> None:
    nonce, box, ed, x = b"\x01" * 24, b"sealed", b"\x02" * 32, b"\x03" * 32
    mac = welcome_mac(INVITATION, nonce, box, ed, x)
    assert welcome_fits(INVITATION, nonce, box, ed, x, mac)
    guessed = dataclasses.replace(INVITATION, secret=bytes(16))
    assert not welcome_fits(guessed, nonce, box, ed, x, mac)
    for other in ((nonce, b"forged", ed, x), (nonce, box, x, ed), (nonce[1:], box, ed, x)):
        assert not welcome_fits(INVITATION, *other, mac)


@pytest.mark.parametrize("damage", ["mlk2:", "", "mlk1:", "mlk1:AAAA", "mlk1:ü"])
def test_damaged_strings_are_refused(damage: str) -> None:
    with pytest.raises(MalformedMessage):
        read_invitation(damage)
    text = INVITATION.text()
    for changed in (text + "=", text.replace("mlk1:", "mlk1: "), text[:40]):
        with pytest.raises(MalformedMessage):
            read_invitation(changed)


def test_no_secret_is_in_what_is_printed() -> None:
    assert INVITATION.secret.hex() not in repr(INVITATION)
    assert repr(INVITATION.secret)[2:-1] not in repr(INVITATION)
