"""Values that stand near their label and not right behind it: in the sentence, on the next line, in
the column of a table, in the next element.

The further a value stands from its label, the less it may look like anything but a secret.
Contract: redaction.md 4.3, 13.6.
"""

from __future__ import annotations

import re
from typing import Final

from memory_manager.security.redact.chosen_words import is_name, is_scheme, is_type_name
from memory_manager.security.redact.labels import Family
from memory_manager.security.redact.late import late
from memory_manager.security.redact.randomness import (
    MIN_CHARACTERS_PER_RUN,
    case_runs,
    common_pairs,
)
from memory_manager.security.redact.values import (
    MAX_JUDGED,
    explains_itself,
    is_key_like,
    is_secret_value,
)

Span = tuple[int, int]
REACH: Final = 72
TELLING_REACH: Final = REACH * 3
MAX_LETTER_RUNS: Final = 2.2
MAX_DRAWN_RUNS: Final = 3.4
MAX_DRAWN_PAIRS: Final = 0.68
MAX_TABLE_LINES: Final = 40
_DIGIT: Final = late(r"\d")
MIN_LONG_WORD: Final = 16
_LONG_WORD: Final = late(rf"(?<![A-Za-z])[A-Za-z]{{{MIN_LONG_WORD}}}")
_SENTENCE_END: Final = late(r"[.!?;,](?:\s|$)|[|\n。！？；，]|\\n")
_CHARACTER: Final = "[A-Za-z0-9!#$%&*+./:=?@^_~-]"
_TOKEN: Final = late(_CHARACTER + "{8,200}")
_TOKEN_REST: Final = late(_CHARACTER + "{1,200}")
_CONNECTED: Final = late(
    r"(?:\b(?:to|as|is|be|equals?|was|now|use|with|para|por|a|à|en|es|est|ist|sur|auf|zu|op|naar|in|je|er|är|este|είναι|adalah|là"
    r"|na|to|jest|è|é|será|olarak|oldu)|[:=—–→-]|на|в|как|—|هي|هو|إلى|[をはがにへ了为為成是는은를을가])"
    r"[ \t\"'`“«「]{0,3}$",
    re.IGNORECASE,
)
_MARKED: Final = late(r"[A-Za-z0-9]{3,}[!#%^*+][A-Za-z0-9]{3,}")
_SIGN: Final = late("[!#%^*+]")
_SYMBOL: Final = late(r"[!#$%^&*]")
_WORD_AND_NUMBER: Final = late(r"[A-Za-z]{4,24}(?!(?:19|20)\d\d$)\d{3,8}")
_WORDS_AND_NUMBER: Final = late(
    r"(?:[A-Za-z]{3,16}[-_.]){1,8}[A-Za-z]{0,16}(?!(?:19|20)\d\d$)\d{2,8}"
)
_NUMBER_INSIDE: Final = late(r"[A-Za-z]{3,16}\d{2,6}[-_./^@+=~][A-Za-z]{3,16}")
_NOT_A_VALUE: Final = late(
    r".*://.*|[A-Za-z_-]{2,24}[:=].+|[\w.+-]+@[\w-]+\.[\w.-]+|[0-9a-fA-F-]+|[\w.-]+\.(?:py|js|ts|go|rs|md|txt|json|ya?ml|toml"
    r"|env|sh|html?|css|java|rb|php|c|h|cpp|lock|cfg|conf|ini|pem|key|log|sql|xml)(?::\d+)*"
)
_QUESTION: Final = late(
    r"[\"'`*_)\]]{0,3}(?:[ \t](?:is|ist|est|es|é|è|to))?[ \t]{0,4}[?:：]?[ \t]{0,4}"
    r"(?:\r?\n|\\n){1,2}[ \t]{0,8}"
    r"(?:[-=~]{3,80}(?:\r?\n|\\n))?(?:(?:[>*-]|A:|R:|答[:：])[ \t]{1,4})?[\"'`]?"
)
_ANNOUNCED: Final = late(r"[^:：?]{0,8}[:：](?:\s|\\n){1,16}")
_LINE_END: Final = late(r"[\"'`]?[ \t]{0,8}(?:\r?\n|\\n|$)")
_NEXT_ELEMENT: Final = late(r"</[A-Za-z:]{1,20}>\s{0,40}<[A-Za-z:]{1,20}>\s{0,40}(?:<!\[CDATA\[)?")
_CALL: Final = late(r"\([ \t]{0,4}[\"'`](?=[^\"'`\n]{8,200}[\"'`])")
_BEFORE: Final = late(
    r"\b(?:use[ds]?|using|set|with|enter|type|try|chose|choose|put|usa[rm]?|utilisez?|benutze|nimm)"
    r"[ \t]{1,4}[\"'`“«]?([A-Za-z0-9!#$%&*+./:=?@^_~-]{8,120})[\"'`”»]?[ \t]{1,4}"
    r"(?:as|for|como|comme|als)[ \t]{1,4}(?:[a-z]{1,12}[ \t]{1,4}){0,3}$"
)
_PAIR_OF_VALUES: Final = late(
    r"[ \t]{0,4}[:=：][ \t]{0,4}[^\s/]{1,60}[ \t]{0,4}/[ \t]{0,4}([^\s\"'`,;]{6,120})"
)
_USER_AND_VALUE: Final = late(
    r"(?:[ \t]{1,2}(?:for|of|to)[ \t]\S{1,40})?[ \t]{0,4}(?:[:=]|are|is|were|->)[ \t]{0,4}[\"'`(]?"
    r"[\w.@+-]{1,60}(?:[ \t]{0,4}/[ \t]{0,4}|:)[\"'`]?([^\s\"'`,;()<>{}$]{8,128})"
)
_VALUES: Final = late(r"[^()]{0,400}\)\s{0,20}VALUES\s{0,20}\(", re.IGNORECASE)
_SQL_LITERAL: Final = late(
    r"\s{0,20}(?:N?'([^'\n]{0,400})'|[^',()]{0,200}(?:\([^()]{0,80}\))?)\s{0,20}([,)])"
)
_DELIMITERS: Final = ("|", "\t", ";", ",")
_NOT_IN_HEADER: Final = late(r"[\d=:(){}<>]")


def next_telling(text: str, start: int, stop: int) -> int:
    """Where the next digit or very long word stands; -1 if there is none before ``stop``."""
    digit = _DIGIT.search(text, start, stop)
    word = _LONG_WORD.search(text, start, digit.start() if digit is not None else stop)
    if word is not None:
        return word.start()
    return digit.start() if digit is not None else -1


def value_in_sentence(text: str, end: int, family: Family, telling: int) -> Span | None:
    """The first thing behind the label, in its sentence, that can only be a secret.

    No digit and no very long word stands between the label and ``telling``.
    """
    stop = _SENTENCE_END.search(text, end, end + REACH)
    limit = stop.start() if stop is not None else min(len(text), end + REACH)
    rest = _TOKEN_REST.match(text, limit)
    last = rest.end() if rest is not None else limit
    if telling >= last and _SIGN.search(text, end, last) is None:
        return None
    for found in _TOKEN.finditer(text, end, last):
        start = found.start()
        if start >= limit:
            return None
        value = found[0].rstrip(".:?")
        if len(value) < 8 or (len(value) < MIN_LONG_WORD and value.isalpha()):
            continue  # a word of the sentence
        if _NOT_A_VALUE.fullmatch(value) or explains_itself(value, quoted=True):
            continue
        connected = (
            not text[end:start].strip(" \t\"'`")
            or _CONNECTED.search(text, max(end - 1, start - 12), start) is not None
        )
        if is_beyond_doubt(value) or (connected and _is_connected_value(value, family)):
            return start, start + len(value)
    return None


def value_on_next_line(text: str, end: int, family: Family) -> Span | None:
    """A value alone on the line after its label: a heading, a question, a prompt."""
    head = _QUESTION.match(text, end)
    if head is None:
        return None
    found = _TOKEN.match(text, head.end())
    if found is None or _LINE_END.match(text, found.end()) is None:
        return None
    value = found[0]
    if _NOT_A_VALUE.fullmatch(value) or explains_itself(value, quoted=True):
        return None
    announced = family is Family.PASSWORD and _ANNOUNCED.fullmatch(head[0]) is not None
    if is_beyond_doubt(value) or _is_connected_value(value, family):
        return found.span()
    return found.span() if announced and _is_announced_value(value) else None


def value_in_call(text: str, end: int) -> Span | None:
    """``set_client_secret("...")``: a literal that looks like a key, handed to a name of one."""
    opening = _CALL.match(text, end)
    if opening is None:
        return None
    start = opening.end()
    close = text.find(text[start - 1], start, start + 201)
    value = text[start:close]
    if close < 0 or explains_itself(value, quoted=True):
        return None
    numbered = len(value) >= 12 and _WORD_AND_NUMBER.fullmatch(value) is not None
    return (start, close) if numbered or is_key_like(value) or is_beyond_doubt(value) else None


def value_in_next_element(text: str, end: int, family: Family) -> Span | None:
    """``<key>password</key><string>...</string>`` and tables of a page."""
    opening = _NEXT_ELEMENT.match(text, end)
    if opening is None:
        return None
    start = opening.end()
    close = text.find("]]>" if opening[0].endswith("[") else "<", start, start + 400)
    value = text[start:close].strip()
    if close < 0 or not value or not is_secret_value(value, family, quoted=True, tight=True):
        return None
    start = text.index(value, start)
    return start, start + len(value)


def values_in_column(text: str, start: int, end: int, family: Family) -> list[Span]:
    """The cells below a label that heads a column of a delimited or Markdown table."""
    line_start = text.rfind("\n", max(0, start - 400), start) + 1
    line_end = text.find("\n", end, end + 400)
    if line_end < 0 or (line_start == 0 and start > 400):
        return []
    if _NOT_IN_HEADER.search(text, line_start, line_end) is not None:
        return []
    header = text[line_start:line_end]
    delimiter = next((d for d in _DELIMITERS if d in header), None)
    if delimiter is None or not _is_header(header, delimiter):
        return []
    column = text.count(delimiter, line_start, start)
    width = header.count(delimiter)
    spans: list[Span] = []
    position = line_end + 1
    for _ in range(MAX_TABLE_LINES):
        stop = text.find("\n", position, position + 2000)
        line = text[position : stop if stop >= 0 else min(len(text), position + 2000)]
        cells = line.split(delimiter)
        if len(cells) != width + 1:
            break
        cell = cells[column]
        value = cell.strip(" \t\r\"'`")
        if value and _is_cell_value(value, family):
            offset = position + sum(len(c) + 1 for c in cells[:column]) + cell.index(value)
            spans.append((offset, offset + len(value)))
        if stop < 0:
            break
        position = stop + 1
    return spans


def _is_header(header: str, delimiter: str) -> bool:
    cells = [cell.strip(" \t\r\"'`*") for cell in header.strip(" \t\r|").split(delimiter)]
    return len(cells) >= 2 and all(
        0 < len(cell) <= 32 and not any(c.isdigit() or c in "=:(){}<>" for c in cell)
        for cell in cells
    )


def _is_cell_value(value: str, family: Family) -> bool:
    if sum(c.isdigit() for c in value) < 2 or not is_secret_value(
        value, family, quoted=True, tight=True
    ):
        return False
    return family is Family.PASSWORD or is_key_like(value) or is_beyond_doubt(value)


def is_plain_label(label: str) -> bool:
    """Whether a label is a name and not a piece of encoded text that happens to hold one."""
    if len(label) <= 4 or not label.isascii():
        return True
    return len(label) <= 40 and case_runs(label) >= MIN_CHARACTERS_PER_RUN


def second_of_pair(text: str, end: int) -> Span | None:
    """``login/password: bob / ...``: the labels come in pairs, and so do the values."""
    found = _PAIR_OF_VALUES.match(text, end)
    return found.span(1) if found is not None else None


def user_and_value(text: str, end: int) -> Span | None:
    """``creds: bob / ...``, ``credentials are bob:...``: the second of the two, if it tells."""
    found = _USER_AND_VALUE.match(text, end)
    if found is None:
        return None
    value = found[1].rstrip(".:?")
    tells = sum(c.isdigit() for c in value) >= 2 and any(c.isalpha() for c in value)
    if not (tells or is_beyond_doubt(value)) or explains_itself(value, quoted=True):
        return None
    return found.start(1), found.start(1) + len(value)


def inserted_value(text: str, start: int, end: int) -> Span | None:
    """``INSERT INTO t (name, password) VALUES ('bob', '...')``: the literal of that column."""
    if text[end : end + 1] not in ',) "`]' or "(" not in text[max(0, start - 200) : start]:
        return None
    head = _VALUES.match(text, end)
    if head is None:
        return None
    column = text.count(",", text.rfind("(", 0, start), start)
    for number, literal in enumerate(_SQL_LITERAL.finditer(text, head.end(), head.end() + 2000)):
        if number == column:
            return literal.span(1) if literal[1] else None
        if literal[2] == ")":
            return None
    return None


def value_before(text: str, start: int) -> Span | None:
    """``use VALUE as the password``: the value stands in front of its label."""
    near = text[max(0, start - 40) : start]
    if not any([word in near for word in (" as ", " for ", " como ", " comme ", " als ")]):
        return None
    found = _BEFORE.search(text, max(0, start - 160), start)
    if found is None:
        return None
    value = found[1].rstrip(".:")
    if _NOT_A_VALUE.fullmatch(value) or explains_itself(value, quoted=True):
        return None
    if is_beyond_doubt(value) or _is_connected_value(value, Family.PASSWORD):
        return found.start(1), found.start(1) + len(value)
    return None


def is_beyond_doubt(value: str) -> bool:
    """Letters and digits as nobody names a thing."""
    value = value[:MAX_JUDGED]
    digits = sum(c.isdigit() for c in value)
    letters = sum(c.isalpha() for c in value)
    if digits < 2 and _MARKED.fullmatch(value):
        # letters of both cases around one of the signs that names do not hold
        return any(c.isupper() for c in value) and _are_drawn(value)
    if digits < 2:
        return len(value) >= 16 and value.isascii() and value.isalnum() and _are_drawn(value)
    if letters < 2:
        return False
    if _SYMBOL.search(value) and len(value) >= 8:
        return value[0] not in "#$%&*" or digits >= 3
    if len(value) < 12 or value.islower() or value.isupper() or "/" in value[:1]:
        return False
    return (
        case_runs(value) < MIN_CHARACTERS_PER_RUN
        and digits >= 2
        and common_pairs(value) < 0.75
        and value.count("-") + value.count(".") + value.count("/") <= max(1, len(value) // 12)
    )


def _are_drawn(value: str) -> bool:
    """Letters drawn at random: cases change all the time, or often and no word is in them."""
    runs = case_runs(value)
    return runs < MAX_LETTER_RUNS or (
        runs < MAX_DRAWN_RUNS and common_pairs(value) < MAX_DRAWN_PAIRS
    )


def _is_announced_value(value: str) -> bool:
    """Alone on the line below ``Password:``: letters and three digits that name nothing."""
    return (
        sum(c.isdigit() for c in value) >= 3
        and sum(c.isalpha() for c in value) >= 3
        and not (is_name(value) or is_scheme(value))
    )


def _is_connected_value(value: str, family: Family) -> bool:
    """What may stand behind ``to``, ``is`` or a dash: also words with a number."""
    if sum(c.isdigit() for c in value) < 2 or not any(c.isalpha() for c in value):
        return False
    if _WORDS_AND_NUMBER.fullmatch(value) or _NUMBER_INSIDE.fullmatch(value):
        return True
    if _WORD_AND_NUMBER.fullmatch(value):
        return family is Family.PASSWORD or len(value) >= 12
    if is_type_name(value):
        return False
    mixed = any(c.isupper() for c in value) and any(c.islower() for c in value)
    return len(value) >= 10 and (mixed or is_key_like(value))
