"""What ties a value to the label before it: separators, quotes, options, running text.

Contract: redaction.md 4.3, 13.6.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from memory_manager.security.redact.label_values import after_login, judge
from memory_manager.security.redact.labels import Family
from memory_manager.security.redact.late import late
from memory_manager.security.redact.result import Severity
from memory_manager.security.redact.rule import Hit
from memory_manager.security.redact.value_reader import CLOSING
from memory_manager.security.redact.values import is_secret_value

_PAIR_EDGE: Final = (":", "=", " ", "\t", '"', "'", "`")
_ASSIGN: Final = late(
    r"(?:\\{0,8}[\"'`])?[\])]?(?:\*\*|__|</(?:b|strong|code|td|th)>)?(?:[ \t]\([^()\n]{1,30}\))?"
    r"(?P<before>[ \t]{0,64})(?P<op>:=|=>|->|={1,3}|[:：＝]|(?<=[ \t])\||<td>)(?:\*\*(?!\*)|__)?"
    r"(?P<after>(?:[ \t　]{0,64}[|>][+-]?[ \t]{0,8}(?:\n|\\n)[ \t]{1,40})"
    r"|(?:[ \t]{0,8}\r?\n[ \t]{1,40})|[ \t　]{0,64})"
)
_KIND_OF_OPERATOR: Final = {"==": "compare", "===": "compare", "->": "compare", "|": "cell"}
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
    r"[\"'`’]?(?:[ \t](?:for|of|to|on|do|da|del|de|der|von|für|для|pour|para|at|in"
    r"|voor)[ \t][^\n.:=]{1,40}?)?"
    r"(?:(?<=['’])s[ \t]{1,4}"
    r"|[ \t]{1,4}(?:is|was|será|é|è|es|est|este|ist|lautet|jest|je|er|är|είναι"
    r"|adalah|là|to|это|=|—|–|-|->|هي|هو"
    r"|becomes|now|remains|olan|olarak"
    r"|(?:was |has been |got )?(?:changed|rotated|reset|updated) to)"
    r"(?:[ \t]now|[ \t]set[ \t]to)?:?[ \t]{1,4}|[ \t]?(?:是|为|為|は|가|는|이|은)[ \t:：]{0,3}"
    r"|[ \t]{1,4}\((?=[^\s()]{8,64}\)))"
)
_FOR: Final = late(
    r"(?:[ \t](?:for|of|to|on|do|dos|da|das|del|della|de|der|des|du|von|vom|van|für|для|от|к|pour"
    r"|para|at|in|voor|per|dla|od)[ \t][^\n.:=]{1,40}?|[ \t][^\W\d_a-zA-Z]{2,24})"
    r"[ \t]?[:=：][ \t]{1,4}"
)
_DEFAULT: Final = late(
    r"[\"'][ \t]{0,4}\{[^{}=]{0,80}?default[ \t]{0,4}=[ \t]{0,4}(?=[\"'])", re.DOTALL
)
# a label that names a type or a module: `SecretString::new(value)`
_PATH_OF_TYPES: Final = late(r"::[A-Za-z_]\w{0,60}(?:\(|::|[<;),.!{])")
_LISTED: Final = late(r"[\"'],[ \t]{0,24}(?=[\"'])")
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


# a plain word behind a label ties no value to it, unless it is one of these
_NEXT_PLAIN: Final = late(r"[ \t]{1,4}([A-Za-z]{1,19})(?=[.,;)]?(?:\s|$))")
_LINKS: Final = frozenset(
    "for of to on do dos da das del della de der des du dla od von vom van pour para at in voor "
    "per is was e es est este ist lautet je "
    "jest er adalah becomes now remains olan olarak changed rotated reset updated has got value "
    "val".split()
)


def is_tied(text: str, end: int) -> bool:
    """Whether a separator stands behind a label."""
    return _ASSIGN.match(text, end) is not None


def _only_words_follow(text: str, start: int, end: int) -> bool:
    """Whether the sentence simply goes on behind the label, as it mostly does."""
    found = _NEXT_PLAIN.match(text, end)
    return (
        found is not None
        and found[1].lower() not in _LINKS
        and text[start : start + 2] != "--"
        and text[start - 1 : start] not in ("<", '"', "'")
        and not after_login(text, start)
    )


UNSEPARATED_STEPS: Final = 600
"""What reading behind a strong label costs where no separator says that a value follows."""


# nothing that ties a value to a label begins with one of these
_UNTIED: Final = frozenset("/.@#?!%&+$^~{}")


def value_behind(
    text: str,
    start: int,
    end: int,
    family: Family,
    charge: Callable[[int], None],
    strict: bool,
) -> Hit | None:
    """Look for a separator behind the label, read the value and judge it."""
    previous, following = text[start - 1 : start], text[end : end + 1]
    if following in _UNTIED:
        if not strict and family >= Family.SECRET:
            charge(UNSEPARATED_STEPS)
        return None
    if _only_words_follow(text, start, end):
        return None
    label = text[start:end]

    def judged(position: int, kind: str, *, tight: bool = False, below: bool = False) -> Hit | None:
        return judge(
            text, label, start, position, family, charge, tight=tight, kind=kind, multiline=below
        )

    found = _ASSIGN.match(text, end)
    if found is not None:
        if strict and family <= Family.VENDOR:
            return None
        op, after = found["op"], found["after"]
        typed = _TYPED.match(text, found.end()) if op == ":" else None
        if typed is not None:
            return judged(typed.end(), "assign")
        phrase = _PHRASE.match(text, found.end()) if "phrase" in label.lower() else None
        if phrase is not None and is_secret_value(phrase[0], family, quoted=True, tight=True):
            return Hit(*phrase.span(), "labelled-secret", Severity.CREDENTIAL, 0)
        if op in (":", "：") and previous == ":" and not after:
            return None  # a part of a resource name, as in arn:...:secret:name
        if op == ":" and _PATH_OF_TYPES.match(text, found.start("op")) is not None:
            return None
        if op == ":" and text[start - 2 : start] == "::":
            return None  # a type named as a key: "AWS::IAM::AccessKey"
        return judged(
            found.end(),
            _KIND_OF_OPERATOR.get(op, "assign"),
            tight=op == "=" and not found["before"] and not after,
            below="\n" in after or "\\n" in after,
        )
    if strict:
        return None
    if family >= Family.SECRET:
        charge(UNSEPARATED_STEPS)
    close = _XML_CLOSE.match(text, end) if previous == "<" else None
    if close is not None:
        return judged(close.end(), "xml", tight=True)
    if previous in _PAIR_EDGE and _is_value_of_name(text, start):
        pair = _PAIR.match(text, end)
        if pair is not None:
            return judged(pair.end(), "assign", tight=True)
    if following in CLOSING:
        return judged(end, "bare")
    if previous in ("'", '"'):
        listed = _LISTED.match(text, end)
        if listed is not None:
            return judged(listed.end(), "bare")
        default = _DEFAULT.match(text, end)
        if default is not None:
            return judged(default.end(), "assign")
    space = _SPACE.match(text, end)
    if space is not None and label.startswith("--"):
        return judged(space.end(), "option", tight=True)
    if space is not None and family > Family.VENDOR and _is_set_command(text, start):
        hit = judged(space.end(), "set", tight=True)
        if hit is not None:
            return hit
    prose = _FOR.match(text, end, end + 64) or _PROSE.match(text, end, end + 80)
    if prose is not None:
        if family <= Family.VENDOR:
            return None
        phrase = _PHRASE.match(text, prose.end()) if "phrase" in label.lower() else None
        if phrase is not None and _is_said_phrase(phrase[0], family):
            return Hit(*phrase.span(), "prose-secret", Severity.CREDENTIAL, 0)
        return judged(prose.end(), "paren" if prose[0].endswith("(") else "prose")
    if space is not None and text[space.end() : space.end() + 1] not in ("", "=", ":"):
        if family >= Family.SECRET or text.startswith("0x", space.end()):
            return judged(space.end(), "bare")
    return None


def _is_said_phrase(phrase: str, family: Family) -> bool:
    """``the passphrase is ...`` and four words or more that tell nothing about it."""
    words = phrase.split()
    return (
        len(words) >= 4
        and not any(word.endswith(("ed", "ing", "ly")) for word in words)
        and words[0] not in ("kept", "set", "written", "hidden", "known", "made", "built", "held")
        and is_secret_value(phrase, family, quoted=True, tight=True)
    )


def _is_value_of_name(text: str, start: int) -> bool:
    before = text[max(0, start - 48) : start]
    tied = before.rstrip(" \t\\\"'`").endswith((":", "="))
    return tied and _PAIR_BEFORE.search(before) is not None


def _is_set_command(text: str, start: int) -> bool:
    line = text[max(0, start - 120, text.rfind("\n", 0, start) + 1) : start]
    return _SET_WORD.search(line) is not None and _SET_BEFORE.search(line) is not None
