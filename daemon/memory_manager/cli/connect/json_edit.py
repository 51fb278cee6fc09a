"""One entry put into a JSON file, or taken out, without touching anything else of its text.

The entry goes in as the first member of its object: that needs no change to the line before, so
the difference is added lines only and taking them out again gives the same bytes.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence

from memory_manager.cli.connect.jsonc import Member, Node, Unreadable, parse


@dataclasses.dataclass(frozen=True, slots=True)
class Patch:
    """``old`` at one place of a text became ``new``."""

    at: int
    old: str
    new: str

    def applied(self, text: str) -> str:
        return text[: self.at] + self.new + text[self.at + len(self.old) :]


def entry_at(text: str, path: Sequence[str], *, json5: bool) -> object:
    """The value at a path of keys, None if there is none; Unreadable for a text that is no JSON."""
    node = parse(text, json5=json5)
    for key in path:
        member = _object(node, key).member(key) if node is not None else None
        if member is None:
            return None
        node = member.value
    return None if node is None else node.plain


def insertion(text: str, path: Sequence[str], value: object, newline: str, *, json5: bool) -> Patch:
    """What puts ``value`` at ``path``, where nothing is; objects on the way are made."""
    node = parse(text, json5=json5)
    unit = _indent_unit(text, node)
    if node is None:
        lead = newline if text.strip("\ufeff") and not text.endswith("\n") else ""
        document = _nested(path, value)
        return Patch(len(text), "", lead + _pretty(document, "", unit, newline) + newline)
    rest = list(path)
    while len(rest) > 1 and (member := _object(node, rest[0]).member(rest[0])) is not None:
        node, rest = member.value, rest[1:]
    _object(node, rest[0])
    return _first_member(text, node, rest[0], _nested(rest[1:], value), unit, newline)


def replacement(text: str, path: Sequence[str], value: object, *, json5: bool) -> Patch:
    """What gives the existing member at ``path`` another value; its key is part of the patch."""
    member = _member_at(text, path, json5=json5)[1]
    old = text[member.start : member.end]
    new = text[member.start : member.value.start] + json.dumps(value, ensure_ascii=False)
    return Patch(member.start, old, new)


def without(text: str, path: Sequence[str], *, json5: bool) -> str:
    """The text without the member at ``path``, its comma and its line; the way for edited files."""
    owner, member = _member_at(text, path, json5=json5)
    members = list(owner.members or ())
    index = members.index(member)
    start = member.start
    while text[start - 1] in " \t":
        start -= 1
    if text[start - 1] == "\n":
        start -= 2 if text[start - 2 : start] == "\r\n" else 1
    end = member.end if member.comma is None else member.comma + 1
    shorter = text[:start] + text[end:]
    if member.comma is None and index > 0:  # the comma before ours now stands before nothing
        comma = members[index - 1].comma
        if comma is not None:
            shorter = shorter[:comma] + shorter[comma + 1 :]
    return shorter


def _member_at(text: str, path: Sequence[str], *, json5: bool) -> tuple[Node, Member]:
    node = parse(text, json5=json5)
    if node is None:
        raise Unreadable("it is empty")
    for key in path[:-1]:
        member = _object(node, key).member(key)
        if member is None:
            raise Unreadable(f"it has no '{key}'")
        node = member.value
    member = _object(node, path[-1]).member(path[-1])
    if member is None:
        raise Unreadable(f"it has no '{path[-1]}'")
    return node, member


def _object(node: Node | None, key: str) -> Node:
    if node is None or node.members is None:
        raise Unreadable(f"the place of '{key}' is not an object")
    return node


def _nested(path: Sequence[str], value: object) -> object:
    for key in reversed(path):
        value = {key: value}
    return value


def _indent_unit(text: str, node: Node | None) -> str:
    """The first member's indentation, two blanks where nothing shows it."""
    if node is not None and node.members:
        return _line_indent(text, node.members[0].start) or "  "
    return "  "


def _line_indent(text: str, at: int) -> str | None:
    """What stands before ``at`` in its line if these are blanks only, else None."""
    lead = text[text.rfind("\n", 0, at) + 1 : at]
    return lead if not lead.strip(" \t\ufeff") and "\n" in text[:at] else None


def _first_member(
    text: str, owner: Node, key: str, value: object, unit: str, newline: str
) -> Patch:
    at = owner.start + 1
    inside = text[at : owner.end - 1]
    if owner.members:
        indent = _line_indent(text, owner.members[0].start)
        if indent is None:
            lead = " " if inside[:1] in (" ", "\t") else ""
            trail = "," if inside[:1] in (" ", "\t", "\r", "\n") else ", "
            compact = json.dumps({key: value}, ensure_ascii=False)[1:-1]
            return Patch(at, "", lead + compact + trail)
        at += _comment_on_the_line(inside)
        pretty = _pretty({key: value}, indent, unit, newline, bare=True)
        return Patch(at, "", f"{newline}{indent}{pretty},")
    line = text[text.rfind("\n", 0, owner.start) + 1 : owner.start]
    base = line[: len(line) - len(line.lstrip(" \t\ufeff"))].replace("\ufeff", "")
    indent = base + unit
    at += len(inside.rstrip(" \t\r\n"))
    pretty = _pretty({key: value}, indent, unit, newline, bare=True)
    closing = "" if "\n" in text[at : owner.end] else newline + base
    return Patch(at, "", f"{newline}{indent}{pretty}{closing}")


def _comment_on_the_line(inside: str) -> int:
    """How far comments reach that follow an opening brace in its line."""
    line = inside.partition("\n")[0]
    reached = 0
    while True:
        rest = line[reached:].lstrip(" \t")
        start = len(line) - len(rest)
        if rest.startswith("//"):
            return len(line.rstrip("\r"))
        if rest.startswith("/*") and "*/" in rest[2:]:
            reached = start + rest.index("*/", 2) + 2
        else:
            return reached


def _pretty(value: object, indent: str, unit: str, newline: str, *, bare: bool = False) -> str:
    """Objects one member a line, lists in one line; ``bare`` leaves the outer braces out."""
    if not isinstance(value, Mapping) or not value:
        return json.dumps(value, ensure_ascii=False)
    inner = indent if bare else indent + unit
    members = [
        f"{json.dumps(str(key), ensure_ascii=False)}: {_pretty(item, inner, unit, newline)}"
        for key, item in value.items()
    ]
    joined = f",{newline}{inner}".join(members)
    return joined if bare else f"{{{newline}{inner}{joined}{newline}{indent}}}"
