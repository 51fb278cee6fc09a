"""Authorization codes: single-use, 60 seconds, bound to client, address and challenge.

Pure: clock and randomness come in. A used code is remembered, so that a second use is noticed.
Contract: xmemo.md 10 rule 2.
"""

from __future__ import annotations

import dataclasses
import os
import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from memory_manager.auth.logins import Redirect
from memory_manager.auth.oauth_rules import verifier_matches
from memory_manager.auth.scopes import Scope
from memory_manager.auth.tokens import token_digest
from memory_manager.base.identifiers import CredentialId, new_uuid7

CODE_SECONDS: Final = 60
MAX_LIVE: Final = 64
MAX_USED: Final = 1_024


@dataclasses.dataclass(frozen=True, slots=True)
class _Code:
    redirect: Redirect
    scopes: frozenset[Scope]
    credential_id: CredentialId
    deadline: float


@dataclasses.dataclass(frozen=True, slots=True)
class Redeemed:
    """A code that was good: the grant to be made under ``credential_id``."""

    client_id: str
    scopes: frozenset[Scope]
    credential_id: CredentialId


@dataclasses.dataclass(frozen=True, slots=True)
class Reused:
    """A code that was used before: the grant made from it must end."""

    credential_id: CredentialId


class AuthorizationCodes:
    """Used from one thread."""

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.monotonic,
        random_bytes: Callable[[int], bytes] = os.urandom,
    ) -> None:
        self._clock = clock
        self._random_bytes = random_bytes
        self._live: OrderedDict[bytes, _Code] = OrderedDict()
        self._used: OrderedDict[bytes, CredentialId] = OrderedDict()

    def issue(self, redirect: Redirect, scopes: frozenset[Scope]) -> str:
        """A code for a request the owner approved."""
        code = self._random_bytes(32).hex()
        self._live[token_digest(code)] = _Code(
            redirect,
            scopes,
            CredentialId(str(new_uuid7())),
            self._clock() + CODE_SECONDS,
        )
        if len(self._live) > MAX_LIVE:
            self._live.popitem(last=False)
        return code

    def redeem(
        self, code: str, *, client_id: str, redirect_uri: str, verifier: str
    ) -> Redeemed | Reused | None:
        """What a code is worth; None for one that is unknown, expired or bound to something else.

        The first use spends a code, whether it succeeds or not.
        """
        digest = token_digest(code)
        if digest in self._used:
            return Reused(self._used[digest])
        found = self._live.pop(digest, None)
        if found is None:
            return None
        self._used[digest] = found.credential_id
        if len(self._used) > MAX_USED:
            self._used.popitem(last=False)
        if (
            self._clock() >= found.deadline
            or found.redirect.client_id != client_id
            or found.redirect.redirect_uri != redirect_uri
            or not verifier_matches(verifier, found.redirect.challenge)
        ):
            return None
        return Redeemed(client_id, found.scopes, found.credential_id)
