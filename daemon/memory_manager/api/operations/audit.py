"""What was done to records and by whom; ids, action codes and counts, never a text (6.9)."""

from __future__ import annotations

from collections.abc import Mapping

from sqlcipher3.dbapi2 import Connection

from memory_manager.api.calls import Call
from memory_manager.api.item_requests import list_limit
from memory_manager.api.operations.answer import Answer, answer
from memory_manager.api.parsing import Fields
from memory_manager.base.times import rfc3339
from memory_manager.service.daemon import Daemon
from memory_manager.vault import audit
from memory_manager.vault.audit import AuditEvent


async def list_audit_events(daemon: Daemon, call: Call, arguments: Mapping[str, object]) -> Answer:
    """``events``, newest first. Agents see what happened to records; the owner sees all."""
    fields = Fields.of_query(arguments)
    action, target_id = fields.filter_text("action"), fields.filter_text("target_id")
    since, until = fields.time_bounds()
    limit = list_limit(fields)
    fields.check()

    def read(connection: Connection) -> list[AuditEvent]:
        look = audit.events if call.caller.is_owner else audit.record_events
        return look(
            connection,
            action=action,
            target_id=target_id,
            since_ms=since,
            until_ms=until,
            limit=limit,
        )

    found = await daemon.store().read(read)
    return answer({"events": [event_json(event) for event in found]})


async def audit_consolidation(
    daemon: Daemon, _call: Call, arguments: Mapping[str, object]
) -> Answer:
    """Nothing merges memories here by itself, so the list is always empty."""
    fields = Fields.of_query(arguments)
    fields.time_bounds()
    fields.check()
    daemon.store()
    return answer({"actions": [], "events": [], "total": 0})


def event_json(event: AuditEvent) -> dict[str, object]:
    """One entry; ``agent_id`` and ``client`` are labels of who did it."""
    actor = event.actor
    return {
        "id": str(event.number),
        "action": event.action,
        "target_id": event.target_id,
        "created_at": rfc3339(event.at_ms),
        "agent_id": actor.identity.agent_id if actor else None,
        "client": actor.client if actor else None,
        "detail": dict(event.detail),
    }
