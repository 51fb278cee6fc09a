"""What the routes of one server process share."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Awaitable, Callable, Sequence

from memory_manager.base.times import now_ms
from memory_manager.sync.server.call import Route
from memory_manager.sync.server.metrics import Metrics
from memory_manager.sync.server.rate_limits import PerMinute
from memory_manager.sync.server.rosters import Rosters
from memory_manager.sync.server.server_key import ServerKey
from memory_manager.sync.server.settings import ServerSettings
from memory_manager.sync.server.storage import Storage
from memory_manager.sync.server.tickets import Tickets
from memory_manager.sync.server.waiters import Waiters
from memory_manager.sync.wire.log import ServerHead


class SyncHost:
    """Settings, storage, keys and limits; ``public_host`` is known once the port is.

    ``clock_ms`` is wall time in milliseconds; tests give their own.
    """

    def __init__(
        self,
        settings: ServerSettings,
        storage: Storage,
        key: ServerKey,
        *,
        version: str,
        clock_ms: Callable[[], int] = now_ms,
    ) -> None:
        quotas = settings.quotas
        self.settings = settings
        self.storage = storage
        self.key = key
        self.version = version
        self.clock_ms = clock_ms
        self.public_host = settings.public_name(settings.listen.port)
        self.tickets = Tickets(key)
        self.rosters = Rosters(storage)
        self.metrics = Metrics()
        self.waiters = Waiters(quotas.notify_per_device)
        self.entries = PerMinute(quotas.entries_per_minute)
        self.requests = PerMinute(quotas.requests_per_minute)
        self.logins = PerMinute(quotas.logins_per_minute)
        self.mails = PerMinute(quotas.mailboxes_per_minute)
        self.mounts: list[Mount] = []

    def head_json(self, vault: bytes, head: ServerHead) -> dict[str, object]:
        """A head with the server's signature, as JSON answers carry it."""
        signature = self.key.sign_head(vault, head.n, head.g)
        return {"n": head.n, "g": head.g.hex(), "signature": signature.hex()}


@dataclasses.dataclass(frozen=True, slots=True)
class Mount:
    """Routes of another part of the server, such as the index of opted-in rows.

    ``delete_vault`` removes all that the part keeps of a vault; it is called before the vault
    itself is deleted, perhaps twice, and also for a vault the part never heard of.
    ``class_refused`` takes vault and device of a push with a row of a wrong class, for an audit
    entry beside those of the part's own refusals.
    """

    routes: Sequence[Route]
    delete_vault: Callable[[bytes], Awaitable[None]]
    class_refused: Callable[[bytes, bytes], Awaitable[None]]


MountFactory = Callable[[SyncHost], contextlib.AbstractAsyncContextManager[Mount]]
"""A part of the server, to be given to ``run.run_server``: a function that takes the host and gives
an async context manager of its Mount, open while the server runs.

Each handler of its routes gets a ``Call``: ``call.session`` (vault and device, for routes with
``Access.SESSION``, which were checked before), ``call.body`` read up to the route's
``max_body_bytes``, ``call.json()``, ``call.host`` with storage, ``rosters.current(vault)`` (the
verified roster, for signatures of grants) and ``key.public``. Refusals are raised as subclasses of
``refusals.Refused`` with a ``wire_code`` of ``answers.STATUS_OF_CODE``. Routes that take another
credential use ``Access.OWN`` and check it themselves. No id, token or text goes into a log.
"""
