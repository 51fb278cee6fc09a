"""Where a value begins and ends: quotes of all kinds, bare words, punctuation of the sentence."""

from __future__ import annotations

from typing import Final

from memory_manager.security.redact.late import late

MAX_BARE_CHARACTERS: Final = 8192
MAX_FOREIGN: Final = 64  # text without blanks runs on in some scripts; a password does not
_QUOTE: Final = late(r"(?:[fbruFBRU@$]{1,2}(?=[\"']))?(\"{3}|'{3}|\\{0,8}[\"'`]|[“‘«「『„])")
CLOSING: Final = {"“": "”", "‘": "’", "«": "»", "「": "」", "『": "』", "„": "“"}
_BARE: Final = late(
    r"(?:[^\s\"'`<>\\,;&，。；、！）」』】]++"
    r"|\\(?![nrtu\"'\\])|,(?=[^\s\"'`])|&(?![A-Za-z_]\w*=|amp;)|[\"'](?=[A-Za-z0-9@#$%^*]))+"
)
_CJK: Final = late(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_ESCAPED_BREAK: Final = late(r"\\[nrt]")


def read_value(text: str, position: int) -> tuple[int, int, bool]:
    """(start, end, quoted) of the value at ``position``; an empty span if there is none."""
    quote = _QUOTE.match(text, position)
    if quote is not None:
        opening = quote[1]
        closing = CLOSING.get(opening, opening)
        start = quote.end()
        end = _closing_quote(text, start, closing)
        if end is not None:
            if opening in CLOSING:
                # French quotes hold blanks of their own
                inner = text[start:end]
                start += len(inner) - len(inner.lstrip(" \u00a0\u202f"))
                end -= len(inner) - len(inner.rstrip(" \u00a0\u202f"))
            return start, max(start, end), True
        position = start
    plain = text[position : position + 1].isascii()
    bare = _BARE.match(text, position, position + (MAX_BARE_CHARACTERS if plain else MAX_FOREIGN))
    if bare is None:
        return position, position, False
    end = bare.end()
    value = text[position:end]
    escaped = _ESCAPED_BREAK.search(value)
    if escaped is not None:
        end = position + escaped.start()
        value = text[position:end]
    if value[:1].isascii():
        cjk = _CJK.search(value)
        if cjk is not None:
            end = position + cjk.start()
            value = text[position:end]
    trimmed = _trim(value)
    return position, position + len(trimmed), False


def _closing_quote(text: str, start: int, closing: str) -> int | None:
    limit = min(len(text), start + 16_384)
    position = start
    while True:
        found = text.find(closing, position, limit)
        if found < 0 or "\n" in text[start:found]:
            return None
        if len(closing) > 1 or text[found - 1] != "\\" or found == start:
            return found
        backslashes = found - len(text[start:found].rstrip("\\")) - start
        if backslashes % 2 == 0:
            return found
        position = found + 1


def _trim(value: str) -> str:
    """Punctuation of the sentence around the value is not part of it."""
    while value:
        last = value[-1]
        if last in ".,;:" or (last in ")]}" and value.count(last) > value.count(_OPEN[last])):
            value = value[:-1]
        elif value.endswith(("**", "__", "|")) and value[0] not in "*_":
            value = value.rstrip("*_|")
        else:
            break
    return value


_OPEN: Final = {")": "(", "]": "[", "}": "{"}
