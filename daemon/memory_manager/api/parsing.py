"""Fields of a body or a query string, read tolerantly: null and "" count as absent.

Contract: xmemo.md 4.5, 4.7, 4.8. Only missing required values and impossible ones are refused, with
all faults of one request in one answer. Messages name fields, never values.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, TypeVar, cast

from memory_manager.api.errors import Fault, InvalidFields
from memory_manager.base.errors import InvalidInput
from memory_manager.base.times import parse_rfc3339
from memory_manager.vault.prepared_version import MAX_LABEL_CHARACTERS

WILDCARD: Final = "%"

_TRUE: Final = frozenset({"true", "1", "yes"})
_FALSE: Final = frozenset({"false", "0", "no"})
_T = TypeVar("_T")


class Fields:
    """Reads the members of one request and collects what is wrong with them; ``check`` raises."""

    def __init__(self, values: Mapping[str, object], place: str) -> None:
        self._values = values
        self._place = place
        self._faults: list[Fault] = []

    @classmethod
    def of_body(cls, values: Mapping[str, object]) -> Fields:
        return cls(values, "body")

    @classmethod
    def of_query(cls, values: Mapping[str, object]) -> Fields:
        return cls(values, "query")

    def check(self) -> None:
        """Raise InvalidFields if anything read so far was refused."""
        if self._faults:
            raise InvalidFields(self._faults)

    def refuse(self, field: str, message: str, kind: str = "value_error") -> None:
        self._faults.append(Fault(self._place, field, message, kind))

    def has(self, field: str) -> bool:
        """Whether the member was sent at all, null included."""
        return field in self._values

    def raw(self, field: str) -> object:
        """The member as it was sent."""
        return self._values.get(field)

    def text(self, field: str, *, limit: int | None = MAX_LABEL_CHARACTERS) -> str | None:
        """A string, or None when absent, null or empty."""
        value = self._values.get(field)
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            self.refuse(field, "must be a string", "string_type")
            return None
        if limit is not None and len(value) > limit:
            self.refuse(field, f"must have at most {limit} characters", "string_too_long")
            return None
        return value

    def required_text(self, field: str, *, limit: int | None = MAX_LABEL_CHARACTERS) -> str:
        """A string with at least one visible character."""
        before = len(self._faults)
        value = self.text(field, limit=limit)
        if value is not None and value.strip():
            return value
        if len(self._faults) == before:
            self.refuse(field, "field required", "missing")
        return ""

    def filter_text(self, field: str) -> str | None:
        """An exact filter: absent, null, "" and ``%`` mean no filter."""
        value = self.text(field)
        return None if value == WILDCARD else value

    def number(self, field: str, low: float, high: float) -> float | None:
        """A number in ``[low, high]``; numeric strings are taken, booleans are not."""
        value = self._values.get(field)
        if value is None or value == "":
            return None
        number = _number(value)
        if number is None:
            self.refuse(field, "must be a number", "number_type")
        elif not low <= number <= high:
            self.refuse(field, f"must be between {low:g} and {high:g}", "out_of_range")
        else:
            return number
        return None

    def clamped(self, field: str, default: int, low: int, high: int) -> int:
        """A whole number pressed into ``[low, high]``; only text that is no number is refused."""
        value = self._values.get(field)
        if value is None or value == "":
            return default
        number = _number(value)
        if number is None:
            self.refuse(field, "must be a whole number", "int_type")
            return default
        return int(max(low, min(high, number)))

    def flag(self, field: str, *, default: bool = False) -> bool:
        """A boolean; query strings carry ``true`` and ``false``. Anything else is the default."""
        value = self._values.get(field)
        if isinstance(value, bool):
            return value
        if isinstance(value, str):
            folded = value.strip().lower()
            return folded in _TRUE or (folded not in _FALSE and default)
        return default

    def time(self, field: str) -> int | None:
        """An RFC 3339 time with offset as UTC milliseconds."""
        value = self.text(field)
        if value is None:
            return None
        try:
            return parse_rfc3339(value, field)
        except InvalidInput:
            self.refuse(field, "must be an RFC 3339 time with an offset", "datetime")
            return None

    def time_bounds(self) -> tuple[int | None, int | None]:
        """``[since, until)`` as UTC milliseconds; ``until`` must be later."""
        since, until = self.time("since"), self.time("until")
        if since is not None and until is not None and until <= since:
            self.refuse("until", "must be later than since")
        return since, until

    def choice(self, field: str, choices: Mapping[str, _T]) -> _T | None:
        """One of the named values."""
        value = self.text(field)
        if value is None:
            return None
        if value not in choices:
            self.refuse(field, "must be one of: " + ", ".join(choices), "enum")
            return None
        return choices[value]

    def mapping(self, field: str) -> Mapping[str, object] | None:
        """A JSON object."""
        value = self._values.get(field)
        if value is None or value == "":
            return None
        if not isinstance(value, dict):
            self.refuse(field, "must be an object", "object_type")
            return None
        return cast("dict[str, object]", value)

    def texts(self, field: str, *, limit: int, most: int) -> list[str] | None:
        """A list of strings; empty ones are left out. None when absent, null or empty."""
        value = self._values.get(field)
        if value is None or value == "":
            return None
        entries = cast("list[object]", value) if isinstance(value, list) else [value]
        found = [entry for entry in entries if isinstance(entry, str)]
        if len(found) < len(entries):
            self.refuse(field, "must be a list of strings", "list_type")
        elif len(found) > most:
            self.refuse(field, f"must have at most {most} entries", "too_long")
        elif any(len(entry) > limit for entry in found):
            self.refuse(field, f"entries must have at most {limit} characters", "string_too_long")
        return [entry for entry in found if entry.strip()]


def _number(value: object) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        try:
            return float(value)
        except OverflowError:  # a whole number beyond what a float can hold
            return math.inf if value > 0 else -math.inf
    if isinstance(value, str):
        try:
            number = float(value)
        except ValueError:
            return None
        return number if number == number and abs(number) != float("inf") else None
    return None
