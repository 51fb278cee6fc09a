"""The owner's settings; they are kept inside the vault (xmemo.md 14 rule 3)."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from memory_manager.api.answers import json_response
from memory_manager.api.calls import Access, call_of
from memory_manager.api.parsing import Fields
from memory_manager.api.routing import Route, daemon_of
from memory_manager.service.logins import OWNER_ACTOR
from memory_manager.vault.settings import SettingValue, change_setting, read_settings
from memory_manager.vault.transaction import Transaction


async def show(request: web.Request) -> web.Response:
    """Every setting with its present value."""
    return json_response({"settings": await daemon_of(request).store().read(read_settings)})


async def change(request: web.Request) -> web.Response:
    """Set one: ``{"name": ..., "value": ...}``; it holds for the next write."""
    body = call_of(request).json_object()
    fields = Fields.of_body(body)
    name = fields.required_text("name")
    fields.check()

    def work(transaction: Transaction) -> dict[str, SettingValue]:
        change_setting(transaction, name, body.get("value"), OWNER_ACTOR)
        return read_settings(transaction.connection)

    return json_response({"settings": await daemon_of(request).writable_store().write(work)})


ROUTES: Final = (
    Route("GET", "/settings", show, Access.OWNER),
    Route("POST", "/settings", change, Access.OWNER),
)
