"""One table put into a TOML file, or taken out, without touching anything else of its text.

A table appended at the end is valid whatever stands before it, so no TOML writer is needed; the
standard library's reader proves each result.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import cast

from memory_manager.cli.connect.json_edit import Patch
from memory_manager.cli.connect.jsonc import LONG_NUMBER, MAX_DEPTH, TOO_DEEP, Unreadable

_HEADER = re.compile(r"^[ \t]*\[", re.MULTILINE)


def parse(text: str) -> dict[str, object]:
    """The document; Unreadable if it is not TOML."""
    try:
        document = tomllib.loads(text.removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        where = re.search(r"at line \d+", str(error))
        raise Unreadable(f"it cannot be read {where[0] if where else ''}".rstrip()) from None
    except RecursionError:
        raise Unreadable(TOO_DEEP) from None
    except ValueError:  # the only other one: Python reads whole numbers of 4300 digits at most
        raise Unreadable(LONG_NUMBER) from None
    if _is_deep(document):  # dotted keys nest without recursion, comparing does not
        raise Unreadable(TOO_DEEP)
    return document


def _is_deep(document: dict[str, object]) -> bool:
    level: list[object] = [document]
    for _ in range(MAX_DEPTH):
        tables = [cast("dict[str, object]", item) for item in level if isinstance(item, dict)]
        level = [value for table in tables for value in table.values()]
        if not level:
            return False
    return True


def entry_at(text: str, path: Sequence[str]) -> object:
    found: object = parse(text)
    for key in path:
        if not isinstance(found, dict):
            raise Unreadable(f"the place of '{key}' is not a table")
        found = cast("dict[object, object]", found).get(key)
        if found is None:
            return None
    return found


def insertion(text: str, path: Sequence[str], value: Mapping[str, object], newline: str) -> Patch:
    """What appends the table ``[path]``."""
    parse(text)
    lead = ""
    if text.strip("\ufeff"):
        lead = newline if text.endswith("\n") else newline * 2
    lines = [f"[{'.'.join(path)}]"]
    lines += [f"{key} = {_value(item)}" for key, item in value.items()]
    return Patch(len(text), "", lead + newline.join(lines) + newline)


def without(text: str, path: Sequence[str]) -> str:
    """The text without the table at ``path``: from its header to that of the next headers which
    leaves exactly the rest of the document.
    """
    name = r"\s*\.\s*".join(f"(?:{key}|\"{key}\"|'{key}')" for key in map(re.escape, path))
    document = parse(text)
    wanted = (removed(document, path, prune=False), removed(document, path, prune=True))
    for header in re.finditer(rf"^(\ufeff?)[ \t]*\[\s*{name}\s*\]", text, re.MULTILINE):
        start = header.end(1)
        ends = [found.start() for found in _HEADER.finditer(text, header.end())]
        for end in (*ends, len(text)):
            shorter = text[:start] + text[end:]
            try:
                if parse(shorter) in wanted:
                    return shorter
            except Unreadable:
                continue
    raise Unreadable("our entry was changed there")


def removed(document: object, path: Sequence[str], *, prune: bool) -> object:
    """A copy of nested dictionaries without ``path``; ``prune``: without tables left empty, too."""
    if not isinstance(document, dict):
        return document
    copy = dict(cast("dict[str, object]", document))
    if len(path) == 1:
        copy.pop(path[0], None)
    elif path[0] in copy:
        copy[path[0]] = removed(copy[path[0]], path[1:], prune=prune)
        if prune and copy[path[0]] == {}:
            del copy[path[0]]
    return copy


def _value(value: object) -> str:
    if isinstance(value, Mapping):
        items = cast("Mapping[str, object]", value).items()
        return "{ " + ", ".join(f"{key} = {_value(item)}" for key, item in items) + " }"
    # a JSON string or list of strings is one in TOML as well
    return json.dumps(value, ensure_ascii=False)
