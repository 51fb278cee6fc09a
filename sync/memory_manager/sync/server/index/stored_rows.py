"""What both storages of the index know: tables, columns, and which revision of a row stands."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from typing import Any, Final

from memory_manager.security.envelope import SecurityEnvelope, read_envelope
from memory_manager.sync.server.index.storage import AgentToken, Candidate, NewRow
from memory_manager.sync.server.index.vectors import unpack_words

VERSION: Final = 1
"""Of the schema; a newer one is not ours to write into."""
LAST_USE_MS: Final = 60_000
"""How much time passes before the use of a token is written down again."""
TABLES: Final = ("index_row", "grant_used", "index_token", "index_audit")
ROW_COLUMNS: Final = (
    "vault, record, device, dot_device, dot_seq, owner_grant, document, security_envelope,"
    " opted_in, bucket, scope, path, memory_type, created_at_ms, updated_at_ms, words, stored_at_ms"
)
CANDIDATE_COLUMNS: Final = (
    "record, security_envelope, opted_in, bucket, scope, path, memory_type, created_at_ms,"
    " updated_at_ms, words"
)
NEW_ACCESS_COLUMNS: Final = "id, vault, digest, name, device, created_at_ms, expires_at_ms"
ACCESS_COLUMNS: Final = "id, vault, name, device, created_at_ms, expires_at_ms, last_used_at_ms"


def row_values(row: NewRow, now_ms: int) -> tuple[object, ...]:
    """What ``ROW_COLUMNS`` hold of a new row."""
    return (
        row.vault,
        row.record,
        row.device,
        row.dot.device,
        row.dot.seq,
        row.grant,
        row.document,
        json.dumps(row.envelope.as_json()),
        row.opted_in,
        row.bucket,
        row.scope,
        row.path,
        row.memory_type,
        row.created_at_ms,
        row.updated_at_ms,
        row.words,
        now_ms,
    )


def access_values(token: AgentToken, digest: bytes) -> tuple[object, ...]:
    """What ``NEW_ACCESS_COLUMNS`` hold of a new token."""
    return (
        token.id,
        token.vault,
        digest,
        token.name,
        token.device,
        token.created_at_ms,
        token.expires_at_ms,
    )


def candidate_of(row: Sequence[Any]) -> Candidate:
    """A candidate of ``CANDIDATE_COLUMNS``."""
    record, envelope, opted_in, bucket, scope, path, kind, created_ms, updated_ms, words = row
    return Candidate(
        bytes(record),
        stored_envelope(envelope),
        bool(opted_in),
        bucket,
        scope,
        path,
        kind,
        created_ms,
        updated_ms,
        unpack_words(words),
    )


@functools.lru_cache(64)
def stored_envelope(text: str) -> SecurityEnvelope:
    """Fails closed: an envelope that cannot be read counts as not retrievable."""
    try:
        members = json.loads(text)
    except ValueError:
        members = {}
    return read_envelope(members if isinstance(members, dict) else {})


def is_newer(row: NewRow, held_device: bytes, held_seq: int, held_document: bytes) -> bool:
    """Whether a row may take the place of what is there. A dot names one revision for ever: with
    the same dot come the same bytes, and a device never goes back to an older one.
    """
    if row.dot.device != held_device or row.dot.seq > held_seq:
        return True
    return row.dot.seq == held_seq and row.document == held_document
