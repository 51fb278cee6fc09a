"""OAuth grants: one credential each, with access tokens that expire and refresh tokens that rotate.

Contract: xmemo.md 10. Tokens exist in clear only in the value returned here.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from memory_manager.auth.scopes import Scope
from memory_manager.auth.tokens import TOKEN_RANDOM_BYTES, new_token, token_digest
from memory_manager.base.identifiers import CredentialId
from memory_manager.security.redact import sanitize_server_write
from memory_manager.vault import audit, credentials
from memory_manager.vault.credentials import Credential, CredentialKind
from memory_manager.vault.row_codec import encode_json

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction

ACCESS_SECONDS: Final = 3_600
REFRESH_SECONDS: Final = 90 * 86_400
"""A grant that nobody refreshed for so long needs the owner again."""
MAX_CLIENTS: Final = 200

RandomBytes = Callable[[int], bytes]


@dataclasses.dataclass(frozen=True, slots=True)
class OAuthClient:
    """A program that registered itself; its name is what it says of itself."""

    id: str
    name: str
    redirect_uris: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class GrantTokens:
    """What a client gets once; ``credential`` is the grant."""

    credential: Credential
    access_token: str = dataclasses.field(repr=False)
    refresh_token: str = dataclasses.field(repr=False)
    expires_in_seconds: int = ACCESS_SECONDS


def find_client(connection: Connection, client_id: str) -> OAuthClient | None:
    """A client that was granted something before; others are not stored."""
    found = connection.execute(
        "SELECT id, name, redirect_uris FROM oauth_client WHERE id = ?", (client_id,)
    ).fetchone()
    return None if found is None else OAuthClient(found[0], found[1], tuple(json.loads(found[2])))


def issue_grant(
    transaction: Transaction,
    client: OAuthClient,
    scopes: Sequence[Scope] | frozenset[Scope],
    credential_id: CredentialId,
    *,
    random_bytes: RandomBytes = os.urandom,
) -> GrantTokens:
    """A new grant for a client the owner approved; the client is remembered with it."""
    _save_client(transaction, client)
    credential = Credential(
        id=credential_id,
        name=credentials.free_name(transaction.connection, client.name),
        agent_id=None,
        scopes=frozenset(scopes),
        created_at_ms=transaction.now_ms,
        last_used_at_ms=None,
        revoked_at_ms=None,
        kind=CredentialKind.OAUTH_GRANT,
        client_id=client.id,
    )
    # found by its access tokens only: nobody has the text of this digest
    credentials.insert(transaction, credential, random_bytes(TOKEN_RANDOM_BYTES), None)
    return _new_tokens(transaction, credential, random_bytes)


def refresh_grant(
    transaction: Transaction,
    refresh_token: str,
    client_id: str,
    *,
    random_bytes: RandomBytes = os.urandom,
) -> GrantTokens | None:
    """The next tokens of a grant; None for a token that is unknown, expired or of another client.

    A token that was used before ends its whole family, and that is committed (xmemo.md 10 rule 4).
    """
    digest = token_digest(refresh_token)
    connection = transaction.connection
    found = connection.execute(
        "SELECT credential_id, expires_at_ms, used_at_ms FROM refresh_token WHERE token_digest = ?",
        (digest,),
    ).fetchone()
    if found is None:
        return None
    credential_id, expires_at_ms, used_at_ms = found
    credential = credentials.find(connection, credential_id)
    if credential is None or credential.revoked_at_ms is not None:
        return None
    if used_at_ms is not None:
        audit.record(transaction, "grant.reuse_detected", credential.id, None)
        credentials.revoke(transaction, credential.id)
        return None
    if expires_at_ms <= transaction.now_ms or credential.client_id != client_id:
        return None
    connection.execute(
        "UPDATE refresh_token SET used_at_ms = ? WHERE token_digest = ?",
        (transaction.now_ms, digest),
    )
    _drop_expired(transaction, credential.id)
    return _new_tokens(transaction, credential, random_bytes)


def find_grant(connection: Connection, token: str) -> Credential | None:
    """The grant of an access or refresh token, also of an expired or used one."""
    digest = token_digest(token)
    for table in ("access_token", "refresh_token"):
        found = connection.execute(
            f"SELECT credential_id FROM {table} WHERE token_digest = ?", (digest,)
        ).fetchone()
        if found is not None:
            return credentials.find(connection, found[0])
    return None


def _new_tokens(
    transaction: Transaction, credential: Credential, random_bytes: RandomBytes
) -> GrantTokens:
    access = new_token(random_bytes(TOKEN_RANDOM_BYTES))
    refresh = new_token(random_bytes(TOKEN_RANDOM_BYTES))
    for table, token, seconds in (
        ("access_token", access, ACCESS_SECONDS),
        ("refresh_token", refresh, REFRESH_SECONDS),
    ):
        transaction.connection.execute(
            f"INSERT INTO {table}(token_digest, credential_id, expires_at_ms) VALUES(?, ?, ?)",
            (token_digest(token), credential.id, transaction.now_ms + seconds * 1000),
        )
    return GrantTokens(credential, access, refresh)


def _drop_expired(transaction: Transaction, credential_id: CredentialId) -> None:
    for table in ("access_token", "refresh_token"):
        transaction.connection.execute(
            f"DELETE FROM {table} WHERE credential_id = ? AND expires_at_ms <= ?",
            (credential_id, transaction.now_ms),
        )


def _save_client(transaction: Transaction, client: OAuthClient) -> None:
    """Remember a client but for addresses with a secret in them: those last until a restart."""
    kept = [uri for uri in client.redirect_uris if not sanitize_server_write(uri).applied]
    transaction.connection.execute(
        "INSERT INTO oauth_client(id, name, redirect_uris, created_at_ms) VALUES(?, ?, ?, ?)"
        " ON CONFLICT(id) DO NOTHING",
        (client.id, client.name, encode_json(kept), transaction.now_ms),
    )
    # clients register anew at every attempt: those without a live grant go, the oldest first
    transaction.connection.execute(
        "DELETE FROM oauth_client WHERE rowid IN (SELECT rowid FROM oauth_client o WHERE o.id <> ?"
        " AND NOT EXISTS(SELECT 1 FROM credential c WHERE c.client_id = o.id"
        "  AND c.revoked_at_ms IS NULL) ORDER BY o.rowid DESC LIMIT -1 OFFSET ?)",
        (client.id, MAX_CLIENTS),
    )
