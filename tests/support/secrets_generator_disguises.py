"""Encodings and disguises of a token (redaction.md 6): the text, and the forms that must go."""

from __future__ import annotations

import base64
from collections.abc import Callable

from secrets_generator_draw import Draw

Disguise = Callable[[str, str, Draw], tuple[str, tuple[str, ...]]]
FULL_WIDTH = {code: code + 0xFEE0 for code in range(0x21, 0x7F)}
LOOK_ALIKES = str.maketrans("aceiopsxyABEHKMOPTX", "асеіорѕхуАВЕНКМОРТХ")
ANSI = "\x1b[1m"


def _every(text: str, code: Callable[[str], str]) -> str:
    return "".join(code(character) for character in text)


def _between(filler: str, step: int = 1) -> Disguise:
    def draw(text: str, core: str, _draw: Draw) -> tuple[str, tuple[str, ...]]:
        def spread(part: str) -> str:
            pieces = [part[at : at + step] for at in range(0, len(part), step)]
            return filler.join(pieces)

        return "note: " + spread(text) + " end", (spread(core),)

    return draw


def _cut(joint: str, before: str = "", after: str = "") -> Disguise:
    """The text cut in two (or more) lines or strings; each half of the core must go."""

    def draw(text: str, core: str, source: Draw) -> tuple[str, tuple[str, ...]]:
        at = text.index(core) + source.random.randrange(len(core) // 3, 2 * len(core) // 3)
        cut = at - text.index(core)
        return before + text[:at] + joint + text[at:] + after, (core[:cut], core[cut:])

    return draw


def _coded(code: Callable[[str], str], frame: str = "blob {} end") -> Disguise:
    def draw(text: str, _core: str, _draw: Draw) -> tuple[str, tuple[str, ...]]:
        shown = code(text)
        return frame.format(shown), (shown,)

    return draw


def _per_character(code: Callable[[str], str]) -> Disguise:
    def draw(text: str, core: str, _draw: Draw) -> tuple[str, tuple[str, ...]]:
        return "see " + _every(text, code) + " end", (_every(core, code),)

    return draw


def _marked(code: Callable[[str], str], frame: str = "see {} end") -> Disguise:
    """Only some characters are changed, the same way in the core."""

    def draw(text: str, core: str, _draw: Draw) -> tuple[str, tuple[str, ...]]:
        return frame.format(code(text)), (code(core),)

    return draw


def _prefix(change: Callable[[str], str]) -> Disguise:
    def draw(text: str, core: str, _draw: Draw) -> tuple[str, tuple[str, ...]]:
        at = text.index(core)
        return "use " + change(text[:at]) + text[at:] + " now", (core,)

    return draw


def _b64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _b64url(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).rstrip(b"=").decode()


def _specials(text: str) -> str:
    return _every(text, lambda c: c if c.isalnum() else f"%{ord(c):02X}")


def _markdown(text: str) -> str:
    return text.replace("_", "\\_").replace("-", "\\-").replace(".", "\\.")


def _mixed_u(text: str) -> str:
    return _every(text, lambda c: c if c.isalnum() else f"\\u{ord(c):04x}")


DISGUISES: dict[str, Disguise] = {
    "base64": _coded(_b64),
    "base64-json": _coded(_b64, '{{"blob": "{}"}}'),
    "base64url": _coded(_b64url),
    "base64-double": _coded(lambda text: _b64(_b64(text))),
    "base64-label": _coded(lambda text: _b64("token=" + text)),
    "base64-sentence": _coded(lambda text: _b64(f"please use {text} for the deploy")),
    "hex": _coded(lambda text: text.encode().hex()),
    "hex-upper": _coded(lambda text: text.encode().hex().upper()),
    "percent-full": _per_character(lambda c: f"%{ord(c):02x}"),
    "percent-upper": _per_character(lambda c: f"%{ord(c):02X}"),
    "percent-specials": _marked(_specials),
    "percent-layers": _marked(lambda text: _specials(text).replace("%", "%252525")),
    "u-full": _per_character(lambda c: f"\\u{ord(c):04x}"),
    "u-single": _prefix(_mixed_u),
    "x-full": _per_character(lambda c: f"\\x{ord(c):02x}"),
    "html-decimal": _per_character(lambda c: f"&#{ord(c)};"),
    "html-hex": _per_character(lambda c: f"&#x{ord(c):x};"),
    "html-specials": _prefix(lambda t: _every(t, lambda c: c if c.isalnum() else f"&#{ord(c)};")),
    "zero-width": _between("\u200b", 4),
    "zero-width-each": _between("\u200b"),
    "joiner": _between("\u200d", 5),
    "word-joiner": _between("\u2060", 3),
    "bom": _between("\ufeff", 7),
    "soft-hyphen": _between("\u00ad", 6),
    "bidi": _marked(lambda text: text[:5] + "\u202e" + text[5:] + "\u202c"),
    "isolate": _between("\u2066", 8),
    "variation": _between("\ufe0f", 5),
    "tag": _between("\U000e0041", 6),
    "grapheme-joiner": _between("\u034f", 4),
    "full-width": _marked(lambda text: text.translate(FULL_WIDTH)),
    "full-width-prefix": _prefix(lambda text: text.translate(FULL_WIDTH)),
    "homoglyph-prefix": _prefix(lambda text: text.translate(LOOK_ALIKES)),
    "wrap-hard": _cut("\n"),
    "wrap-crlf": _cut("\r\n"),
    "wrap-indent": _cut("\n    ", "value: "),
    "wrap-indent-deep": _cut("\n            ", "  value: "),
    "wrap-backslash": _cut("\\\n", "tool "),
    "wrap-backslash-indent": _cut("\\\n    ", "tool "),
    "wrap-quote": _cut("\n> ", "> it is "),
    "wrap-quote-twice": _cut("\n>> ", ">> it is "),
    "concat-plus": _cut('" + "', 'x = "', '"'),
    "concat-single": _cut("' + '", "x = '", "'"),
    "concat-lines": _cut('"\n    "', 'x = ("', '")'),
    "concat-dot": _cut('" . "', '$x = "', '";'),
    "one-space": _cut(" "),
    "spaced": _between(" "),
    "glued-underscore": _prefix(lambda text: "prod_" + text),
    "glued-left": _prefix(lambda text: "x" + text),
    "glued-cjk": _marked(lambda text: "令牌" + text + "已失效", "{}"),
    "ansi": _between(ANSI, 9),
    "nul": _between("\x00", 5),
    "nul-each": _between("\x00"),
    "control": _between("\x08", 6),
    "json-escaped-twice": _marked(lambda text: text, '"{{\\"t\\": \\"{}\\"}}"'),
    "markdown-escape": _marked(_markdown),
}
# glued to a letter, a prefix of letters can be part of a word
NOT_FOR_SHORT_PREFIX = ("glued-left", "spaced", "nul-each")


def disguised(name: str, text: str, core: str, draw: Draw) -> tuple[str, tuple[str, ...]]:
    """The disguised text and what of it must be gone, all parts of six or more characters."""
    shown, forms = DISGUISES[name](text, core, draw)
    return shown, tuple(form for form in forms if len(form) >= 6)
