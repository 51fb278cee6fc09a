"""The owner's acts on sync and on conflicts as methods; answers stay plain JSON objects."""

from __future__ import annotations

import urllib.parse

from memory_manager.client.http import DaemonConnection
from memory_manager.client.memory_client import JsonObject

ROUND_SECONDS = 600.0
"""An act may have to pull what the others wrote before it does its work."""


class SyncActs:
    """Thin methods over one DaemonConnection; each may raise an error of ``client.errors``."""

    def __init__(self, connection: DaemonConnection) -> None:
        self._connection = connection

    def status(self) -> JsonObject:
        return self._get("/v1/sync/status")

    def look_at_server(self, request: JsonObject) -> JsonObject:
        """Key and six words of a server that this vault does not have yet."""
        return self._post("/v1/sync/server", request)

    def set_up(self, request: JsonObject) -> JsonObject:
        return self._post("/v1/sync/setup", request)

    def join(self, request: JsonObject) -> JsonObject:
        """The string to be read on another device; it stands in this answer and nowhere else."""
        return self._post("/v1/sync/join", request)

    def look_for_welcome(self) -> JsonObject:
        return self._post("/v1/sync/join/look")

    def stop_waiting(self) -> JsonObject:
        return self._post("/v1/sync/join/cancel")

    def look_at_offer(self, invitation: str) -> JsonObject:
        return self._post("/v1/sync/offers", {"invitation": invitation})

    def let_in(self, offer: str) -> JsonObject:
        return self._post(f"/v1/sync/offers/{_quoted(offer)}/approve")

    def decline(self, offer: str) -> JsonObject:
        return self._post(f"/v1/sync/offers/{_quoted(offer)}/decline")

    def devices(self) -> JsonObject:
        return self._get("/v1/sync/devices")

    def revoke(self, device: str) -> JsonObject:
        return self._post(f"/v1/sync/devices/{_quoted(device)}/revoke")

    def call_device(self, device: str, name: str) -> JsonObject:
        return self._post(f"/v1/sync/devices/{_quoted(device)}/name", {"name": name})

    def rotate(self) -> JsonObject:
        return self._post("/v1/sync/rotate")

    def leave(self, *, delete_shared: bool, anyway: bool) -> JsonObject:
        body: JsonObject = {"delete_shared": delete_shared, "anyway": anyway}
        return self._post("/v1/sync/leave", body)

    def recover(self, request: JsonObject) -> JsonObject:
        return self._post("/v1/sync/recover", request)

    def renew(self, passphrase: str | None) -> JsonObject:
        return self._post("/v1/sync/renew", {"passphrase": passphrase})

    def replace_words(self, words: str) -> JsonObject:
        return self._post("/v1/sync/words", {"recovery_words": words})

    def announce_grant_key(self, passphrase: str) -> JsonObject:
        return self._post("/v1/sync/grant-key", {"passphrase": passphrase})

    def pause(self) -> JsonObject:
        return self._post("/v1/sync/pause")

    def resume(self) -> JsonObject:
        return self._post("/v1/sync/resume")

    def now(self) -> JsonObject:
        return self._post("/v1/sync/now")

    def retry(self) -> JsonObject:
        return self._post("/v1/sync/retry")

    def confirm(self, code: str, typed: str) -> JsonObject:
        return self._post("/v1/sync/confirm", {"code": code, "typed": typed})

    def jitter(self) -> JsonObject:
        return self._get("/v1/sync/jitter")

    def set_jitter(self, seconds: float) -> JsonObject:
        return self._post("/v1/sync/jitter", {"seconds": seconds})

    def evidence(self) -> JsonObject:
        return self._get("/v1/sync/evidence")

    # -- conflicts

    def conflicts(self) -> JsonObject:
        return self._get("/v1/conflicts")

    def conflict(self, memory_id: str) -> JsonObject:
        return self._get(f"/v1/conflicts/{_quoted(memory_id)}")

    def keep(self, memory_id: str, revision: str) -> JsonObject:
        return self._post(f"/v1/conflicts/{_quoted(memory_id)}/keep", {"revision": revision})

    def merge(self, memory_id: str, content: str) -> JsonObject:
        return self._post(f"/v1/conflicts/{_quoted(memory_id)}/merge", {"content": content})

    def _get(self, path: str) -> JsonObject:
        return self._connection.request("GET", path).body

    def _post(self, path: str, body: JsonObject | None = None) -> JsonObject:
        answer = self._connection.request(
            "POST", path, body=body or {}, timeout_seconds=ROUND_SECONDS
        )
        return answer.body


def _quoted(part: str) -> str:
    return urllib.parse.quote(part, safe="")
