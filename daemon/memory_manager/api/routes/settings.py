"""The owner's settings; they are kept inside the vault (xmemo.md 14 rule 3)."""

from __future__ import annotations

from typing import Final

from aiohttp import web
from sqlcipher3.dbapi2 import Connection

from memory_manager.api.answers import json_response
from memory_manager.api.calls import Access, call_of
from memory_manager.api.parsing import Fields
from memory_manager.api.routing import Route, daemon_of
from memory_manager.base.errors import InvalidInput
from memory_manager.service.logins import OWNER_ACTOR
from memory_manager.vault import settings
from memory_manager.vault.transaction import Transaction


def flags(connection: Connection) -> dict[str, bool]:
    return {name: settings.get_flag(connection, flag) for name, flag in settings.FLAGS.items()}


async def show(request: web.Request) -> web.Response:
    """Every setting with its present value."""
    return json_response({"settings": await daemon_of(request).store().read(flags)})


async def change(request: web.Request) -> web.Response:
    """Set one: ``{"name": ..., "value": true or false}``; it holds for the next write."""
    body = call_of(request).json_object()
    fields = Fields.of_body(body)
    name = fields.required_text("name")
    fields.check()
    flag, value = settings.flag_by_name(name), body.get("value")
    if not isinstance(value, bool):
        raise InvalidInput("A setting is true or false.", field="value")

    def work(transaction: Transaction) -> dict[str, bool]:
        settings.change_flag(transaction, flag, value, OWNER_ACTOR)
        return flags(transaction.connection)

    return json_response({"settings": await daemon_of(request).writable_store().write(work)})


ROUTES: Final = (
    Route("GET", "/settings", show, Access.OWNER),
    Route("POST", "/settings", change, Access.OWNER),
)
