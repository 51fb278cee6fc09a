"""Records beside memories: state, timeline, restart, reminders, decisions (xmemo.md 6.6-6.7)."""

from __future__ import annotations

from typing import Final

from memory_manager.api.calls import Access
from memory_manager.api.operations import reminders, state
from memory_manager.api.reading import reading
from memory_manager.api.routing import Route
from memory_manager.api.write_once import writing

ROUTES: Final = (
    Route("POST", "/update_state", writing(state.update_state), Access.WRITE),
    Route("POST", "/reminders", writing(reminders.create_reminder), Access.WRITE),
    Route("GET", "/reminders", reading(reminders.list_reminders), Access.READ),
    Route("POST", "/reminders/{id}/complete", writing(reminders.complete_reminder), Access.WRITE),
)
