"""What of an opted-in row leaves as plaintext: one canonical document, hashed as it is (sync.md 6).

The owner's grant names its members and the hash of its exact bytes. The security envelope is one of
them, so that the owner signs how the copy may be recalled, too.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Mapping
from typing import Any, Final

from memory_manager.security.envelope import (
    OPT_IN_KEY,
    EncryptionState,
    RetrievalVisibility,
    SecurityEnvelope,
    SecurityMode,
    parse_envelope,
)
from memory_manager.security.errors import InvalidEnvelope
from memory_manager.sync.errors import MalformedMessage
from memory_manager.sync.wire import canonical
from memory_manager.sync.wire.canonical import is_count

MAX_DOCUMENT_BYTES: Final = 524_288

OPTED_IN: Final = SecurityEnvelope(
    SecurityMode.VAULT,
    EncryptionState.PLAINTEXT,
    RetrievalVisibility.SERVER_RETRIEVABLE,
    server_embeddings_enabled=True,
    server_content_search_enabled=False,
)
"""The envelope of an opted-in copy; the vault row itself keeps its own (redaction.md 11.3)."""

_ENVELOPE: Final = "security_envelope"
_TEXTS: Final = ("bucket", "content", "memory_type", "path")
_OPTIONAL_TEXTS: Final = ("agent_id", "agent_instance_id_hash", "scope")
_TIMES: Final = ("created_at_ms", "updated_at_ms")
_REQUIRED: Final = frozenset({*_TEXTS, *_TIMES, "tags", _ENVELOPE, OPT_IN_KEY})


@dataclasses.dataclass(frozen=True, slots=True)
class IndexDocument:
    """Times are UTC milliseconds; ``opted_in`` is the owner's flag, ``envelope`` what it allows."""

    content: str = dataclasses.field(repr=False)
    path: str = dataclasses.field(repr=False)
    bucket: str
    memory_type: str
    created_at_ms: int
    updated_at_ms: int
    tags: tuple[str, ...] = dataclasses.field(default=(), repr=False)
    scope: str | None = None
    agent_id: str | None = None
    agent_instance_id_hash: str | None = None
    envelope: SecurityEnvelope = OPTED_IN
    opted_in: bool = True

    def members(self) -> dict[str, Any]:
        """The JSON object; absent labels have no member."""
        found: dict[str, Any] = {name: getattr(self, name) for name in (*_TEXTS, *_TIMES)}
        for name in _OPTIONAL_TEXTS:
            if (text := getattr(self, name)) is not None:
                found[name] = text
        found["tags"] = list(self.tags)
        found[_ENVELOPE] = self.envelope.as_json()
        found[OPT_IN_KEY] = self.opted_in
        return found

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of all members, sorted, as a grant lists them."""
        return tuple(sorted(self.members()))

    def encode(self) -> bytes:
        """The exact bytes; MalformedMessage for text that has no UTF-8 form."""
        return canonical.encode(self.members())

    @property
    def gate_metadata(self) -> Mapping[str, object]:
        """What of the metadata the retrieval gate asks for."""
        return {OPT_IN_KEY: self.opted_in}


def document_hash(document: bytes) -> bytes:
    """SHA-256 of the exact bytes, 32 bytes."""
    return hashlib.sha256(document).digest()


def read_document(document: bytes) -> IndexDocument:
    """The document of its exact bytes; MalformedMessage for anything we would write otherwise."""
    if len(document) > MAX_DOCUMENT_BYTES:
        raise MalformedMessage
    members = canonical.decode(document)
    names = set(members)
    if not _REQUIRED <= names <= _REQUIRED | set(_OPTIONAL_TEXTS):
        raise MalformedMessage
    texts = [members[name] for name in (*_TEXTS, *_OPTIONAL_TEXTS) if name in members]
    tags, envelope = members["tags"], members[_ENVELOPE]
    well_formed = (
        all(isinstance(text, str) for text in texts)
        and all(is_count(members[name]) for name in _TIMES)
        and isinstance(tags, list)
        and all(isinstance(tag, str) for tag in tags)
        and isinstance(envelope, dict)
        and isinstance(members[OPT_IN_KEY], bool)
    )
    if not well_formed:
        raise MalformedMessage
    try:
        parsed = parse_envelope(envelope)
    except InvalidEnvelope:
        raise MalformedMessage from None
    if envelope != parsed.as_json():
        raise MalformedMessage
    named = (*_TEXTS, *_TIMES, *_OPTIONAL_TEXTS)
    return IndexDocument(
        **{name: members[name] for name in named if name in members},
        tags=tuple(tags),
        envelope=parsed,
        opted_in=members[OPT_IN_KEY],
    )
