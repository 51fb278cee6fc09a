"""What a tool is: name, schema, right, and the coroutine that does it. Nothing of the SDK here."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Awaitable, Callable, Mapping

from memory_manager.api.calls import Access, Call
from memory_manager.service.daemon import Daemon


class Kind(enum.StrEnum):
    """JSON Schema types of arguments; objects travel as JSON text (xmemo.md 11.6)."""

    TEXT = "string"
    WHOLE = "integer"
    NUMBER = "number"
    FLAG = "boolean"


@dataclasses.dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a tool; ``core``: the short listing shows it too."""

    name: str
    note: str = ""
    kind: Kind = Kind.TEXT
    required: bool = False
    default: str | None = None
    choices: tuple[str, ...] = ()
    core: bool = False

    def schema(self) -> dict[str, object]:
        found: dict[str, object] = {"type": self.kind.value}
        if self.note:
            found["description"] = self.note
        if self.choices:
            found["enum"] = list(self.choices)
        if self.default is not None:
            found["default"] = self.default
        return found


@dataclasses.dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of a tool; ``call`` carries the caller and the labels that count."""

    daemon: Daemon
    call: Call
    tool: str
    arguments: Mapping[str, object] = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class ToolAnswer:
    """``text`` for people and models, ``body`` the same as a JSON value."""

    text: str = dataclasses.field(repr=False)
    body: object = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class Tool:
    """One entry of ``tools/list``, and what it does. ``summary`` is one sentence."""

    name: str
    summary: str
    access: Access
    run: Callable[[ToolCall], Awaitable[ToolAnswer]]
    arguments: tuple[Argument, ...] = ()
    read_only: bool = False
    idempotent: bool = False
    destructive: bool = False

    def listed(self, *, short: bool) -> dict[str, object]:
        """The entry; ``short`` leaves out the arguments that an agent seldom needs."""
        shown = [a for a in self.arguments if a.core or a.required or not short]
        schema: dict[str, object] = {
            "type": "object",
            "properties": {argument.name: argument.schema() for argument in shown},
        }
        required = [argument.name for argument in shown if argument.required]
        if required:
            schema["required"] = required
        return {
            "name": self.name,
            "description": self.summary,
            "inputSchema": schema,
            "annotations": {
                "readOnlyHint": self.read_only,
                "idempotentHint": self.idempotent or self.read_only,
                "destructiveHint": self.destructive,
                "openWorldHint": False,
            },
        }
