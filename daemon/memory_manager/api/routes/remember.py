"""POST /v1/remember."""

from __future__ import annotations

from typing import Final

from memory_manager.api.calls import Access
from memory_manager.api.operations.remember import remember
from memory_manager.api.routing import Route
from memory_manager.api.write_once import writing

ROUTES: Final = (Route("POST", "/remember", writing(remember), Access.WRITE),)
