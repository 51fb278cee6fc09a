"""How every answer leaves: compact UTF-8 JSON with fixed headers (xmemo.md 4.5)."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from aiohttp import web

JSON_TYPE: Final = "application/json"
FORM_TYPE: Final = "application/x-www-form-urlencoded"
HTML_TYPE: Final = "text/html"
SERVER_NAME: Final = "memlocket"

FIXED_HEADERS: Final[Mapping[str, str]] = {
    "Server": SERVER_NAME,
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}


def json_text(value: object) -> str:
    """Compact JSON without NaN; text stays readable UTF-8."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def json_response(value: object, *, status: int = 200) -> web.Response:
    """``value`` as a JSON answer."""
    return raw_json_response(json_text(value), status=status)


def raw_json_response(text: str, *, status: int = 200) -> web.Response:
    """An answer whose JSON text is ready."""
    # a lone surrogate can only come from a damaged row; it must not break the whole answer
    body = text.encode("utf-8", "replace")
    return web.Response(body=body, status=status, content_type=JSON_TYPE)


def list_text(name: str, texts: Sequence[str], rest: Mapping[str, object]) -> str:
    """An object whose first member is a list of items that are JSON texts already."""
    return f'{{"{name}":[{",".join(texts)}],{json_text(rest)[1:]}'


def add_fixed_headers(response: web.StreamResponse) -> None:
    """Headers of every answer unless it has its own; the library's version string never leaves."""
    for name, value in FIXED_HEADERS.items():
        response.headers.setdefault(name, value)
