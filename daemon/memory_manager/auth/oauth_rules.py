"""Rules of OAuth that need no state: redirect addresses, PKCE, resources (xmemo.md 10)."""

from __future__ import annotations

import base64
import hashlib
import hmac
import re
from collections.abc import Iterable, Mapping
from typing import Final
from urllib.parse import urlencode

from memory_manager.auth.errors import InvalidRedirectUri

MAX_URI_CHARACTERS: Final = 2_048

# the characters of RFC 3986 without "#": no blanks, no backslash, no quotes, no control characters
_REST: Final = r"(?:[/?][A-Za-z0-9\-._~:/?\[\]@!$&'()*+,;=%]*)?"
_LOOPBACK = re.compile(rf"http://(?:127\.0\.0\.1|localhost|\[::1\])(?::([0-9]{{1,5}}))?{_REST}")
_EDITOR = re.compile(rf"vscode(?:-insiders)?://[A-Za-z0-9][A-Za-z0-9._-]*{_REST}")
_CHALLENGE = re.compile(r"[A-Za-z0-9_-]{43}")
_VERIFIER = re.compile(r"[A-Za-z0-9._~-]{43,128}")


def check_redirect_uri(uri: str) -> str:
    """The address itself; InvalidRedirectUri unless it is http on this machine or VS Code."""
    if len(uri) > MAX_URI_CHARACTERS:
        raise InvalidRedirectUri
    if _EDITOR.fullmatch(uri):
        return uri
    found = _LOOPBACK.fullmatch(uri)
    if found is None or (found[1] is not None and not 0 < int(found[1]) < 1 << 16):
        raise InvalidRedirectUri
    return uri


def is_challenge(text: str) -> bool:
    """Whether the text has the form of an S256 code challenge."""
    return _CHALLENGE.fullmatch(text) is not None


def verifier_matches(verifier: str, challenge: str) -> bool:
    """PKCE with S256 (RFC 7636 4.6)."""
    if _VERIFIER.fullmatch(verifier) is None:
        return False
    digest = hashlib.sha256(verifier.encode("ascii")).digest()
    computed = base64.urlsafe_b64encode(digest).rstrip(b"=").decode("ascii")
    return hmac.compare_digest(computed, challenge)


def names_us(resource: str, bases: Iterable[str]) -> bool:
    """Whether a resource indicator (RFC 8707) is empty or one of our own addresses."""
    wanted = resource.strip().rstrip("/").lower()
    return not wanted or any(wanted in (base, f"{base}/mcp") for base in bases)


def with_parameters(uri: str, parameters: Mapping[str, str | None]) -> str:
    """The redirect address with the answer appended to its query; None is left out."""
    given = {name: value for name, value in parameters.items() if value is not None}
    return f"{uri}{'&' if '?' in uri else '?'}{urlencode(given)}"
