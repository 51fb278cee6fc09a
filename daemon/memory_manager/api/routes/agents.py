"""Credentials of client installations: issue, list, revoke; for the owner (sessions.md 9.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, cast

from aiohttp import web
from sqlcipher3.dbapi2 import Connection

from memory_manager.api.answers import json_response
from memory_manager.api.calls import Access, call_of
from memory_manager.api.parsing import Fields
from memory_manager.api.routing import Route, daemon_of
from memory_manager.auth.scopes import ALL_SCOPES, format_scopes, parse_scopes
from memory_manager.base.errors import InvalidInput
from memory_manager.base.times import rfc3339
from memory_manager.vault import credentials
from memory_manager.vault.credentials import Credential, Label
from memory_manager.vault.transaction import Transaction


def agent_json(credential: Credential, labels: Sequence[Label] = ()) -> dict[str, object]:
    """A credential as the owner sees it: never its token or digest."""
    used, revoked = credential.last_used_at_ms, credential.revoked_at_ms
    return {
        "id": credential.id,
        "name": credential.name,
        "kind": credential.kind.value,
        "scopes": format_scopes(credential.scopes),
        "created_at": rfc3339(credential.created_at_ms),
        "last_used_at": None if used is None else rfc3339(used),
        "revoked_at": None if revoked is None else rfc3339(revoked),
        "seen_as": [
            {
                "agent_id": label.agent_id,
                "agent_instance_id_hash": label.instance_hash,
                "last_seen_at": rfc3339(label.last_seen_ms),
            }
            for label in labels
        ],
    }


def _scope_names(value: object) -> str | list[str]:
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return [str(name) for name in cast("list[object]", value)]
    raise InvalidInput("scopes must be a list.", field="scopes")


async def add_agent(request: web.Request) -> web.Response:
    """Issue a credential; its token stands in this answer and nowhere else."""
    call = call_of(request)
    body = call.json_object()
    fields = Fields.of_body(body)
    name = fields.required_text("name")
    agent_id = fields.text("agent_id")
    fields.check()
    wanted = body.get("scopes")
    scopes = ALL_SCOPES if wanted is None else parse_scopes(_scope_names(wanted))
    daemon = daemon_of(request)
    store = daemon.writable_store()
    await daemon.require_present_owner()

    def issue(transaction: Transaction) -> tuple[Credential, str]:
        return credentials.issue(
            transaction, name, scopes, agent_id=agent_id, actor=call.attribution
        )

    credential, token = await store.write(issue)
    daemon.credentials_changed()
    return json_response({**agent_json(credential), "token": token}, status=201)


async def list_agents(request: web.Request) -> web.Response:
    """All credentials, revoked ones too, with the labels each was used under."""

    def read(connection: Connection) -> list[dict[str, object]]:
        seen = credentials.labels(connection)
        return [
            agent_json(credential, seen.get(credential.id, ()))
            for credential in credentials.list_credentials(connection, include_revoked=True)
        ]

    return json_response({"agents": await daemon_of(request).store().read(read)})


async def revoke_agent(request: web.Request) -> web.Response:
    """From the answer on, the credential is refused on every route."""
    call = call_of(request)
    wanted = request.match_info["agent"]
    daemon = daemon_of(request)
    store = daemon.writable_store()
    await daemon.require_present_owner()

    def revoke(transaction: Transaction) -> Credential:
        return credentials.revoke(transaction, wanted, actor=call.attribution)

    credential = await store.write(revoke)
    daemon.credentials_changed()
    return json_response(agent_json(credential))


ROUTES: Final = (
    Route("POST", "/agents", add_agent, Access.OWNER),
    Route("GET", "/agents", list_agents, Access.OWNER),
    Route("POST", "/agents/{agent}/revoke", revoke_agent, Access.OWNER),
)
