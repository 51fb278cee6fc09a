"""Credentials of client installations: issued once, stored as a digest, revocable.

A token is shown when it is issued and never again. Contract: xmemo.md 4.3, vault.md 12.
"""

from __future__ import annotations

import dataclasses
import enum
import itertools
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
from memory_manager.base.times import now_ms
from memory_manager.security.redact import sanitize_server_write
from memory_manager.vault import audit
from memory_manager.vault.errors import Conflict
from memory_manager.vault.row_codec import encode_json
from memory_manager.vault.rows import Attribution

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.auth.agent_identity import AgentIdentity
    from memory_manager.vault.transaction import Transaction

MAX_NAME_CHARACTERS: Final = 128
UNNAMED_CLIENT: Final = "unnamed client"
RESERVED_NAMES: Final = frozenset({"owner", "auto-approve"})
"""What the audit calls the owner's own acts; no client may look like them."""
MAX_LABELS: Final = 20
"""How many labels of one credential are remembered; the oldest go first."""
_DECLARED_NAME_CHARACTERS: Final = 80
TOUCH_SECONDS: Final = 60
"""``last_used_at`` is exact to this: a write per read would cost a disk flush each."""

_COLUMNS = (
    "id, name, agent_id, scopes, created_at_ms, last_used_at_ms, revoked_at_ms, kind, client_id"
)


class CredentialKind(enum.StrEnum):
    INSTALLATION_KEY = "installation-key"
    OAUTH_GRANT = "oauth-grant"


@dataclasses.dataclass(frozen=True, slots=True)
class Credential:
    """One installation's right to ask. ``agent_id`` is the label it usually writes under.

    ``client_id`` is the registered OAuth client of a grant. ``expires_at_ms`` is the end of the
    access token by which a grant was found, None in every other case.
    """

    id: CredentialId
    name: str
    agent_id: str | None
    scopes: frozenset[Scope]
    created_at_ms: int
    last_used_at_ms: int | None
    revoked_at_ms: int | None
    kind: CredentialKind = CredentialKind.INSTALLATION_KEY
    client_id: str | None = None
    expires_at_ms: int | None = None


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
    insert(transaction, credential, token_digest(token), actor)
    return credential, token


def insert(
    transaction: Transaction, credential: Credential, digest: bytes, actor: Attribution | None
) -> None:
    """Store a new credential that is found by ``digest``."""
    scope_names = format_scopes(credential.scopes)
    transaction.connection.execute(
        "INSERT INTO credential(id, name, agent_id, token_digest, scopes, created_at_ms, kind,"
        " client_id) VALUES(?, ?, ?, ?, ?, ?, ?, ?)",
        (
            credential.id,
            credential.name,
            credential.agent_id,
            digest,
            encode_json(scope_names),
            credential.created_at_ms,
            credential.kind.value,
            credential.client_id,
        ),
    )
    detail = {"scopes": scope_names, "kind": credential.kind.value}
    audit.record(transaction, "credential.issued", credential.id, actor, detail)


def free_name(connection: Connection, declared: str) -> str:
    """The name a client gave itself, made usable and, by a number at its end, the only one."""
    try:
        name = _checked_name(declared.strip()[:_DECLARED_NAME_CHARACTERS])
    except InvalidInput:
        name = UNNAMED_CLIENT
    taken = {
        str(found)
        for (found,) in connection.execute(
            "SELECT name FROM credential WHERE revoked_at_ms IS NULL"
        )
    }
    if name not in taken:
        return name
    return next(
        numbered for number in itertools.count(2) if (numbered := f"{name} {number}") not in taken
    )


def find_by_token(
    connection: Connection, token: str, at_ms: int | None = None
) -> Credential | None:
    """The live credential of a presented token; None for a wrong, revoked or expired one.

    The index is searched by digest, which tells a caller nothing about other tokens; the final
    comparison is in constant time.
    """
    digest = token_digest(token)
    found = connection.execute(
        f"SELECT token_digest, {_COLUMNS} FROM credential"
        " WHERE token_digest = ? AND revoked_at_ms IS NULL",
        (digest,),
    ).fetchone()
    if found is not None:
        return _decode(*found[1:]) if same_digest(found[0], digest) else None
    columns = ", ".join(f"c.{name}" for name in _COLUMNS.split(", "))
    found = connection.execute(
        f"SELECT t.token_digest, t.expires_at_ms, {columns} FROM access_token t"
        " JOIN credential c ON c.id = t.credential_id"
        " WHERE t.token_digest = ? AND t.expires_at_ms > ? AND c.revoked_at_ms IS NULL",
        (digest, now_ms() if at_ms is None else at_ms),
    ).fetchone()
    if found is None or not same_digest(found[0], digest):
        return None
    return dataclasses.replace(_decode(*found[2:]), expires_at_ms=found[1])


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
    transaction.connection.execute(
        "DELETE FROM access_token WHERE credential_id = ?", (credential.id,)
    )
    audit.record(transaction, "credential.revoked", credential.id, actor)
    return dataclasses.replace(credential, revoked_at_ms=transaction.now_ms)


def touch(transaction: Transaction, credential_id: CredentialId) -> None:
    """Note that the credential was used now."""
    transaction.connection.execute(
        "UPDATE credential SET last_used_at_ms = ? WHERE id = ?",
        (transaction.now_ms, credential_id),
    )


@dataclasses.dataclass(frozen=True, slots=True)
class Label:
    """A name under which a credential was used; client-asserted, it never authorizes."""

    credential_id: CredentialId
    agent_id: str | None
    instance_hash: str | None
    last_seen_ms: int


def note_label(
    transaction: Transaction, credential_id: CredentialId, identity: AgentIdentity
) -> None:
    """Remember that the credential was used under these labels (sessions.md 9.2).

    The name of another agent than before goes into the audit: one key, two users.
    """
    _audit_second_agent(transaction, credential_id, identity)
    values = (credential_id, identity.agent_id or "", identity.instance_hash or "")
    transaction.connection.execute(
        "INSERT INTO credential_label(credential_id, agent_id, instance_hash, last_seen_ms)"
        " VALUES(?, ?, ?, ?) ON CONFLICT(credential_id, agent_id, instance_hash)"
        " DO UPDATE SET last_seen_ms = excluded.last_seen_ms",
        (*values, transaction.now_ms),
    )
    transaction.connection.execute(
        "DELETE FROM credential_label WHERE credential_id = ? AND rowid NOT IN"
        " (SELECT rowid FROM credential_label WHERE credential_id = ?"
        "  ORDER BY last_seen_ms DESC, rowid DESC LIMIT ?)",
        (credential_id, credential_id, MAX_LABELS),
    )


def _audit_second_agent(
    transaction: Transaction, credential_id: CredentialId, identity: AgentIdentity
) -> None:
    if identity.agent_id is None:
        return
    seen = {
        agent_id
        for (agent_id,) in transaction.connection.execute(
            "SELECT agent_id FROM credential_label WHERE credential_id = ? AND agent_id <> ''",
            (credential_id,),
        )
    }
    # a client with ever new names must not fill the audit
    if identity.agent_id not in seen and 0 < len(seen) < MAX_LABELS:
        actor = Attribution(identity, credential_id)
        detail = {"agents_before": len(seen)}
        audit.record(transaction, "credential.second_agent", credential_id, actor, detail)


def labels(connection: Connection) -> dict[CredentialId, list[Label]]:
    """The labels of every credential, the latest first."""
    found: dict[CredentialId, list[Label]] = {}
    for credential_id, agent_id, instance_hash, seen_ms in connection.execute(
        "SELECT credential_id, agent_id, instance_hash, last_seen_ms FROM credential_label"
        " ORDER BY last_seen_ms DESC, rowid DESC"
    ):
        label = Label(CredentialId(credential_id), agent_id or None, instance_hash or None, seen_ms)
        found.setdefault(label.credential_id, []).append(label)
    return found


def _checked_name(name: str) -> str:
    name = name.strip()
    if not 0 < len(name) <= MAX_NAME_CHARACTERS or not name.isprintable():
        raise InvalidInput(
            f"A name has 1 to {MAX_NAME_CHARACTERS} printable characters.", field="name"
        )
    if name.casefold() in RESERVED_NAMES:
        raise InvalidInput("This name is kept for the owner; choose another.", field="name")
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
    kind: str,
    client_id: str | None,
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
        kind=CredentialKind(kind),
        client_id=client_id,
    )
