"""The five fields that say how a row is stored and who may recall it.

Writing is strict (an odd value is an error); reading fails closed (an odd value means: not
retrievable). Contract: redaction.md 11.1, 11.2.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping
from typing import Final, TypeVar

from memory_manager.security.errors import InvalidEnvelope

OPT_IN_KEY: Final = "vault_semantic_index_opt_in"
OPT_IN_NOTICE: Final = (
    "Opting in is a compromise: it permits a semantic index of this memory on the server, "
    "where the opted-in copy is readable. A memory that is not opted in stays in the vault, for "
    "local recall only."
)


class SecurityMode(enum.StrEnum):
    VAULT = "vault"
    CLOUD = "cloud"
    KEYGUARD = "keyguard"


class EncryptionState(enum.StrEnum):
    CIPHERTEXT = "ciphertext"
    SERVER_ENCRYPTED = "server_encrypted"
    PLAINTEXT = "plaintext"


class RetrievalVisibility(enum.StrEnum):
    CLIENT_LOCAL_ONLY = "client_local_only"
    NOT_RETRIEVABLE = "not_retrievable"
    SERVER_RETRIEVABLE = "server_retrievable"


@dataclasses.dataclass(frozen=True, slots=True)
class SecurityEnvelope:
    security_mode: SecurityMode
    encryption_state: EncryptionState
    retrieval_visibility: RetrievalVisibility
    server_embeddings_enabled: bool
    server_content_search_enabled: bool

    def as_json(self) -> dict[str, str | bool]:
        """The wire and storage form, all five fields with their JSON types."""
        return {
            "security_mode": self.security_mode.value,
            "encryption_state": self.encryption_state.value,
            "retrieval_visibility": self.retrieval_visibility.value,
            "server_embeddings_enabled": self.server_embeddings_enabled,
            "server_content_search_enabled": self.server_content_search_enabled,
        }


VAULT_DEFAULT: Final = SecurityEnvelope(
    SecurityMode.VAULT,
    EncryptionState.CIPHERTEXT,
    RetrievalVisibility.CLIENT_LOCAL_ONLY,
    server_embeddings_enabled=False,
    server_content_search_enabled=False,
)

UNREADABLE: Final = SecurityEnvelope(
    SecurityMode.VAULT,
    EncryptionState.CIPHERTEXT,
    RetrievalVisibility.NOT_RETRIEVABLE,
    server_embeddings_enabled=False,
    server_content_search_enabled=False,
)
"""What a stored envelope with an odd value counts as: the owner still reaches the row by id."""

_Member = TypeVar("_Member", bound=enum.StrEnum)


def parse_envelope(mapping: Mapping[str, object]) -> SecurityEnvelope:
    """All five fields from JSON; InvalidEnvelope (naming the field, never the value) otherwise.

    Other keys are ignored. ``client_local_only`` or ``not_retrievable`` contradict a true flag, and
    the vault never allows content search on a server.
    """
    envelope = SecurityEnvelope(
        _member(SecurityMode, mapping, "security_mode"),
        _member(EncryptionState, mapping, "encryption_state"),
        _member(RetrievalVisibility, mapping, "retrieval_visibility"),
        _flag(mapping, "server_embeddings_enabled"),
        _flag(mapping, "server_content_search_enabled"),
    )
    if envelope.retrieval_visibility is not RetrievalVisibility.SERVER_RETRIEVABLE and (
        envelope.server_embeddings_enabled or envelope.server_content_search_enabled
    ):
        raise InvalidEnvelope(
            "A row that the server may not recall cannot enable a server index.",
            field="retrieval_visibility",
        )
    if envelope.security_mode is SecurityMode.VAULT and envelope.server_content_search_enabled:
        raise InvalidEnvelope(
            "Vault rows never allow content search on a server.",
            field="server_content_search_enabled",
        )
    return envelope


def read_envelope(mapping: Mapping[str, object] | None) -> SecurityEnvelope:
    """A stored envelope: the vault default when there is none, UNREADABLE when any value is odd."""
    if mapping is None:
        return VAULT_DEFAULT
    try:
        return parse_envelope(mapping)
    except InvalidEnvelope:
        return UNREADABLE


def _member(kind: type[_Member], mapping: Mapping[str, object], field: str) -> _Member:
    value = mapping.get(field)
    if isinstance(value, str):
        for member in kind:
            if member.value == value:
                return member
    raise InvalidEnvelope(f"The security envelope has no valid {field}.", field=field)


def _flag(mapping: Mapping[str, object], field: str) -> bool:
    value = mapping.get(field)
    if isinstance(value, bool):
        return value
    raise InvalidEnvelope(f"The security envelope has no valid {field}.", field=field)
