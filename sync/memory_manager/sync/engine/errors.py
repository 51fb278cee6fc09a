"""What a round of sync may end with besides ``SyncRefused``; nothing here holds row content."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from memory_manager.base.errors import MemlocketError, Outcome

_SAID: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {
        "REGISTRATION": (
            "The registration token is wrong, used up or older than a week.",
            "Make one where the server runs: memlocket server token --data FOLDER",
        ),
        "VAULT_EXISTS": (
            "The server has what an earlier attempt founded, and it was used since.",
            "Run it again to found another one, with a new registration token.",
        ),
        "LOGIN": (
            "The server does not know this device or this vault, or it answers under another"
            " address than the one its owner gave it.",
            "Was it set back to an older state? Else use the address of its --public-host.",
        ),
        "UNKNOWN_DEVICE": (
            "The server does not know this device; was it set back to an older state?",
            "Ask its owner. If it stays so: memlocket sync leave --anyway, then join again.",
        ),
        "REVOKED_DEVICE": (
            "This device was shut out by another one.",
            "Its memories stay here. To end sync here: memlocket sync leave",
        ),
        "RATE": (
            "The server asks for patience: there were many requests in a short time.",
            "Try again in some minutes.",
        ),
        "QUOTA": (
            "The server has no room left for this vault.",
            "Ask its owner.",
        ),
    }
)
"""Codes of the protocol that an owner meets, in words, each with the next step."""


class SyncUnreachable(MemlocketError):
    """No usable answer: no network, a captive portal, a redirect, a short or oversized body."""

    code = "sync_unreachable"
    title = "Sync server out of reach"
    outcome = Outcome.RETRY_LATER
    exit_code = 16
    default_message = "The sync server gives no usable answer; nothing was changed."
    default_hint = "Memlocket tries again by itself."

    def __init__(
        self,
        message: str | None = None,
        *,
        hint: str | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.retry_after_seconds = retry_after_seconds


class CaFileRefused(MemlocketError):
    """The file with the certificates of a server is missing, private to others, or holds none."""

    code = "sync_ca_file_refused"
    title = "Unusable certificate file"
    outcome = Outcome.ASK_USER
    exit_code = 5
    default_message = "The file given as --ca-file holds no certificate."
    default_hint = "Give the PEM file of the certificate, not that of its key."


class SyncServerRefused(MemlocketError):
    """The server said no, with a code of its protocol and details of that code's form."""

    code = "sync_server_refused"
    title = "Refused by the sync server"
    outcome = Outcome.ASK_USER
    exit_code = 16
    default_message = "The sync server refused the request."

    def __init__(
        self,
        reason: str,
        status: int,
        details: Mapping[str, Any] | None = None,
        *,
        retry_after_seconds: float | None = None,
    ) -> None:
        said, hint = _SAID.get(reason, (f"The sync server refused the request: {reason}.", None))
        super().__init__(said, hint=hint)
        self.reason = reason
        self.status = status
        self.details = details or {}
        self.retry_after_seconds = retry_after_seconds


class RegistrationRefused(SyncServerRefused):
    """The server makes no new vault for this registration token, or for none."""

    code = "sync_registration_refused"
    title = "Registration refused"

    def __init__(self, status: int) -> None:
        super().__init__("REGISTRATION", status)


class SyncAddressRefused(MemlocketError):
    """A server address that is not used: plain HTTP off this machine, or no address at all."""

    code = "sync_address_refused"
    title = "Unusable sync server address"
    outcome = Outcome.ASK_USER
    exit_code = 2
    default_message = "The address of a sync server starts with https:// off this machine."
    default_hint = "It looks like https://sync.example.org:8443"


class SyncOff(MemlocketError):
    """This vault has no sync server."""

    code = "sync_off"
    title = "Sync is off"
    outcome = Outcome.ASK_USER
    exit_code = 16
    default_message = "This vault is not synced with a server."
    default_hint = "Set it up or join first: memlocket sync --help"


class NothingToConfirm(MemlocketError):
    """The stop that is to be confirmed does not stand, or no confirmation ends it."""

    code = "sync_nothing_to_confirm"
    title = "Nothing to confirm"
    outcome = Outcome.ASK_USER
    exit_code = 16
    default_message = "Sync does not wait for that confirmation."
    default_hint = "See: memlocket sync status"
