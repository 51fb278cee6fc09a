"""How a client starts our shim, and the text of an entry for people who paste it themselves."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

from memory_manager.base.directories import directories
from memory_manager.cli.connect import json_edit, toml_edit
from memory_manager.cli.connect.clients import Client, Format, Launch, Places
from memory_manager.cli.errors import FileProblem


def launch_of(name: str, environ: Mapping[str, str]) -> Launch:
    return Launch(name, _program(), _environment(environ))


def _program() -> str:
    """The absolute path of ``memlocket`` as it was called: links stay, they outlive updates."""
    called = sys.argv[0] if sys.argv else ""
    if os.path.basename(called) in ("memlocket", "memlocket.exe"):
        found = shutil.which(called) or called
        return os.path.abspath(found)
    for beside in ("memlocket", "memlocket.exe"):
        path = Path(sys.executable).parent / beside
        if path.exists():
            return str(path)
    installed = shutil.which("memlocket")
    if installed is None:
        raise FileProblem("The program 'memlocket' was not found; install it first.")
    return os.path.abspath(installed)


def snippet_of(
    client: Client | None, launch: Launch, environ: Mapping[str, str]
) -> dict[str, object]:
    """The entry to paste, as its client wants it; the own command too where there is one."""
    entry = launch.entry(with_type=client is not None and client.with_type)
    if client is not None and client.format is Format.TOML:
        text = toml_edit.insertion("", client.keys, entry, "\n").new.rstrip()
    else:
        keys = client.keys if client is not None else ("mcpServers", "memlocket")
        text = json_edit.insertion("", keys, entry, "\n", json5=False).new.rstrip()
    file = str(client.file(Places(environ))) if client is not None else None
    command: list[str] | None = None
    if client is not None:
        text = f"{text}\n\nin {file}"
        if client.own_command is not None:
            command = [client.own_command.program, *client.own_command.add(launch)]
            text = f"{text}\nor run: {shlex.join(command)}"
    return {"text": text, "entry": entry, "file": file, "command": command}


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What a client must set for our shim to find this home; nothing for the usual one.

    Clients start stdio servers with HOME and little more (xmemo.md 11.3).
    """
    if home := environ.get("MEMLOCKET_HOME"):
        return {"MEMLOCKET_HOME": str(directories({"MEMLOCKET_HOME": home}).data)}
    if data := environ.get("XDG_DATA_HOME"):
        return {"XDG_DATA_HOME": data}
    return {}
