"""Does the owner's grant cover exactly this row, now, for this server? Pure (sync.md 6, T61)."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Final

from memory_manager.security.gate import Surface, may_recall
from memory_manager.sync.errors import MalformedMessage
from memory_manager.sync.server.errors import ClassPolicyBroken
from memory_manager.sync.server.index.errors import GrantReason, GrantRefused
from memory_manager.sync.wire import canonical, labels
from memory_manager.sync.wire.canonical import hex_bytes
from memory_manager.sync.wire.envelope import is_indexable
from memory_manager.sync.wire.grants import SignedGrant, grant_fits, read_grant
from memory_manager.sync.wire.index_document import IndexDocument, document_hash, read_document
from memory_manager.sync.wire.log import signature_verifies
from memory_manager.sync.wire.roster import Member

_MEMBERS: Final = frozenset({"grant", "sig_device", "sig_grant", "document"})


@dataclasses.dataclass(frozen=True, slots=True)
class Offered:
    """One row as it came in; ``document`` are the exact bytes."""

    signed: SignedGrant
    document: bytes = dataclasses.field(repr=False)


def read_offer(body: Mapping[str, Any]) -> Offered:
    """The parsed body of ``POST /v1/index/rows``; GrantRefused(MALFORMED) for another form.

    ClassPolicyBroken when the grant is for a row of the vault class, before anything else of it is
    looked at.
    """
    grant = body.get("grant")
    record = grant.get("record") if isinstance(grant, Mapping) else None
    if isinstance(record, str) and _is_vault_record(record):
        raise ClassPolicyBroken
    try:
        if frozenset(body) != _MEMBERS or not isinstance(grant, Mapping):
            raise MalformedMessage
        return Offered(
            SignedGrant(
                read_grant(canonical.encode(grant)),
                hex_bytes(body["sig_device"], labels.SIGNATURE_BYTES),
                hex_bytes(body["sig_grant"], labels.SIGNATURE_BYTES),
            ),
            body["document"].encode(),
        )
    except (MalformedMessage, ValueError, TypeError, AttributeError):
        raise GrantRefused(GrantReason.MALFORMED) from None


def check_offer(
    offered: Offered, *, vault: bytes, member: Member | None, server_key: bytes, now: int
) -> IndexDocument:
    """The document of a row whose grant holds; GrantRefused with the first reason otherwise.

    ``member`` is the session's device in the vault's roster, ``now`` Unix seconds.
    """
    grant, signed = offered.signed.grant, offered.signed
    if not is_indexable(grant.record):
        raise ClassPolicyBroken
    if grant.vault != vault:
        raise GrantRefused(GrantReason.OTHER_VAULT)
    if member is None or not member.is_active or grant.dot.device != member.id:
        raise GrantRefused(GrantReason.OTHER_DEVICE)
    if grant.server != server_key:
        raise GrantRefused(GrantReason.OTHER_SERVER)
    if now >= grant.expires:
        raise GrantRefused(GrantReason.EXPIRED)
    if grant.sha256 != document_hash(offered.document):
        raise GrantRefused(GrantReason.OTHER_BYTES)
    message = labels.GRANT + grant.document()
    if not signature_verifies(message, signed.by_device, member.ed25519):
        raise GrantRefused(GrantReason.DEVICE_SIGNATURE)
    if not signature_verifies(message, signed.by_owner, member.grant):
        raise GrantRefused(GrantReason.OWNER_SIGNATURE)
    fits = grant_fits(
        signed,
        vault=vault,
        member=member,
        server_key=server_key,
        record=grant.record,
        dot=grant.dot,
        shown=offered.document,
        now=now,
    )
    if not fits:  # the wire's own rule has the last word
        raise GrantRefused(GrantReason.MALFORMED)
    return _document(offered)


def _document(offered: Offered) -> IndexDocument:
    try:
        document = read_document(offered.document)
    except MalformedMessage:
        raise GrantRefused(GrantReason.MALFORMED) from None
    places = (document.bucket, document.path, document.memory_type, document.scope or "")
    if any("\x00" in text for text in places):  # no column of text holds one
        raise GrantRefused(GrantReason.MALFORMED)
    if offered.signed.grant.fields != document.fields:
        raise GrantRefused(GrantReason.OTHER_FIELDS)
    decision = may_recall(document.envelope, document.gate_metadata, Surface.SERVER)
    if not decision.allowed:
        raise GrantRefused(GrantReason.NOT_OPTED_IN)
    return document


def _is_vault_record(text: str) -> bool:
    try:
        return not is_indexable(hex_bytes(text, labels.ID_BYTES))
    except ValueError:
        return False
