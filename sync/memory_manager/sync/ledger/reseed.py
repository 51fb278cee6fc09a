"""The original batches behind a row number, for a server that lost them (sync.md 9.5 ROLLBACK)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from memory_manager.sync.ledger.outbox import Batch

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection


def batches_after(connection: Connection, n: int) -> Iterator[Batch]:
    """Whole batches of one author each, in the order of the log, from position ``n`` + 1 on.

    Rows whose sealed copy was forgotten have an empty BODY and a WRAP of zeros.
    """
    raise NotImplementedError
