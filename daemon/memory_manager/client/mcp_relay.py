"""JSON-RPC messages of a stdio client, carried to the daemon's /mcp and back.

Every request gets one answer, whatever goes wrong: the daemon's own, or a JSON-RPC error that says
what to do. Several threads may relay at once, each on a connection of its own. Standard library
only. Contract: xmemo.md 11.3.
"""

from __future__ import annotations

import base64
import json
import os
import re
import threading
from collections.abc import Callable, Mapping
from typing import Final, cast

from memory_manager.base.errors import InvalidInput, MemlocketError
from memory_manager.client.device_login import CALL_WAIT_SECONDS, DeviceLogin
from memory_manager.client.discovery import find_daemon
from memory_manager.client.errors import (
    AwaitsApproval,
    ClientNotConnected,
    DaemonNotRunning,
    DaemonUnreachable,
    OddAnswer,
)
from memory_manager.client.http import DaemonConnection, RawAnswer
from memory_manager.client.instance import Installation, read_installation
from memory_manager.client.mcp_opening import is_opening, opening_result

MCP_PATH: Final = "/mcp"
ANSWER_SECONDS: Final = 120.0
SERVER_ERROR: Final = -32000
VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CLIENT_KEY: Final = "io.modelcontextprotocol/clientInfo"

_HEADER_SAFE: Final = re.compile(r"[\x21-\x7e](?:[\x20-\x7e]*[\x21-\x7e])?")
_ENCODED: Final = re.compile(r"=\?base64\?.*\?=")

Json = dict[str, object]


class McpRelay:
    """Relays for one connected client.

    ``start``: how to start an absent daemon, if one may. ``login``: how a client that nobody
    connected asks for access, if it may.
    """

    def __init__(
        self,
        client: str,
        environ: Mapping[str, str] = os.environ,
        start: Callable[[], object] | None = None,
        login: DeviceLogin | None = None,
    ) -> None:
        self._client = client
        self._environ = environ
        self._start = start
        self._login = login
        self._starting = threading.Lock()
        self._idle: list[DaemonConnection] = []
        self._idle_lock = threading.Lock()

    def answer(self, message: Json, raw: bytes) -> bytes:
        """The one line that answers a request; ``raw`` is the message as it came."""
        if self._login is not None and (name := client_name(message)) is not None:
            self._login.named(name)
        headers = version_headers(message)
        # later versions wrap their answers in ways that only the daemon knows
        opening = is_opening(message.get("method")) and not headers
        try:
            try:
                found = self._exchange(raw, headers, 0.0 if opening else CALL_WAIT_SECONDS)
                return self._answer_line(found, message.get("id"))
            except AwaitsApproval as waiting:
                if not opening:
                    raise
                result = opening_result(message, waiting, self._environ)
                return _line({"jsonrpc": "2.0", "id": message.get("id"), "result": result})
        except MemlocketError as error:
            return error_line(message.get("id"), error)

    def _exchange(self, raw: bytes, headers: Mapping[str, str], wait: float) -> RawAnswer:
        connection = self._connection(wait)
        try:
            found = connection.exchange(MCP_PATH, raw, headers)
        except BaseException:
            connection.close()
            raise
        if found.status == 401:
            connection.close()
            self.close()  # those that wait present the same credential
            raise ClientNotConnected(
                f"The credential of '{self._client}' is not valid any more.",
                hint=f"Connect it again: memlocket connect {self._client}",
            )
        with self._idle_lock:
            self._idle.append(connection)
        return found

    def _connection(self, wait: float) -> DaemonConnection:
        with self._idle_lock:
            while self._idle:
                connection = self._idle.pop()
                if connection.is_fresh():
                    return connection
                connection.close()
        # read anew each time: the client may have been connected, the daemon started meanwhile
        if self._start is not None:
            self._start_if_absent(self._start)
        installation = self._installation(wait)
        connection = DaemonConnection(
            find_daemon(self._environ),
            token=installation.credential,
            headers=installation.labels,
            timeout_seconds=ANSWER_SECONDS,
        )
        try:
            connection.open()
        except BaseException:
            connection.close()
            raise
        return connection

    def _installation(self, wait: float) -> Installation:
        try:
            return read_installation(self._client, self._environ)
        except ClientNotConnected:
            if self._login is None:
                raise
            return self._login.installation(wait)
        except InvalidInput as error:
            raise ClientNotConnected(
                f"There is no such client. {error.message}", hint="Connect one: memlocket connect"
            ) from None

    def _start_if_absent(self, start: Callable[[], object]) -> None:
        with self._starting:
            try:
                with DaemonConnection(find_daemon(self._environ)) as probe:
                    probe.open()
            except (DaemonNotRunning, DaemonUnreachable):
                start()

    def _answer_line(self, found: RawAnswer, request_id: object) -> bytes:
        document = _document(found.body)
        if "jsonrpc" in document:
            if document.get("id") == request_id and b"\n" not in found.body:
                return found.body
            return _line({**document, "id": request_id})
        error = document.get("error")
        details = cast("Json", error) if isinstance(error, dict) else {}
        message = details.get("message") or document.get("error_description")
        if not isinstance(message, str):
            raise OddAnswer(f"The memory service answered with status {found.status}.")
        hint = details.get("hint")
        said = f"{message} {hint}" if isinstance(hint, str) else message
        return _error(request_id, SERVER_ERROR, said, str(details.get("code") or "refused"))

    def end(self) -> None:
        """The client is gone: nothing of ours waits any longer."""
        if self._login is not None:
            self._login.withdraw()
        self.close()

    def close(self) -> None:
        """Close the connections that wait for work."""
        with self._idle_lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


def client_name(message: Json) -> str | None:
    """What the client calls itself: in ``initialize``, or in each request of later versions."""
    params = message.get("params")
    if not isinstance(params, dict):
        return None
    known = cast("Json", params)
    meta = known.get("_meta")
    info = known.get("clientInfo") if message.get("method") == "initialize" else None
    if info is None and isinstance(meta, dict):
        info = cast("Json", meta).get(CLIENT_KEY)
    name = cast("Json", info).get("name") if isinstance(info, dict) else None
    return name if isinstance(name, str) else None


def version_headers(message: Json) -> dict[str, str]:
    """What version 2026-07-28 wants repeated in headers; nothing for the versions before it."""
    params = message.get("params")
    if not isinstance(params, dict):
        return {}
    known = cast("Json", params)
    meta = known.get("_meta")
    version = cast("Json", meta).get(VERSION_KEY) if isinstance(meta, dict) else None
    if not isinstance(version, str):
        return {}
    headers = {
        "MCP-Protocol-Version": _header_value(version),
        "Mcp-Method": _header_value(str(message.get("method"))),
    }
    name = known.get("name") or known.get("uri")
    if isinstance(name, str):
        headers["Mcp-Name"] = _header_value(name)
    return headers


def _header_value(text: str) -> str:
    """The text, or the base64 form of the protocol where a header line could not carry it."""
    if _HEADER_SAFE.fullmatch(text) and not _ENCODED.fullmatch(text):
        return text
    encoded = base64.b64encode(text.encode("utf-8", "replace")).decode("ascii")
    return f"=?base64?{encoded}?="


def error_line(request_id: object, error: MemlocketError) -> bytes:
    """A JSON-RPC error that says what happened and the way out."""
    said = f"{error.message} {error.hint}" if error.hint else error.message
    return _error(request_id, SERVER_ERROR, said, error.code)


def busy_line(request_id: object) -> bytes:
    """The answer to a client that sends faster than it can be served."""
    return _error(request_id, SERVER_ERROR, "Too many requests wait for their answer.", "busy")


def protocol_error_line(code: int, message: str) -> bytes:
    """A JSON-RPC error for a line that is no request."""
    return _line({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}})


def _error(request_id: object, code: int, message: str, name: str) -> bytes:
    error = {"code": code, "message": message, "data": {"code": name}}
    return _line({"jsonrpc": "2.0", "id": request_id, "error": error})


def _line(document: Json) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def _document(body: bytes) -> Json:
    try:
        loaded: object = json.loads(body)
    except ValueError:
        return {}
    return cast("Json", loaded) if isinstance(loaded, dict) else {}
