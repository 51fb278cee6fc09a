"""What a round of sync may end with besides ``SyncRefused``; nothing here holds row content."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from memory_manager.base.errors import MemlocketError, Outcome


class SyncUnreachable(MemlocketError):
    """No usable answer: no network, a captive portal, a redirect, a short or oversized body."""

    code = "sync_unreachable"
    title = "Sync server out of reach"
    outcome = Outcome.RETRY_LATER
    exit_code = 16
    default_message = "The sync server gives no usable answer; nothing was changed."
    default_hint = "Memlocket tries again by itself."

    def __init__(
        self, message: str | None = None, *, retry_after_seconds: float | None = None
    ) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


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
        super().__init__(f"The sync server refused the request: {reason}.")
        self.reason = reason
        self.status = status
        self.details = details or {}
        self.retry_after_seconds = retry_after_seconds


class SyncAddressRefused(MemlocketError):
    """A server address that is not used: plain HTTP off this machine, or no address at all."""

    code = "sync_address_refused"
    title = "Unusable sync server address"
    outcome = Outcome.ASK_USER
    exit_code = 2
    default_message = "The address of a sync server starts with https:// off this machine."


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
