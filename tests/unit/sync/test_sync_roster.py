"""The roster is its chain: who may sign what, and what a server cannot do to it (sync.md 7.1)."""

from __future__ import annotations

import dataclasses
import json
import random
from typing import Any

import pytest
from sync_world import Founded, Keys, new_keys

from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.wire.roster import SignedEntry, found, sign_entry, vault_id


@pytest.fixture
def vault() -> Founded:
    return Founded(random.Random(3))


def _refusal(vault: Founded, *entries: SignedEntry) -> SyncCode:
    with pytest.raises(SyncRefused) as caught:
        vault.roster.verify(entries)
    return caught.value.reason


def _cut(target: Keys, epoch: dict[str, Any]) -> dict[str, Any]:
    return {
        "target": target.id.hex(),
        "cut_seq": 4,
        "cut_head": bytes(32).hex(),
        "epoch": epoch,
    }


def _next_epoch(vault: Founded) -> dict[str, Any]:
    epoch = vault.roster.epoch + 1
    vault.vrk.setdefault(epoch, vault.source.randbytes(32))
    return vault.epoch_document(epoch)


def test_devices_join_rotate_and_leave(vault: Founded) -> None:
    second = vault.add()
    third = vault.add(by=second)
    vault.amend("rotate", third, epoch=_next_epoch(vault))
    vault.revoke(second, third, 4, bytes(32))
    vault.amend("leave", third)
    assert vault.roster.epoch == 3
    assert set(vault.roster.key_ids) == {1, 2, 3}
    assert {member.id for member in vault.roster.active()} == {vault.first.id, vault.paper.id}
    assert vault.roster.members[second.id].cut == 4
    # the whole chain verifies again from its genesis, as a new device does it
    again = found(vault.chain[0], vault.vault).verify(tuple(vault.chain[1:]))
    assert again == vault.roster


def test_the_paper_device_adds_and_revokes_but_does_not_rotate(vault: Founded) -> None:
    replacement = vault.add(by=vault.paper)
    assert _refusal(vault, vault.entry("rotate", vault.paper, epoch=_next_epoch(vault))) is (
        SyncCode.ROSTER_FORK
    )
    vault.revoke(vault.first, vault.paper, 9, bytes(32))
    assert {m.id for m in vault.roster.active()} == {replacement.id, vault.paper.id}


def test_a_lost_log_is_closed_by_its_device(vault: Founded) -> None:
    successor = new_keys(vault.source)
    vault.amend(
        "fork_close",
        vault.first,
        target=vault.first.id.hex(),
        last_seq=12,
        last_head=bytes(32).hex(),
        new_device=successor.public(),
    )
    assert vault.roster.members[vault.first.id].cut == 12
    assert vault.roster.members[successor.id].is_active


def test_a_new_grant_key_is_the_devices_own_act(vault: Founded) -> None:
    second = vault.add()
    key = second.grant.verify_key.encode().hex()
    vault.amend("grant_key", vault.first, target=vault.first.id.hex(), grant=key)
    assert vault.roster.members[vault.first.id].grant.hex() == key
    foreign = vault.entry("grant_key", vault.first, target=second.id.hex(), grant=key)
    assert _refusal(vault, foreign) is SyncCode.UNKNOWN_DEVICE
    for odd in ("00", key.upper(), 7, None):
        short = vault.entry("grant_key", vault.first, target=vault.first.id.hex(), grant=odd)
        assert _refusal(vault, short) is SyncCode.ROSTER_FORK


def test_strangers_and_revoked_devices_change_nothing(vault: Founded) -> None:
    """T31, T32: an extra device, a revoked one that adds, rotates or revokes."""
    stranger, newcomer = new_keys(vault.source), new_keys(vault.source)
    by_stranger = vault.entry("add", stranger, device=newcomer.public())
    assert _refusal(vault, by_stranger) is SyncCode.UNKNOWN_DEVICE
    posing = dataclasses.replace(stranger, id=vault.first.id)
    in_anothers_name = vault.entry("add", posing, device=newcomer.public())
    assert _refusal(vault, in_anothers_name) is SyncCode.UNKNOWN_DEVICE

    second = vault.add()
    vault.revoke(second, vault.first, 4, bytes(32))
    for entry in (
        vault.entry("add", second, device=newcomer.public()),
        vault.entry("rotate", second, epoch=_next_epoch(vault)),
        vault.entry("revoke", second, **_cut(vault.first, _next_epoch(vault))),
        vault.entry("leave", second),
    ):
        assert _refusal(vault, entry) is SyncCode.REVOKED_DEVICE


def test_nobody_revokes_himself_or_the_unknown_or_twice(vault: Founded) -> None:
    second = vault.add()
    for target in (vault.first, new_keys(vault.source)):
        entry = vault.entry("revoke", vault.first, **_cut(target, _next_epoch(vault)))
        assert _refusal(vault, entry) is SyncCode.UNKNOWN_DEVICE
    vault.revoke(second, vault.first, 4, bytes(32))
    again = vault.entry("revoke", vault.first, **_cut(second, _next_epoch(vault)))
    assert _refusal(vault, again) is SyncCode.UNKNOWN_DEVICE


def test_reordered_old_and_shortened_chains(vault: Founded) -> None:
    """T31: the server leaves one out, shows two in another order, or one twice."""
    start = vault.roster
    vault.add()
    vault.add()
    vault.amend("leave", vault.first)
    chain = vault.chain[1:]
    for shown in (
        [chain[1], chain[0]],
        [chain[0], chain[2]],
        [chain[0], chain[0]],
        [chain[1]],
        [vault.chain[0]],
    ):
        with pytest.raises(SyncRefused) as caught:
            start.verify(tuple(shown))
        assert caught.value.reason is SyncCode.ROSTER_FORK


def test_two_entries_with_one_predecessor(vault: Founded) -> None:
    """T64: the second of two is refused on the chain of the first."""
    second = vault.add()
    rival = vault.entry("rotate", second, epoch=_next_epoch(vault))
    vault.amend("rotate", vault.first, epoch=_next_epoch(vault))
    assert _refusal(vault, rival) is SyncCode.ROSTER_FORK


def test_epochs_do_not_jump_or_repeat(vault: Founded) -> None:
    for epoch in (1, 3):
        vault.vrk[epoch] = bytes([epoch]) * 32
        entry = vault.entry("rotate", vault.first, epoch=vault.epoch_document(epoch))
        assert _refusal(vault, entry) is SyncCode.ROSTER_FORK


def test_another_genesis_is_another_vault(vault: Founded) -> None:
    """A server cannot substitute a roster: the id commits to the first entry."""
    other = Founded(random.Random(4))
    with pytest.raises(SyncRefused):
        found(other.chain[0], vault.vault)
    genesis = {
        "v": 1,
        "idx": 0,
        "prev": bytes(32).hex(),
        "op": "genesis",
        "by": vault.first.id.hex(),
        "at_seq": 0,
        "vault": vault.vault.hex(),
        "device": vault.first.public(),
        "epoch": vault.epoch_document(1),
    }
    assert vault_id(genesis) != vault.vault  # without the paper device
    with pytest.raises(SyncRefused):
        found(sign_entry(genesis, vault.first.signing), vault.vault)


@pytest.mark.parametrize(
    "change",
    [
        {"v": 2},
        {"op": "promote"},
        {"idx": 1.5},
        {"idx": True},
        {"at_seq": -1},
        {"extra": 1},
        {"by": "FF" * 16},
        {"by": 7},
        {"device": {}},
        {"device": []},
        {"prev": "00"},
    ],
    ids=lambda change: f"{next(iter(change))}={next(iter(change.values()))}",
)
def test_malformed_entries_are_refused(vault: Founded, change: dict[str, Any]) -> None:
    made = vault.entry("add", vault.first, device=new_keys(vault.source).public())
    document = {**json.loads(made.document), **change}
    raw = json.dumps(document, sort_keys=True, separators=(",", ":")).encode()
    forged = SignedEntry(raw, vault.first.signing.sign(b"mlk-roster-v1" + raw).signature)
    with pytest.raises(SyncRefused):
        vault.roster.verify((forged,))
