"""GET /v1/memories/search, its alias /v1/recall, and POST /v1/recall/context."""

from __future__ import annotations

from typing import Final

from memory_manager.api.calls import Access
from memory_manager.api.operations.recall import context, search
from memory_manager.api.reading import reading
from memory_manager.api.routing import Route

_SEARCH: Final = reading(search)

ROUTES: Final = (
    Route("GET", "/memories/search", _SEARCH, Access.READ),
    Route("GET", "/recall", _SEARCH, Access.READ),
    Route("POST", "/recall/context", reading(context), Access.READ),
)
