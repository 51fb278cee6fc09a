"""The closed list of rule ids and the mark that replaces a removed value.

Contract: redaction.md 3, 7.

A mark is trusted only when its id is on the list; an open grammar would let a typed
``[REDACTED:my-password]`` through unread. Ids never leave the list, because stored rows carry them.
"""

from __future__ import annotations

import re
from typing import Final

from memory_manager.security.redact.rules import RULES

OVERSIZE: Final = "oversize-unscannable"
WITHHELD: Final = "subtree-withheld"
NOT_CHECKED: Final = frozenset({OVERSIZE, WITHHELD})
"""Where these stand all of a text went, harmless or not, because it could not be read."""
BARE_TOKEN: Final = "[REDACTED]"  # noqa: S105 - a mark, not a password

DETECTOR_IDS: Final = (
    "auth-header",
    "aws-secret-access-key",
    "bip39-mnemonic",
    "cli-credential",
    "connection-string",
    "contact-address",
    "contact-card",
    "contact-email",
    "contact-handle",
    "contact-iban",
    "contact-phone",
    "contact-social-security-number",
    "contact-tax-number",
    "cookie",
    "discord-bot-token",
    "docker-auth",
    "encoded-secret",
    "eth-private-key",
    "jwk-private",
    "kubeconfig-key",
    "labelled-secret",
    "netrc",
    "pgpass",
    "prefixed-token",
    "private-key",
    "prose-secret",
    "putty-key",
    "recovery-codes",
    "stellar-secret-seed",
    "url-secret",
    "url-userinfo",
    "wif",
    "wireguard-key",
)
RETIRED_IDS: Final[tuple[str, ...]] = ()

ALL_IDS: Final[frozenset[str]] = frozenset(
    {rule.id for rule in RULES} | set(DETECTOR_IDS) | set(RETIRED_IDS) | {OVERSIZE, WITHHELD}
)

_MARK = re.compile(r"\[REDACTED(?::([a-z0-9-]{2,48}))?\]")


def mark(rule: str, *, bare: bool = False) -> str:
    """The text that stands where a value was."""
    return BARE_TOKEN if bare else f"[REDACTED:{rule}]"


def marks_in(text: str) -> list[tuple[int, int]]:
    """Spans of genuine marks; nothing may match inside or across them."""
    if "[REDACTED" not in text:
        return []
    return [
        found.span() for found in _MARK.finditer(text) if found[1] is None or found[1] in ALL_IDS
    ]
