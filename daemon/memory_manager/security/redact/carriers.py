"""Generic carriers: URLs, authorization headers, cookies.

Each reader keeps scheme, user, host, name and quotes and removes the value only.
Contract: redaction.md 7, 13.6.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator, Set
from typing import Final

from memory_manager.security.redact.labels import Family
from memory_manager.security.redact.late import late
from memory_manager.security.redact.placeholders import is_placeholder, is_reference
from memory_manager.security.redact.randomness import looks_random
from memory_manager.security.redact.result import Severity
from memory_manager.security.redact.rule import Hit
from memory_manager.security.redact.values import is_secret_value

_AUTHORITY: Final = late(r"://([^\s\"'<>`/\\]{1,1024})")
_QUERY: Final = late(r"[?#]")
# a question mark or hash belongs to the password when a plain user stands before it and @ after it
_ODD_PASSWORD: Final = late(r"[\w-]{0,40}:(?!\d{1,5}[?#])[^?#=&]{0,80}[?#][^=&]{0,80}@[\w.-]")
_VERSION: Final = late(r"\d+\.\d+\.\d+(?:[-+][\w.+-]+)?|[a-z]+")
_PUBLIC_DSN_HOST: Final = late(r"(?:[\w.-]*sentry[\w.-]*|[\w.-]*ingest[\w.-]*|[\w.:-]+/\d+)\b")


def url_userinfo(text: str) -> Iterator[Hit]:
    """Passwords (and tokens in their place) between ``://`` and ``@``."""
    position = text.find("://")
    while position >= 0:
        found = _AUTHORITY.match(text, position)
        end = position + 3
        if found is not None:
            end = found.end()
            authority = found[1]
            # a later scheme in the same run starts an authority of its own
            nested = authority.find("://")
            if nested >= 0:
                authority = authority[:nested]
                end = position + 3 + max(nested, 1)
            query = _QUERY.search(authority)
            if query is not None and not _ODD_PASSWORD.match(authority):
                authority = authority[: query.start()]
            at = authority.rfind("@")
            if at > 0:
                span = _userinfo_secret(authority[:at], authority[at + 1 :], text, found.end())
                if span is not None:
                    yield Hit(
                        position + 3 + span[0],
                        position + 3 + span[1],
                        "url-userinfo",
                        Severity.CREDENTIAL,
                        1,
                        bare_token=True,
                    )
        position = text.find("://", end)


def _userinfo_secret(userinfo: str, host: str, text: str, end: int) -> tuple[int, int] | None:
    colon = userinfo.find(":")
    if colon < 0:
        if len(userinfo) < 16 or not any(c.isdigit() for c in userinfo) or "." in userinfo:
            return None
        if _PUBLIC_DSN_HOST.match(host + text[end : end + 20]):
            return None
        return (0, len(userinfo)) if wanted(userinfo) else None
    user, password = userinfo[:colon], userinfo[colon + 1 :]
    if not password or not wanted(password):
        return None
    if user.strip("[<").lower() in _USERS and password.strip("]>").lower() in _PASSWORDS:
        return None
    if _VERSION.fullmatch(host) and host[:1].isdigit():
        return None
    if password.isdigit() and len(password) <= 5 and ("." in user or user == "localhost"):
        return None
    return colon + 1, len(userinfo)


_USERS: Final = frozenset({"user", "username", "name", "login"})
_PASSWORDS: Final = frozenset({"pass", "password", "passwd", "pwd", "pw", "token", "secret"})


def wanted(value: str) -> bool:
    """Whether a value in the place of a secret is more than a fill-in or a reference."""
    return not is_placeholder(value) and not is_reference(value)


_AUTH_HEADER: Final = late(
    r"(?:proxy-)?authorization\\{0,8}[\"']?[\])]?[ \t]{0,8}(?::|=>?|,)[ \t]{0,8}\\{0,8}[\"'`]?"
    r"(?:(?P<scheme>bearer|basic|token|apikey|api-key|ssws|bot|key|jwt|splunk|genie-?key"
    r"|zoho-oauthtoken)[ \t+]{1,4})?"
    r"(?P<value>[^\s\"'`<>\\,;]{8,8192})",
    re.IGNORECASE,
)
_INDEXED: Final = late(r"[A-Za-z_][\w.]*\[")
_TYPE_BEFORE: Final = late(r"::[A-Za-z]{0,40}$")
_SCHEME: Final = late(
    r"(?P<scheme>bearer|basic|ssws|apikey)[ \t]{1,4}(?P<value>[0-9A-Za-z._~+/=-]{12,8192})",
    re.IGNORECASE,
)
_SCHEME_WORDS: Final = frozenset(
    word + blank for word in ("bearer", "basic", "ssws", "apikey") for blank in (" ", "\t")
)
_DIGEST: Final = late(r"\bresponse=\\?\"?([0-9a-f]{32,64})", re.IGNORECASE)


def authorization(text: str, seen: Set[str]) -> Iterator[Hit]:
    """Values of Authorization headers, and of a scheme word on its own."""
    if "authorization" in seen:
        for found in _AUTH_HEADER.finditer(text):
            value = found["value"]
            scheme = (found["scheme"] or "").lower()
            if not wanted(value) or value.lower() in ("bearer", "digest", "negotiate"):
                continue
            if (scheme == "basic" and not is_basic(value)) or _INDEXED.match(value):
                continue
            if not scheme and _TYPE_BEFORE.search(text, max(0, found.start() - 42), found.start()):
                continue  # a type named as a key: "AWS::Config::AggregationAuthorization"
            if is_secret_value(value, Family.SECRET, quoted=True, tight=True, sure=bool(scheme)):
                yield Hit(*found.span("value"), "auth-header", Severity.CREDENTIAL, 1)
        for digest in _DIGEST.finditer(text):
            yield Hit(*digest.span(1), "auth-header", Severity.CREDENTIAL, 1)
    if not _SCHEME_WORDS.isdisjoint(seen):
        for found in _SCHEME.finditer(text):
            value = found["value"].rstrip(".")
            scheme = found["scheme"].lower()
            good = (
                is_basic(value)
                if scheme == "basic"
                else sum(c.isdigit() for c in value) >= 2 or looks_random(value)
            )
            if good and wanted(value) and not value.startswith(("-", "/")):
                start = found.start("value")
                yield Hit(start, start + len(value), "auth-header", Severity.CREDENTIAL, 1)


def is_basic(value: str) -> bool:
    """Base64 of ``user:password``, or close enough to it to be cut off."""
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True)
    except (ValueError, binascii.Error):
        return any(c.isdigit() for c in value) and len(value) >= 16
    return b":" in decoded or (len(value) >= 16 and any(c.isdigit() for c in value))


_COOKIE_HEADER: Final = late(
    r"(set-)?cookie2?\\{0,8}[\"']?[ \t]{0,8}[:=][ \t]{0,8}\\{0,8}[\"']?", re.IGNORECASE
)
_COOKIE_PAIR: Final = late(r"([!#$%&*+.^_|~0-9A-Za-z-]{1,80})=([^\s;,\"'\\]{0,4096})(;[ \t]{0,4})?")
_COOKIE_HARMLESS: Final = late(
    r"_ga.*|_gid|_gcl.*|_fbp|utm.*|lang|locale|theme|path|domain|expires|max-age|samesite|priority"
    r"|version|tz|timezone",
    re.IGNORECASE,
)


def cookies(text: str, seen: Set[str]) -> Iterator[Hit]:
    """Values in Cookie and Set-Cookie headers; names and attributes stay."""
    if "cookie" not in seen:
        return
    for header in _COOKIE_HEADER.finditer(text):
        position, first = header.end(), True
        while True:
            pair = _COOKIE_PAIR.match(text, position)
            if pair is None:
                break
            value = pair[2]
            wanted = not _COOKIE_HARMLESS.fullmatch(pair[1]) and (first or header[1] is None)
            if wanted and _is_cookie_secret(value):
                yield Hit(*pair.span(2), "cookie", Severity.CREDENTIAL, 1)
            first = False
            position = pair.end()
            if pair[3] is None:
                break


def _is_cookie_secret(value: str) -> bool:
    if len(value) < 8 or not wanted(value):
        return False
    if any(c.isdigit() for c in value) and any(c.isalpha() for c in value):
        return True
    return len(value) >= 12 and looks_random(value)


STARTERS: Final = frozenset({"authorization", "cookie"}) | _SCHEME_WORDS
"""Without one of these the readers of headers find nothing."""
