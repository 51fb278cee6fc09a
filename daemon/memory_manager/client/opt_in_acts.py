"""The daemon's opt-in routes as methods; see ``memory_client``."""

from __future__ import annotations

import urllib.parse
from collections.abc import Mapping, Sequence

from memory_manager.client.http import DaemonConnection, Json
from memory_manager.client.memory_client import KEY_DERIVATION_TIMEOUT_SECONDS, JsonObject


class OptInActs:
    """Each method is one request and may raise an error of ``client.errors``."""

    def __init__(self, connection: DaemonConnection) -> None:
        self._connection = connection

    def request(self, memory_id: str, reason: str | None) -> JsonObject:
        path = f"/v1/memories/{urllib.parse.quote(memory_id, safe='')}/opt-in"
        return self._post(path, {"reason": reason})

    def listing(self) -> JsonObject:
        return self._connection.request("GET", "/v1/opt-in").body

    def status(self) -> JsonObject:
        return self._connection.request("GET", "/v1/opt-in/status").body

    def preview(self, ids: Sequence[str]) -> JsonObject:
        return self._post("/v1/opt-in/preview", {"ids": list(ids)})

    def approve(
        self, ids: Sequence[str], digest: str, count: int | None, passphrase: str
    ) -> JsonObject:
        """Takes a key derivation; the passphrase opens the grant key for this one act."""
        body: Mapping[str, Json] = {
            "ids": list(ids),
            "digest": digest,
            "count": count,
            "passphrase": passphrase,
        }
        return self._post("/v1/opt-in/approve", body, KEY_DERIVATION_TIMEOUT_SECONDS)

    def decline(self, ids: Sequence[str]) -> JsonObject:
        return self._post("/v1/opt-in/decline", {"ids": list(ids)})

    def out(self, ids: Sequence[str]) -> JsonObject:
        return self._post("/v1/opt-in/out", {"ids": list(ids)})

    def search(self, query: str, limit: int) -> JsonObject:
        return self._post("/v1/opt-in/search", {"query": query, "limit": limit})

    def add_token(self, name: str, days: int) -> JsonObject:
        """The token stands in this answer and nowhere else."""
        return self._post("/v1/opt-in/tokens", {"name": name, "days": days})

    def tokens(self) -> JsonObject:
        return self._connection.request("GET", "/v1/opt-in/tokens").body

    def revoke_token(self, token_id: str) -> JsonObject:
        path = f"/v1/opt-in/tokens/{urllib.parse.quote(token_id, safe='')}/revoke"
        return self._post(path, {})

    def _post(
        self, path: str, body: Mapping[str, Json], timeout_seconds: float | None = None
    ) -> JsonObject:
        answer = self._connection.request("POST", path, body=body, timeout_seconds=timeout_seconds)
        return answer.body
