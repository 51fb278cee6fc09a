"""Labelled secrets: ``password=...``, JSON and YAML keys, options, headers, prose, several
languages.

Contract: redaction.md 4.3, 13.6.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from memory_manager.security.redact import nearby
from memory_manager.security.redact.behind_label import is_tied, value_behind
from memory_manager.security.redact.label_rules import rule_for
from memory_manager.security.redact.label_words import BLOCKING_SUFFIXES
from memory_manager.security.redact.labels import Family, classify, classify_phrase, qualified
from memory_manager.security.redact.late import late
from memory_manager.security.redact.result import Severity
from memory_manager.security.redact.rule import Hit
from memory_manager.security.redact.values import is_secret_value

MAX_LABEL_CHARACTERS: Final = 64
LABEL_STEPS: Final = 200
FAR_VALUE_STEPS: Final = 400  # a value that does not stand right behind its label is looked for
MAX_QUALIFIER: Final = 20
_FOLLOWERS: Final = frozenset({"", " ", "\t", "\n", "\r", "\\", ":", "?", '"', "'", "`", "*"})
_NEXT_WORD: Final = late(r"[ \t]([A-Za-z]{2,16})\b")
_LETTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
_QUALIFIER_CHARACTERS: Final = _LETTERS + "-"
_LABEL_CHARACTERS: Final = _LETTERS + "0123456789_-."


def labelled_secrets(
    text: str,
    places: Iterable[tuple[int, str]],
    charge: Callable[[int], None],
    *,
    strict: bool = False,
) -> Iterator[Hit]:
    """Hits for values that a label calls secret; ``strict`` takes strong labels with ``:``/``=``
    only.

    ``places`` are the label anchors of the text, positions ascending. ``charge`` is told how many
    characters each label costs.
    """
    done = 0
    near = _Near(text)
    for position, anchor in places:
        if position < done:
            continue
        start, end = _label_span(text, position, anchor)
        if end <= done:
            continue
        done = end
        charge(LABEL_STEPS)
        family = qualified(text[start:end], _qualifier(text, start))
        if family is Family.NONE:
            continue
        hit = value_behind(text, start, end, family, charge, strict)
        if hit is None and not strict and family >= Family.SECRET:
            charge(FAR_VALUE_STEPS)
            hit = _near_label(text, start, end, family, charge, near)
            if hit is None:
                for span in nearby.values_in_column(text, start, end, family):
                    yield Hit(*span, "labelled-secret", Severity.CREDENTIAL, 0)
        if hit is not None:
            yield hit
            done = hit.end


class _Near:
    """Whether a value may stand near a place of a text; every stretch is looked at once."""

    __slots__ = ("_clear", "_text", "_told")

    def __init__(self, text: str) -> None:
        self._text = text
        self._told = -1
        self._clear = 0

    def telling(self, place: int) -> int | None:
        """Where the first digit or very long word behind ``place`` stands, if it is not far; places
        ascend.
        """
        stop = place + nearby.TELLING_REACH
        if self._told < place:
            low = max(place, self._clear - nearby.MIN_LONG_WORD)
            self._told = nearby.next_telling(self._text, low, stop)
            if self._told < 0:
                self._clear = stop
                return None
        return self._told if self._told <= stop else None


def _label_span(text: str, position: int, anchor: str) -> tuple[int, int]:
    before = text[max(0, position - MAX_LABEL_CHARACTERS) : position]
    start = position - (len(before) - len(before.rstrip(_LABEL_CHARACTERS)))
    after = text[position + len(anchor) : position + MAX_LABEL_CHARACTERS]
    end = position + len(anchor) + len(after) - len(after.lstrip(_LABEL_CHARACTERS))
    while end > position + len(anchor) and text[end - 1] in ".-":
        end -= 1
    return start, end


def _near_label(
    text: str,
    start: int,
    end: int,
    family: Family,
    charge: Callable[[int], None],
    near: _Near,
) -> Hit | None:
    """A value that stands near the label: in its sentence, on the next line, in a call."""
    following = text[end : end + 1]
    label = text[start:end]
    if not nearby.is_plain_label(label):
        return None
    span: tuple[int, int] | None = None
    if text[start - 1 : start] in ("/", "+"):
        span = nearby.second_of_pair(text, end)
        if span is None or not is_secret_value(text[slice(*span)], family, quoted=True, tight=True):
            return None
        return Hit(*span, "labelled-secret", Severity.CREDENTIAL, 0)
    if label.lower().startswith("cred"):
        span = nearby.user_and_value(text, end)
        if span is not None:
            return Hit(*span, "prose-secret", Severity.CREDENTIAL, 0)
    if family >= Family.SECRET and (span := nearby.inserted_value(text, start, end)) is not None:
        value = text[slice(*span)]
        if is_secret_value(value, family, quoted=True, tight=True):
            return Hit(*span, "labelled-secret", Severity.CREDENTIAL, 0)
    telling = near.telling(end)
    if telling is None:
        span = nearby.value_before(text, start) if text[start - 1 : start] == " " else None
        return None if span is None else Hit(*span, "prose-secret", Severity.CREDENTIAL, 0)
    if label.lower() == "pass" and following == " ":
        return None  # a verb: pass this or that to something
    next_word = _NEXT_WORD.match(text, end)
    said = next_word[1].lower() if next_word is not None else ""
    if following == "(":
        span = nearby.value_in_call(text, end)
    elif following == "<" and text[start - 1 : start] == ">":
        span = nearby.value_in_next_element(text, end, family)
    elif (following in _FOLLOWERS or not following.isascii()) and (
        classify(said) is Family.NONE or not said
    ):
        charge(nearby.REACH)
        span = nearby.value_on_next_line(text, end, family)
        blocked = said in BLOCKING_SUFFIXES and said != "equals"
        if span is None and not blocked and not is_tied(text, end):
            span = nearby.value_in_sentence(text, end, family, telling)
    if span is None and text[start - 1 : start] == " ":
        span = nearby.value_before(text, start)
    if span is None:
        return None
    rule, severity = rule_for(text, label, start, text[slice(*span)], "prose")
    return Hit(*span, rule, severity, 3 if severity is Severity.HIGH_RISK else 0)


def _qualifier(text: str, start: int) -> str:
    """The word right before a label, one blank between; empty if there is none."""
    if text[start - 1 : start] not in (" ", "\t"):
        return ""
    before = text[max(0, start - 1 - MAX_QUALIFIER) : start - 1]
    word = before[len(before.rstrip(_QUALIFIER_CHARACTERS)) :]
    return word if len(word) > 1 else ""


def phrase_family(name: str) -> Family:
    """The family of a whole key or header name, for rows."""
    family = classify(name)
    return family if family is not Family.NONE else classify_phrase(name)
