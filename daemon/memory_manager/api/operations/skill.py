"""The envelope API of the standalone skill script: one route, an operation by name (xmemo.md 6.8).

Every operation is one of the others in a shape of its own. Only ``doctor`` works without a
credential; a wrong one is refused before this runs.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, cast

from memory_manager.api.calls import Access, Call, may
from memory_manager.api.errors import MissingCredential, OutOfScope
from memory_manager.api.operations import (
    ledger,
    memory,
    recall,
    reminders,
    state,
)
from memory_manager.api.operations.answer import Answer, answer
from memory_manager.api.operations.remember import remember
from memory_manager.api.parsing import Fields
from memory_manager.auth.scopes import format_scopes
from memory_manager.service.daemon import Daemon
from memory_manager.vault.idempotency import IdempotencyKey

DEFAULT_PATH: Final = "skill/notes"
MAX_REMINDERS: Final = 100

Given = Mapping[str, object]
Body = Mapping[str, object]
_Run = Callable[[Daemon, Call, Given, IdempotencyKey | None], Awaitable[Answer]]


@dataclasses.dataclass(frozen=True, slots=True)
class SkillOperation:
    """``arguments`` turns the skill's arguments into those of ``run``; ``result`` its answer into
    the skill's result.
    """

    access: Access
    run: _Run
    arguments: Callable[[Given], dict[str, object]]
    result: Callable[[Body], object]


async def run_skill_operation(
    daemon: Daemon, call: Call, arguments: Mapping[str, object], key: IdempotencyKey | None
) -> Answer:
    """``{ok, operation, result, request_id}``; the result's type is that of the operation."""
    fields = Fields.of_body(arguments)
    name = fields.required_text("operation").strip().lower().replace("_", "-")
    given = fields.mapping("arguments") or {}
    operation = _OPERATIONS.get(name)
    if operation is None and name and name != _DOCTOR:
        fields.refuse("operation", "unknown operation", "enum")
    fields.check()
    if operation is None:
        return _envelope(call, _DOCTOR, _doctor(call))
    _check_rights(call, operation.access)
    if key is not None:  # a key of one operation says nothing about another
        key = dataclasses.replace(key, route=f"{key.route} {name}")
    found = await operation.run(daemon, call, operation.arguments(given), key)
    body = cast("Body", json.loads(found.text))
    reply = _envelope(call, name, operation.result(body))
    return dataclasses.replace(reply, replayed=found.replayed)


def _envelope(call: Call, operation: str, result: object) -> Answer:
    return answer(
        {"ok": True, "operation": operation, "result": result, "request_id": call.request_id}
    )


def _check_rights(call: Call, access: Access) -> None:
    if call.caller.credential_id is None:
        raise MissingCredential
    if not may(call.caller, access):
        raise OutOfScope


_DOCTOR: Final = "doctor"


def _doctor(call: Call) -> dict[str, object]:
    caller = call.caller
    return {
        "auth_valid": caller.credential_id is not None,
        "scopes": format_scopes(caller.scopes),
    }


def _reading(operation: Callable[[Daemon, Call, Given], Awaitable[Answer]]) -> _Run:
    async def run(daemon: Daemon, call: Call, given: Given, _key: IdempotencyKey | None) -> Answer:
        return await operation(daemon, call, given)

    return run


def _as_given(given: Given) -> dict[str, object]:
    return dict(given)


def _with_path(given: Given) -> dict[str, object]:
    return {**given, "path": given.get("path") or DEFAULT_PATH}


def _state_to_save(given: Given) -> dict[str, object]:
    """A state that somebody saved by name stays until it is replaced."""
    ttl = given.get("ttl_seconds")
    return {
        **given,
        "state_key": given.get("key") or given.get("state_key"),
        "ttl_seconds": 0 if ttl in (None, "") else ttl,
    }


def _state_to_restore(given: Given) -> dict[str, object]:
    return {**given, "state_key": given.get("key") or given.get("state_key")}


def _all_todos(given: Given) -> dict[str, object]:
    return {**given, "item_status": given.get("item_status") or "%", "limit": MAX_REMINDERS}


def _id_text(body: Body) -> object:
    return body["id"]


def _id_object(body: Body) -> object:
    return {"id": body["id"]}


def _hits(body: Body) -> object:
    return [
        {"id": item["id"], "path": item["path"], "content": item["content"]}
        for item in _items(body, "results")
    ]


def _saved_state(body: Body) -> object:
    # the stored answer of a replay keeps nothing but the id once its record was redacted
    return {"state_key": body.get("state_key", "")}


def _restored_state(body: Body) -> object:
    return {"state_key": body["state_key"], "content": body["content"]}


def _todo(body: Body) -> dict[str, object]:
    status = "open" if body.get("item_status", "open") == "open" else "done"
    return {"id": body["id"], "content": body.get("content", ""), "status": status}


def _todos(body: Body) -> object:
    return [_todo(item) for item in _items(body, "reminders")]


def _items(body: Body, name: str) -> list[Body]:
    return cast("list[Body]", body[name])


_SEARCH: Final = SkillOperation(Access.READ, _reading(recall.search), _as_given, _hits)
_OPERATIONS: Final[Mapping[str, SkillOperation]] = {
    "remember": SkillOperation(Access.WRITE, remember, _with_path, _id_text),
    "recall": _SEARCH,
    "search": _SEARCH,
    "update": SkillOperation(Access.WRITE, memory.update, _as_given, _id_object),
    "forget": SkillOperation(Access.WRITE, memory.forget, _as_given, _id_object),
    "state-save": SkillOperation(Access.WRITE, state.update_state, _state_to_save, _saved_state),
    "state-restore": SkillOperation(
        Access.READ, _reading(state.get_state), _state_to_restore, _restored_state
    ),
    "todo-add": SkillOperation(Access.WRITE, reminders.create_reminder, _as_given, _todo),
    "todo-list": SkillOperation(
        Access.READ, _reading(reminders.list_reminders), _all_todos, _todos
    ),
    "todo-done": SkillOperation(Access.WRITE, reminders.complete_reminder, _as_given, _id_object),
    "expense-add": SkillOperation(Access.LEDGER_WRITE, ledger.add_expense, _as_given, _id_text),
}
OPERATION_NAMES: Final = (*_OPERATIONS, _DOCTOR)
