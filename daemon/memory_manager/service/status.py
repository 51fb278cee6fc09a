"""What ``status`` says: states, codes, versions, sizes; never a text of a memory (vault.md 14)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlcipher3.dbapi2 import Connection

from memory_manager.base.errors import MemlocketError
from memory_manager.base.times import now_ms, rfc3339
from memory_manager.vault import credentials, queries
from memory_manager.vault.filters import RowFilter

if TYPE_CHECKING:
    from memory_manager.service.daemon import Daemon


async def daemon_status(daemon: Daemon, *, with_counts: bool) -> dict[str, object]:
    """The whole status; counts of memories and agents only for a caller who may know them."""
    found: dict[str, object] = {
        "status": "ok",
        "daemon": _process(daemon),
        "vault": daemon.vault_json(),
        "embeddings": daemon.recall.status(),
        "sanitizer": daemon.cleaning.status(),
        "approvals": {"auto_approve": daemon.settings.auto_approve},
        "sync": daemon.sync.status(),
    }
    if with_counts:
        found["approvals"] = {
            "auto_approve": daemon.settings.auto_approve,
            "waiting": len(daemon.logins.desk.pending()),
        }
        found["counts"] = await _counts(daemon)
        await daemon.crashes_were_shown()
    return found


def _process(daemon: Daemon) -> dict[str, object]:
    history = daemon.crashes
    return {
        **({} if daemon.addresses is None else daemon.addresses.as_json()),
        "uptime_seconds": (now_ms() - daemon.started_at_ms) // 1000,
        "safe_mode": daemon.settings.safe_mode,
        "last_crash": None
        if not history.times_ms
        else {
            "at": rfc3339(history.times_ms[-1]),
            "error": history.error,
            "version": history.version,
            "unread": history.unread,
        },
    }


async def _counts(daemon: Daemon) -> dict[str, int] | None:
    def read(connection: Connection) -> dict[str, int]:
        issued = credentials.list_credentials(connection)
        return {
            "memories": queries.count_rows(connection, RowFilter(), now_ms()),
            "agents": sum(1 for credential in issued if credential.revoked_at_ms is None),
            "awaiting_destruction": queries.count_awaiting_destruction(connection),
        }

    store = daemon.lifecycle.peek()  # looking at the status must not keep an idle vault open
    try:
        return None if store is None else await store.read(read)
    except MemlocketError:
        return None
