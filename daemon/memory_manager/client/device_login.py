"""A client nobody connected asks for access itself; the owner says yes or no (xmemo.md 9).

What comes of it is kept like an installation that ``memlocket connect`` made. Standard library
only.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Final

from memory_manager.base.errors import MemlocketError
from memory_manager.client.discovery import find_daemon
from memory_manager.client.errors import AwaitsApproval, ClientNotConnected, OddAnswer, RemoteError
from memory_manager.client.http import DaemonConnection
from memory_manager.client.instance import Installation, ensure_installation, write_installation

DECLARED_NAME: Final = "memlocket-mcp"
MAX_NAME_CHARACTERS: Final = 60
SCOPES: Final = ("memory:read", "memory:write")
CALL_WAIT_SECONDS: Final = 3.0  # an approval of just now counts, although we may ask but rarely
CANCEL_SECONDS: Final = 0.4  # the client waits for our end

_START: Final = "/v1/auth/device/start"
_TOKEN: Final = "/v1/auth/device/token"  # noqa: S105  a path
_CANCEL: Final = "/v1/auth/device/cancel"
_GRANT: Final = "urn:ietf:params:oauth:grant-type:device_code"
_WAIT: Final = ("authorization_pending", "slow_down")


@dataclasses.dataclass(slots=True)
class _Open:
    """A login that waits for the owner; times are those of the monotonic clock, in seconds."""

    device_code: str
    user_code: str
    interval: float
    next_poll: float
    ends: float


class DeviceLogin:
    """One login at a time, for one client name; several threads may wait for it.

    ``tell`` takes a line for the person in front, as soon as there is something to wait for.
    """

    def __init__(
        self,
        client: str,
        environ: Mapping[str, str] = os.environ,
        tell: Callable[[str], None] = lambda line: None,
    ) -> None:
        self._client = client
        self._environ = environ
        self._tell = tell
        self._name = DECLARED_NAME
        self._lock = threading.Lock()
        self._open: _Open | None = None
        self._denied = False

    def installation(self, wait: float = CALL_WAIT_SECONDS) -> Installation:
        """The installation once the owner approved; AwaitsApproval that says how, until then.

        Asks the daemon if it may be asked again within ``wait`` seconds.
        """
        with self._lock:
            if self._denied:
                raise self._refused()
            with DaemonConnection(find_daemon(self._environ)) as connection:
                deadline = time.monotonic() + wait
                if self._open is None or time.monotonic() > self._open.ends:
                    self._open = self._start(connection)
                return self._finish(connection, self._open, deadline)

    def named(self, program: str) -> None:
        """What the program that started us calls itself; a login shows it from then on.

        Not bare: that name belongs to the credential which ``memlocket connect`` makes.
        """
        if name := program.strip()[:MAX_NAME_CHARACTERS]:
            self._name = f"{name}-mcp"

    def withdraw(self) -> None:
        """Take back a login that waits, since nobody will fetch its key. Never fails.

        Without the lock: the thread that waits holds it.
        """
        login = self._open
        if login is None:
            return
        with contextlib.suppress(MemlocketError, OSError):
            address = find_daemon(self._environ)
            with DaemonConnection(address, timeout_seconds=CANCEL_SECONDS) as connection:
                connection.request("POST", _CANCEL, body={"device_code": login.device_code})

    def _start(self, connection: DaemonConnection) -> _Open:
        answer = connection.request(
            "POST", _START, body={"client_id": self._name, "scopes": list(SCOPES)}
        ).body
        try:
            now = time.monotonic()
            login = _Open(
                device_code=str(answer["device_code"]),
                user_code=str(answer["user_code"]),
                interval=float(str(answer["interval"])),
                next_poll=now,
                ends=now + float(str(answer["expires_in"])),
            )
        except (KeyError, ValueError):
            raise OddAnswer from None
        self._tell(
            f"{self._name} is not connected yet and waits for your approval: "
            f"memlocket approve {login.user_code}"
        )
        return login

    def _finish(self, connection: DaemonConnection, login: _Open, deadline: float) -> Installation:
        while True:
            pause = login.next_poll - time.monotonic()
            if pause > 0:
                if login.next_poll > deadline:
                    raise self._waiting(login)
                time.sleep(pause)
            token = self._poll(connection, login)
            # counted from the answer: the daemon counts from when it took the question
            login.next_poll = time.monotonic() + login.interval
            if token is not None:
                self._open = None
                known = ensure_installation(self._client, self._client, self._environ)
                made = dataclasses.replace(known, credential=token, credential_id=None)
                write_installation(made, self._environ)
                return made

    def _poll(self, connection: DaemonConnection, login: _Open) -> str | None:
        """The token, or None while the owner has not decided."""
        body = {"device_code": login.device_code, "grant_type": _GRANT}
        try:
            token = connection.request("POST", _TOKEN, body=body).body.get("access_token")
        except RemoteError as error:
            if error.answer.code in _WAIT:
                if error.answer.code == "slow_down":
                    login.interval += 5
                return None
            self._open = None
            self._denied = error.answer.code == "access_denied"
            if self._denied:
                raise self._refused() from None
            raise
        if not isinstance(token, str):
            raise OddAnswer
        return token

    def _waiting(self, login: _Open) -> AwaitsApproval:
        return AwaitsApproval(hint=f"Approve it: memlocket approve {login.user_code}")

    def _refused(self) -> ClientNotConnected:
        return ClientNotConnected(
            "The owner refused this client.", hint=f"Connect it: memlocket connect {self._client}"
        )
