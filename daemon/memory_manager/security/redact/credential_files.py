"""Files that hold credentials by their form: pgpass, netrc, npm and docker configuration, Secrets.

Contract: redaction.md 13.6.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from typing import Final

from memory_manager.security.redact.carriers import is_basic, wanted
from memory_manager.security.redact.late import late
from memory_manager.security.redact.result import Severity
from memory_manager.security.redact.rule import Hit

_PGPASS: Final = late(
    r"(?:^|(?<=[\n\"'`]))[ \t]{0,8}(?:[\w.*-]{1,80}):(?:\d{2,5}"
    r"|\*):(?:[\w.*-]{1,63}):(?:[\w.*@-]{1,63}):"
    r"((?:[^\s:\\\"'`]|\\[:\\]){4,256})",
)
PGPASS_COLONS: Final = 4
_PGPASS_HINT: Final = late(r":(?:[0-9]{2,5}|\*):[^\s:]{1,63}:[^\s:]{1,63}:\S")
_NPM_AUTH: Final = late(r"(?:^|[\s\"'])_auth[ \t]?=[ \t]?\"?([0-9A-Za-z+/=]{8,400})")
_DOCKER_HINTS: Final = frozenset({'auth"', "auth'", 'auth\\"', "identitytoken", "registrytoken"})
_NETRC: Final = late(
    r"\b(?:machine[ \t\n]{1,8}[\w.:-]{1,120}[ \t\r\n]{1,8}"
    r"(?:login[ \t]{1,8}\S{1,120}[ \t\r\n]{1,8})?"
    r"|default[ \t\r\n]{1,8}login[ \t]{1,8}\S{1,120}[ \t\r\n]{1,8})"
    r"(?:account[ \t]{1,8}\S{1,80}[ \t\r\n]{1,8})?password[ \t]{1,8}[\"']?([^\s\"'`]{3,400})"
)
_DOCKER_AUTH: Final = late(
    r"\\{0,8}[\"'](?:auth|identitytoken"
    r"|registrytoken)\\{0,8}[\"']\s{0,8}:\s{0,8}\\{0,8}[\"']([0-9A-Za-z+/=_.-]{8,4096})"
)
_KIND_HINTS: Final = frozenset({"kind:", "kind :", 'kind"', "kind'", "kind\\"})
_SECRET_KIND: Final = late(r"kind\\{0,8}[\"']?\s{0,4}:\s{0,4}\\{0,8}[\"']?Secret\b")
_SECRET_DATA: Final = late(
    r"(?:^|[\n{,])[ \t]{0,12}\\{0,8}[\"']?(?:string)?[dD]ata\\{0,8}[\"']?[ \t]{0,4}:[ \t]{0,4}(?=["
    r"\n{\\])"
)
_SECRET_ENTRY: Final = late(
    r"(?:[\s{,]|\\n){1,40}\\{0,8}[\"']?[\w.-]{1,80}\\{0,8}[\"']?[ \t]{0,4}:[ \t]{0,4}\\{0,8}[\"']?("
    r"[^\s\"'\\,{}|>][^\s\"'\\,{}]{3,8192})\\{0,8}[\"']?"
)


def pgpass_lines(text: str) -> Iterator[Hit]:
    """``host:port:database:user:password`` lines."""
    if _PGPASS_HINT.search(text):
        for found in _PGPASS.finditer(text):
            if wanted(found[1]) and not found[1].isdigit():
                yield Hit(*found.span(1), "pgpass", Severity.CREDENTIAL, 1)


def credential_files(text: str, seen: Set[str]) -> Iterator[Hit]:
    """netrc, npm and docker configuration, Kubernetes Secret manifests."""
    if "password" in seen and ("machine" in text or "default" in text):
        for found in _NETRC.finditer(text):
            if wanted(found[1]):
                yield Hit(*found.span(1), "netrc", Severity.CREDENTIAL, 1)
    if "_auth" in seen:
        for found in _NPM_AUTH.finditer(text):
            if wanted(found[1]) and is_basic(found[1]):
                yield Hit(*found.span(1), "npmrc-auth", Severity.CREDENTIAL, 1)
    if not _DOCKER_HINTS.isdisjoint(seen):
        for found in _DOCKER_AUTH.finditer(text):
            if wanted(found[1]) and is_basic(found[1]):
                yield Hit(*found.span(1), "docker-auth", Severity.CREDENTIAL, 1)
    if not _KIND_HINTS.isdisjoint(seen) and "secret" in seen and _SECRET_KIND.search(text):
        for data in _SECRET_DATA.finditer(text):
            position = data.end()
            if text[position : position + 1] == "{":
                position += 1
            while (entry := _SECRET_ENTRY.match(text, position)) is not None:
                if wanted(entry[1]):
                    yield Hit(*entry.span(1), "labelled-secret", Severity.CREDENTIAL, 1)
                position = entry.end()


STARTERS: Final = frozenset({"password", "_auth"}) | _DOCKER_HINTS | _KIND_HINTS
"""Without one of these ``credential_files`` finds nothing."""
HINTS: Final = STARTERS | {"secret"}
"""Literals that it asks for; the gate looks them all up in one pass."""
