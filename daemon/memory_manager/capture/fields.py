"""Typed access to the JSON object of one record; a refusal names the field, never its value."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import cast

from memory_manager.auth.agent_identity import AgentIdentity, agent_instance_id_hash
from memory_manager.base.identifiers import MemoryId, memory_id_bytes
from memory_manager.base.times import parse_rfc3339
from memory_manager.capture.errors import InvalidRecord
from memory_manager.vault.rows import JsonValue, MemoryType, RowStatus

Document = Mapping[str, JsonValue]


@dataclasses.dataclass(frozen=True, slots=True)
class Writer:
    """Who wrote a version: labels only, never a credential."""

    identity: AgentIdentity = dataclasses.field(default_factory=AgentIdentity)
    client: str | None = None


@dataclasses.dataclass(frozen=True, slots=True)
class Fields:
    """Typed access to one JSON object; every refusal names the field with its place."""

    document: Document
    place: str

    def name(self, key: str) -> str:
        return f"{self.place}{key}"

    def refuse(self, key: str, expected: str) -> InvalidRecord:
        return InvalidRecord(f"{self.name(key)} must be {expected}.", field=self.name(key))

    def text(self, key: str) -> str | None:
        value = self.document.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            raise self.refuse(key, "a string")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise self.refuse(key, "valid Unicode") from None
        return value

    def one_of(self, key: str, allowed: Sequence[str]) -> str | None:
        value = self.text(key)
        if value is not None and value not in allowed:
            raise self.refuse(key, f"one of {', '.join(allowed)}")
        return value

    def memory_type(self, key: str) -> MemoryType | None:
        value = self.one_of(key, [*MemoryType, "auto"])
        return None if value is None or value == "auto" else MemoryType(value)

    def status(self, key: str) -> RowStatus:
        return RowStatus(self.one_of(key, list(RowStatus)) or RowStatus.ACTIVE)

    def ratio(self, key: str) -> float | None:
        value = self.document.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise self.refuse(key, "a number from 0 to 1")
        if not math.isfinite(value) or not 0 <= value <= 1:
            raise self.refuse(key, "a number from 0 to 1")
        return float(value)

    def time(self, key: str) -> int | None:
        value = self.text(key)
        return parse_rfc3339(value, self.name(key)) if value else None

    def mapping(self, key: str) -> Document:
        value = self.document.get(key)
        if value is None:
            return {}
        if not isinstance(value, dict):
            raise self.refuse(key, "an object")
        return cast("dict[str, JsonValue]", value)

    def strings(self, key: str) -> tuple[str, ...]:
        value = self.document.get(key)
        if value is None:
            return ()
        if isinstance(value, str):
            return tuple(part.strip() for part in value.split(",") if part.strip())
        if not isinstance(value, list) or not all(
            isinstance(part, str) for part in cast("list[object]", value)
        ):
            raise self.refuse(key, "a list of strings")
        return tuple(cast("list[str]", value))

    def parts(self, key: str) -> list[Fields]:
        value = self.document.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            raise self.refuse(key, "a list")
        found: list[Fields] = []
        for number, part in enumerate(cast("list[object]", value)):
            if not isinstance(part, dict):
                raise self.refuse(f"{key}[{number}]", "an object")
            found.append(Fields(cast("dict[str, JsonValue]", part), f"{self.name(key)}[{number}]."))
        return found

    def memory_id(self, key: str) -> MemoryId | None:
        """Only ids of our own form are kept; a foreign id is not ours to reuse."""
        value = self.document.get(key)
        if not isinstance(value, str):
            return None
        try:
            memory_id_bytes(MemoryId(value))
        except ValueError:
            return None
        return MemoryId(value)

    def writer(self, key: str) -> Writer:
        part = Fields(self.mapping(key), f"{self.name(key)}.")
        instance = part.text("agent_instance")
        try:
            instance_hash = agent_instance_id_hash(instance) if instance else None
        except ValueError:
            raise part.refuse("agent_instance", "an instance id or its hash") from None
        return Writer(AgentIdentity(part.text("agent_id"), instance_hash), part.text("client"))
