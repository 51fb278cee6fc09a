"""A person with a home of their own who connects clients to a shared daemon."""

from __future__ import annotations

import dataclasses
import json
import subprocess
from pathlib import Path
from typing import Any

from sandbox_daemon import SandboxDaemon, Wire


@dataclasses.dataclass(frozen=True)
class User:
    """A home of its own at a shared daemon."""

    daemon: SandboxDaemon
    home: Path

    def run(self, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return self.daemon.cli(*arguments, check=check)

    def json(self, *arguments: str) -> Any:
        return json.loads(self.run(*arguments, "--json").stdout)

    @property
    def kept(self) -> Path:
        return self.daemon.home / "clients"

    def installation(self, client: str) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.kept / f"{client}.json").read_bytes())
        return loaded

    def live(self, name: str) -> list[dict[str, Any]]:
        with self.daemon.owner() as owner:
            agents = owner.get("/v1/agents").json["agents"]
        return [agent for agent in agents if agent["name"] == name and not agent["revoked_at"]]

    def status(self, client: str) -> dict[str, Any]:
        rows = {row["client"]: row for row in self.json("connect", "--status")["clients"]}
        found: dict[str, Any] = rows.get(client, {})
        return found

    def file(self, relative: str, text: str) -> Path:
        path = self.home / relative
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        return path


def new_user(served: SandboxDaemon, folder: Path) -> User:
    home = folder / "user"
    home.mkdir(mode=0o700)
    return User(dataclasses.replace(served, environment={"HOME": str(home)}), home)


def validates(user: User, client: str) -> int:
    token = user.installation(client)["credential"]
    with Wire(user.daemon.discovery["url"], token) as wire:
        return wire.get("/v1/auth/token/validate").status
