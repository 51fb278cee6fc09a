"""A part of a unit of work that may be refused without undoing the rest of it."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import TYPE_CHECKING

from memory_manager.base.errors import MemlocketError
from memory_manager.vault.connection import is_write_failure

if TYPE_CHECKING:
    from memory_manager.vault.transaction import Transaction


@contextlib.contextmanager
def all_or_nothing(transaction: Transaction) -> Generator[None]:
    """What the database, the vault's rules or a value refuse inside leaves no trace: neither rows
    nor what was to follow COMMIT. The error goes on; one of the disk ends the whole unit.
    """
    import sqlcipher3.dbapi2 as sqlcipher

    connection = transaction.connection
    callbacks, mark = len(transaction.callbacks), transaction.mark
    connection.execute("SAVEPOINT part")
    try:
        yield
        connection.execute("RELEASE part")
    except (MemlocketError, sqlcipher.IntegrityError, ValueError) as error:
        if is_write_failure(error) or not connection.in_transaction:
            raise
        connection.execute("ROLLBACK TO part")
        connection.execute("RELEASE part")
        del transaction.callbacks[callbacks:]
        transaction.mark = mark  # the anchor must not name a log that was undone
        raise
