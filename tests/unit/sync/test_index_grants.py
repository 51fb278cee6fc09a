"""Only what the owner's grant covers is stored: every other offer is refused (sync.md 6, T61)."""

from __future__ import annotations

import dataclasses
import hashlib
from typing import Any

import pytest
from index_world import NOW, IndexWorld, document_of, offer_of

from memory_manager.security.envelope import (
    VAULT_DEFAULT,
    EncryptionState,
    RetrievalVisibility,
    SecurityEnvelope,
    SecurityMode,
)
from memory_manager.security.redact.sanitize import Personal
from memory_manager.sync.errors import MalformedMessage
from memory_manager.sync.server.errors import ClassPolicyBroken
from memory_manager.sync.server.index.errors import GrantReason, GrantRefused
from memory_manager.sync.server.index.verification import check_offer, read_offer
from memory_manager.sync.wire import canonical
from memory_manager.sync.wire.envelope import Dot
from memory_manager.sync.wire.index_document import (
    OPTED_IN,
    IndexDocument,
    document_hash,
    read_document,
)
from memory_manager.sync.wire.index_findings import blocking_rules

SERVER = b"\x05" * 32
WORLD = IndexWorld(SERVER)
STRANGER = WORLD.vault.add()
DOCUMENT = document_of("the staging database is falcon-stg")
MEMBER = WORLD.vault.roster.members[WORLD.device.id]


def _check(body: dict[str, Any], **changes: Any) -> IndexDocument:
    given: dict[str, Any] = {
        "vault": WORLD.vault.vault,
        "member": MEMBER,
        "server_key": SERVER,
        "now": NOW,
        **changes,
    }
    return check_offer(read_offer(body), **given)


def test_what_the_owner_granted_is_taken() -> None:
    assert _check(WORLD.offer(DOCUMENT)) == DOCUMENT


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"expires": NOW}, GrantReason.EXPIRED),
        ({"sha256": b"\x01" * 32}, GrantReason.OTHER_BYTES),
        ({"server": b"\x06" * 32}, GrantReason.OTHER_SERVER),
        ({"vault": b"\x07" * 16}, GrantReason.OTHER_VAULT),
        ({"dot": Dot(STRANGER.id, 1)}, GrantReason.OTHER_DEVICE),
        ({"fields": ("content",)}, GrantReason.OTHER_FIELDS),
    ],
    ids=["expired", "hash", "server-key", "vault", "dot", "fields"],
)
def test_a_grant_for_something_else_is_refused(
    changes: dict[str, Any], reason: GrantReason
) -> None:
    with pytest.raises(GrantRefused) as refused:
        _check(WORLD.offer(DOCUMENT, **changes))
    assert refused.value.reason is reason


def test_both_keys_must_have_signed() -> None:
    grant, raw = WORLD.grant(DOCUMENT), DOCUMENT.encode()
    ours = WORLD.device
    for device, owner, reason in (
        (ours.signing, ours.signing, GrantReason.OWNER_SIGNATURE),
        (ours.grant, ours.grant, GrantReason.DEVICE_SIGNATURE),
        (ours.signing, STRANGER.grant, GrantReason.OWNER_SIGNATURE),
        (STRANGER.signing, ours.grant, GrantReason.DEVICE_SIGNATURE),
    ):
        with pytest.raises(GrantRefused) as refused:
            _check(offer_of(WORLD.sign(grant, device, owner), raw))
        assert refused.value.reason is reason


@pytest.mark.parametrize(
    "member",
    [None, dataclasses.replace(MEMBER, cut=3), WORLD.vault.roster.members[STRANGER.id]],
    ids=["stranger", "revoked", "another-device"],
)
def test_the_session_is_that_of_the_device_that_granted(member: Any) -> None:
    with pytest.raises(GrantRefused) as refused:
        _check(WORLD.offer(DOCUMENT), member=member)
    assert refused.value.reason is GrantReason.OTHER_DEVICE


def test_a_row_of_the_vault_class_breaks_the_policy_whatever_else_is_wrong() -> None:
    for body in (
        WORLD.offer(DOCUMENT, record=b"\x11" * 16),
        {"grant": {"record": "11" * 16}},
        {"grant": {"record": "11" * 16}, "document": "plain text"},
    ):
        with pytest.raises(ClassPolicyBroken):
            _check(body)


def test_a_flipped_class_bit_makes_no_grant_of_a_vault_row() -> None:
    """T27 at the index: the bit is part of what both keys signed."""
    signed = WORLD.sign(WORLD.grant(DOCUMENT, record=b"\x11" * 16))
    body = offer_of(signed, DOCUMENT.encode())
    with pytest.raises(ClassPolicyBroken):
        _check(body)
    flipped = {**body, "grant": {**body["grant"], "record": "91" + "11" * 15}}
    with pytest.raises(GrantRefused) as refused:
        _check(flipped)
    assert refused.value.reason is GrantReason.DEVICE_SIGNATURE


def test_other_bytes_under_a_good_grant_are_refused() -> None:
    body = WORLD.offer(DOCUMENT)
    other = document_of("the staging database is eagle-stg").encode().decode()
    for document in (other, body["document"] + " ", body["document"].replace(":", ": ", 1)):
        with pytest.raises(GrantRefused) as refused:
            _check({**body, "document": document})
        assert refused.value.reason is GrantReason.OTHER_BYTES


@pytest.mark.parametrize(
    "change",
    [
        {"grant": None},
        {"sig_device": "00"},
        {"sig_grant": None},
        {"document": 7},
        {"document": "\ud800"},
        {"extra": 1},
    ],
    ids=["grant", "short-signature", "no-signature", "number", "surrogate", "extra"],
)
def test_another_form_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises(GrantRefused) as refused:
        _check({**WORLD.offer(DOCUMENT), **change})
    assert refused.value.reason is GrantReason.MALFORMED


@pytest.mark.parametrize(
    ("envelope", "opted_in"),
    [
        (OPTED_IN, False),
        (VAULT_DEFAULT, True),
        (dataclasses.replace(OPTED_IN, server_embeddings_enabled=False), True),
        (
            SecurityEnvelope(
                SecurityMode.VAULT,
                EncryptionState.PLAINTEXT,
                RetrievalVisibility.NOT_RETRIEVABLE,
                server_embeddings_enabled=False,
                server_content_search_enabled=False,
            ),
            True,
        ),
    ],
    ids=["flag-alone-missing", "local-only", "no-embeddings", "not-retrievable"],
)
def test_a_row_that_the_server_gate_would_drop_is_not_taken(
    envelope: SecurityEnvelope, opted_in: bool
) -> None:
    document = document_of("x", envelope=envelope, opted_in=opted_in)
    with pytest.raises(GrantRefused) as refused:
        _check(WORLD.offer(document))
    assert refused.value.reason is GrantReason.NOT_OPTED_IN


def test_a_document_reads_back_as_written_and_in_no_other_spelling() -> None:
    document = document_of("Köln 安装", scope="s", agent_instance_id_hash="sha256:" + "0" * 64)
    raw = document.encode()
    assert read_document(raw) == document
    assert document_hash(raw) == hashlib.sha256(raw).digest()
    members = canonical.decode(raw)
    spoiled: list[dict[str, Any]] = [
        {**members, "score": 1},
        {**members, "tags": "ops"},
        {**members, "created_at_ms": -1},
        {**members, "content": None},
        {**members, "vault_semantic_index_opt_in": 1},
        {**members, "security_envelope": {**OPTED_IN.as_json(), "more": True}},
        {**members, "security_envelope": {"security_mode": "vault"}},
        {name: value for name, value in members.items() if name != "path"},
    ]
    for changed in spoiled:
        with pytest.raises(MalformedMessage):
            read_document(canonical.encode(changed))
    with pytest.raises(MalformedMessage):
        read_document(b" " + raw)


def test_credentials_anywhere_in_a_document_block_it() -> None:
    secret = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5"
    for document in (
        document_of(f"token={secret}"),
        document_of("clean", path=f"notes/{secret}"),
        document_of("clean", tags=("ops", secret)),
        document_of("clean", agent_id=secret),
    ):
        assert blocking_rules(document, document.encode())
    clean = document_of(
        "the staging database is falcon-stg", agent_instance_id_hash="sha256:" + "a1" * 32
    )
    assert blocking_rules(clean, clean.encode()) == ()


def test_the_owners_contact_data_blocks_only_where_the_owner_has_it_taken_out() -> None:
    document = document_of("write to maria.keller@keller-handel.de about the invoice")
    raw = document.encode()
    assert blocking_rules(document, raw) == ()
    assert blocking_rules(document, raw, Personal(contact=True))
