"""The pure parts of the sync engine: what a code asks, waiting times, rosters, proofs."""

from __future__ import annotations

import dataclasses
import json
import math
import random

import pytest
from sync_world import Device, Founded, Server, new_keys

from memory_manager.sync.engine import evidence
from memory_manager.sync.engine.advice import (
    Finding,
    Reaction,
    RoundStopped,
    advice,
    finding_of,
    reaction,
)
from memory_manager.sync.engine.backoff import Backoff, blurred
from memory_manager.sync.engine.errors import SyncServerRefused, SyncUnreachable
from memory_manager.sync.engine.evidence import Path, SignedPath, at_once, verify_evidence
from memory_manager.sync.engine.rosters import changes, newer_entries
from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.wire.framing import Signed
from memory_manager.sync.wire.log import Checkpoint, sign_checkpoint
from memory_manager.sync.wire.roster import Operation


@pytest.mark.parametrize("code", list(SyncCode))
def test_every_code_has_a_sentence_of_advice(code: SyncCode) -> None:
    sentence = advice(code.value)
    assert sentence.endswith(".")
    assert len(sentence) < 200


@pytest.mark.parametrize(
    ("reason", "status", "expected", "kind"),
    [
        ("FORK", 409, "FORK", Reaction.RETRY),
        ("REVOKED_DEVICE", 403, "REVOKED_DEVICE", Reaction.RETRY),
        ("CLASS_POLICY", 422, "CLASS_POLICY", Reaction.RETRY),
        ("GAP", 412, "GAP", Reaction.AGAIN),
        ("RATE", 429, "RATE", Reaction.AGAIN),
        ("QUOTA", 507, "QUOTA", Reaction.AGAIN),
        ("TOO_LARGE", 413, "TOO_LARGE", Reaction.AGAIN),
        ("SESSION_EPOCH", 401, "SESSION_EPOCH", Reaction.AGAIN),
        ("MALFORMED", 422, "SERVER_REFUSED", Reaction.RETRY),
        ("FORBIDDEN", 403, "SERVER_REFUSED", Reaction.RETRY),
        ("NOT_FOUND", 404, "SERVER_REFUSED", Reaction.AGAIN),
        ("INTERNAL", 500, "SERVER_REFUSED", Reaction.AGAIN),
        ("ENROL_AGAIN", 403, "SERVER_REFUSED", Reaction.RETRY),
        ("CONNECTION_UNUSABLE", 500, "SERVER_REFUSED", Reaction.AGAIN),
        ("OFFLINE", 403, "SERVER_REFUSED", Reaction.RETRY),
    ],
)
def test_what_a_refusal_of_the_server_means(
    reason: str, status: int, expected: str, kind: Reaction
) -> None:
    found = finding_of(SyncServerRefused(reason, status, retry_after_seconds=3.0))
    assert (found.code, found.reaction) == (expected, kind)


def test_what_other_ends_of_a_round_mean() -> None:
    offline = finding_of(SyncUnreachable(retry_after_seconds=9.0))
    assert offline.is_offline
    assert not offline.stops
    assert offline.retry_after_seconds == 9.0
    refused = finding_of(SyncRefused(SyncCode.CHAIN_BREAK, device=bytes(16), n=4))
    assert (refused.code, refused.device, refused.n) == ("CHAIN_BREAK", bytes(16), 4)
    assert refused.stops
    given = Finding("BREAKER", Reaction.ASK)
    assert finding_of(RoundStopped(given)) is given
    assert finding_of(RuntimeError("boom")).reaction is Reaction.AGAIN
    assert reaction("EQUIVOCATION") is Reaction.FINAL


def test_waiting_grows_to_fifteen_minutes_with_full_jitter() -> None:
    backoff = Backoff(random.Random(1))
    ceilings = [min(900.0, 2.0**k) for k in range(14)]
    for ceiling in ceilings:
        assert 0.0 <= backoff.next() <= ceiling
    late = [backoff.next() for _ in range(200)]
    assert max(late) > 800.0
    assert min(late) < 100.0
    assert backoff.next(3600.0) == 3600.0
    backoff.succeeded()
    assert backoff.next() <= 1.0


def test_a_write_waits_by_chance_and_more_writes_do_not_hasten_it() -> None:
    source = random.Random(1)
    drawn = [blurred(math.inf, 10.0, 60.0, source) for _ in range(300)]
    assert 10.0 <= min(drawn) < 15.0
    assert 65.0 < max(drawn) <= 70.0
    due = drawn[0]
    assert all(blurred(due, 10.0 + write, 60.0, source) == due for write in range(300))
    assert blurred(math.inf, 10.0, 0.0, source) == 10.0
    assert blurred(3.0, 10.0, 60.0, source) == 3.0


def _grown() -> Founded:
    world = Founded(random.Random(3))
    world.add()
    world.add()
    return world


def test_a_roster_grows_shrinks_or_forks() -> None:
    world = _grown()
    chain = tuple(world.chain)
    assert newer_entries(chain[:1], chain) == chain[1:]
    assert newer_entries(chain, chain) == ()
    with pytest.raises(SyncRefused) as refused:
        newer_entries(chain, chain[:2])
    assert (refused.value.reason, refused.value.n) == (SyncCode.ROLLBACK, 1)
    other = Founded(random.Random(3))
    other.add(), other.add()
    forked = (*chain[:2], other.entry("leave", other.first))
    with pytest.raises(SyncRefused) as refused:
        newer_entries(chain, forked)
    assert (refused.value.reason, refused.value.n) == (SyncCode.ROSTER_FORK, 2)


def test_only_changes_by_others_are_named_and_leaving_is_harmless() -> None:
    world = Founded(random.Random(4))
    second = world.add()
    world.amend("leave", second)
    found = changes(tuple(world.chain[1:]), world.first.id)
    assert [(change.op, change.is_harmless) for change in found] == [(Operation.LEAVE, True)]
    seen = changes(tuple(world.chain[1:]), second.id)
    assert [(change.op, change.by, change.target) for change in seen] == [
        (Operation.ADD, world.first.id, second.id)
    ]
    assert not seen[0].is_harmless


@dataclasses.dataclass
class Case:
    world: Founded
    server: Server
    device: Device


def _two_histories() -> tuple[Case, Case]:
    """One server key, one vault, two devices that were shown different rows."""
    world = Founded(random.Random(9))
    second = world.add()
    server, lying = Server(world.vault, world.source), Server(world.vault, world.source)
    lying.key = server.key
    cases = []
    for keys, its in ((world.first, server), (second, lying)):
        device = Device(world, keys, server.public_key)
        for _ in range(3):
            device.write(b"\x01" + world.source.randbytes(15), "text")
        device.push(its)
        device.pull(its)
        cases.append(Case(world, its, device))
    return cases[0], cases[1]


def test_two_heads_of_one_position_are_a_proof() -> None:
    one, two = _two_histories()
    key = one.server.public_key
    document = evidence.two_heads(
        one.world.vault, key, at_once(one.server.head(3)), at_once(two.server.head(3))
    )
    shown = json.loads(json.dumps(document))
    assert verify_evidence(shown)
    assert verify_evidence(shown, server_key=key)
    assert not verify_evidence(shown, server_key=bytes(32))
    same = evidence.two_heads(
        one.world.vault, key, at_once(one.server.head(3)), at_once(one.server.head(3))
    )
    assert not verify_evidence(same)


def test_a_head_about_a_later_position_proves_with_the_entries_between() -> None:
    one, two = _two_histories()
    steps = tuple((row.entry.device, row.entry.head) for row in one.server.rows[1:])
    path = SignedPath(one.server.head(3), Path(1, one.server.global_heads[1], steps))
    document = evidence.two_heads(
        one.world.vault, one.server.public_key, path, at_once(two.server.head(1))
    )
    assert verify_evidence(document)
    broken = SignedPath(one.server.head(3), Path(1, one.server.global_heads[1], steps[::-1]))
    assert not verify_evidence(
        evidence.two_heads(
            one.world.vault, one.server.public_key, broken, at_once(two.server.head(1))
        )
    )


def test_a_checkpoint_of_another_device_is_a_proof() -> None:
    one, two = _two_histories()
    said = two.device.checkpoint()
    key = two.device.keys.signing.verify_key.encode()
    document = evidence.head_and_checkpoint(
        one.world.vault, one.server.public_key, at_once(one.server.head(3)), said, key
    )
    assert verify_evidence(document, device_keys=[key])
    assert not verify_evidence(document, device_keys=[bytes(32)])
    forged = dataclasses.replace(said.value, g=bytes(32))
    stranger = new_keys(random.Random(1))
    for signer, claimed in ((stranger.signing, key), (two.device.keys.signing, bytes(32))):
        lie: Signed[Checkpoint] = Signed(forged, sign_checkpoint(signer, forged))
        assert not verify_evidence(
            evidence.head_and_checkpoint(
                one.world.vault, one.server.public_key, at_once(one.server.head(3)), lie, claimed
            )
        )


@pytest.mark.parametrize("name", ["v", "kind", "vault", "server_key", "n", "heads"])
def test_a_malformed_document_proves_nothing(name: str) -> None:
    one, two = _two_histories()
    document = evidence.two_heads(
        one.world.vault,
        one.server.public_key,
        at_once(one.server.head(3)),
        at_once(two.server.head(3)),
    )
    for value in (None, "x", -1, 1 << 70, [], {}):
        assert not verify_evidence({**document, name: value})
    assert not verify_evidence({key: document[key] for key in document if key != name})
