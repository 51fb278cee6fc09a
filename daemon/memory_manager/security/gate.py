"""Which rows a recall surface may see at all. Contract: redaction.md 11.3, xmemo.md 15.2.

One pure function, asked before ranking, counting and limits. It knows nothing of credentials: those
decide whether a request is answered, this decides what an answer may contain.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Final

from memory_manager.security.envelope import (
    OPT_IN_KEY,
    VAULT_DEFAULT,
    RetrievalVisibility,
    SecurityEnvelope,
    SecurityMode,
)


class Surface(enum.StrEnum):
    """``local`` is this daemon on its own doors; ``server`` is anything off this machine."""

    LOCAL = "local"
    SERVER = "server"


class GateReason(enum.StrEnum):
    ALLOWED = "allowed"
    NOT_RETRIEVABLE = "not_retrievable"
    CLIENT_LOCAL_ONLY = "client_local_only"
    LOCAL_RECALL_REQUIRED = "local_recall_required"
    NO_SERVER_INDEX = "no_server_index"


@dataclasses.dataclass(frozen=True, slots=True)
class GateDecision:
    """``allowed``: at least one way of recall is; ``vector`` and ``content`` say which."""

    allowed: bool
    vector: bool
    content: bool
    reason: GateReason


_ALLOWED: Final = GateDecision(True, True, True, GateReason.ALLOWED)
_VECTOR_ONLY: Final = GateDecision(True, True, False, GateReason.ALLOWED)


def _refused(reason: GateReason) -> GateDecision:
    return GateDecision(False, False, False, reason)


def opted_in(metadata: Mapping[str, object]) -> bool:
    """Whether the owner permitted a semantic index on the server.

    Only JSON ``true`` at the top level counts; a flag from an agent is dropped before storage.
    """
    return metadata.get(OPT_IN_KEY) is True


def may_recall(
    envelope: SecurityEnvelope | None, metadata: Mapping[str, object], surface: Surface
) -> GateDecision:
    """Decide for one row on one surface. No envelope counts as the vault default.

    Visibility is looked at before the mode. The server side fails closed: whatever the contract
    does not name as allowed is refused.
    """
    if envelope is None:
        envelope = VAULT_DEFAULT
    if envelope.retrieval_visibility is RetrievalVisibility.NOT_RETRIEVABLE:
        return _refused(GateReason.NOT_RETRIEVABLE)
    if surface is Surface.LOCAL:
        return _ALLOWED
    if envelope.retrieval_visibility is not RetrievalVisibility.SERVER_RETRIEVABLE:
        return _refused(GateReason.CLIENT_LOCAL_ONLY)
    if envelope.security_mode is SecurityMode.VAULT:
        if not opted_in(metadata):
            return _refused(GateReason.LOCAL_RECALL_REQUIRED)
        if not envelope.server_embeddings_enabled:
            return _refused(GateReason.NO_SERVER_INDEX)
        return _VECTOR_ONLY
    vector = envelope.server_embeddings_enabled
    content = envelope.server_content_search_enabled
    if not vector and not content:
        return _refused(GateReason.NO_SERVER_INDEX)
    return GateDecision(True, vector, content, GateReason.ALLOWED)
