"""Credentials of client installations: issued once, stored as a digest, revocable.

A token is shown when it is issued and never again. Contract: xmemo.md 4.3, vault.md 12.
"""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from memory_manager.auth.scopes import Scope, format_scopes
from memory_manager.auth.tokens import (
    TOKEN_RANDOM_BYTES,
    new_token,
    same_digest,
    token_digest,
)
from memory_manager.base.errors import InvalidInput, NotFound
from memory_manager.base.identifiers import CredentialId, new_uuid7
from memory_manager.security.redact import sanitize_server_write
from memory_manager.vault import audit
from memory_manager.vault.errors import Conflict
from memory_manager.vault.row_codec import encode_json
from memory_manager.vault.rows import Attribution

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction

MAX_NAME_CHARACTERS: Final = 128
TOUCH_SECONDS: Final = 60
"""``last_used_at`` is exact to this: a write per read would cost a disk flush each."""

_COLUMNS = "id, name, agent_id, scopes, created_at_ms, last_used_at_ms, revoked_at_ms"


@dataclasses.dataclass(frozen=True, slots=True)
class Credential:
    """One installation's right to ask. ``agent_id`` is the label it usually writes under."""

    id: CredentialId
    name: str
    agent_id: str | None
    scopes: frozenset[Scope]
    created_at_ms: int
    last_used_at_ms: int | None
    revoked_at_ms: int | None


def issue(
    transaction: Transaction,
    name: str,
    scopes: Iterable[Scope],
    *,
    agent_id: str | None = None,
    actor: Attribution | None = None,
    random_bytes: Callable[[int], bytes] = os.urandom,
) -> tuple[Credential, str]:
    """A new credential and its token, the only time the token exists outside the client.

    Raises Conflict when a live credential has this name, InvalidInput for an unusable name.
    """
    name = _checked_name(name)
    connection = transaction.connection
    if connection.execute(
        "SELECT 1 FROM credential WHERE name = ? AND revoked_at_ms IS NULL", (name,)
    ).fetchone():
        raise Conflict("An agent with this name has a credential; revoke it first.", field="name")
    token = new_token(random_bytes(TOKEN_RANDOM_BYTES))
    credential = Credential(
        id=CredentialId(str(new_uuid7())),
        name=name,
        agent_id=agent_id,
        scopes=frozenset(scopes),
        created_at_ms=transaction.now_ms,
        last_used_at_ms=None,
        revoked_at_ms=None,
    )
    connection.execute(
        "INSERT INTO credential(id, name, agent_id, token_digest, scopes, created_at_ms)"
        " VALUES(?, ?, ?, ?, ?, ?)",
        (
            credential.id,
            name,
            agent_id,
            token_digest(token),
            encode_json(format_scopes(credential.scopes)),
            credential.created_at_ms,
        ),
    )
    scope_names = format_scopes(credential.scopes)
    audit.record(transaction, "credential.issued", credential.id, actor, {"scopes": scope_names})
    return credential, token


def find_by_token(connection: Connection, token: str) -> Credential | None:
    """The live credential of a presented token; None for a wrong or revoked one.

    The index is searched by digest, which tells a caller nothing about other tokens; the final
    comparison is in constant time.
    """
    digest = token_digest(token)
    found = connection.execute(
        f"SELECT token_digest, {_COLUMNS} FROM credential"
        " WHERE token_digest = ? AND revoked_at_ms IS NULL",
        (digest,),
    ).fetchone()
    if found is None or not same_digest(found[0], digest):
        return None
    return _decode(*found[1:])


def find(connection: Connection, id_or_name: str) -> Credential | None:
    """A credential by id, or a live one by name."""
    found = connection.execute(
        f"SELECT {_COLUMNS} FROM credential"
        " WHERE id = ? OR (name = ? AND revoked_at_ms IS NULL) ORDER BY id = ? DESC LIMIT 1",
        (id_or_name, id_or_name, id_or_name),
    ).fetchone()
    return None if found is None else _decode(*found)


def list_credentials(connection: Connection, *, include_revoked: bool = False) -> list[Credential]:
    """All live credentials, oldest first; revoked ones too when asked."""
    live = "" if include_revoked else " WHERE revoked_at_ms IS NULL"
    rows = connection.execute(f"SELECT {_COLUMNS} FROM credential{live} ORDER BY rowid")
    return [_decode(*row) for row in rows]


def revoke(
    transaction: Transaction, id_or_name: str, *, actor: Attribution | None = None
) -> Credential:
    """End a credential; from COMMIT on its token finds nothing. A second time changes nothing.

    Raises NotFound for an id or name that no credential has.
    """
    credential = find(transaction.connection, id_or_name)
    if credential is None:
        raise NotFound("There is no such agent credential.")
    if credential.revoked_at_ms is not None:
        return credential
    transaction.connection.execute(
        "UPDATE credential SET revoked_at_ms = ? WHERE id = ?",
        (transaction.now_ms, credential.id),
    )
    audit.record(transaction, "credential.revoked", credential.id, actor)
    return dataclasses.replace(credential, revoked_at_ms=transaction.now_ms)


def touch_is_due(credential: Credential, now_ms: int) -> bool:
    """Whether ``last_used_at`` is old enough to be written again."""
    last_ms = credential.last_used_at_ms
    return last_ms is None or now_ms - last_ms >= TOUCH_SECONDS * 1000


def touch(transaction: Transaction, credential_id: CredentialId) -> None:
    """Note that the credential was used now."""
    transaction.connection.execute(
        "UPDATE credential SET last_used_at_ms = ? WHERE id = ?",
        (transaction.now_ms, credential_id),
    )


def _checked_name(name: str) -> str:
    name = name.strip()
    if not 0 < len(name) <= MAX_NAME_CHARACTERS or not name.isprintable():
        raise InvalidInput(
            f"A name has 1 to {MAX_NAME_CHARACTERS} printable characters.", field="name"
        )
    if sanitize_server_write(name).applied:
        raise InvalidInput("The name looks like a secret; choose another.", field="name")
    return name


def _decode(
    credential_id: str,
    name: str,
    agent_id: str | None,
    scopes: str,
    created_at_ms: int,
    last_used_at_ms: int | None,
    revoked_at_ms: int | None,
) -> Credential:
    known = {scope.value: scope for scope in Scope}
    return Credential(
        id=CredentialId(credential_id),
        name=name,
        agent_id=agent_id,
        # a scope of a newer version grants nothing here
        scopes=frozenset(known[text] for text in json.loads(scopes) if text in known),
        created_at_ms=created_at_ms,
        last_used_at_ms=last_used_at_ms,
        revoked_at_ms=revoked_at_ms,
    )
