"""Refusals on ``/v1/index`` and on the routes of hosted agents; none holds text or a token."""

from __future__ import annotations

import enum
from typing import ClassVar

from memory_manager.sync.server.refusals import Refused


class GrantReason(enum.StrEnum):
    """Why a grant does not cover what came with it (sync.md 6, T61)."""

    MALFORMED = "malformed"
    OTHER_VAULT = "other_vault"
    OTHER_DEVICE = "other_device"
    OTHER_SERVER = "other_server"
    EXPIRED = "expired"
    OTHER_BYTES = "other_bytes"
    OTHER_FIELDS = "other_fields"
    DEVICE_SIGNATURE = "device_signature"
    OWNER_SIGNATURE = "owner_signature"
    NOT_OPTED_IN = "not_opted_in"
    USED_BEFORE = "used_before"
    OTHER_REVISION = "other_revision"
    CREDENTIAL = "credential"


class IndexRefused(Refused):
    """A refusal of the index, with the HTTP status it is answered with."""

    status: ClassVar[int] = 422


class GrantRefused(IndexRefused):
    """The owner's grant is missing, or it covers another row, revision, text or server."""

    default_message = "No valid grant of the owner covers this; nothing was stored."
    wire_code = "GRANT"

    def __init__(self, reason: GrantReason) -> None:
        super().__init__()
        self.reason = reason


class IndexFull(IndexRefused):
    """As many opted-in rows or tokens as the server keeps for one vault."""

    default_message = "The index of this vault is full; nothing was stored."
    status = 507
    wire_code = "QUOTA"


class NoAgentToken(IndexRefused):
    """A hosted agent's request without a token."""

    default_message = "A token is needed: Authorization: Bearer, or X-API-Key."
    status = 401
    wire_code = "unauthorized"


class AgentTokenRefused(IndexRefused):
    """A token that is wrong, revoked, expired, or of a device that was revoked; or two tokens."""

    default_message = "This token gives no access."
    status = 403
    wire_code = "forbidden"


class AgentRequestRefused(IndexRefused):
    """A hosted agent's request lacks a value that it needs, or has an impossible one."""

    default_message = "The request is not valid."
    status = 422
    wire_code = "invalid_input"

    def __init__(self, field: str, message: str, kind: str, *, place: str) -> None:
        super().__init__(f"{field}: {message}")
        self.field = field
        self.said = message
        self.kind = kind
        self.place = place
