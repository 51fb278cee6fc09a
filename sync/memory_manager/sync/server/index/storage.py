"""What the index keeps, and the interface of its two storages; nothing here knows HTTP.

Every call names the vault: a row, token or audit entry of another one cannot be reached.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Sequence
from typing import Final, Protocol

import numpy as np
import numpy.typing as npt

from memory_manager.security.envelope import SecurityEnvelope
from memory_manager.sync.wire.envelope import Dot

Matrix = npt.NDArray[np.float32]
Words = npt.NDArray[np.uint32]

DEFAULT_MAX_ROWS: Final = 10_000
MAX_AUDIT_ENTRIES: Final = 10_000
"""Per vault; older entries go."""
MAX_TOKENS: Final = 100
"""Living tokens of one vault."""


@dataclasses.dataclass(frozen=True, slots=True)
class NewRow:
    """One verified row. ``document``: the exact bytes; ``words``: of ``vectors.pack_words``."""

    vault: bytes
    record: bytes
    device: bytes
    dot: Dot
    grant: bytes
    nonce: bytes
    expires: int
    document: bytes = dataclasses.field(repr=False)
    envelope: SecurityEnvelope
    opted_in: bool
    bucket: str
    scope: str | None
    path: str = dataclasses.field(repr=False)
    memory_type: str
    created_at_ms: int
    updated_at_ms: int
    words: bytes = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Candidate:
    """A stored row as the search sees it, before the gate; its vectors stay in the storage."""

    record: bytes
    envelope: SecurityEnvelope
    opted_in: bool
    bucket: str
    scope: str | None
    path: str = dataclasses.field(repr=False)
    memory_type: str
    created_at_ms: int
    updated_at_ms: int
    words: Words = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class AgentToken:
    """A hosted agent's access to one vault's opted-in rows; the token itself is not kept."""

    id: str
    vault: bytes
    name: str
    device: bytes
    created_at_ms: int
    expires_at_ms: int
    last_used_at_ms: int | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class AuditEntry:
    """``action`` and ``code`` are codes; ``record`` is a random id."""

    at_ms: int
    action: str
    code: str
    device: bytes | None
    record: bytes | None


class Put(enum.Enum):
    """What became of a row that was to be stored."""

    STORED = "stored"
    UNCHANGED = "unchanged"  # the very same row and grant: a repeated request
    NONCE_USED = "nonce_used"
    OTHER_REVISION = "other_revision"  # older than what is there, or other bytes of the same dot
    FULL = "full"


class Comparing(enum.StrEnum):
    """Who compares vectors, and why it is not the database."""

    DATABASE = "database"
    SQLITE = "sqlite"
    NO_EXTENSION = "no_extension"  # this PostgreSQL has no pgvector
    NOT_CREATED = "not_created"  # it has, and this database does not: our role may not create it


class IndexStorage(Protocol):
    """Coroutines of one event loop; every write is durable when it returns."""

    @property
    def comparing(self) -> Comparing:
        """Who compares vectors, as far as the storage knows."""
        ...

    async def put(self, row: NewRow, now_ms: int, max_rows: int) -> Put:
        """Store or replace a row, with an audit entry; anything but STORED changes nothing."""
        ...

    async def remove(self, vault: bytes, record: bytes, device: bytes) -> bool:
        """Take a row out with all that was derived from it; False when there is none."""
        ...

    async def candidates(self, vault: bytes) -> list[Candidate]:
        """All rows of a vault; the gate is the caller's."""
        ...

    async def meanings(
        self, vault: bytes, model: str, query: Matrix, records: Sequence[bytes]
    ) -> dict[bytes, float]:
        """The cosine of each record's nearest piece, not below 0; rows without a vector of this
        model are left out. ``records`` passed the gate: no other row is compared.
        """
        ...

    async def documents(self, vault: bytes, records: Sequence[bytes]) -> dict[bytes, bytes]:
        """Exact bytes by record; those that are not there are left out."""
        ...

    async def without_vector(self, model: str, limit: int) -> list[tuple[bytes, bytes, bytes]]:
        """``(vault, record, document)`` of rows that lack a vector of this model."""
        ...

    async def put_vector(
        self, vault: bytes, record: bytes, document: bytes, model: str, pieces: Matrix
    ) -> None:
        """Add the vector of a row that still has this document."""
        ...

    async def settle(self, limit: int) -> int:
        """Bring some vectors that were stored otherwise to where they are stored now; how many
        rows that were.
        """
        ...

    async def note(
        self, vault: bytes, device: bytes | None, action: str, code: str, record: bytes | None
    ) -> None:
        """One audit entry."""
        ...

    async def audit(self, vault: bytes, limit: int) -> list[AuditEntry]:
        """Newest first."""
        ...

    async def issue(self, token: AgentToken, digest: bytes) -> bool:
        """Keep a new token's digest, with an audit entry; False when there are too many."""
        ...

    async def tokens(self, vault: bytes, now_ms: int) -> list[AgentToken]:
        """The living ones, oldest first."""
        ...

    async def revoke(self, vault: bytes, token_id: str, device: bytes) -> bool: ...

    async def token_of(self, digest: bytes, now_ms: int) -> AgentToken | None:
        """The living token of a digest, its last use noted (once a minute)."""
        ...

    async def records(self, vault: bytes) -> list[bytes]:
        """The ids of all rows of a vault."""
        ...

    async def delete_vault(self, vault: bytes) -> None:
        """Remove every row of a vault in every table."""
        ...

    async def close(self) -> None: ...
