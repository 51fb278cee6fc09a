"""From a tool's arguments to an operation and back: names, JSON texts, labels, repetition.

Contract: xmemo.md 11.6. Unknown arguments are accepted; JSON values arrive as text.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, cast

from memory_manager.api.calls import Call
from memory_manager.api.errors import Fault, InvalidFields, InvalidJson
from memory_manager.api.labels import asserted_identity
from memory_manager.api.mcp.tool import ToolAnswer, ToolCall
from memory_manager.api.operations.answer import Answer
from memory_manager.api.strict_json import parse_object
from memory_manager.auth.agent_identity import AgentIdentity
from memory_manager.base.identifiers import CredentialId
from memory_manager.service.daemon import Daemon
from memory_manager.vault.idempotency import IdempotencyKey

Body = Mapping[str, object]
Reading = Callable[[Daemon, Call, Mapping[str, object]], Awaitable[Answer]]
Writing = Callable[[Daemon, Call, Mapping[str, object], IdempotencyKey | None], Awaitable[Answer]]
Prepare = Callable[[Mapping[str, object]], Mapping[str, object]]
Shape = Callable[[Body], str]

_AGENT_ID: Final = "agent_id"
_INSTANCE_ID: Final = "agent_instance_id"
_KEY: Final = "idempotency_key"
# labels of the caller, and what no operation of ours uses (a client's embedding is ignored)
_LEFT_OUT: Final = frozenset(
    {_AGENT_ID, _INSTANCE_ID, "device_id", "device_label", "team_id", "embedding_json", _KEY}
)
_LISTS: Final = ("reminders", "decisions")
_JSON_TEXTS: Final = {"metadata_json": "metadata", "provenance_json": "provenance"}
_RENAMED: Final = {
    "path_filter": "path",
    "memory_id": "id",
    "todo_id": "id",
    "reminder_id": "id",
    "decision_id": "id",
}


def operation_arguments(arguments: Mapping[str, object]) -> dict[str, object]:
    """The arguments as operations name them; InvalidFields for JSON text that is no object."""
    found: dict[str, object] = {}
    for name, value in arguments.items():
        if name in _LEFT_OUT or name in _JSON_TEXTS:
            continue
        if value is not None or name not in _RENAMED:
            found[_RENAMED.get(name, name)] = value
    for name, plain in _JSON_TEXTS.items():
        value = arguments.get(name)
        if value is not None and value != "":
            found[plain] = _object(name, value)
    return found


def _object(name: str, value: object) -> Mapping[str, object]:
    if isinstance(value, dict):
        return cast("dict[str, object]", value)
    try:
        if isinstance(value, str):
            return parse_object(value.encode())
    except InvalidJson:
        pass
    raise InvalidFields([Fault("body", name, "must be a JSON object as text", "json_object")])


def labelled(call: Call, arguments: Mapping[str, object]) -> Call:
    """The call with the labels that count: a header wins over the argument of the same name."""
    asserted = asserted_identity(
        _optional_text(arguments.get(_AGENT_ID)), _optional_text(arguments.get(_INSTANCE_ID))
    )
    identity = AgentIdentity(
        call.identity.agent_id or asserted.agent_id,
        call.identity.instance_hash or asserted.instance_hash,
    )
    return dataclasses.replace(call, identity=identity)


def _optional_text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def body_of(found: Answer) -> dict[str, object]:
    """The JSON object of an operation's answer; a lone surrogate of a damaged row is replaced."""
    text = found.text.encode("utf-8", "replace").decode()
    return cast("dict[str, object]", json.loads(text))


async def read(asked: ToolCall, operation: Reading, arguments: Mapping[str, object]) -> Body:
    return body_of(await operation(asked.daemon, asked.call, arguments))


async def write(asked: ToolCall, operation: Writing, arguments: Mapping[str, object]) -> Body:
    """Do a write once per ``idempotency_key``, if the caller gave one."""
    key = asked.arguments.get(_KEY)
    repeatable: IdempotencyKey | None = None
    if isinstance(key, str) and key.strip():
        credential_id = asked.call.caller.credential_id or CredentialId("")
        repeatable = IdempotencyKey(credential_id, f"MCP {asked.tool}", key.strip())
    return body_of(await operation(asked.daemon, asked.call, arguments, repeatable))


def reading(
    operation: Reading, shape: Shape, prepare: Prepare = operation_arguments
) -> Callable[[ToolCall], Awaitable[ToolAnswer]]:
    """A tool that is one reading operation."""

    async def run(asked: ToolCall) -> ToolAnswer:
        body = await read(asked, operation, prepare(asked.arguments))
        return ToolAnswer(_text(asked, body, shape), body)

    return run


def writing(
    operation: Writing, shape: Shape, prepare: Prepare = operation_arguments
) -> Callable[[ToolCall], Awaitable[ToolAnswer]]:
    """A tool that is one writing operation."""

    async def run(asked: ToolCall) -> ToolAnswer:
        body = await write(asked, operation, prepare(asked.arguments))
        return ToolAnswer(shape(body), body)

    return run


def slim(value: object) -> object:
    """An answer without what only costs context: empty members, the envelope that every row of a
    vault has, and the second name of a list.
    """
    if isinstance(value, list):
        return [slim(item) for item in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    members = cast("dict[str, object]", value)
    twice = "items" in members and any(members.get(name) == members["items"] for name in _LISTS)
    return {
        name: slim(member)
        for name, member in members.items()
        if member is not None and name != "security_envelope" and not (twice and name == "items")
    }


def _text(asked: ToolCall, body: Body, shape: Shape) -> str:
    """``output_json`` asks for the JSON itself as text."""
    if asked.arguments.get("output_json") is True:
        return json.dumps(body, ensure_ascii=False)
    return shape(body)
