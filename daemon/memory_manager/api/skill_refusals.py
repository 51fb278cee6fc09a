"""How the skill route says no: ``{ok: false, error: {code, message}, request_id}`` (6.8)."""

from __future__ import annotations

from typing import Final

from aiohttp import web

from memory_manager.api.answers import json_response
from memory_manager.api.errors import OutOfScope, WrongCredential, error_body, error_response
from memory_manager.base.errors import MemlocketError

SKILL_PATH: Final = "/skill/operations"
PERMISSION_DENIED: Final = "permission_denied"

_PATHS: Final = (f"/v1{SKILL_PATH}", f"/api/v1{SKILL_PATH}")


def is_skill_path(path: str) -> bool:
    """Whether a request went to the skill route."""
    return path.rstrip("/") in _PATHS


def skill_refusal(error: MemlocketError, request_id: str) -> web.Response:
    """The answer for an error, with the status and headers it has everywhere."""
    usual = error_response(error, request_id)
    denied = isinstance(error, WrongCredential | OutOfScope)
    body = {
        **error_body(error, request_id),
        "ok": False,
        "error": {"code": PERMISSION_DENIED if denied else error.code, "message": error.message},
    }
    response = json_response(body, status=usual.status)
    if "Retry-After" in usual.headers:
        response.headers["Retry-After"] = usual.headers["Retry-After"]
    return response
