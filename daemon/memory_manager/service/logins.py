"""Logins of clients: what waits for the owner, and the credential that comes of an approval.

The waiting part is in memory (auth/logins.py); credentials are made when the client comes to fetch
them, so that no token waits anywhere. Contract: xmemo.md 9 and 10, sessions.md 9.2.
"""

from __future__ import annotations

import logging
import os
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from memory_manager.auth.agent_identity import AgentIdentity
from memory_manager.auth.logins import Login, LoginDesk
from memory_manager.auth.oauth_codes import AuthorizationCodes, Redeemed, Reused
from memory_manager.security.event_log import log_event
from memory_manager.vault import credentials, grants
from memory_manager.vault.grants import GrantTokens, OAuthClient
from memory_manager.vault.rows import Attribution
from memory_manager.vault.store import Store

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction

MAX_REGISTERED: Final = 256
"""Clients that registered and were granted nothing yet; they cost memory only."""
BY_ITSELF: Final = Attribution(AgentIdentity(), client="auto-approve")
OWNER_ACTOR: Final = Attribution(AgentIdentity(), client="owner")

_log = logging.getLogger(__name__)


class Logins:
    """Used on the event loop. ``changed`` is called after a credential was made or ended."""

    def __init__(
        self,
        *,
        auto_approve: bool,
        writable_store: Callable[[], Store],
        peek: Callable[[], Store | None],
        changed: Callable[[], None],
    ) -> None:
        self.desk = LoginDesk(auto_approve=auto_approve, on_auto_approval=_log_auto_approval)
        self.codes = AuthorizationCodes()
        self._writable_store = writable_store
        self._peek = peek
        self._changed = changed
        self._registered: OrderedDict[str, OAuthClient] = OrderedDict()

    def register(self, name: str, redirect_uris: Sequence[str]) -> OAuthClient:
        """A new client; it may ask from now on and is stored once the owner approves it."""
        client = OAuthClient(f"mlc-{os.urandom(16).hex()}", name, tuple(redirect_uris))
        self._registered[client.id] = client
        if len(self._registered) > MAX_REGISTERED:
            self._registered.popitem(last=False)
        return client

    async def client(self, client_id: str) -> OAuthClient | None:
        """A registered client; one of an earlier run only while the vault is open."""
        known = self._registered.get(client_id)
        store = self._peek()
        if known is not None or store is None:
            return known

        def read(connection: Connection) -> OAuthClient | None:
            return grants.find_client(connection, client_id)

        return await store.read(read)

    async def issue_key(self, login: Login) -> tuple[credentials.Credential, str]:
        """The credential of a CLAIMED device login; given back if it could not be written."""
        actor = BY_ITSELF if self.desk.auto_approve else OWNER_ACTOR

        def issue(transaction: Transaction) -> tuple[credentials.Credential, str]:
            name = credentials.free_name(transaction.connection, login.name)
            return credentials.issue(transaction, name, login.scopes, actor=actor)

        try:
            made = await self._writable_store().write(issue)
        except BaseException:
            self.desk.give_back(login)
            raise
        self.desk.finish(login)
        self._changed()
        return made

    async def redeem(
        self, code: str, *, client_id: str, redirect_uri: str, verifier: str
    ) -> GrantTokens | None:
        """Tokens for an authorization code; None for a bad one. A second use ends its grant."""
        store = self._writable_store()  # before the code is spent
        client = await self.client(client_id)
        found = self.codes.redeem(
            code, client_id=client_id, redirect_uri=redirect_uri, verifier=verifier
        )
        if isinstance(found, Reused):
            await self._end(store, found.credential_id)
            return None
        if not isinstance(found, Redeemed) or client is None:
            return None

        def issue(transaction: Transaction) -> GrantTokens:
            return grants.issue_grant(transaction, client, found.scopes, found.credential_id)

        tokens = await store.write(issue)
        self._changed()
        return tokens

    async def refresh(self, refresh_token: str, client_id: str) -> GrantTokens | None:
        """The next tokens of a grant; None for a bad token. A used one ends its grant."""

        def work(transaction: Transaction) -> GrantTokens | None:
            return grants.refresh_grant(transaction, refresh_token, client_id)

        tokens = await self._writable_store().write(work)
        if tokens is None:
            self._changed()  # a family may have ended
        return tokens

    async def end_grant_of(self, token: str, client_id: str | None) -> bool:
        """Revoke the grant of an access or refresh token; False if it is another client's."""

        def work(transaction: Transaction) -> bool:
            grant = grants.find_grant(transaction.connection, token)
            if grant is None:
                return True  # nothing to end is an end, too (RFC 7009 2.2)
            if client_id is not None and grant.client_id != client_id:
                return False
            actor = Attribution(AgentIdentity(), grant.id, grant.name)
            credentials.revoke(transaction, grant.id, actor=actor)
            return True

        ended = await self._writable_store().write(work)
        self._changed()
        return ended

    async def _end(self, store: Store, credential_id: str) -> None:
        def work(transaction: Transaction) -> None:
            if credentials.find(transaction.connection, credential_id) is not None:
                credentials.revoke(transaction, credential_id)

        await store.write(work)
        self._changed()


def _log_auto_approval(login: Login) -> None:
    log_event(
        _log,
        "login_auto_approved",
        level=logging.WARNING,
        what=login.kind.value,
        count=len(login.scopes),
    )
