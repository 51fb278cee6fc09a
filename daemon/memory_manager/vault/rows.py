"""What one memory is: the current row, a proposed row, a change, and who wrote it.

Contract: xmemo.md 6.2, 6.5, 12, 13, 15; vault.md 8.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Any

from memory_manager.auth.agent_identity import AgentIdentity
from memory_manager.base.identifiers import CredentialId, MemoryId
from memory_manager.security.envelope import SecurityEnvelope

JsonValue = Any
"""A value ``json.loads`` can return."""

MAX_CONTENT_CHARACTERS = 100_000
MAX_METADATA_BYTES = 65_536
DEFAULT_BUCKET = "public"


class MemoryType(enum.StrEnum):
    """Exactly five; there is no sensitive type (xmemo.md 13)."""

    EPISODIC = "episodic"
    SEMANTIC = "semantic"
    PROCEDURAL = "procedural"
    WORKING = "working"
    IDENTITY = "identity"


class RecordKind(enum.StrEnum):
    """What a record is. All kinds share ids, versions and the write path (xmemo.md 4.8)."""

    MEMORY = "memory"
    STATE = "state"
    EVENT = "event"
    REMINDER = "reminder"
    DECISION = "decision"
    SNAPSHOT = "snapshot"
    EXPENSE = "expense"


RECALLED_KINDS = (RecordKind.MEMORY, RecordKind.STATE)
"""What search, context and memory lists show; every kind answers by its id."""


class RowStatus(enum.StrEnum):
    """``deleted`` rows are out of every reply until restored; ``redacted`` rows stay readable."""

    ACTIVE = "active"
    DELETED = "deleted"
    REDACTED = "redacted"


class WriteStatus(enum.StrEnum):
    CREATED = "created"
    UPDATED = "updated"
    DEDUPLICATED = "deduplicated"
    DELETED = "deleted"
    REDACTED = "redacted"
    RESTORED = "restored"
    UNCHANGED = "unchanged"


class ForgetMode(enum.StrEnum):
    SOFT_DELETE = "soft_delete"
    HARD_DELETE = "hard_delete"
    REDACT = "redact"


@dataclasses.dataclass(frozen=True, slots=True)
class Attribution:
    """Who wrote: client-asserted labels plus the credential that really authorized the write."""

    identity: AgentIdentity
    credential_id: CredentialId | None = None
    client: str | None = None  # the name the owner gave to the credential


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryRow:
    """The current version of one memory, as stored. Times are UTC milliseconds."""

    rowid: int
    id: MemoryId
    version: int
    content: str = dataclasses.field(repr=False)
    path: str = dataclasses.field(repr=False)
    bucket: str
    scope: str | None
    memory_type: MemoryType
    status: RowStatus
    importance: float | None
    confidence: float | None
    source: str | None
    metadata: Mapping[str, JsonValue] = dataclasses.field(repr=False)
    provenance: Mapping[str, JsonValue] = dataclasses.field(repr=False)
    semantic_key: str | None
    expires_at_ms: int | None
    created_at_ms: int
    updated_at_ms: int
    writer: Attribution  # of this version
    envelope: SecurityEnvelope
    redactions: tuple[str, ...]  # rule ids that fired when this version was written
    ruleset_version: str
    kind: RecordKind = RecordKind.MEMORY
    item: Mapping[str, JsonValue] = dataclasses.field(default_factory=dict, repr=False)
    in_conflict: bool = False  # another device wrote something else at the same time


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryDraft:
    """A row somebody wants to store, before the sanitizer saw it."""

    content: str = dataclasses.field(repr=False)
    path: str = dataclasses.field(repr=False)
    bucket: str = DEFAULT_BUCKET
    scope: str | None = None
    memory_type: MemoryType | None = None  # None: the store decides ("auto")
    importance: float | None = None
    confidence: float | None = None
    source: str | None = None
    metadata: Mapping[str, JsonValue] = dataclasses.field(default_factory=dict, repr=False)
    provenance: Mapping[str, JsonValue] = dataclasses.field(default_factory=dict, repr=False)
    semantic_key: str | None = None
    expires_at_ms: int | None = None
    dedupe: bool = False
    created_at_ms: int | None = None  # only importers set it
    id: MemoryId | None = None  # only importers set it; an id that exists is refused by the store
    kind: RecordKind = RecordKind.MEMORY
    item: Mapping[str, JsonValue] = dataclasses.field(default_factory=dict, repr=False)


class Unset(enum.Enum):
    """Tells "leave as it is" from "set to nothing" in a change."""

    UNSET = "unset"


UNSET = Unset.UNSET


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryChange:
    """A partial update; fields left UNSET keep their value."""

    content: str | Unset = dataclasses.field(default=UNSET, repr=False)
    path: str | Unset = dataclasses.field(default=UNSET, repr=False)
    bucket: str | Unset = UNSET
    scope: str | Unset | None = UNSET
    memory_type: MemoryType | Unset = UNSET
    importance: float | Unset | None = UNSET
    confidence: float | Unset | None = UNSET
    source: str | Unset | None = UNSET
    metadata: Mapping[str, JsonValue] | Unset = dataclasses.field(default=UNSET, repr=False)
    provenance: Mapping[str, JsonValue] | Unset = dataclasses.field(default=UNSET, repr=False)
    merge_metadata: bool = False
    merge_provenance: bool = False
    semantic_key: str | Unset | None = UNSET
    expires_at_ms: int | Unset | None = UNSET
    item: Mapping[str, JsonValue] | Unset = dataclasses.field(default=UNSET, repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class WriteOutcome:
    """What a write did, and the row it left (for a deletion: the deleted version)."""

    status: WriteStatus
    row: MemoryRow


@dataclasses.dataclass(frozen=True, slots=True)
class SkippedCapture:
    """Captured content that was not kept; ``rules`` are the ids that fired."""

    rules: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class MemoryVersion:
    """One immutable version of a memory; ``content`` is None when a redaction removed it."""

    version: int
    status: RowStatus
    content: str | None = dataclasses.field(repr=False)
    path: str = dataclasses.field(repr=False)
    memory_type: MemoryType
    metadata: Mapping[str, JsonValue] = dataclasses.field(repr=False)
    writer: Attribution
    written_at_ms: int
    action: WriteStatus
    reason: str | None = dataclasses.field(repr=False)
    bucket: str = DEFAULT_BUCKET
    scope: str | None = None
    importance: float | None = None
    confidence: float | None = None
    source: str | None = None
    provenance: Mapping[str, JsonValue] = dataclasses.field(default_factory=dict, repr=False)
    semantic_key: str | None = None
    expires_at_ms: int | None = None
    kind: RecordKind = RecordKind.MEMORY  # of the record: it never changes
    item: Mapping[str, JsonValue] = dataclasses.field(default_factory=dict, repr=False)
    ruleset_version: str = ""


@dataclasses.dataclass(frozen=True, slots=True)
class ImportedVersion:
    """One version of an archived memory; the labels of its writer are the archive's."""

    action: WriteStatus
    draft: MemoryDraft  # its own id, dedupe and created_at_ms are not looked at
    writer: Attribution
    written_at_ms: int
    status: RowStatus = RowStatus.ACTIVE
    reason: str | None = dataclasses.field(default=None, repr=False)
    erased: bool = False  # a redaction had removed its text; ``draft.content`` is not looked at
