"""The routes below /v1/memories/{id}."""

from __future__ import annotations

from typing import Final

from memory_manager.api.calls import Access
from memory_manager.api.operations import memory
from memory_manager.api.reading import reading
from memory_manager.api.routing import Route
from memory_manager.api.write_once import writing

ROUTES: Final = (
    Route("GET", "/memories/{id}", reading(memory.get), Access.READ),
    Route("PATCH", "/memories/{id}", writing(memory.update), Access.WRITE),
    Route("GET", "/memories/{id}/explain", reading(memory.explain), Access.READ),
    Route("GET", "/memories/{id}/versions", reading(memory.versions), Access.READ),
    Route("POST", "/memories/{id}/forget", writing(memory.forget), Access.WRITE),
    Route("POST", "/memories/{id}/restore", writing(memory.restore), Access.RESTORE),
    Route("POST", "/memories/{id}/usage", writing(memory.usage), Access.WRITE),
)
