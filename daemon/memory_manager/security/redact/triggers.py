"""What must stand in a text before a dear reading of it can find anything.

Each pattern is a necessary condition: a reading may be left out where its pattern does not match,
and nothing is lost. The native tier looks for all of them in the pass that looks for anchors; the
portable tier, whose engine would need a pass for each, asks the readings themselves. The patterns
are for ASCII text. Contract: redaction.md 5.2, 6.
"""

from __future__ import annotations

import enum
from typing import Final

from memory_manager.security.redact.carriers import PGPASS_HINT
from memory_manager.security.redact.views import ESCAPE, FORM_WORDS


class Trigger(enum.IntEnum):
    """Numbers of ``PATTERNS``."""

    CONTROL = 0  # characters that the folded view drops
    ESCAPE = 1
    FORM = 2
    BREAK = 3  # two halves of a token on both sides of a line end or of a comment's edge
    QUOTES = 4  # two halves in string literals
    BLANK = 5  # two halves with one blank between
    WORDS = 6  # twelve words in a row that could be of a seed phrase
    PGPASS = 7
    LONG = 8  # a key without a literal in a long run
    ENCODED = 9  # text in base64 or hex


# no bounds on repeats here: they make the automata of the native engine large and slow
_HALF: Final = r"[0-9A-Za-z_+/=.:~-]"
_GOES_ON: Final = r"(?:[0-9]|[A-Z]?[a-z_+/=.:~-]+[0-9A-Z]|[A-Z][0-9A-Z])"
# two groups of four that stand for three characters of text each, as in every encoded secret
QUADS: Final = r"(?:[CDI-Za-f][C-HS-Xi-nyz0-3][ABEFIJMNQRUVYZcdghklopstwx014589][A-Za-z0-9+/_-]){2}"

PATTERNS: Final[tuple[str, ...]] = (
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]",
    f"(?:{ESCAPE})",
    f"(?i:{FORM_WORDS})",
    _HALF + r"{3}(?:[\\\r\t ]*\n[>|#*+ \t]*|\\n[ \t]*|\*/[ \t]*/\*|-->[ \t]*<!--)" + _GOES_ON,
    _HALF + r"{3}[\"'][\\\r\n\t +.&|<>]*[\"']" + _GOES_ON,
    r"[0-9A-Z]" + _HALF + r"* (?:[0-9]|" + _HALF + r"+[0-9A-Z])",
    r"(?i:(?:[a-z]{3,8}[\s\x1c-\x1f,;|\"'.)(:0-9\\\[\]#*-]+){11}[a-z]{3})",
    PGPASS_HINT,
    r"[0-9A-Za-z]{51}|[a-z0-9][_-][0-9A-Za-z]{28}|[_-][0-9A-Za-z]{16,}_[0-9A-Za-z]{24}|[0-9A-Za-z_-]\.[0-9A-Za-z_-]{6}\.[0-9A-Za-z_-]{27}",
    QUADS + r"|[0-9a-fA-F]{32}",
)
