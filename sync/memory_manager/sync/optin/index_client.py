"""The HTTP client of ``/v1/index``: a class of its own, which ``egress`` alone may import.

A test over the syntax tree fails when any other module of the product names it. It has no method
for the log, and the client of the log has none for these routes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from memory_manager.sync.engine.answers import json_object

_ROWS: Final = "/v1/index/rows"
_SEARCH: Final = "/v1/index/search"
_TOKENS: Final = "/v1/index/tokens"


class Session(Protocol):
    """Whoever is logged in at the pinned server sends, with its token and session epoch."""

    async def call(self, method: str, path: str, **request: Any) -> bytes: ...


class IndexClient:
    """Raises SyncUnreachable where nothing usable came back, SyncServerRefused for a refusal."""

    def __init__(self, session: Session) -> None:
        self._session = session

    async def put_row(self, offer: Mapping[str, Any]) -> None:
        """One row under its grant; the same once more is no error."""
        await self._session.call("POST", _ROWS, document=offer)

    async def records(self) -> Mapping[str, Any]:
        """The ids of the rows the server holds for this vault; not checked."""
        return json_object(await self._session.call("GET", _ROWS))

    async def delete_row(self, record: bytes) -> None:
        """Whether it was there or not, it is not afterwards."""
        await self._session.call("DELETE", f"{_ROWS}/{record.hex()}")

    async def search(self, query: str, limit: int) -> Mapping[str, Any]:
        """Record ids and scores; not checked, and no text of the server's is looked at."""
        parameters = {"q": query, "limit": str(limit)}
        return json_object(await self._session.call("GET", _SEARCH, query=parameters))

    async def issue_token(self, name: str, days: int) -> Mapping[str, Any]:
        body = {"name": name, "days": days}
        return json_object(await self._session.call("POST", _TOKENS, document=body))

    async def tokens(self) -> Mapping[str, Any]:
        return json_object(await self._session.call("GET", _TOKENS))

    async def revoke_token(self, token_id: str) -> None:
        await self._session.call("DELETE", f"{_TOKENS}/{token_id}")
