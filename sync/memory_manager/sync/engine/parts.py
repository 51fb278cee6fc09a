"""What every step of a round works with: the open vault, the server, and the verified roster."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING

from memory_manager.sync.engine.client import SyncClient
from memory_manager.sync.engine.device_secrets import DeviceSecrets
from memory_manager.sync.ledger import roster_log, state
from memory_manager.sync.ledger.journal import SyncJournal
from memory_manager.sync.wire.roster import Roster

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.memories import Memories
    from memory_manager.vault.store import Store


@dataclasses.dataclass(frozen=True, slots=True)
class Progress:
    """What a long round is doing; ``total`` is as known now. Phases: seal, pull, push, reseed."""

    phase: str
    done: int
    total: int

    def as_json(self) -> dict[str, object]:
        return dataclasses.asdict(self)


class RosterCache:
    """The verified roster of the stored chain; verified again only when that moved on."""

    def __init__(self) -> None:
        self._roster: Roster | None = None

    def at(self, connection: Connection) -> Roster:
        """LookupError while sync is off."""
        head = state.require(connection).roster_hash
        roster = self._roster
        if roster is None or roster.head != head:
            roster = roster_log.load(connection)
            if roster is None:
                raise LookupError("sync is off")
            self._roster = roster
        return roster


@dataclasses.dataclass(frozen=True, slots=True)
class Parts:
    """``flush_anchor`` blocks until the anchor is on the disk; ``tell`` hears of progress."""

    store: Store
    client: SyncClient
    secrets: DeviceSecrets
    memories: Memories
    journal: SyncJournal
    flush_anchor: Callable[[], None]
    tell: Callable[[Progress | None], None]
    roster: RosterCache = dataclasses.field(default_factory=RosterCache)
    asked_again: set[int] = dataclasses.field(default_factory=set[int])
    """Positions of rows whose WRAP was asked for once more since the vault was opened."""
