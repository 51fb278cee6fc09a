"""Labelled secrets: ``password=...``, JSON and YAML keys, options, headers, prose, several
languages.

Contract: redaction.md 4.3, 13.6.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from memory_manager.security.redact import nearby
from memory_manager.security.redact.label_rules import rule_for
from memory_manager.security.redact.label_words import (
    BLOCKING_SUFFIXES,
    PASSWORD_PHRASES,
    SECRET_PHRASES,
    STEMS,
    VENDOR_WORDS,
)
from memory_manager.security.redact.labels import (
    Family,
    classify,
    classify_phrase,
)
from memory_manager.security.redact.late import late
from memory_manager.security.redact.result import Severity
from memory_manager.security.redact.rule import Hit
from memory_manager.security.redact.value_reader import CLOSING, read_value
from memory_manager.security.redact.values import is_key_like, is_secret_value

MAX_LABEL_CHARACTERS: Final = 64
LABEL_STEPS: Final = 500
_PAIR_EDGE: Final = (":", "=", " ", "\t", '"', "'", "`")
_FOLLOWERS: Final = frozenset({"", " ", "\t", "\n", "\r", "\\", ":", "?", '"', "'", "`", "*"})
_NEXT_WORD: Final = late(r"[ \t]([A-Za-z]{2,16})\b")
_QUALIFIER: Final = late(r"([A-Za-z-]{2,20})[ \t]$")
_LABEL_CHARACTERS: Final = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."
LABEL_ANCHORS: Final = (*STEMS, *PASSWORD_PHRASES, *SECRET_PHRASES, *VENDOR_WORDS)

_ASSIGN: Final = late(
    r"(?:\\{0,8}[\"'`])?[\])]?(?:\*\*|__|</(?:b|strong|code|td|th)>)?(?:[ \t]\([^()\n]{1,30}\))?"
    r"(?P<before>[ \t]{0,64})(?P<op>:=|=>|->|={1,3}|[:：＝]|(?<=[ \t])\||<td>)(?:\*\*(?!\*)|__)?"
    r"(?P<after>(?:[ \t　]{0,64}[|>][+-]?[ \t]{0,8}(?:\n|\\n)[ \t]{1,40})"
    r"|(?:[ \t]{0,8}\r?\n[ \t]{1,40})|[ \t　]{0,64})"
)
_PAIR: Final = late(
    r"(?:\\{0,8}[\"'`])?[ \t]{0,8}[,;]?(?:\s|\\n){0,40}\\{0,8}[\"']?(?i:value"
    r"|val)\\{0,8}[\"']?[ \t]{0,8}[:=][ \t]{0,8}"
    r"|\\{0,8}[\"'][ \t]{0,8}>"
)
_PAIR_BEFORE: Final = late(
    r"(?:name|key|id|variable|field|header)\\{0,8}[\"']?[ \t]{0,8}[:=][ \t]{0,8}\\{0,8}[\"'`]?$",
    re.IGNORECASE,
)
_PROSE: Final = late(
    r"[\"'`]?(?:[ \t](?:for|of|to|on|do|da|del|de|der|von|für|для|pour|para|at|in"
    r"|voor)[ \t][^\n.:=]{1,40}?)?"
    r"(?:[ \t]{1,4}(?:is|was|será|é|è|es|est|este|ist|lautet|jest|je|er|är|είναι"
    r"|adalah|là|to|это|=|—|–|-|->|هي|هو"
    r"|becomes|now|remains|olan|olarak"
    r"|(?:was |has been |got )?(?:changed|rotated|reset|updated) to)"
    r"(?:[ \t]now|[ \t]set[ \t]to)?:?[ \t]{1,4}|[ \t]?(?:是|为|為|は|가|는|이|은)[ \t:：]{0,3}"
    r"|[ \t]{1,4}\((?=[^\s()]{8,64}\)))"
)
_FOR: Final = late(
    r"[ \t](?:for|of|to|on|do|da|del|de|der|von|für|для|pour|para|at|in|voor|per)[ \t]"
    r"[^\n.:=]{1,40}?[ \t]?[:=：][ \t]{1,4}"
)
_DEFAULT: Final = late(
    r"[\"'][ \t]{0,4}\{[^{}=]{0,80}?default[ \t]{0,4}=[ \t]{0,4}(?=[\"'])", re.DOTALL
)
_ARGUMENT: Final = late(r"\w(?:=[\"']|\[)")
_ARGUMENT_NAMED: Final = late(r"[A-Za-z_]\w{1,30}=(?:[A-Za-z_][\w.]*|\d{0,4})")
_FILE_NAME: Final = late(r"\.[a-z]{1,5}$")
_HYPHENATED: Final = late(r"(?:[A-Za-z]{3,16}[-_.]){2,8}[A-Za-z]{0,16}[0-9]{2,8}")
_LISTED: Final = late(r"[\"'],[ \t]{0,24}(?=[\"'])")
# a value that nothing but a blank ties to its label must be beyond doubt
_STRONG: Final = late(
    r"(?=[^\s]*[0-9])(?=[^\s]*[a-z])(?=[^\s]*[A-Z!#$%^*])[^\s/()={}<>\[\]:,]{8,200}"
    r"|0x[0-9a-fA-F]{64}"
    r"|(?=(?:[^\s0-9]*[0-9]){3})(?=[^\s]*[a-z])(?=[^\s]*[A-Z])[A-Za-z0-9][A-Za-z0-9/+]{9,80}"
)
_TYPED: Final = late(
    r"[ \t]{0,4}&?(?:'static )?[A-Za-z][\w<>\[\]|.?&]{0,40}[ \t]{1,4}=[ \t]{0,4}(?=[\"'])"
)
_PHRASE: Final = late(r"[a-z]{2,12}(?:[ -][a-z]{2,12}){2,11}(?=[ \t]*(?:$|\n|\\n|[.,;]))")
_SPACE: Final = late(r"[ \t]{1,8}")
_XML_CLOSE: Final = late(r"(?:\s[^<>\n]{0,60})?>(?:<!\[CDATA\[)?")
_SET_WORD: Final = late(
    r"\b(?:set|setx|setenv|define|config|configure|env|arg|put|add|export|login|machine)\b",
    re.IGNORECASE,
)
_SET_BEFORE: Final = late(
    r"(?:\b(?:set|setx|setenv|define|config|configure|env|arg|put|add|export)(?::\w+)?"
    r"(?:[ \t]+(?:set|--\w+|-\w))?|\blogin[ \t]+\S{1,60}"
    r"|\bmachine[ \t]+\S{1,60}.{0,60})[ \t]+\S{0,40}$",
    re.IGNORECASE,
)
_CELL_END: Final = late(r"[\"'`]?[ \t]{0,64}(?:\||\n|$)")
_SENTENCE: Final = late(
    r"(?:options?|flags?|arguments?|args?|params?|parameters?|switch|switches|values?|and|or|is|are"
    r"|was|for|to|must|can|cannot|will|should|instead|with|without|if|in|as|on|when|from|the|a|an|may|it|that|which)"
)
_TELLING: Final = late(r"[0-9!@#$%^&*+=~]")
_AUTH_SCHEME: Final = late(
    r"(?:bearer|basic|token|apikey|api-key|ssws|bot|key|jwt|splunk|digest)[ \t]+",
    re.IGNORECASE,
)


def labelled_secrets(
    text: str,
    lowered: str,
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
    families: dict[tuple[str, str], Family] = {}
    telling = -1
    for position, anchor in places:
        if position < done or (anchor == "pat" and not _stands_alone(lowered, position, 3)):
            continue
        start, end = _label_span(text, position, anchor)
        if end <= done:
            continue
        done = end
        charge(LABEL_STEPS)
        label = text[start:end]
        qualifier = _QUALIFIER.search(text, max(0, start - 22), start)
        named = (label, qualifier[1] if qualifier is not None else "")
        family = families.get(named)
        if family is None:
            family = families[named] = _family(*named)
        if family is Family.NONE:
            continue
        hit = _after_label(text, start, end, family, charge, strict)
        if hit is None and not strict and family >= Family.SECRET:
            if telling < end:
                telling = nearby.next_telling(text, end)
            hit = _near_label(text, start, end, family, charge, telling - end <= nearby.REACH * 3)
            if hit is None:
                for span in nearby.values_in_column(text, start, end, family):
                    yield Hit(*span, "labelled-secret", Severity.CREDENTIAL, 0)
        if hit is not None:
            yield hit
            done = hit.end


def _stands_alone(lowered: str, position: int, size: int) -> bool:
    """Whether no letter touches these ``size`` characters: they are a word of their own."""
    before, after = (
        lowered[max(0, position - 1) : position],
        lowered[position + size :][:1],
    )
    return not before.isalpha() and not after.isalpha()


def _label_span(text: str, position: int, anchor: str) -> tuple[int, int]:
    before = text[max(0, position - MAX_LABEL_CHARACTERS) : position]
    start = position - (len(before) - len(before.rstrip(_LABEL_CHARACTERS)))
    after = text[position + len(anchor) : position + MAX_LABEL_CHARACTERS]
    end = position + len(anchor) + len(after) - len(after.lstrip(_LABEL_CHARACTERS))
    while end > position + len(anchor) and text[end - 1] in ".-":
        end -= 1
    return start, end


def _after_label(
    text: str,
    start: int,
    end: int,
    family: Family,
    charge: Callable[[int], None],
    strict: bool,
) -> Hit | None:
    """Look for a separator after the label, read the value and judge it."""
    label = text[start:end]
    found = _ASSIGN.match(text, end)
    if found is not None:
        if strict and family <= Family.VENDOR:
            return None
        typed = _TYPED.match(text, found.end()) if found["op"] == ":" else None
        if typed is not None:
            return _judge(
                text,
                label,
                start,
                typed.end(),
                family,
                charge,
                tight=False,
                kind="assign",
            )
        phrase = _PHRASE.match(text, found.end()) if "phrase" in label.lower() else None
        if phrase is not None and is_secret_value(phrase[0], family, quoted=True, tight=True):
            return Hit(*phrase.span(), "labelled-secret", Severity.CREDENTIAL, 0)
        op = found["op"]
        if op in (":", "：") and text[start - 1 : start] == ":" and not found["after"]:
            return None  # a part of a resource name, as in arn:...:secret:name
        tight = op in "=" and not found["before"] and not found["after"]
        if op in ("==", "===", "->"):
            tight = False
            kind = "compare"
        elif op == "|":
            kind = "cell"
        else:
            kind = "assign"
        multiline = "\n" in found["after"] or "\\n" in found["after"]
        return _judge(
            text,
            label,
            start,
            found.end(),
            family,
            charge,
            tight=tight,
            kind=kind,
            multiline=multiline,
        )
    if strict:
        return None
    next_character = text[end : end + 1]
    if next_character == ">" or (next_character.isspace() and text[start - 1 : start] == "<"):
        close = _XML_CLOSE.match(text, end) if text[start - 1 : start] == "<" else None
        if close is not None:
            return _judge(text, label, start, close.end(), family, charge, tight=True, kind="xml")
    if text[start - 1 : start] in _PAIR_EDGE and _PAIR_BEFORE.search(
        text[max(0, start - 48) : start]
    ):
        pair = _PAIR.match(text, end)
        if pair is not None:
            return _judge(
                text,
                label,
                start,
                pair.end(),
                family,
                charge,
                tight=True,
                kind="assign",
            )
    if text[end : end + 1] in CLOSING:
        return _judge(text, label, start, end, family, charge, tight=False, kind="bare")
    listed = _LISTED.match(text, end) if text[start - 1 : start] in ("'", '"') else None
    if listed is not None:
        return _judge(text, label, start, listed.end(), family, charge, tight=False, kind="bare")
    default = _DEFAULT.match(text, end) if text[start - 1 : start] in ("'", '"') else None
    if default is not None:
        return _judge(
            text,
            label,
            start,
            default.end(),
            family,
            charge,
            tight=False,
            kind="assign",
        )
    space = _SPACE.match(text, end)
    if space is not None and label.startswith("--"):
        return _judge(text, label, start, space.end(), family, charge, tight=True, kind="option")
    if space is not None and _is_set_command(text, start):
        if family > Family.VENDOR:
            hit = _judge(text, label, start, space.end(), family, charge, tight=True, kind="set")
            if hit is not None:
                return hit
    prose = _FOR.match(text, end, end + 64) or _PROSE.match(text, end, end + 80)
    if prose is not None:
        if family <= Family.VENDOR:
            return None
        kind = "paren" if prose[0].endswith("(") else "prose"
        return _judge(text, label, start, prose.end(), family, charge, tight=False, kind=kind)
    if space is not None and text[space.end() : space.end() + 1] not in ("", "=", ":"):
        if family >= Family.SECRET or text.startswith("0x", space.end()):
            return _judge(
                text,
                label,
                start,
                space.end(),
                family,
                charge,
                tight=False,
                kind="bare",
            )
    return None


def _near_label(
    text: str,
    start: int,
    end: int,
    family: Family,
    charge: Callable[[int], None],
    telling: bool,
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
    if not telling:
        span = nearby.value_before(text, start) if text[start - 1 : start] == " " else None
        return None if span is None else Hit(*span, "prose-secret", Severity.CREDENTIAL, 0)
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
        if span is None and not blocked and _ASSIGN.match(text, end) is None:
            span = nearby.value_in_sentence(text, end, family)
    if span is None and text[start - 1 : start] == " ":
        span = nearby.value_before(text, start)
    if span is None:
        return None
    rule, severity = rule_for(text, label, start, text[slice(*span)], "prose")
    return Hit(*span, rule, severity, 3 if severity is Severity.HIGH_RISK else 0)


def _family(label: str, qualifier: str) -> Family:
    """The family of a label; a qualifier may be a word before it: "api key", "public key"."""
    family = classify(label)
    if family is not Family.PASSWORD and qualifier and label != "PAT":
        qualified = classify(f"{qualifier}_{label}")
        if family is Family.NONE or qualified is Family.NONE or qualified > family:
            return qualified
    return family


def _judge(
    text: str,
    label: str,
    label_start: int,
    position: int,
    family: Family,
    charge: Callable[[int], None],
    *,
    tight: bool,
    kind: str,
    multiline: bool = False,
) -> Hit | None:
    if family is Family.NONE:
        return None
    start, end, quoted = read_value(text, position)
    if end <= start:
        return None
    charge(end - start)
    value = text[start:end]
    scheme = _AUTH_SCHEME.match(text, start)
    if scheme is not None and not value[: scheme.end() - scheme.start()].isspace():
        inner, inner_end, _ = (
            (scheme.end(), end, quoted) if quoted else read_value(text, scheme.end())
        )
        if inner_end > inner and family is not Family.PASSWORD:
            start, end = inner, inner_end
            value = text[start:end]
    # an environment line, `DB_PASSWORD=swordfish`, is no place for an identifier
    environment = label.isupper() and tight and family is Family.PASSWORD and len(value) >= 8
    if family is Family.WEAK and label.isupper() and tight and label.endswith("KEY"):
        family = Family.VENDOR  # `ACME_KEY=...`: an environment line hands out keys
    sure = kind in ("option", "set") or (environment and value.isalpha())
    if kind == "bare" and not (
        (_STRONG.fullmatch(value) or _HYPHENATED.fullmatch(value))
        if family is Family.PASSWORD
        else _is_bare_token(value)
    ):
        if not (quoted and _in_quotes(value, family)):
            return None
    if kind == "compare" and not (quoted or is_key_like(value) or nearby.is_beyond_doubt(value)):
        return None
    if kind == "cell" and _CELL_END.match(text, end) is None:
        return None
    if kind in ("bare", "prose") and quoted and _ARGUMENT_NAMED.fullmatch(value):
        return None  # Pass `dtype=float32` to ...
    if "](" in value or (kind == "xml" and text[end : end + 1] not in ("<", "]", "\n", "\r", "")):
        return None
    if kind == "paren" and not _in_parentheses(value):
        return None
    if kind == "option" and not quoted and (_SENTENCE.fullmatch(value) or _metavariable(value)):
        return None
    if kind == "prose" and not quoted:
        if _prose_word(value):
            return None
    if (
        sure
        and not environment
        and (value.startswith("-") or (kind == "set" and not quoted and _prose_word(value)))
    ):
        if not (kind == "set" and _after_login(text, label_start) and value.isalnum()):
            return None
    if (
        multiline
        and (
            (not quoted and value.endswith(":"))
            # the end of a signature and the text below it
            or text[label_start + len(label) : label_start + len(label) + 1] == ")"
        )
    ):
        return None
    if not is_secret_value(value, family, quoted=quoted, tight=tight, sure=sure):
        return None
    rule, severity = rule_for(text, label, label_start, value, kind)
    return Hit(start, end, rule, severity, 3 if severity is Severity.HIGH_RISK else 0)


def _in_quotes(value: str, family: Family) -> bool:
    """A quoted value right after its label: ``the admin password `...` works``."""
    if _ARGUMENT.search(value):
        return False
    if is_key_like(value) or (len(value) >= 12 and nearby.is_beyond_doubt(value)):
        return True
    return (
        family is Family.PASSWORD
        and len(value) >= 8
        and sum(c.isdigit() for c in value) >= 2
        and any(c.isalpha() for c in value)
        and not any(c.isspace() for c in value)
    )


def _in_parentheses(value: str) -> bool:
    """A value between parentheses is rarely one: it must not be a name, a file or a term."""
    if len(value) < 10 or sum(c.isdigit() for c in value) < 2 or _FILE_NAME.search(value):
        return False
    return bool(_STRONG.fullmatch(value) or _HYPHENATED.fullmatch(value)) or is_key_like(value)


def _is_set_command(text: str, start: int) -> bool:
    line = text[max(0, start - 120, text.rfind("\n", 0, start) + 1) : start]
    return _SET_WORD.search(line) is not None and _SET_BEFORE.search(line) is not None


def _metavariable(value: str) -> bool:
    """``--token TOKEN`` in a usage line."""
    return value.isupper() and value.isalpha() and classify(value) is not Family.NONE


def _is_bare_token(value: str) -> bool:
    """A value that only a blank ties to ``token`` or ``api key``: it must tell by itself."""
    if _STRONG.fullmatch(value):
        return len(value) >= 12 or value.startswith("0x")
    return len(value) >= 20 and value.isascii() and value.isalnum() and is_key_like(value)


def _prose_word(value: str) -> bool:
    """In running text an unquoted word without digits or symbols is just the next word."""
    return _TELLING.search(value, 0, len(value) - 1) is None and not value[-1:].isdigit()


def _after_login(text: str, start: int) -> bool:
    return "login" in text[max(0, start - 100) : start]


def phrase_family(name: str) -> Family:
    """The family of a whole key or header name, for rows."""
    family = classify(name)
    return family if family is not Family.NONE else classify_phrase(name)
