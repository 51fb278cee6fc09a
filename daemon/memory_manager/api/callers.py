"""Who presents a token: the owner of this runtime directory, or one installation credential.

Contract: xmemo.md 4.3, sessions.md 9.2, desktop.md 11.7. The database is asked off the event loop;
a small cache keeps what it said and forgets everything at each revocation and each lock.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from sqlcipher3.dbapi2 import Connection

from memory_manager.api.calls import OWNER, Caller
from memory_manager.api.errors import MissingCredential, WrongCredential
from memory_manager.auth.agent_identity import AgentIdentity
from memory_manager.auth.tokens import is_token, same_digest, token_digest
from memory_manager.base.identifiers import CredentialId
from memory_manager.base.times import now_ms
from memory_manager.vault import credentials
from memory_manager.vault.store import Store
from memory_manager.vault.transaction import Transaction

_CACHE_ENTRIES: Final = 64
_NOTED_USES: Final = 512
_BEARER: Final = "bearer"


def presented_token(keys: list[str], authorizations: list[str]) -> str | None:
    """The one token of ``X-API-Key`` and ``Authorization`` values; None when there is none.

    MissingCredential for another scheme alone, WrongCredential when several values differ.
    """
    tokens = [key.strip() for key in keys if key.strip()]
    foreign_scheme = False
    for value in authorizations:
        scheme, _, rest = value.strip().partition(" ")
        if scheme.lower() == _BEARER and rest.strip():
            tokens.append(rest.strip())
        elif value.strip():
            foreign_scheme = True
    if not tokens:
        if foreign_scheme:
            raise MissingCredential("Only Bearer credentials are known.")
        return None
    if any(not same_digest(token_digest(tokens[0]), token_digest(other)) for other in tokens[1:]):
        raise WrongCredential("Two different credentials were sent.")
    return tokens[0]


class CallerDirectory:
    """Turns tokens into callers. Used on the event loop only."""

    def __init__(self, owner_digest: bytes, store: Callable[[], Store]) -> None:
        self._owner_digest = owner_digest
        self._store = store
        self._known: OrderedDict[bytes, Caller] = OrderedDict()
        self._noted: dict[tuple[CredentialId, AgentIdentity], float] = {}
        self._epoch = 0

    def forget_all(self) -> None:
        """After a revocation, a new credential or a lock: the database is asked again."""
        self._known.clear()
        self._noted.clear()
        self._epoch += 1

    async def caller_of(self, token: str) -> Caller:
        """The caller of a token; WrongCredential, or VaultLocked when it cannot be checked."""
        digest = token_digest(token)
        if same_digest(digest, self._owner_digest):
            return OWNER
        if not is_token(token):
            raise WrongCredential
        store = self._store()  # a locked vault raises before the cache is looked at
        known = self._known.get(digest)
        if known is not None:
            if known.expires_at_ms is not None and known.expires_at_ms <= now_ms():
                del self._known[digest]
                raise WrongCredential
            self._known.move_to_end(digest)
            return known
        epoch = self._epoch

        def find(connection: Connection) -> credentials.Credential | None:
            return credentials.find_by_token(connection, token)

        found = await store.read(find)
        if found is None:
            raise WrongCredential
        caller = Caller(found.id, found.name, found.scopes, expires_at_ms=found.expires_at_ms)
        if epoch == self._epoch:  # a revocation may have come while the database was asked
            self._known[digest] = caller
            if len(self._known) > _CACHE_ENTRIES:
                self._known.popitem(last=False)
        return caller

    def note_use(self, caller: Caller, identity: AgentIdentity) -> None:
        """Write when and under which labels a credential was used, once a minute each.

        Nobody waits for it and a failure harms nothing.
        """
        credential_id, now = caller.credential_id, time.monotonic()
        if caller.is_owner or credential_id is None:
            return
        use = (credential_id, identity)
        if now - self._noted.get(use, float("-inf")) < credentials.TOUCH_SECONDS:
            return
        store = self._store()
        if store.read_only:
            return
        if len(self._noted) >= _NOTED_USES:
            self._noted.clear()  # a client with ever new labels; it only costs a few more writes
        self._noted[use] = now

        def note(transaction: Transaction) -> None:
            credentials.touch(transaction, credential_id)
            credentials.note_label(transaction, credential_id, identity)

        store.submit(note)


def still_valid(connection: Connection, caller: Caller) -> None:
    """Inside a write transaction: WrongCredential if the credential was revoked meanwhile."""
    if caller.is_owner or caller.credential_id is None:
        return
    found = credentials.find(connection, caller.credential_id)
    if found is None or found.revoked_at_ms is not None:
        raise WrongCredential
    if caller.expires_at_ms is not None and caller.expires_at_ms <= now_ms():
        raise WrongCredential
