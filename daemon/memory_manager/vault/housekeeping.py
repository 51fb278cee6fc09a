"""What an open vault does for itself once a day: empty the trash, forget old idempotency keys and
old audit entries.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from memory_manager.vault import audit, erasure, idempotency

if TYPE_CHECKING:
    from memory_manager.vault.transaction import Transaction

_PURGED_PER_RUN = 200
_SWEPT_PER_RUN = 1_000


@dataclasses.dataclass(frozen=True, slots=True)
class Tidied:
    """Counts of one run; ``more`` says that another run at once has work to do."""

    destroyed_memories: int
    swept_keys: int
    swept_audit_entries: int
    more: bool


def tidy(transaction: Transaction) -> Tidied:
    """One bounded unit of work for the writer; run it again while ``more``."""
    destroyed = erasure.purge_trash(transaction, limit=_PURGED_PER_RUN)
    swept = idempotency.sweep(transaction, limit=_SWEPT_PER_RUN)
    entries = audit.sweep(transaction, limit=_SWEPT_PER_RUN)
    more = destroyed == _PURGED_PER_RUN or _SWEPT_PER_RUN in (swept, entries)
    return Tidied(destroyed, swept, entries, more)
