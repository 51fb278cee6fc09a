"""Names that clients give themselves, cleaned before anybody shows, logs or stores them.

A label goes to more places than a memory does: the audit, the list of agents, pages and terminals.
Contract: xmemo.md 4.4, 12.1 and 14 rule 1.
"""

from __future__ import annotations

import dataclasses

from memory_manager.auth.agent_identity import AgentIdentity, identity_from_headers
from memory_manager.auth.logins import shown_name
from memory_manager.security.redact import sanitize_server_write
from memory_manager.vault.credentials import UNNAMED_CLIENT


def asserted_identity(agent_id: str | None, instance_id: str | None) -> AgentIdentity:
    """The labels of a request; a secret in an agent id is replaced, an instance id only hashed."""
    identity = identity_from_headers(agent_id, instance_id)
    if identity.agent_id is None:
        return identity
    cleaned = sanitize_server_write(identity.agent_id)
    return dataclasses.replace(identity, agent_id=cleaned.text) if cleaned.applied else identity


def declared_name(declared: str) -> str:
    """What a program that logs in calls itself; one that sends a secret there stays unnamed."""
    name = shown_name(declared, UNNAMED_CLIENT)
    return UNNAMED_CLIENT if sanitize_server_write(name).applied else name
