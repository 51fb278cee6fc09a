"""Settings files before and after ``connect``, for every client. Run this file to write them anew.

What it writes is a document to be read by a person before it is committed.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

from memory_manager.base.errors import MemlocketError
from memory_manager.cli.connect.change import Change, plan_entry
from memory_manager.cli.connect.clients import CLIENTS, Client, Format, Launch, Places

GOLDEN = Path(__file__).resolve().parent.parent / "data" / "connect_golden.json"
PROGRAM = "/opt/memlocket/bin/memlocket"
CASES = ("no file", "empty", "comments", "crlf", "bom", "one line", "present", "foreign", "broken")


def launch(client: Client) -> Launch:
    return Launch(client.name, PROGRAM, {})


def before(client: Client, case: str) -> str | None:
    """What the settings file holds; None where there is no file."""
    if case == "no file":
        return None
    if case == "empty":
        return ""
    if client.format is Format.TOML:
        return _toml(client, case)
    other = {"command": "other-server", "args": ["--port", "7"]}
    comments = [
        "// settings of mine",
        "{",
        '\t"theme": "dark", /* kept */',
        f'\t"{client.keys[0]}": {{ // servers',
        '\t\t"other": {"command": "other-server"}, // do not touch',
        "\t},",
        "}",
        "",
    ]
    if client.format is Format.JSON5:
        comments[2] = "\ttheme: 'dark', /* kept */"
    own = (
        {"command": "/bin/else"}
        if case == "foreign"
        else launch(client).entry(with_type=client.with_type)
    )
    document: dict[str, object] = {"memlocket": {**own, "timeout": 5}, "other": other}
    for key in reversed(client.keys[:-1]):
        document = {key: document}
    return {
        "comments": "\n".join(comments),
        "crlf": "\r\n".join(comments),
        "bom": "\ufeff" + "\n".join(comments),
        "one line": '{"theme": "dark"}',
        "present": json.dumps(document, indent=4),
        "foreign": json.dumps(document, indent=4),
        "broken": '{"theme": "dark"',
    }[case]


def _toml(client: Client, case: str) -> str:
    lines = [
        "# settings of mine",
        'model = "o9" # kept',
        "",
        "[mcp_servers.other]",
        'command = "other-server"',
        "",
        "[[profiles]]",
        'name = "a"',
        "",
    ]
    own = PROGRAM if case == "present" else "/bin/else"
    ours = [
        "[mcp_servers.memlocket]",
        f"command = '{own}'",
        'args = ["mcp", "--client", "codex"]' if case == "present" else "args = []",
        "enabled = true",
    ]
    return {
        "comments": "\n".join(lines),
        "crlf": "\r\n".join(lines),
        "bom": "\ufeff" + "\n".join(lines),
        "one line": 'model = "o9"',
        "present": "\n".join([*ours, "", *lines[3:]]),
        "foreign": "\n".join([*ours, "", *lines[3:]]),
        "broken": "model = ",
    }[case]


def write(client: Client, case: str, home: Path) -> Path:
    """Put the file of a case where the client looks for it."""
    path = client.file(Places({"HOME": str(home)}, "linux"))
    text = before(client, case)
    if text is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
    return path


def planned(client: Client, home: Path) -> Change:
    return plan_entry(client, launch(client), Places({"HOME": str(home)}, "linux"), None)


def after(client: Client, case: str, home: Path) -> str:
    """The new text, or the refusal's code."""
    write(client, case, home)
    try:
        change = planned(client, home)
    except MemlocketError as error:
        return f"refused: {error.code}"
    return change.after or ""


if __name__ == "__main__":
    found: dict[str, dict[str, list[str]]] = {}
    for name, row in CLIENTS.items():
        for one in CASES:
            with tempfile.TemporaryDirectory() as folder:
                text = after(row, one, Path(folder))
            found.setdefault(name, {})[one] = text.splitlines(keepends=True)
    GOLDEN.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
