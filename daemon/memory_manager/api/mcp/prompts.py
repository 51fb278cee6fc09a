"""The prompts of xmemo.md 11.6: short instructions that name a tool."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Final


@dataclasses.dataclass(frozen=True, slots=True)
class Prompt:
    """``required`` and ``optional`` name its arguments; ``template`` has a place for each."""

    name: str
    summary: str
    required: str
    template: str
    optional: str | None = None

    def listed(self) -> dict[str, object]:
        arguments: list[dict[str, object]] = [{"name": self.required, "required": True}]
        if self.optional is not None:
            arguments.append({"name": self.optional, "required": False})
        return {"name": self.name, "description": self.summary, "arguments": arguments}

    def message(self, arguments: Mapping[str, str]) -> str:
        """The text of the one user message."""
        text = self.template.format(arguments.get(self.required, ""))
        extra = arguments.get(self.optional or "")
        return f"{text}\n\nPath: {extra}" if extra else text


PROMPTS: Final = {
    prompt.name: prompt
    for prompt in (
        Prompt(
            "remember",
            "Store something for later.",
            "content",
            "Store this with the remember tool:\n\n{}",
            "path",
        ),
        Prompt(
            "recall",
            "Look something up in memory.",
            "query",
            "Use the recall tool and answer from what it finds:\n\n{}",
        ),
        Prompt(
            "project-context",
            "Load what is known about a project.",
            "query",
            "Call recall_context for this and keep the result in mind:\n\n{}",
        ),
    )
}
