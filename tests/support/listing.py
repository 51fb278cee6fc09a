"""All rows a credential may see, page by page."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sandbox_daemon import Wire

PAGE = 200


def list_all(wire: Wire, **filters: object) -> Iterator[dict[str, Any]]:
    """Rows of ``GET /v1/memories`` for these filters."""
    cursor: str | None = None
    while True:
        answer = wire.get("/v1/memories", limit=PAGE, cursor=cursor, **filters)
        assert answer.status == 200, (answer.status, answer.code)
        page = answer.json
        yield from page["results"]
        cursor = page.get("next_cursor")
        if cursor is None:
            return
