"""What must stand in a text before a dear reading of it can find anything.

Each pattern is a necessary condition: a reading may be left out where its pattern does not match,
and nothing is lost. The native tier looks for them in the pass that looks for anchors; the portable
tier, whose engine would need a pass for each, asks the readings themselves. Only what nothing
cheaper tells is here, because each pattern makes the pass dearer. The patterns are matched against
the UTF-8 form of any text. Contract: redaction.md 5.2, 6.
"""

from __future__ import annotations

import enum
from typing import Final


class Trigger(enum.IntEnum):
    """What a pattern of ``PATTERNS`` stands for."""

    WORDS = 0  # twelve words in a row that could be of a seed phrase
    BREAKS = 1  # a line break or the like inside what could be one token
    USERINFO = 2  # an address with a user before its host
    PGPASS = 3  # a port or an asterisk between colons


# three letters and more; the commonest short words of English, which no seed phrase holds, break
# the row, or nearly every text would have one
SEED_WORD: Final = (
    r"(?:[bcdeghijklmopqrsuvxyz][a-z]{2,}"
    r"|a(?:[a-mo-qs-z][a-z]+|n[a-ce-z][a-z]*|nd[a-z]+|r[a-df-z][a-z]*|re[a-z]+)"
    r"|f(?:[a-np-qs-z][a-z]+|o[a-qs-z][a-z]*|or[a-z]+|r[a-np-z][a-z]*|ro[a-ln-z][a-z]*|rom[a-z]+)"
    r"|n(?:[a-np-z][a-z]+|o[a-su-z][a-z]*|ot[a-z]+)"
    r"|t(?:[a-gi-z][a-z]+|h[a-df-z][a-z]*|he[a-z]+)"
    r"|w(?:[b-hj-z][a-z]+|a[a-rt-z][a-z]*|as[a-z]+|i[a-su-z][a-z]*|it[a-gi-z][a-z]*|ith[a-z]+))"
)
_BETWEEN: Final = r"[\s\x1c-\x1f,;|\"'.)(:0-9\\\[\]#*\x80-\xff-]+"

# where the first half of a cut token ends and the second one begins, as the joined view wants them
_FIRST: Final = "[0-9A-Za-z_+/=.:~-]"
_SECOND: Final = "(?:[0-9]|[A-Z]?[a-z_+/=.:~-]+[0-9A-Z]|[A-Z][0-9A-Z])"
_LINE_BREAK: Final = r"[\r \t\\]*\n[ \t>|#*+]*"
_STRINGS: Final = r"[\"'][ \t\r\n\\+.&|<>]*[\"']"

PATTERNS: Final[tuple[tuple[Trigger, str], ...]] = (
    (Trigger.WORDS, rf"(?i:(?:{SEED_WORD}{_BETWEEN}){{11}}{SEED_WORD})"),
    # what no literal tells in one pattern, the others apart: so they cost the engine least
    (Trigger.BREAKS, f"(?:{_FIRST}{_LINE_BREAK}|{_FIRST}{_STRINGS}){_SECOND}"),
    (Trigger.BREAKS, rf"{_FIRST}\\n[ \t]*{_SECOND}"),
    (Trigger.BREAKS, rf"{_FIRST}\*/[ \t]*/\*{_SECOND}"),
    (Trigger.BREAKS, rf"{_FIRST}-->[ \t]*<!--{_SECOND}"),
    (Trigger.USERINFO, r"://[^\s\"'<>`/\\]+@"),
    (Trigger.PGPASS, r":(?:[0-9]{2,5}|\*):[^\s:]"),
)
