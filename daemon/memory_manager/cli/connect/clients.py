"""The clients we know: where each keeps its MCP servers, and the entry it understands.

Checked against the vendors' documentation at TABLE_CHECKED and to be checked again at each release:
two of seven rows changed within 2026. The own commands were run with Claude Code 2.1.197, Codex CLI
0.171.0 and Gemini CLI 0.61.0. Contract: desktop.md 12.2, 12.3.
"""

from __future__ import annotations

import dataclasses
import enum
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final, cast

TABLE_CHECKED: Final = "2026-11"
ENTRY_NAME: Final = "memlocket"
_PROGRAM_NAMES: Final = frozenset({"memlocket", "memlocket.exe"})


class Format(enum.Enum):
    JSONC = "JSON with comments"
    JSON5 = "JSON5"
    TOML = "TOML"


@dataclasses.dataclass(frozen=True, slots=True)
class Places:
    """The folders of this user that settings files are found from."""

    environ: Mapping[str, str]
    platform: str = sys.platform

    @property
    def home(self) -> Path:
        return Path(self.environ.get("HOME") or Path.home())

    @property
    def settings(self) -> Path:
        """Where programs of this system keep settings of the user."""
        if self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        if self.platform == "win32":
            return Path(self.environ.get("APPDATA") or self.home / "AppData" / "Roaming")
        return self.dot_config

    @property
    def dot_config(self) -> Path:
        """``~/.config`` also on macOS, as command line programs have it."""
        if self.platform == "win32":
            return self.settings
        return Path(self.environ.get("XDG_CONFIG_HOME") or self.home / ".config")

    def under(self, variable: str, default: str) -> Path:
        """The folder a program's own variable names, else ``default`` in the home."""
        return Path(self.environ.get(variable) or self.home / default)


@dataclasses.dataclass(frozen=True, slots=True)
class Launch:
    """How a client starts our shim. No token and no port: the shim finds both."""

    client: str
    command: str
    environment: Mapping[str, str]

    @property
    def arguments(self) -> list[str]:
        return ["mcp", "--client", self.client]

    def entry(self, *, with_type: bool) -> dict[str, object]:
        """What stands in the client's file under our name."""
        kind: dict[str, object] = {"type": "stdio"} if with_type else {}
        entry = {**kind, "command": self.command, "args": self.arguments}
        return {**entry, "env": dict(self.environment)} if self.environment else entry

    def is_current(self, found: object) -> bool:
        """Whether an entry starts us as this does; a client may have added keys of its own."""
        entry = _as_object(found)
        return (
            entry.get("command") == self.command
            and entry.get("args") == self.arguments
            and (entry.get("env") or {}) == dict(self.environment)
        )

    def is_ours(self, found: object) -> bool:
        """Whether an entry was made by us for this client, maybe from another place or home."""
        entry = _as_object(found)
        command = entry.get("command")
        named = isinstance(command, str) and os.path.basename(command) in _PROGRAM_NAMES
        return (named or command == self.command) and entry.get("args") == self.arguments


@dataclasses.dataclass(frozen=True, slots=True)
class OwnCommand:
    """A client's own command for its list of servers; ``add`` and ``remove`` are its arguments."""

    program: str
    add: Callable[[Launch], list[str]]
    remove: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Client:
    """One row of the table. ``keys`` lead to our entry in the user's settings file."""

    name: str
    title: str
    file: Callable[[Places], Path]
    keys: tuple[str, ...]
    format: Format = Format.JSONC
    with_type: bool = False
    own_command: OwnCommand | None = None
    afterwards: str = ""


def _as_object(found: object) -> dict[str, object]:
    return cast("dict[str, object]", found) if isinstance(found, dict) else {}


def _pairs(option: str, launch: Launch) -> list[str]:
    return [
        part for name, value in launch.environment.items() for part in (option, f"{name}={value}")
    ]


def _claude_add(launch: Launch) -> list[str]:
    options = [*_pairs("--env", launch), "--transport", "stdio", "--scope", "user"]
    return ["mcp", "add", *options, ENTRY_NAME, "--", launch.command, *launch.arguments]


def _codex_add(launch: Launch) -> list[str]:
    options = _pairs("--env", launch)
    return ["mcp", "add", *options, ENTRY_NAME, "--", launch.command, *launch.arguments]


def _gemini_add(launch: Launch) -> list[str]:
    options = ["--scope", "user", *_pairs("--env", launch)]
    command = [launch.command, launch.arguments[0], "--", *launch.arguments[1:]]
    return ["mcp", "add", *options, ENTRY_NAME, *command]


def _devin_add(launch: Launch) -> list[str]:
    options = ["-s", "user", *_pairs("--env", launch)]
    return ["mcp", "add", *options, ENTRY_NAME, "--", launch.command, *launch.arguments]


_SERVERS: Final = ("mcpServers", ENTRY_NAME)

CLIENTS: Final[Mapping[str, Client]] = {
    client.name: client
    for client in (
        Client(
            "claude-code",
            "Claude Code",
            lambda places: places.under("CLAUDE_CONFIG_DIR", "") / ".claude.json",
            _SERVERS,
            own_command=OwnCommand(
                "claude", _claude_add, ("mcp", "remove", "--scope", "user", ENTRY_NAME)
            ),
            afterwards="Start a new session; /mcp lists it.",
        ),
        Client(
            "codex",
            "Codex",
            lambda places: places.under("CODEX_HOME", ".codex") / "config.toml",
            ("mcp_servers", ENTRY_NAME),
            Format.TOML,
            own_command=OwnCommand("codex", _codex_add, ("mcp", "remove", ENTRY_NAME)),
            afterwards="Start a new session; /mcp lists it.",
        ),
        Client(
            "cursor",
            "Cursor",
            lambda places: places.home / ".cursor" / "mcp.json",
            _SERVERS,
            afterwards="Restart Cursor.",
        ),
        Client(
            "vscode",
            "VS Code",
            lambda places: places.settings / "Code" / "User" / "mcp.json",
            ("servers", ENTRY_NAME),
            with_type=True,
            afterwards="In VS Code: MCP: List Servers, then start it.",
        ),
        Client(
            "gemini",
            "Gemini CLI",
            lambda places: places.home / ".gemini" / "settings.json",
            _SERVERS,
            own_command=OwnCommand(
                "gemini", _gemini_add, ("mcp", "remove", "--scope", "user", ENTRY_NAME)
            ),
            afterwards="Start a new session; /mcp lists it.",
        ),
        Client(
            "windsurf",
            "Windsurf before June 2026",
            lambda places: places.home / ".codeium" / "windsurf" / "mcp_config.json",
            _SERVERS,
            afterwards="Restart Windsurf.",
        ),
        Client(
            "devin",
            "Devin Desktop",
            lambda places: _devin_folder(places) / "mcp_config.json",
            _SERVERS,
            own_command=OwnCommand(
                "devin", _devin_add, ("mcp", "remove", "-s", "user", ENTRY_NAME)
            ),
            afterwards="Restart Devin Desktop.",
        ),
        Client(
            "zed",
            "Zed",
            lambda places: _zed_folder(places) / "settings.json",
            ("context_servers", ENTRY_NAME),
            afterwards="Zed loads it at once.",
        ),
        Client(
            "openclaw",
            "OpenClaw",
            lambda places: _openclaw_file(places),
            ("mcp", "servers", ENTRY_NAME),
            Format.JSON5,
            afterwards="Restart its gateway: openclaw gateway restart",
        ),
    )
}


def _devin_folder(places: Places) -> Path:
    return places.dot_config / "devin"


def _zed_folder(places: Places) -> Path:
    return places.dot_config / ("Zed" if places.platform == "win32" else "zed")


def _openclaw_file(places: Places) -> Path:
    if named := places.environ.get("OPENCLAW_CONFIG_PATH"):
        return Path(named)
    return places.under("OPENCLAW_STATE_DIR", ".openclaw") / "openclaw.json"
