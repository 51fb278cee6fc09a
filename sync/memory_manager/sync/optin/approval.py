"""The owner looks at exactly what would leave, and grants it: one copy, one grant, one revision.

Everything here runs inside a transaction of the vault. Contract: sync.md 6.1, 6.3, 6.7.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from nacl.signing import SigningKey

from memory_manager.base.errors import InvalidInput, NotFound
from memory_manager.base.identifiers import MemoryId
from memory_manager.sync.engine.errors import SyncOff
from memory_manager.sync.ledger import copies, roster_log, state
from memory_manager.sync.optin import table
from memory_manager.sync.optin.documents import document_of, may_be_opted_in
from memory_manager.sync.optin.errors import (
    NoGrantKey,
    OptInBlocked,
    OptInChanged,
    OptInCountWrong,
)
from memory_manager.sync.optin.grants_of_copies import copy_fields
from memory_manager.sync.optin.table import OptedIn, OptInState
from memory_manager.sync.wire.envelope import Dot
from memory_manager.sync.wire.grants import NONCE_BYTES, Grant, SignedGrant, sign_grant
from memory_manager.sync.wire.index_document import IndexDocument, document_hash
from memory_manager.sync.wire.index_findings import blocking_rules
from memory_manager.vault import audit, queries
from memory_manager.vault.rows import Attribution
from memory_manager.vault.settings import personal_data

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction

TYPED_ABOVE: Final = 50
"""More rows than this at once: the owner types how many."""
SAMPLES: Final = 3
MAX_BATCH: Final = 1_000
GRANT_SECONDS: Final = 7 * 86_400
"""How long a grant may wait to be sent: a machine may be off for some days."""


@dataclasses.dataclass(frozen=True, slots=True)
class Shown:
    """One memory as it would leave; ``rules``: why it would not."""

    memory_id: MemoryId
    document: IndexDocument = dataclasses.field(repr=False)
    rules: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Preview:
    """``digest`` names exactly these rows with exactly these bytes."""

    rows: tuple[Shown, ...]
    digest: str

    @property
    def must_type(self) -> bool:
        return len(self.rows) > TYPED_ABOVE


@dataclasses.dataclass(frozen=True, slots=True)
class Approval:
    """What the owner says yes to: the digest that was shown, and above 50 rows their number."""

    ids: tuple[MemoryId, ...]
    digest: str
    typed_count: int | None


@dataclasses.dataclass(frozen=True, slots=True)
class Signatures:
    """This device's log key and the owner's grant key."""

    device: SigningKey = dataclasses.field(repr=False)
    owner: SigningKey = dataclasses.field(repr=False)


def preview(connection: Connection, ids: Sequence[MemoryId]) -> Preview:
    """What would leave. NotFound for an id that is no live memory; InvalidInput without ids."""
    if not ids or len(set(ids)) != len(ids) or len(ids) > MAX_BATCH:
        raise InvalidInput(f"Name 1 to {MAX_BATCH} different memories.", field="ids")
    personal = personal_data(connection)
    shown: list[Shown] = []
    for memory_id in ids:
        row = queries.get_row(connection, memory_id)
        if row is None or not may_be_opted_in(row):
            raise NotFound
        document = document_of(row)
        rules = blocking_rules(document, document.encode(), personal)
        shown.append(Shown(memory_id, document, rules))
    return Preview(tuple(shown), _digest(shown))


def approve(
    transaction: Transaction,
    approval: Approval,
    signatures: Signatures,
    actor: Attribution,
    *,
    now: Callable[[], int],
) -> list[OptedIn]:
    """Make a copy of each memory and grant it; nothing at all when one of them does not fit.

    OptInChanged when what is there is not what was shown, OptInCountWrong, OptInBlocked, NoGrantKey
    when this device's grant key is not the one its roster names; SyncOff.
    """
    connection = transaction.connection
    if state.read_active(connection) is None:
        raise SyncOff
    seen = preview(connection, approval.ids)
    if seen.digest != approval.digest:
        raise OptInChanged
    if seen.must_type and approval.typed_count != len(seen.rows):
        raise OptInCountWrong(f"Type the number of memories to opt in: {len(seen.rows)}.")
    blocked = sorted({rule for row in seen.rows for rule in row.rules})
    if blocked:
        raise OptInBlocked(blocked)
    _check_keys(connection, signatures)
    return [_grant(transaction, row, signatures, actor, now()) for row in seen.rows]


def _check_keys(connection: Connection, signatures: Signatures) -> None:
    known = roster_log.load(connection)
    member = None if known is None else known.members.get(state.require(connection).device)
    ours = bytes(signatures.owner.verify_key)
    if member is None or not member.is_active or member.grant != ours:
        raise NoGrantKey(
            "The other devices and the server do not know this vault's key for grants.",
            hint="Announce it: memlocket sync grant-key",
        )


def _grant(
    transaction: Transaction, row: Shown, signatures: Signatures, actor: Attribution, now: int
) -> OptedIn:
    connection = transaction.connection
    raw = row.document.encode()
    for earlier in table.of_memory(connection, row.memory_id):
        if earlier.state in table.LIVE:
            leave(transaction, earlier)

    standing = state.require(connection)
    signed: list[SignedGrant] = []

    def describe(record: bytes, dot: Dot) -> dict[str, Any]:
        grant = Grant(
            vault=standing.vault,
            record=record,
            dot=dot,
            sha256=document_hash(raw),
            fields=row.document.fields,
            server=standing.server_key,
            nonce=os.urandom(NONCE_BYTES),
            expires=now + GRANT_SECONDS,
        )
        signed.append(sign_grant(grant, signatures.device, signatures.owner))
        return copy_fields(signed[0])

    copy = copies.seal_copy(transaction, row.memory_id, describe)
    opted = OptedIn(copy.record, row.memory_id, copy.dot, raw, signed[0], OptInState.WAITING)
    table.put(transaction, opted)
    table.drop_request(transaction, row.memory_id)
    detail = {"record": copy.record.hex(), "fields": list(row.document.fields)}
    audit.record(transaction, "opt_in.approved", row.memory_id, actor, detail)
    return opted


def leave(transaction: Transaction, row: OptedIn) -> None:
    """Tombstone a copy and mark it for removal at the server; its bytes and grant go now."""
    copies.retract_copy(transaction, row.record)
    table.put(
        transaction,
        dataclasses.replace(
            row, document=None, signed=None, dot=None, state=OptInState.LEAVING, code=None
        ),
    )


def _digest(rows: Sequence[Shown]) -> str:
    named = [[row.memory_id, document_hash(row.document.encode()).hex()] for row in rows]
    return hashlib.sha256(json.dumps(named, separators=(",", ":")).encode()).hexdigest()
