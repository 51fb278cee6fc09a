"""POST /v1/skill/operations, whose refusals have a shape of their own (xmemo.md 6.8)."""

from __future__ import annotations

from typing import Final

from memory_manager.api.calls import Access
from memory_manager.api.operations.skill import run_skill_operation
from memory_manager.api.routing import Route
from memory_manager.api.skill_refusals import SKILL_PATH
from memory_manager.api.write_once import writing

ROUTES: Final = (Route("POST", SKILL_PATH, writing(run_skill_operation), Access.OPTIONAL),)
