"""Answers: JSON or octets, never compressed, never kept by a cache; and one answer per refusal."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Final

from aiohttp import web

from memory_manager.base.errors import MemlocketError
from memory_manager.sync.server.errors import BadRequest, RateExceeded
from memory_manager.sync.server.refusals import (
    Fork,
    Gap,
    MailboxesFull,
    QuotaExceeded,
    Refused,
    RosterHead,
    SessionRefused,
    StorageUnavailable,
)

JSON_TYPE: Final = "application/json"
OCTETS: Final = "application/octet-stream"
FIXED_HEADERS: Final[Mapping[str, str]] = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Server": "memlocket",
}
STATUS_OF_CODE: Final[Mapping[str, int]] = {
    "BAD_REQUEST": 400,
    "CHALLENGE": 401,
    "CLASS_POLICY": 422,
    "DEVICE_ONLY": 403,
    "FORK": 409,
    "GAP": 412,
    "GONE": 410,
    "LOGIN": 401,
    "MAILBOX_TAKEN": 409,
    "MALFORMED": 422,
    "MEDIA_TYPE": 415,
    "METHOD": 405,
    "NOT_FOUND": 404,
    "QUOTA": 507,
    "RATE": 429,
    "REGISTRATION": 403,
    "REVOKED_DEVICE": 403,
    "ROSTER_HEAD": 409,
    "SESSION_EPOCH": 401,
    "TIMEOUT": 408,
    "TOO_LARGE": 413,
    "UNKNOWN_DEVICE": 403,
    "VAULT_EXISTS": 409,
}
UNAVAILABLE: Final = "UNAVAILABLE"
INTERNAL: Final = "INTERNAL"
UNAVAILABLE_RETRY_SECONDS: Final = 5.0
MAILBOX_RETRY_SECONDS: Final = 60.0


def json_answer(document: Mapping[str, object], status: int = 200) -> web.Response:
    """One JSON object."""
    body = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
    return web.Response(body=body, status=status, content_type=JSON_TYPE, headers=FIXED_HEADERS)


def octets_answer(body: bytes, status: int = 200) -> web.Response:
    return web.Response(body=body, status=status, content_type=OCTETS, headers=FIXED_HEADERS)


def empty_answer(status: int = 204) -> web.Response:
    return web.Response(status=status, headers=FIXED_HEADERS)


def code_of(error: MemlocketError) -> str:
    """The protocol's code of a refusal; INTERNAL for what is none."""
    if isinstance(error, Refused):
        return error.wire_code
    return UNAVAILABLE if isinstance(error, StorageUnavailable) else INTERNAL


def error_answer(error: MemlocketError) -> web.Response:
    """The answer for a refusal, with ``Retry-After`` in seconds where waiting helps."""
    code = code_of(error)
    status = _status(error, code)
    message = MemlocketError.default_message if code == INTERNAL else error.message
    said = {"code": code, "message": message, "details": _details(error)}
    response = json_answer({"error": said}, status)
    seconds = _retry_after(error)
    if seconds is not None:
        response.headers["Retry-After"] = str(max(1, math.ceil(seconds)))
    if code in ("TIMEOUT", "TOO_LARGE"):
        response.force_close()  # the rest of the body is not worth reading
    return response


def fault_answer(status: int) -> web.Response:
    """An answer in our form for a fault that the HTTP library found."""
    response = error_answer(BadRequest() if status < 500 else MemlocketError())
    response.set_status(status)
    return response


def _status(error: MemlocketError, code: str) -> int:
    """A mounted part may name a status of its own in ``status``."""
    if isinstance(error, Refused):
        own: object = getattr(error, "status", None)
        return own if isinstance(own, int) else STATUS_OF_CODE.get(code, 400)
    return 503 if code == UNAVAILABLE else 500


def _details(error: MemlocketError) -> dict[str, object]:
    """Positions, heads and limits: what the caller needs to go on."""
    match error:
        case Fork():
            return {"seq": error.seq, "ours": error.ours.hex(), "theirs": error.theirs.hex()}
        case Gap():
            return {"seq": error.seq, "head": error.head.hex()}
        case RosterHead():
            return {"idx": error.idx, "head": error.head.hex()}
        case QuotaExceeded():
            return {"what": error.what.value, "limit": error.limit}
        case SessionRefused():
            return {"reason": error.reason.value}
        case _:
            return {}


def _retry_after(error: MemlocketError) -> float | None:
    match error:
        case RateExceeded():
            return error.retry_after_seconds
        case MailboxesFull():
            return MAILBOX_RETRY_SECONDS
        case StorageUnavailable():
            return UNAVAILABLE_RETRY_SECONDS
        case _:
            return None
