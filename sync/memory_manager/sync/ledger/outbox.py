"""Own entries that no verified server head covers, in batches that never change once formed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from memory_manager.sync.wire.framing import MAX_PUSH_BYTES, MAX_PUSH_ROWS, LogRow, Signed
from memory_manager.sync.wire.log import Checkpoint

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction


@dataclasses.dataclass(frozen=True, slots=True)
class Batch:
    """Rows for one push with the signed checkpoint of their author."""

    checkpoint: Signed[Checkpoint]
    rows: tuple[LogRow, ...]


def next_batch(
    transaction: Transaction,
    sign: Callable[[Checkpoint], bytes],
    *,
    max_rows: int = MAX_PUSH_ROWS,
    max_bytes: int = MAX_PUSH_BYTES,
) -> Batch | None:
    """The oldest unacknowledged rows; None when there are none or the device must enrol again.

    The batch's end and checkpoint are stored with the first call: until it is acknowledged every
    further call gives the same bytes. ``sign`` is ``wire.log.sign_checkpoint`` with our key.
    """
    raise NotImplementedError


def count(connection: Connection) -> int:
    """How many own entries wait."""
    raise NotImplementedError
