"""Cleaning a whole row: parsed values are walked, keys give context, split secrets are put
together.

Contract: redaction.md 8.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

from memory_manager.security.errors import SanitizerFailed
from memory_manager.security.redact.ids import WITHHELD, mark, marks_in
from memory_manager.security.redact.key_material import JWK_MEMBERS
from memory_manager.security.redact.labelled import phrase_family
from memory_manager.security.redact.labels import Family
from memory_manager.security.redact.result import (
    FieldRedaction,
    RowResult,
    Severity,
    count_rules,
    severity_rank,
)
from memory_manager.security.redact.rule import Hit
from memory_manager.security.redact.sanitize import Found, Personal, clean_text
from memory_manager.security.redact.spans import cut, found_rules, unite
from memory_manager.security.redact.split import split_secret_hits

MAX_DEPTH: Final = 32
MAX_NODES: Final = 50_000
PIECE: Final = 12
ROW_FIELDS: Final = (
    "agent_id", "bucket", "client", "content", "metadata", "path", "provenance", "reason", "scope",
    "semantic_key", "source", "tags", "title",
)  # fmt: skip
"""Field names of our own rows: harmless, and met in every row, so they are judged once."""
_FIELD_FAMILIES: Final = {name: phrase_family(name) for name in ROW_FIELDS}
_PAIR_NAMES: Final = ("name", "key", "id", "header", "variable", "field", "label", "k")
_PAIR_VALUES: Final = ("value", "val", "v", "data", "content")


def sanitize_row(
    row: Mapping[str, Any],
    *,
    redact_contact_pii: bool = False,
    redact_identity_numbers: bool = False,
    phone_region: str | None = None,
) -> RowResult:
    """The cleaned row and which rules fired in which field; the input is not changed.

    The two flags take the owner's contact data, and card, account and tax numbers, out as well;
    with a region (ISO 3166-1 alpha-2) contact data has the telephone numbers dialled there too.

    Raises SanitizerFailed, without any part of the row, if it could not be checked.
    """
    walker = _Walker(Personal(redact_contact_pii, redact_identity_numbers, phone_region))
    failed = False
    cleaned: dict[str, Any] = {}
    try:
        cleaned = walker.row(row)
    except SanitizerFailed:
        raise
    except Exception:
        failed = True
    if failed:
        raise SanitizerFailed
    redactions = walker.redactions()
    high_risk = any(entry.severity is Severity.HIGH_RISK for entry in redactions)
    return RowResult(cleaned, redactions, high_risk, bool(redactions))


def _remains(part: str, text: str) -> bool:
    """Whether a piece of a secret still stands in a string that was changed already."""
    if len(part) < PIECE:
        return part in text
    return any(part[at : at + PIECE] in text for at in range(0, len(part) - PIECE + 1, PIECE // 2))


class _Leaf:
    """One string, as given and cleaned, and where it goes: the split-secret pass may change it."""

    __slots__ = ("container", "field", "given", "key")

    def __init__(self, container: Any, key: Any, given: str, field: str) -> None:
        self.container = container
        self.key = key
        self.given = given
        self.field = field

    def apply(self, hits: list[Hit]) -> Found:
        """Remove the hits, which are spans of the given string; what was removed."""
        text: str = self.container[self.key]
        shift = 0
        wanted: list[Hit] = []
        for hit in hits:
            part = self.given[hit.start : hit.end]
            if text == self.given or (text.startswith(part) and hit.start == 0):
                wanted.append(hit)
            elif text.endswith(part) and hit.end == len(self.given):
                shift = len(text) - len(self.given)
                wanted.append(dataclasses.replace(hit, start=hit.start + shift, end=len(text)))
            elif _remains(part, text):
                # its place is lost, because the string was changed already
                wanted.append(dataclasses.replace(hit, start=0, end=len(text)))
        self.container[self.key] = cut(text, unite(wanted))
        return found_rules(wanted)


class _Walker:
    def __init__(self, personal: Personal) -> None:
        self._personal = personal
        self._found: dict[str, Found] = {}
        self._leaves: list[_Leaf] = []
        self._nodes = 0

    def row(self, row: Mapping[str, Any]) -> dict[str, Any]:
        cleaned = self._mapping(row, "", Family.NONE, 0)
        given = [leaf.given for leaf in self._leaves]
        for index, hits in split_secret_hits(given, self._found_key_id()).items():
            leaf = self._leaves[index]
            self._note(leaf.field, leaf.apply(unite(hits)))
        return cleaned

    def _found_key_id(self) -> bool:
        return any(("aws-access-key-id", Severity.CREDENTIAL) in f for f in self._found.values())

    def redactions(self) -> tuple[FieldRedaction, ...]:
        entries = [
            FieldRedaction(entry.rule, entry.severity, entry.count, field)
            for field, found in self._found.items()
            for entry in count_rules(found)
        ]
        entries.sort(key=lambda entry: (severity_rank(entry.severity), entry.rule, entry.field))
        return tuple(entries)

    def _note(self, field: str, found: Found) -> None:
        if found:
            self._found.setdefault(field, []).extend(found)

    def _value(
        self, value: Any, field: str, family: Family, depth: int, *, sure: bool = False
    ) -> Any:
        self._nodes += 1
        if value is None or isinstance(value, bool | int | float):
            return value
        if depth > MAX_DEPTH or self._nodes > MAX_NODES:
            self._note(field, [(WITHHELD, Severity.CREDENTIAL)])
            return mark(WITHHELD)
        if isinstance(value, str):
            return self._text(value, field, family, depth, sure)
        if isinstance(value, Mapping):
            return self._mapping(value, field, family, depth)
        if isinstance(value, list | tuple | set | frozenset):
            return self._sequence(list(cast("Sequence[Any]", value)), field, family, depth)
        if isinstance(value, bytes | bytearray | memoryview):
            decoded = bytes(value).decode("utf-8", "surrogateescape")
            text = self._text(decoded, field, family, depth, sure)
            return value if text == decoded else text
        shown = str(value)
        text = self._text(shown, field, family, depth, sure)
        return value if text == shown else text

    def _text(self, value: str, field: str, family: Family, depth: int, sure: bool) -> str:
        nested = self._json_text(value, field, family, depth)
        if nested is not None:
            return nested
        text, found = clean_text(value, personal=self._personal, family=family, sure=sure)
        self._note(field, found)
        return text

    def _json_text(self, value: str, field: str, family: Family, depth: int) -> str | None:
        """A string holding a JSON object or array, cleaned by its parsed form; None if it is not
        one.

        The text is written again only when something in it changed. What the walk leaves is read
        once more as plain text, which sees what stands between the leaves.
        """
        stripped = value.strip()
        if stripped[:1] not in "{[" or stripped[-1:] not in ("}", "]") or len(stripped) < 8:
            return None
        try:
            parsed: Any = json.loads(stripped)
        except (ValueError, RecursionError):
            return None
        if not isinstance(parsed, dict | list):
            return None
        before = {name: len(found) for name, found in self._found.items()}
        leaves = len(self._leaves)
        cleaned = self._value(parsed, field, family, depth + 1)
        # inner leaves are not row leaves: their container is thrown away
        del self._leaves[leaves:]
        if before == {name: len(found) for name, found in self._found.items()}:
            text, found = clean_text(value, personal=self._personal)
            self._note(field, found)
            return text
        tight = '": ' not in stripped and '", ' not in stripped
        return json.dumps(
            cleaned,
            ensure_ascii=stripped.isascii(),
            separators=(",", ":") if tight else None,
            indent=2 if "\n" in stripped else None,
        )

    def _mapping(
        self, value: Mapping[Any, Any], field: str, family: Family, depth: int
    ) -> dict[str, Any]:
        cleaned: dict[str, Any] = {}
        if depth > MAX_DEPTH:
            self._note(field, [(WITHHELD, Severity.CREDENTIAL)])
            return {mark(WITHHELD): mark(WITHHELD)}
        is_jwk = "kty" in value
        pair = _pair(value)
        for key, item in value.items():
            name, path = self._key(key, cleaned, field)
            inner = max(family, _family_of(key))
            if pair is not None and key == pair[1]:
                inner = max(inner, _name_family(pair[0]))
            if is_jwk and key in JWK_MEMBERS and isinstance(item, str) and len(item) >= 8:
                self._note(path, [("jwk-private", Severity.HIGH_RISK)])
                cleaned[name] = mark("jwk-private") if not marks_in(item) else item
                if marks_in(item):
                    self._found[path].pop()
                continue
            cleaned[name] = self._value(item, path, inner, depth + 1)
            if isinstance(cleaned[name], str):
                self._leaves.append(_Leaf(cleaned, name, _as_text(item), path))
        return cleaned

    def _key(self, key: Any, cleaned: dict[str, Any], field: str) -> tuple[str, str]:
        """The cleaned key, made unique among its siblings, and its path."""
        if key in _FIELD_FAMILIES:
            name, found = cast("str", key), cast("Found", [])
        else:
            name, found = clean_text(str(key), personal=self._personal)
        unique, number = name, 2
        while unique in cleaned:
            unique, number = f"{name}#{number}", number + 1
        path = f"{field}.{unique}" if field else unique
        self._note(path, found)
        return unique, path

    def _sequence(self, items: list[Any], field: str, family: Family, depth: int) -> list[Any]:
        cleaned: list[Any] = []
        armed = Family.NONE
        header = (
            len(items) == 2
            and isinstance(items[0], str)
            and isinstance(items[1], str)
            and depth > 0
        )
        for index, item in enumerate(items):
            path = f"{field}.{index}"
            inner, sure = family, False
            if armed is not Family.NONE:
                inner, sure = max(inner, armed), True
            elif header and index == 1 and " " not in items[0].strip():
                inner = max(inner, _name_family(items[0]))
            armed = _option_family(item)
            cleaned.append(self._value(item, path, inner, depth + 1, sure=sure))
            if isinstance(cleaned[-1], str):
                self._leaves.append(_Leaf(cleaned, index, _as_text(item), path))
        return cleaned


def _family_of(key: Any) -> Family:
    if not isinstance(key, str):
        return Family.NONE
    known = _FIELD_FAMILIES.get(key)
    return _name_family(key) if known is None else known


def _name_family(name: str) -> Family:
    """What a name announces; one that was cleaned before announces nothing any more."""
    return Family.NONE if marks_in(name) else phrase_family(name)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _option_family(item: Any) -> Family:
    """The family of a command line option that takes the next argument as its value."""
    if not isinstance(item, str) or not item.startswith("-") or "=" in item or " " in item:
        return Family.NONE
    family = _name_family(item.lstrip("-"))
    return family if family is not Family.WEAK else Family.NONE


def _pair(value: Mapping[Any, Any]) -> tuple[str, str] | None:
    """(label, key of the value) of an object such as ``{"name": "password", "value": "..."}``."""
    for name in _PAIR_NAMES:
        label = value.get(name)
        if isinstance(label, str) and len(label) <= 128:
            for key in _PAIR_VALUES:
                if key in value:
                    return label, key
    return None
