"""Errors of the socket itself, and the one table from error codes to HTTP statuses.

Contract: xmemo.md 3, 4.9, 4.10; vault.md 14 where xmemo.md is silent. No error text may hold a
credential, memory text or query text.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Final

from aiohttp import web

from memory_manager.api.answers import json_response
from memory_manager.auth.errors import TooManyAttempts
from memory_manager.auth.logins import ATTEMPT_WINDOW_SECONDS
from memory_manager.base.errors import InvalidInput, MemlocketError, Outcome
from memory_manager.sync.engine.advice import advice
from memory_manager.sync.engine.errors import SyncServerRefused
from memory_manager.sync.errors import SyncRefused
from memory_manager.vault.errors import VaultLocked, WrongPassphrase

LOCKED_RETRY_SECONDS: Final = 5


class RequestError(MemlocketError):
    """The request is not acceptable HTTP; base of the refusals of the socket with a ``status``."""

    code = "bad_request"
    title = "Bad request"
    outcome = Outcome.ASK_USER
    default_message = "The request is not acceptable."
    status: int = 400


class InvalidJson(RequestError):
    """The body is not strict JSON: syntax, duplicate names, NaN, depth, lone surrogates."""

    code = "invalid_json"
    title = "Invalid JSON"
    default_message = "The request body is not valid JSON."


@dataclasses.dataclass(frozen=True, slots=True)
class Fault:
    """One refused field: where it stood, what was wrong, and a stable kind."""

    place: str
    field: str
    message: str
    kind: str

    def as_json(self) -> dict[str, object]:
        return {"loc": [self.place, self.field], "msg": self.message, "type": self.kind}


class InvalidFields(RequestError):
    """One or more fields of a request are missing or impossible; ``faults`` names them all."""

    code = "validation_error"
    title = "Invalid fields"
    status = 422

    def __init__(self, faults: Sequence[Fault]) -> None:
        super().__init__(f"{faults[0].field}: {faults[0].message}")
        self.faults = tuple(faults)


class MissingCredential(RequestError):
    """No credential, or a scheme other than Bearer."""

    code = "unauthorized"
    title = "Credential missing"
    default_message = "A credential is required."
    default_hint = "Get one: memlocket agent add NAME"
    status = 401


class WrongCredential(RequestError):
    """Unknown, revoked or expired, or two different credentials in one request."""

    code = "forbidden"
    title = "Credential refused"
    default_message = "The credential is not valid."
    status = 403


class OutOfScope(RequestError):
    """A valid credential without the right for this route."""

    code = "scope_missing"
    title = "Not allowed"
    default_message = "This credential may not do that."
    status = 403


class RateLimited(RequestError):
    """More requests at once than one credential gets; waiting briefly helps."""

    code = "rate_limited"
    title = "Too many requests"
    outcome = Outcome.RETRY_LATER
    default_message = "Too many requests at once; try again in a moment."
    status = 503  # never 429: clients neither retry nor queue that


class ForeignOrigin(RequestError):
    """A web page of another origin, or a cross-site request."""

    code = "foreign_origin"
    title = "Foreign origin"
    default_message = "Requests from web pages are refused."
    status = 403


class ForeignPeer(RequestError):
    """The process at the other end of the Unix socket belongs to another user."""

    code = "foreign_peer"
    title = "Foreign user"
    default_message = "Only the user who runs Memlocket may connect; root is not an exception."
    status = 403


class StaleForm(RequestError):
    """A form that did not come from a page of this session."""

    code = "stale_form"
    title = "Form refused"
    default_message = "This form is no longer valid. Open the page again and repeat it there."
    status = 403


class InvalidLogin(RequestError):
    """A login that cannot be answered anywhere: unknown client, other address, ended."""

    code = "invalid_login"
    title = "Login refused"
    default_message = "This login cannot go on; start it again in the program."
    status = 400


class ForeignHost(RequestError):
    """The Host header does not name this daemon."""

    code = "foreign_host"
    title = "Misdirected request"
    default_message = "The Host header does not name this service."
    status = 421


class NotJson(RequestError):
    """A body of another type than application/json."""

    code = "unsupported_media_type"
    title = "Not JSON"
    default_message = "The body must be application/json."
    status = 415


class NotForm(NotJson):
    """A body of another type than the form this route takes."""

    default_message = "The body must be a form (application/x-www-form-urlencoded)."


class BodyTooLarge(RequestError):
    """A request body over 1 MiB."""

    code = "body_too_large"
    title = "Body too large"
    default_message = "The request body is larger than 1 MiB; nothing was stored."
    status = 413


class SlowBody(RequestError):
    """The body did not arrive in time."""

    code = "request_timeout"
    title = "Request timed out"
    outcome = Outcome.RETRY_LATER
    default_message = "The request body did not arrive in time."
    status = 408


class NoSuchRoute(RequestError):
    """No route of this name."""

    code = "route_not_found"
    title = "No such route"
    default_message = "There is no such route."
    status = 404


class MethodNotAllowed(RequestError):
    """The route exists, but not with this method."""

    code = "method_not_allowed"
    title = "Method not allowed"
    default_message = "This route does not take that method."
    status = 405


STATUS_OF_CODE: Final[Mapping[str, int]] = {
    "already_running": 500,
    "anchor_damaged": 503,
    "backup_refused": 422,
    "conflict": 409,
    "enrolment_declined": 422,
    "enrolment_expired": 410,
    "enrolment_refused": 422,
    "foreign_peer": 403,
    "fulltext_damaged": 503,
    "incomplete_vault": 500,
    "internal_error": 500,
    "invalid_agent_instance_id": 422,
    "invalid_envelope": 422,
    "invalid_input": 422,
    "invalid_record": 422,
    "invalid_redirect_uri": 400,
    "invalid_scope": 422,
    "kdf_parameters_refused": 500,
    "key_file_refused": 422,
    "needs_repair": 503,
    "newer_schema": 500,
    "no_vault": 503,
    "not_found": 404,
    "opt_in_blocked": 422,
    "opt_in_changed": 409,
    "opt_in_count": 422,
    "opt_in_grant": 409,
    "opt_in_no_key": 403,
    "passphrase_required": 403,
    "peer_unknown": 403,
    "plaintext_database": 500,
    "port_unavailable": 500,
    "read_only": 507,
    "rekey_failed": 500,
    "rolled_back": 503,
    "roster_moved": 409,
    "sanitizer_failed": 500,
    "schema_mismatch": 500,
    "setup_cancelled": 409,
    "slot_damaged": 500,
    "socket_path_too_long": 500,
    "sync_address_refused": 422,
    "sync_already_on": 409,
    "sync_ca_file_refused": 422,
    "sync_malformed": 502,
    "sync_nothing_to_confirm": 409,
    "sync_off": 409,
    "sync_recovery_refused": 422,
    "sync_refused": 502,
    "sync_registration_refused": 422,
    "sync_row_refused": 502,
    "sync_server_refused": 502,
    "sync_unreachable": 503,
    "too_large": 422,
    "too_many_attempts": 503,
    "unknown_format": 422,
    "unsafe_file": 500,
    "vault_busy": 503,
    "vault_error": 500,
    "vault_exists": 409,
    "vault_locked": 503,
    "vector_refused": 500,
    "weak_passphrase": 422,
    "wrong_file": 500,
    "wrong_passphrase": 403,
    "wrong_recovery_words": 403,
}


def status_of(error: MemlocketError) -> int:
    """The HTTP status of an error; 500 for a code nobody mapped, which a test forbids."""
    if isinstance(error, RequestError):
        return error.status
    return STATUS_OF_CODE.get(error.code, HTTPStatus.INTERNAL_SERVER_ERROR)


def error_body(error: MemlocketError, request_id: str) -> dict[str, object]:
    """The body of xmemo.md 4.9: ``detail``, ``error`` and ``request_id``."""
    details: dict[str, object] = {"code": error.code, "message": error.message}
    if error.hint is not None:
        details["hint"] = error.hint
    if isinstance(error, VaultLocked):
        details["reason"] = error.reason.value
    elif isinstance(error, SyncRefused):
        details["reason"] = error.reason.value
        details.setdefault("hint", advice(error.reason.value))
    elif isinstance(error, SyncServerRefused):
        details["reason"] = error.reason
    detail: object = error.message
    if isinstance(error, InvalidFields):
        detail = [fault.as_json() for fault in error.faults]
    elif isinstance(error, InvalidInput) and error.field is not None:
        detail = [{"loc": ["body", error.field], "msg": error.message, "type": "value_error"}]
    return {"detail": detail, "error": details, "request_id": request_id}


def error_response(error: MemlocketError, request_id: str) -> web.Response:
    """The JSON answer for an error, with ``Retry-After`` where waiting helps."""
    status = status_of(error)
    response = json_response(error_body(error, request_id), status=status)
    if isinstance(error, VaultLocked):
        response.headers["Retry-After"] = str(LOCKED_RETRY_SECONDS)
    elif isinstance(error, RateLimited):
        response.headers["Retry-After"] = "1"
    elif isinstance(error, TooManyAttempts):
        response.headers["Retry-After"] = str(ATTEMPT_WINDOW_SECONDS)
    elif isinstance(error, WrongPassphrase) and error.retry_after_seconds > 0:
        response.headers["Retry-After"] = str(max(1, round(error.retry_after_seconds)))
    if status in (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.REQUEST_ENTITY_TOO_LARGE):
        response.force_close()  # the rest of the body is not worth reading
    return response
