"""Roster entries as acts build them, the keys inside, and the letters of an enrolment."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable
from typing import Any

import pytest
from nacl.public import PrivateKey
from nacl.signing import SigningKey

from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.membership import epoch_keys, roster_entries
from memory_manager.sync.membership.errors import EnrolmentRefused
from memory_manager.sync.membership.letters import (
    Greeter,
    Offer,
    Welcome,
    pack_welcome,
    read_offer,
    read_welcome,
)
from memory_manager.sync.membership.roster_entries import (
    PaperDevice,
    Possession,
    Rotation,
    Signer,
    paper_device,
)
from memory_manager.sync.wire import canonical
from memory_manager.sync.wire.enrolment import (
    Invitation,
    NewKeys,
    printable_name,
    read_invitation,
    sign_possession,
)
from memory_manager.sync.wire.framing import Signed
from memory_manager.sync.wire.log import Checkpoint, sign_checkpoint
from memory_manager.sync.wire.roster import Role, Roster, SignedEntry, found
from memory_manager.vault import kdf
from memory_manager.vault.errors import WrongRecoveryWords
from memory_manager.vault.recovery_words import new_entropy, word_list, words_of


@dataclasses.dataclass
class Machine:
    """A device with its secrets."""

    id: bytes = dataclasses.field(default_factory=lambda: os.urandom(16))
    signing: SigningKey = dataclasses.field(default_factory=SigningKey.generate)
    box: PrivateKey = dataclasses.field(default_factory=PrivateKey.generate)

    @property
    def keys(self) -> NewKeys:
        return NewKeys(self.id, bytes(self.signing.verify_key), bytes(self.box.public_key))

    @property
    def signer(self) -> Signer:
        return Signer(self.id, self.signing)

    @property
    def greeter(self) -> Greeter:
        return Greeter(self.keys.ed25519, self.keys.x25519)

    def read(self, chain: list[SignedEntry], roster: Roster) -> dict[int, bytearray]:
        return epoch_keys.collect_keys(chain, roster, self.id, bytes(self.box))


class Shared:
    """A vault of one device, with its paper device; acts append to the chain."""

    def __init__(self) -> None:
        self.a = Machine()
        self.words = words_of(new_entropy())
        self.paper = paper_device(self.words)
        self.vrk = {1: kdf.new_key()}
        self.vault, entry = roster_entries.genesis(
            self.a.signer, self.a.keys, self.paper, self.vrk[1]
        )
        self.chain = [entry]
        self.roster = found(entry, self.vault)

    def take(self, entry: SignedEntry) -> None:
        self.roster = self.roster.verify((entry,))
        self.chain.append(entry)

    def add(self) -> Machine:
        new = Machine()
        self.take(roster_entries.add(self.roster, self.a.signer, new.keys, None))
        return new

    def rotation(self) -> Rotation:
        epoch = self.roster.epoch
        self.vrk[epoch + 1] = kdf.new_key()
        return Rotation(self.vrk[epoch + 1], self.vrk[epoch])

    def revoke(self, target: Machine | PaperDevice, by: Signer | None = None) -> None:
        member = target.id if isinstance(target, Machine) else target.keys.device
        cut = (0, bytes(32))
        signer = by or self.a.signer
        self.take(roster_entries.revoke(self.roster, signer, member, cut, self.rotation()))


@pytest.fixture
def shared() -> Shared:
    return Shared()


def test_the_words_alone_name_the_paper_device_and_open_every_epoch(shared: Shared) -> None:
    b = shared.add()
    shared.revoke(b)
    shared.take(roster_entries.rotate(shared.roster, shared.a.signer, shared.rotation()))
    again = paper_device(" ".join(shared.words).upper())
    member = shared.roster.members[again.keys.device]
    found_keys = epoch_keys.collect_keys(
        shared.chain, shared.roster, again.keys.device, again.box_secret
    )
    assert (member.role, member.ed25519, member.x25519) == (
        Role.RECOVERY,
        again.keys.ed25519,
        again.keys.x25519,
    )
    assert found_keys == shared.vrk


def test_a_mistyped_word_is_no_paper_device(shared: Shared) -> None:
    words = word_list()
    # the last word ends in the checksum, which is then another one for the same entropy
    mistyped = words[words.index(shared.words[-1]) ^ 1]
    with pytest.raises(WrongRecoveryWords):
        paper_device([*shared.words[:-1], mistyped])


def test_without_words_no_key_stands_in_the_genesis() -> None:
    a = Machine()
    vault, entry = roster_entries.genesis(a.signer, a.keys, None, kdf.new_key())
    assert canonical.decode(entry.document)["epoch"]["sealed"] == {}
    assert [member.id for member in found(entry, vault).active()] == [a.id]


def test_a_revoked_device_gets_no_later_key_and_the_others_get_all(shared: Shared) -> None:
    b, c = shared.add(), shared.add()
    shared.revoke(b)
    held = {1: shared.vrk[1]}
    assert c.read(shared.chain, shared.roster) == shared.vrk
    assert epoch_keys.collect_keys(shared.chain, shared.roster, b.id, bytes(b.box), held) == {
        1: shared.vrk[1]
    }
    assert not shared.roster.members[b.id].is_active


def test_what_a_revoked_device_signs_later_is_refused(shared: Shared) -> None:
    b = shared.add()
    shared.revoke(b)
    acts: list[Callable[[], SignedEntry]] = [
        lambda: roster_entries.add(shared.roster, b.signer, Machine().keys, None),
        lambda: roster_entries.rotate(shared.roster, b.signer, shared.rotation()),
        lambda: roster_entries.leave(shared.roster, b.signer),
    ]
    for act in acts:
        with pytest.raises(SyncRefused) as refused:
            shared.roster.verify((act(),))
        assert refused.value.reason is SyncCode.REVOKED_DEVICE


def test_the_paper_device_adds_a_device_and_revokes_the_lost_one(shared: Shared) -> None:
    new = Machine()
    shared.take(roster_entries.add(shared.roster, shared.paper.signer(), new.keys, None))
    shared.revoke(shared.a, by=shared.paper.signer())
    assert {member.id for member in shared.roster.active()} == {new.id, shared.paper.keys.device}
    assert new.read(shared.chain, shared.roster) == shared.vrk


def test_new_words_get_the_present_key_and_the_old_ones_none(shared: Shared) -> None:
    fresh = paper_device(words_of(new_entropy()))
    shared.take(roster_entries.add_paper(shared.roster, shared.a.signer, fresh, shared.vrk[1]))
    shared.revoke(shared.paper)
    found_keys = epoch_keys.collect_keys(
        shared.chain, shared.roster, fresh.keys.device, fresh.box_secret
    )
    old = epoch_keys.collect_keys(
        shared.chain, shared.roster, shared.paper.keys.device, shared.paper.box_secret
    )
    assert found_keys == shared.vrk
    assert old == {1: shared.vrk[1]}


def test_words_added_later_read_the_history(shared: Shared) -> None:
    shared.revoke(shared.paper)
    fresh = paper_device(words_of(new_entropy()))
    shared.take(roster_entries.add_paper(shared.roster, shared.a.signer, fresh, shared.vrk[2]))
    found_keys = epoch_keys.collect_keys(
        shared.chain, shared.roster, fresh.keys.device, fresh.box_secret
    )
    assert found_keys == shared.vrk


def test_a_device_that_lost_its_log_goes_on_under_another_id(shared: Shared) -> None:
    successor = dataclasses.replace(shared.a, id=os.urandom(16))
    shared.take(
        roster_entries.fork_close(shared.roster, shared.a.signer, (7, b"\x07" * 32), successor.keys)
    )
    closed = shared.roster.members[shared.a.id]
    assert (closed.cut, closed.cut_head) == (7, b"\x07" * 32)
    assert shared.roster.members[successor.id].is_active


def test_a_new_grant_key_is_the_signers_own(shared: Shared) -> None:
    shared.take(roster_entries.grant_key(shared.roster, shared.a.signer, b"\x05" * 32))
    assert shared.roster.members[shared.a.id].grant == b"\x05" * 32


@pytest.mark.parametrize("part", ["vault", "epoch", "box"])
def test_a_sealed_key_is_bound_to_vault_epoch_and_receiver(part: str) -> None:
    device, vrk, vault = Machine(), kdf.new_key(), os.urandom(16)
    recipient = epoch_keys.Recipient(device.id, device.keys.x25519)
    sealed = epoch_keys.seal_to(recipient, vault, 3, vrk)
    assert epoch_keys.open_sealed_key(sealed, vault, 3, bytes(device.box)) == vrk
    other = {
        "vault": (sealed, os.urandom(16), 3, bytes(device.box)),
        "epoch": (sealed, vault, 4, bytes(device.box)),
        "box": (sealed, vault, 3, bytes(PrivateKey.generate())),
    }[part]
    with pytest.raises(SyncRefused) as refused:
        epoch_keys.open_sealed_key(*other)
    assert refused.value.reason is SyncCode.WRONG_KEY


def test_a_key_of_another_kid_never_passes_the_gate(shared: Shared) -> None:
    epoch_keys.check_key(shared.roster, 1, shared.vrk[1])
    with pytest.raises(SyncRefused) as refused:
        epoch_keys.collect_keys(
            shared.chain, shared.roster, shared.a.id, bytes(shared.a.box), {1: kdf.new_key()}
        )
    assert refused.value.reason is SyncCode.WRONG_KEY


@dataclasses.dataclass
class Meeting:
    """Both sides of one enrolment, and what they leave for each other."""

    shared: Shared
    newcomer: Machine
    invitation: Invitation

    def offer(self, **changes: Any) -> bytes:
        keys = dataclasses.replace(self.newcomer.keys, **changes)
        signature = sign_possession(keys, self.invitation.mailbox, self.newcomer.signing)
        return Offer(keys, "second laptop", signature).pack()

    def welcome(self, invitation: Invitation | None = None, by: Machine | None = None) -> bytes:
        greeter = by or self.shared.a
        said = Checkpoint(self.shared.vault, greeter.id, 4, b"\x04" * 32, 9, b"\x09" * 32)
        handover = Welcome(
            vault=self.shared.vault,
            epochs=self.shared.vrk,
            roster=self.shared.roster.head,
            server_key=b"\x0c" * 32,
            n=9,
            g=b"\x09" * 32,
            checkpoint=Signed(said, sign_checkpoint(greeter.signing, said)),
            names={greeter.id: "first laptop"},
        )
        return pack_welcome(
            handover,
            invitation or self.invitation,
            greeter.greeter,
            greeter.box,
            self.newcomer.keys.x25519,
        )


@pytest.fixture
def meeting(shared: Shared) -> Meeting:
    newcomer = Machine()
    invitation = Invitation(
        os.urandom(16), newcomer.keys.hash, os.urandom(16), "https://sync.example.org:8443"
    )
    return Meeting(shared, newcomer, invitation)


def test_both_letters_arrive_as_they_were_sent(meeting: Meeting) -> None:
    pasted = read_invitation(f"  {meeting.invitation.text()}\n")
    offer = read_offer(meeting.offer(), pasted)
    greeter, welcome = read_welcome(
        meeting.welcome(pasted), meeting.invitation, meeting.newcomer.box
    )
    assert (offer.keys, offer.name) == (meeting.newcomer.keys, "second laptop")
    assert greeter == meeting.shared.a.greeter
    assert welcome.epochs == meeting.shared.vrk
    assert welcome.names == {meeting.shared.a.id: "first laptop"}
    assert (welcome.vault, welcome.n) == (meeting.shared.vault, 9)


@pytest.mark.parametrize("member", ["device", "ed25519", "x25519", "grant"])
def test_a_swapped_key_in_the_offer_is_refused(meeting: Meeting, member: str) -> None:
    size = 16 if member == "device" else 32
    with pytest.raises(EnrolmentRefused):
        read_offer(meeting.offer(**{member: os.urandom(size)}), meeting.invitation)


def test_an_offer_signed_for_another_mailbox_is_refused(meeting: Meeting) -> None:
    moved = dataclasses.replace(meeting.invitation, mailbox=os.urandom(16))
    with pytest.raises(EnrolmentRefused):
        read_offer(meeting.offer(), moved)


@pytest.mark.parametrize("changed", ["secret", "mailbox", "key_hash"])
def test_a_welcome_made_with_another_string_is_refused(meeting: Meeting, changed: str) -> None:
    size = 32 if changed == "key_hash" else 16
    other = dataclasses.replace(meeting.invitation, **{changed: os.urandom(size)})
    with pytest.raises(EnrolmentRefused):
        read_welcome(meeting.welcome(other), meeting.invitation, meeting.newcomer.box)


@pytest.mark.parametrize("member", ["ed25519", "x25519", "nonce", "box", "mac"])
def test_a_welcome_with_one_swapped_part_is_refused(meeting: Meeting, member: str) -> None:
    letter = json.loads(meeting.welcome())
    raw = bytearray.fromhex(letter[member])
    raw[0] ^= 1
    letter[member] = raw.hex()
    with pytest.raises(EnrolmentRefused):
        read_welcome(canonical.encode(letter), meeting.invitation, meeting.newcomer.box)


def test_a_welcome_for_another_device_is_refused(meeting: Meeting) -> None:
    with pytest.raises(EnrolmentRefused):
        read_welcome(meeting.welcome(), meeting.invitation, PrivateKey.generate())


@pytest.mark.parametrize("letter", [b"", b"{}", b'{"v":2}', b"\xff", b'{"v":1}', b"[" * 65_537])
def test_malformed_letters_are_refused(meeting: Meeting, letter: bytes) -> None:
    with pytest.raises(EnrolmentRefused):
        read_offer(letter, meeting.invitation)
    with pytest.raises(EnrolmentRefused):
        read_welcome(letter, meeting.invitation, meeting.newcomer.box)


@pytest.mark.parametrize(
    ("typed", "shown"),
    [("work\x1b[2J laptop", "work[2J laptop"), ("", "unnamed device"), ("a" * 80, "a" * 64)],
    ids=["escape", "empty", "long"],
)
def test_a_device_name_cannot_drive_a_terminal(typed: str, shown: str) -> None:
    assert printable_name(typed) == shown


def test_an_add_carries_proof_and_mailbox(shared: Shared, meeting: Meeting) -> None:
    offer = read_offer(meeting.offer(), meeting.invitation)
    proof = Possession(offer.possession, meeting.invitation.mailbox)
    shared.take(roster_entries.add(shared.roster, shared.a.signer, offer.keys, proof))
    device = canonical.decode(shared.chain[-1].document)["device"]
    assert device["pop"] == offer.possession.hex()
    assert device["mailbox"] == meeting.invitation.mailbox.hex()
