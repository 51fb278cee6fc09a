"""Opting in as the daemon has it: what the owner sees, approves and takes back.

Agents have ``requests.file_request`` and nothing of this. Contract: sync.md 6, redaction.md 11.
"""

from __future__ import annotations

import asyncio
import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from memory_manager.base.identifiers import MemoryId
from memory_manager.sync.engine.errors import SyncOff
from memory_manager.sync.ledger import roster_log, state
from memory_manager.sync.optin import approval, egress, hits, table, upkeep
from memory_manager.sync.optin.approval import Approval, Preview, Signatures
from memory_manager.sync.optin.delivery import Delivery
from memory_manager.sync.optin.hits import CheckedHits
from memory_manager.sync.optin.owner_signature import owner_key
from memory_manager.sync.optin.table import OptedIn, OptInState, Request
from memory_manager.vault import audit, queries
from memory_manager.vault.rows import Attribution, MemoryRow

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.sync.service import SyncService
    from memory_manager.vault.gate import VaultGate
    from memory_manager.vault.transaction import Transaction


@dataclasses.dataclass(frozen=True, slots=True)
class Listing:
    """What waits for the owner and what is opted in; the memories of both by id, as they are."""

    requests: tuple[Request, ...]
    opted_in: tuple[OptedIn, ...]
    rows: Mapping[MemoryId, MemoryRow] = dataclasses.field(repr=False)


class OptIns:
    """One per daemon; coroutines run on its loop. Everything raises SyncOff without a server."""

    def __init__(self, sync: SyncService, gate: VaultGate) -> None:
        self._sync = sync
        self._gate = gate
        self.delivery = Delivery(sync)
        self._task: asyncio.Task[None] | None = None

    # --- life ---------------------------------------------------------------------------------

    def open(self) -> None:
        """The vault is open, and so is sync, if this vault has it. Called on the loop."""
        # This object owns the task: close() ends it.
        self._task = asyncio.get_running_loop().create_task(self.delivery.run())

    async def close(self) -> None:
        """The vault is being locked."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.wait({task})

    def poke(self) -> None:
        """Something was committed. Cheap, any thread."""
        self.delivery.poke()

    # --- acts of the owner --------------------------------------------------------------------

    async def listing(self) -> Listing:
        """Requests, oldest first, and every copy that is opted in, blocked or on its way out."""

        def read(connection: Connection) -> Listing:
            asked, opted = tuple(table.requests(connection)), tuple(table.listed(connection))
            rows: dict[MemoryId, MemoryRow] = {}
            named = {entry.memory_id for entry in asked} | {entry.memory_id for entry in opted}
            for memory_id in named:
                if (row := queries.get_row(connection, memory_id)) is not None:
                    rows[memory_id] = row
            return Listing(asked, opted, rows)

        return await self._sync.store.read(read)

    async def preview(self, ids: Sequence[MemoryId]) -> Preview:
        """Exactly what would leave; see ``approval.preview``."""
        return await self._sync.store.read(lambda connection: approval.preview(connection, ids))

    async def approve(self, asked: Approval, passphrase: str, actor: Attribution) -> list[OptedIn]:
        """Grant what was shown; the passphrase opens the grant key for this one act.

        WrongPassphrase, NoGrantKey and the refusals of ``approval.approve``: nothing is granted.
        """
        store, secrets = self._sync.store, self._sync.secrets
        if await store.read(state.read) is None:
            raise SyncOff

        def act() -> list[OptedIn]:
            with owner_key(self._gate, passphrase) as owner:
                signatures = Signatures(secrets.signing_key(), owner)
                return store.submit(
                    lambda transaction: approval.approve(
                        transaction, asked, signatures, actor, now=lambda: int(time.time())
                    )
                ).result()

        granted = await asyncio.to_thread(act)
        self._changed()
        return granted

    async def decline(self, ids: Sequence[MemoryId], actor: Attribution) -> list[MemoryId]:
        """Drop requests; what is opted in stays."""

        def work(transaction: Transaction) -> list[MemoryId]:
            gone = [each for each in ids if table.drop_request(transaction, each)]
            for memory_id in gone:
                audit.record(transaction, "opt_in.declined", memory_id, actor)
            return gone

        return await self._sync.store.write(work)

    async def opt_out(self, ids: Sequence[MemoryId], actor: Attribution) -> list[MemoryId]:
        """Take memories back here at once and at the server as soon as it answers."""

        def work(transaction: Transaction) -> list[MemoryId]:
            return upkeep.opt_out(transaction, ids, actor)

        taken = await self._sync.store.write(work)
        self._changed()
        return taken

    async def search(self, query: str, limit: int) -> CheckedHits:
        """What the server's index finds. The query leaves this machine: the owner typed it for
        that. Hits without a grant of ours are dropped, with an alarm.
        """
        said = await egress.ask_index(self._sync.client, query, limit)

        def read(connection: Connection) -> CheckedHits:
            roster = roster_log.load(connection)
            if roster is None:
                raise SyncOff
            return hits.check_hits(connection, roster, said)

        checked = await self._sync.store.read(read)
        if checked.strangers:  # another device may have opted them in a moment ago
            await self._sync.sync_now()
            checked = await self._sync.store.read(read)
        if checked.is_alarming:
            await self._sync.store.write(lambda transaction: hits.raise_alarm(transaction, checked))
        return checked

    # --- hosted agents ------------------------------------------------------------------------

    async def issue_token(self, name: str, days: int, actor: Attribution) -> Mapping[str, Any]:
        """Access for a hosted agent to what is opted in; the token stands in this answer only."""
        issued = await egress.issue_token(self._sync.client, name, days)
        await self._note("opt_in.token_issued", actor)
        return issued

    async def tokens(self) -> Mapping[str, Any]:
        return await egress.list_tokens(self._sync.client)

    async def revoke_token(self, token_id: str, actor: Attribution) -> None:
        await egress.revoke_token(self._sync.client, token_id)
        await self._note("opt_in.token_revoked", actor)

    # --- inside -------------------------------------------------------------------------------

    async def counts(self) -> dict[str, int]:
        """How many requests wait, and how many copies are in each state."""

        def read(connection: Connection) -> dict[str, int]:
            found = {each.value: 0 for each in OptInState}
            for row in table.listed(connection):
                found[row.state.value] += 1
            return {"requests": len(table.requests(connection)), **found}

        return await self._sync.store.read(read)

    async def _note(self, action: str, actor: Attribution) -> None:
        await self._sync.store.write(
            lambda transaction: audit.record(transaction, action, None, actor)
        )

    def _changed(self) -> None:
        self._sync.poke()
        self.delivery.poke()
