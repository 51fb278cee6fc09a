"""JSON-RPC messages as far as we look at them ourselves: their form, and errors without input.

The SDK answers a malformed message with a text that quotes it, and an unknown method with its
name. No error may say what was in a request (xmemo.md 4.9, 11.2). Pure.
"""

from __future__ import annotations

import json
from typing import Final, TypeGuard, cast

INVALID_REQUEST: Final = -32600
PARSE_ERROR: Final = -32700

_VERSION: Final = "2.0"
_HEAD: Final = 4_096  # an error stands at the beginning, behind nothing but the client's id


def is_message(value: object) -> TypeGuard[dict[str, object]]:
    """Whether this is one request, notification or response; a batch is none."""
    if not isinstance(value, dict):
        return False
    message = cast("dict[str, object]", value)
    number = message.get("id")
    if message.get("jsonrpc") != _VERSION:
        return False
    if isinstance(number, bool) or not isinstance(number, int | str | None):
        return False
    if "method" in message:
        parameters = message.get("params")
        return isinstance(message["method"], str) and isinstance(parameters, dict | None)
    if "error" in message:
        return _is_error(message["error"])
    return isinstance(message.get("result"), dict)


def without_input(body: bytes) -> bytes:
    """An answer whose error repeats nothing of the request; every other answer as it is."""
    if b'"error"' not in body[:_HEAD]:
        return body
    answer = json.loads(body)
    error = answer.get("error") if isinstance(answer, dict) else None
    if not isinstance(error, dict) or not isinstance(error.get("data"), str):
        return body
    del error["data"]
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":")).encode()


def _is_error(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    error = cast("dict[str, object]", value)
    code = error.get("code")
    return isinstance(code, int) and isinstance(error.get("message"), str)
