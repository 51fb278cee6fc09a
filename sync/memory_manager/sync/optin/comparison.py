"""Does the server hold exactly what is opted in? It may have been set back to an older state.

A row that was taken back and is there again is removed again; one that should be there and is not
leaves here, too, and waits for the owner. Contract: sync.md 6.5.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from memory_manager.sync.optin import grants_of_copies, table
from memory_manager.sync.optin.hits import record_of
from memory_manager.sync.optin.table import OptedIn, OptInState

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

_EVER: Final = "SELECT 1 FROM revision WHERE hex(substr(record, 1, 1)) >= '80' LIMIT 1"


@dataclasses.dataclass(frozen=True, slots=True)
class Difference:
    """``returned`` were taken back and are there; ``lost`` are opted in, were sent by this device,
    and are not there. Rows we do not know may be another device's newest: they are left alone.
    """

    returned: tuple[bytes, ...]
    lost: tuple[OptedIn, ...]


def was_ever_used(connection: Connection) -> bool:
    """Whether any device of this vault ever opted anything in."""
    return connection.execute(_EVER).fetchone() is not None


def compare(connection: Connection, said: Mapping[str, Any]) -> Difference | None:
    """What the server's list and ours disagree about; None for an answer that is no list."""
    listed = said.get("records")
    if not isinstance(listed, list):
        return None
    there = {record for text in cast("list[object]", listed) if (record := record_of(text))}
    leaving = {row.record for row in table.listed(connection, (OptInState.LEAVING,))}
    returned = {r for r in there - leaving if grants_of_copies.was_taken_back(connection, r)}
    lost = [row for row in table.listed(connection, (OptInState.SENT,)) if row.record not in there]
    return Difference(tuple(sorted(returned)), tuple(lost))
