"""Records beside memories, the ledger, the audit and what skills store (xmemo.md 6.6-6.9)."""

from __future__ import annotations

from typing import Final

from memory_manager.api.calls import Access
from memory_manager.api.operations import (
    audit,
    decisions,
    ledger,
    reminders,
    restart,
    state,
    timeline,
    xsk,
)
from memory_manager.api.reading import reading
from memory_manager.api.routing import Route
from memory_manager.api.write_once import writing

ROUTES: Final = (
    Route("POST", "/update_state", writing(state.update_state), Access.WRITE),
    Route("POST", "/timeline/events", writing(timeline.record_event), Access.WRITE),
    Route("GET", "/timeline", reading(timeline.get_timeline), Access.READ),
    Route("POST", "/restart/snapshot", writing(restart.create_restart_snapshot), Access.WRITE),
    Route("POST", "/restart/restore", writing(restart.restore_restart_snapshot), Access.WRITE),
    Route("POST", "/reminders", writing(reminders.create_reminder), Access.WRITE),
    Route("GET", "/reminders", reading(reminders.list_reminders), Access.READ),
    Route("POST", "/reminders/{id}/complete", writing(reminders.complete_reminder), Access.WRITE),
    Route("POST", "/decisions", writing(decisions.create_decision), Access.WRITE),
    Route("GET", "/decisions", reading(decisions.list_decisions), Access.READ),
    Route("POST", "/decisions/{id}/resolve", writing(decisions.resolve_decision), Access.WRITE),
    Route(
        "GET",
        "/me/ledger/monthly-summary",
        reading(ledger.monthly_ledger_summary),
        Access.LEDGER_READ,
    ),
    Route("GET", "/audit/events", reading(audit.list_audit_events), Access.READ),
    Route("GET", "/audit/consolidation", reading(audit.audit_consolidation), Access.READ),
    Route("POST", "/memories", writing(xsk.add_skill_memory), Access.WRITE),
    Route("POST", "/memory-conflicts", writing(xsk.add_memory_conflict), Access.WRITE),
)
