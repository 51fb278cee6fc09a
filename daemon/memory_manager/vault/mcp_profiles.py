"""How many MCP tools a credential sees listed: the owner's choice, kept inside the vault.

Every tool can be called in both profiles; a listing costs the client's context. Contract: recall.md
13.
"""

from __future__ import annotations

import enum
import json
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.base.identifiers import CredentialId
    from memory_manager.vault.transaction import Transaction

_SETTING: Final = "mcp.profile:"


class Profile(enum.StrEnum):
    CORE = "core"
    FULL = "full"


def profile_of(connection: Connection, credential_id: CredentialId) -> Profile:
    """The stored choice, CORE before there is one."""
    found = connection.execute(
        "SELECT value FROM setting WHERE name = ?", (_SETTING + credential_id,)
    ).fetchone()
    return Profile.FULL if found and json.loads(found[0]) == Profile.FULL else Profile.CORE


def set_profile(transaction: Transaction, credential_id: CredentialId, profile: Profile) -> None:
    """Store the owner's choice; it counts from the next listing on."""
    transaction.connection.execute(
        "INSERT INTO setting(name, value) VALUES(?, ?)"
        " ON CONFLICT(name) DO UPDATE SET value = excluded.value",
        (_SETTING + credential_id, json.dumps(profile.value)),
    )
