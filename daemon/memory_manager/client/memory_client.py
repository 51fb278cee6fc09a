"""The daemon's routes as methods. Answers stay plain JSON objects: the faces only show them."""

from __future__ import annotations

import os
import re
import urllib.parse
from collections.abc import Iterator, Mapping, Sequence

from memory_manager.base.errors import InvalidInput, NotFound
from memory_manager.client.discovery import find_daemon, owner_token
from memory_manager.client.errors import AmbiguousId
from memory_manager.client.http import DEFAULT_TIMEOUT_SECONDS, DaemonConnection, Json

KEY_DERIVATION_TIMEOUT_SECONDS = 120.0
LONG_WORK_TIMEOUT_SECONDS = 3600.0
QUERY_CHARACTERS = 4_000
JsonObject = Mapping[str, Json]
_ID_PREFIX = re.compile(r"[0-9a-fA-F]{8}[0-9a-fA-F-]*")
_ID_DIGITS = 32


def connect_as_owner(
    environ: Mapping[str, str] = os.environ,
    *,
    headers: Mapping[str, str] | None = None,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
) -> MemoryClient:
    """A client of the running daemon that presents the owner token of its runtime directory."""
    address = find_daemon(environ)
    connection = DaemonConnection(
        address, token=owner_token(address), headers=headers, timeout_seconds=timeout_seconds
    )
    return MemoryClient(connection)


class MemoryClient:
    """Thin methods over one DaemonConnection; each may raise an error of ``client.errors``."""

    def __init__(self, connection: DaemonConnection) -> None:
        self.connection = connection

    def __enter__(self) -> MemoryClient:
        return self

    def __exit__(self, *exception: object) -> None:
        self.connection.close()

    # -- service

    def health(self) -> JsonObject:
        return self.connection.request("GET", "/health").body

    def status(self) -> JsonObject:
        return self.connection.request("GET", "/v1/status").body

    def footprint(self) -> JsonObject:
        """Sizes and times of the running service; reads the lengths of every index row."""
        return self.connection.request("GET", "/v1/recall/footprint").body

    def stop(self) -> JsonObject:
        return self._post("/v1/daemon/stop", {})

    def rebuild(self, what: str) -> JsonObject:
        return self._post("/v1/recall/rebuild", {"what": what}, LONG_WORK_TIMEOUT_SECONDS)

    # -- vault

    def unlock(self, passphrase: str) -> JsonObject:
        """Open a locked vault; on an open one it proves the owner for the next five minutes."""
        body = {"passphrase": passphrase}
        return self._post("/v1/vault/unlock", body, KEY_DERIVATION_TIMEOUT_SECONDS)

    def unlock_with_recovery_words(self, words: str, new_passphrase: str) -> JsonObject:
        body = {"recovery_words": words, "new_passphrase": new_passphrase}
        return self._post("/v1/vault/unlock", body, KEY_DERIVATION_TIMEOUT_SECONDS)

    def lock(self) -> JsonObject:
        return self._post("/v1/vault/lock", {"reason": "user"})

    def change_passphrase(self, old: str | None, new: str) -> JsonObject:
        body = {"old": old, "new": new}
        return self._post("/v1/vault/passphrase", body, KEY_DERIVATION_TIMEOUT_SECONDS)

    def backup(self, path: str) -> JsonObject:
        return self._post("/v1/vault/backup", {"path": path}, LONG_WORK_TIMEOUT_SECONDS)

    def take_recovery_words(self, words: str, *, confirmed: bool) -> JsonObject:
        """These words, made and shown here, instead of the old ones."""
        body: JsonObject = {"recovery_words": words, "confirmed": confirmed}
        return self._post("/v1/vault/recovery", body, KEY_DERIVATION_TIMEOUT_SECONDS)

    def require_owner_for_words(self) -> JsonObject:
        """Nothing is changed; PassphraseRequired where ``take_recovery_words`` would raise it."""
        return self._post("/v1/vault/recovery", {"only_check_owner": True})

    def confirm_recovery_words(self) -> JsonObject:
        return self._post("/v1/vault/recovery/confirm", {})

    def change_database_key(
        self, passphrase: str, recovery_words: str | None, key_file: str | None
    ) -> JsonObject:
        """Copy-rekey; new recovery words stand in this answer and nowhere else."""
        body: JsonObject = {
            "passphrase": passphrase,
            "recovery_words": recovery_words,
            "key_file": key_file,
        }
        return self._post("/v1/vault/rekey", body, LONG_WORK_TIMEOUT_SECONDS)

    def use_keyring(self, enabled: bool) -> JsonObject:
        return self._post("/v1/vault/keyring", {"enabled": enabled})

    def check_vault(self) -> JsonObject:
        """Reads every page of the database: seconds per gigabyte."""
        return self._post("/v1/vault/check", {}, LONG_WORK_TIMEOUT_SECONDS)

    def rescan(self) -> JsonObject:
        """Begins; ``status`` says under ``sanitizer`` how far it is."""
        return self._post("/v1/vault/rescan", {})

    def accept_rollback(self) -> JsonObject:
        return self._post("/v1/vault/accept-rollback", {})

    # -- memories

    def remember(self, memory: JsonObject) -> JsonObject:
        return self._post("/v1/remember", memory)

    def search(self, query: Mapping[str, object]) -> JsonObject:
        words = query.get("query")
        if isinstance(words, str):  # the daemon reads no more of it, and a URL must not grow
            query = {**query, "query": words[:QUERY_CHARACTERS]}
        return self.connection.request("GET", "/v1/memories/search", query=query).body

    def recall_context(self, question: JsonObject) -> JsonObject:
        return self._post("/v1/recall/context", question)

    def list_memories(self, query: Mapping[str, object]) -> JsonObject:
        return self.connection.request("GET", "/v1/memories", query=query).body

    def whole_id(self, given: str) -> str:
        """The id that begins with what was typed; anything but eight or more hex digits of an id is
        returned as it is. NotFound, AmbiguousId.
        """
        if not _ID_PREFIX.fullmatch(given) or len(given.replace("-", "")) >= _ID_DIGITS:
            return given
        answer = self.connection.request("GET", "/v1/memories/ids", query={"prefix": given}).body
        ids = answer.get("ids")
        found = [str(one) for one in ids] if isinstance(ids, list) else []
        if not found:
            raise NotFound(f"No memory has an id that begins with {given}.")
        if len(found) > 1:
            raise AmbiguousId(f"More than one memory has an id that begins with {given}.")
        return found[0]

    def get(self, memory_id: str) -> JsonObject:
        return self.connection.request("GET", _memory(memory_id)).body

    def explain(self, memory_id: str, query: str | None = None) -> JsonObject:
        path = _memory(memory_id, "explain")
        return self.connection.request("GET", path, query={"query": query}).body

    def versions(self, memory_id: str) -> JsonObject:
        return self.connection.request("GET", _memory(memory_id, "versions")).body

    def update(self, memory_id: str, change: JsonObject) -> JsonObject:
        return self.connection.request("PATCH", _memory(memory_id), body=change).body

    def forget(self, memory_id: str, body: JsonObject) -> JsonObject:
        return self._post(_memory(memory_id, "forget"), body)

    def restore(self, memory_id: str, body: JsonObject) -> JsonObject:
        return self._post(_memory(memory_id, "restore"), body)

    def import_records(self, records: Sequence[JsonObject], *, dry_run: bool = False) -> JsonObject:
        """One outcome per record; ``dry_run`` stores none of them."""
        body: dict[str, Json] = {"records": list(records), "dry_run": dry_run}
        return self._post("/v1/memories/import", body, LONG_WORK_TIMEOUT_SECONDS)

    def export_lines(
        self, *, include_deleted: bool = False, short_marks: bool = False
    ) -> Iterator[bytes]:
        """One compact JSON object per line; needs a fresh passphrase."""
        query = {"include_deleted": include_deleted, "short_marks": short_marks}
        return self.connection.stream_lines("/v1/memories/export", query=query)

    # -- agents

    def agents(self) -> JsonObject:
        return self.connection.request("GET", "/v1/agents").body

    def add_agent(
        self, name: str, scopes: Sequence[str] | None, *, agent_id: str | None = None
    ) -> JsonObject:
        """Without scopes the credential gets all of them."""
        body: dict[str, Json] = {"name": name, "agent_id": agent_id}
        if scopes is not None:
            body["scopes"] = list(scopes)
        return self._post("/v1/agents", body)

    def revoke_agent(self, id_or_name: str) -> JsonObject:
        return self._post(f"/v1/agents/{urllib.parse.quote(id_or_name, safe='')}/revoke", {})

    def set_mcp_profile(self, id_or_name: str, profile: str) -> JsonObject:
        """Which tools an agent sees listed over MCP: ``core`` or ``full``."""
        agent = urllib.parse.quote(id_or_name, safe="")
        return self._post(f"/v1/agents/{agent}/mcp-profile", {"mcp_profile": profile})

    # -- what waits for the owner

    def approvals(self) -> JsonObject:
        return self.connection.request("GET", "/v1/approvals").body

    def decide_login(self, user_code: str, *, approve: bool) -> JsonObject:
        act = "approve" if approve else "deny"
        return self._post(f"/v1/approvals/{urllib.parse.quote(user_code, safe='')}/{act}", {})

    def destructions(self) -> JsonObject:
        """Deleted memories that an agent asked to destroy."""
        return self.connection.request("GET", "/v1/destructions").body

    def destroy(self, ids: Sequence[str], *, every: bool) -> JsonObject:
        """Destroy them with every version; needs a fresh passphrase."""
        return self._post("/v1/destructions", {"ids": list(ids), "all": every})

    def settings(self) -> JsonObject:
        return self.connection.request("GET", "/v1/settings").body

    def change_setting(self, name: str, value: bool | str) -> JsonObject:
        return self._post("/v1/settings", {"name": name, "value": value})

    def sign_in_code(self) -> JsonObject:
        """An address that signs one browser in, once, within a minute."""
        return self._post("/v1/owner/sign-in-code", {})

    def _post(self, path: str, body: Json, timeout_seconds: float | None = None) -> JsonObject:
        answer = self.connection.request("POST", path, body=body, timeout_seconds=timeout_seconds)
        return answer.body


def _memory(memory_id: str, part: str | None = None) -> str:
    if not memory_id:
        raise InvalidInput("A memory id must not be empty.", field="id")
    base = f"/v1/memories/{urllib.parse.quote(memory_id, safe='')}"
    return f"{base}/{part}" if part else base
