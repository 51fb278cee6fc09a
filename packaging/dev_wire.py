"""The smallest HTTP client for the daemon: Unix socket first, loopback otherwise."""

from __future__ import annotations

import http.client
import json
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

TIMEOUT_SECONDS = 10.0


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str) -> None:
        super().__init__("localhost", timeout=TIMEOUT_SECONDS)
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(TIMEOUT_SECONDS)
        self.sock.connect(self.path)


class Wire:
    """One connection with one token and fixed labels; raises OSError or ValueError."""

    def __init__(self, address: dict[str, Any], token: str | None, labels: dict[str, str]) -> None:
        self.headers = dict(labels)
        if token is not None:
            self.headers["Authorization"] = "Bearer " + token
        if address.get("socket") and hasattr(socket, "AF_UNIX"):
            self.connection: http.client.HTTPConnection = UnixConnection(str(address["socket"]))
        else:
            target = urlsplit(str(address["url"]))
            self.connection = http.client.HTTPConnection(
                str(target.hostname), target.port, timeout=TIMEOUT_SECONDS
            )

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *exception: object) -> None:
        self.connection.close()

    def send(self, method: str, path: str, body: object) -> tuple[int, dict[str, Any]]:
        headers = dict(self.headers)
        data = None
        if body is not None:
            data = json.dumps(body).encode()
            headers["Content-Type"] = "application/json"
        try:
            self.connection.request(method, path, body=data, headers=headers)
            answer = self.connection.getresponse()
            raw = answer.read()
        except http.client.HTTPException as error:
            raise OSError(type(error).__name__) from None
        return answer.status, json.loads(raw or b"{}")


def discovery_of(home: Path) -> dict[str, Any] | None:
    """What ``daemon.json`` of this home says; None when there is none."""
    try:
        found = json.loads((home / "run" / "daemon.json").read_text())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None
