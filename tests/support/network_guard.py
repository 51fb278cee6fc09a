"""A ``sitecustomize`` that makes every network call of child processes raise and leave a note."""

from __future__ import annotations

import dataclasses
from pathlib import Path

_CODE = """
import os, socket
def _refuse(name):
    def refused(*arguments, **names):
        with open(os.path.join({folder!r}, "attempts"), "a") as file:
            file.write(name + "\\n")
        raise OSError("no network in this test")
    return refused
for _name in ("getaddrinfo", "gethostbyname", "create_connection"):
    setattr(socket, _name, _refuse(_name))
class _Socket(socket.socket):
    connect = _refuse("connect")
    connect_ex = _refuse("connect_ex")
    sendto = _refuse("sendto")
socket.socket = _Socket
open(os.path.join({folder!r}, "installed"), "a").close()
"""


@dataclasses.dataclass(frozen=True, slots=True)
class NetworkGuard:
    folder: Path

    @classmethod
    def install(cls, folder: Path) -> NetworkGuard:
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(_CODE.format(folder=str(folder)))
        return cls(folder)

    def was_in_place(self) -> bool:
        """Whether a process with the guard really ran."""
        return (self.folder / "installed").exists()

    def attempts(self) -> list[str]:
        path = self.folder / "attempts"
        return path.read_text().splitlines() if path.exists() else []
