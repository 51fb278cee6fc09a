"""The exit: the one function that sends a memory's text, and the calls that send none.

``send_row`` takes nothing but a VerifiedGrant, hashes the bytes again, lets the sanitizer read them
again, and has its audit entry on the disk before a byte leaves. Contract: sync.md 6.4.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from memory_manager.base.identifiers import MemoryId
from memory_manager.sync.errors import MalformedMessage
from memory_manager.sync.optin.errors import GrantBroken, OptInBlocked
from memory_manager.sync.optin.index_client import IndexClient, Session
from memory_manager.sync.optin.verified import VerifiedGrant
from memory_manager.sync.wire import canonical
from memory_manager.sync.wire.envelope import is_indexable
from memory_manager.sync.wire.index_document import document_hash, read_document
from memory_manager.sync.wire.index_findings import blocking_rules
from memory_manager.vault import audit
from memory_manager.vault.settings import personal_data

if TYPE_CHECKING:
    from memory_manager.vault.store import Store
    from memory_manager.vault.transaction import Transaction


async def send_row(
    store: Store,
    session: Session,
    granted: VerifiedGrant,
    memory_id: MemoryId,
    now: Callable[[], int],
) -> None:
    """Send one opted-in row in plaintext to ``/v1/index``; ``now`` gives Unix seconds.

    GrantBroken when the bytes are not those of the grant or its time is over; OptInBlocked, with an
    audit entry of rule ids, when they hold something credential-shaped. The errors of the client.
    """
    if type(granted) is not VerifiedGrant:
        raise TypeError("only a verified grant lets a row leave")
    grant, document = granted.grant, granted.document
    fresh = now() < grant.expires and is_indexable(grant.record)
    if not fresh or document_hash(document) != grant.sha256:
        raise GrantBroken
    try:
        parsed = read_document(document)
    except MalformedMessage:
        raise GrantBroken from None
    if parsed.fields != grant.fields:
        raise GrantBroken
    personal = await store.read(personal_data)
    rules = await asyncio.to_thread(blocking_rules, parsed, document, personal)
    if rules:
        await store.write(lambda transaction: _note_blocked(transaction, memory_id, rules))
        raise OptInBlocked(rules)
    await store.write(lambda transaction: _note_sending(transaction, memory_id, grant.record))
    offer = {
        "grant": canonical.decode(grant.document()),
        "sig_device": granted.signed.by_device.hex(),
        "sig_grant": granted.signed.by_owner.hex(),
        "document": document.decode(),
    }
    await IndexClient(session).put_row(offer)


async def take_back(session: Session, record: bytes) -> None:
    """Remove a row from the server."""
    await IndexClient(session).delete_row(record)


async def list_records(session: Session) -> Mapping[str, Any]:
    """Which rows the server says it holds."""
    return await IndexClient(session).records()


async def ask_index(session: Session, query: str, limit: int) -> Mapping[str, Any]:
    """What the server's index finds for a query that the owner typed for it: ids and scores."""
    return await IndexClient(session).search(query, limit)


async def issue_token(session: Session, name: str, days: int) -> Mapping[str, Any]:
    """Access for one hosted agent; the token stands in this answer only."""
    return await IndexClient(session).issue_token(name, days)


async def list_tokens(session: Session) -> Mapping[str, Any]:
    return await IndexClient(session).tokens()


async def revoke_token(session: Session, token_id: str) -> None:
    await IndexClient(session).revoke_token(token_id)


def _note_sending(transaction: Transaction, memory_id: MemoryId, record: bytes) -> None:
    audit.record(transaction, "opt_in.sending", memory_id, None, {"record": record.hex()})


def _note_blocked(transaction: Transaction, memory_id: MemoryId, rules: tuple[str, ...]) -> None:
    audit.record(transaction, "opt_in.blocked", memory_id, None, {"rules": list(rules)})
