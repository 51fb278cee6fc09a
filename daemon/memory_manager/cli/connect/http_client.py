"""Clients with an XMemo plugin speak HTTP, so they need an address and a key: Hermes above all.

Address and labels go into ``$HERMES_HOME/xmemo.json``. The key never does: it goes into the
credential file that XMemo's clients share, ``credentials.json``, which only its owner can read.
Contract: xmemo.md 8.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

from memory_manager.base.private_files import write_private
from memory_manager.base.times import now_ms, rfc3339
from memory_manager.cli.connect import json_edit
from memory_manager.cli.connect.change import Change, reverted
from memory_manager.cli.connect.clients import Places
from memory_manager.cli.connect.journal import Edit, Journal
from memory_manager.cli.connect.jsonc import Unreadable
from memory_manager.cli.connect.settings_file import SettingsFile, read_settings
from memory_manager.cli.errors import ForeignEntry, SettingsRefused
from memory_manager.client.instance import Installation

NAME: Final = "hermes"
KEY_VARIABLES: Final = ("XMEMO_KEY", "MEMORY_OS_API_KEY", "MEMORY_OS_MCP_TOKEN")


def settings_path(places: Places) -> Path:
    return places.under("HERMES_HOME", ".hermes") / "xmemo.json"


def credentials_path(places: Places) -> Path:
    """The file that XMemo's clients look for a key in, after their environment."""
    for variable in ("XMEMO_CONFIG_HOME", "MEMORY_OS_CONFIG_HOME"):
        if named := places.environ.get(variable):
            return Path(named).expanduser() / "credentials.json"
    if places.platform == "win32" and (local := places.environ.get("LOCALAPPDATA")):
        return Path(local) / "XMemo" / "CLI" / "credentials.json"
    config = places.environ.get("XDG_CONFIG_HOME")
    folder = Path(config).expanduser() if config else places.home / ".config"
    return folder / "xmemo" / "credentials.json"


def values_of(installation: Installation, url: str) -> dict[str, object]:
    """What we set in ``xmemo.json``; nothing of it is secret."""
    return {
        "base_url": url,
        "agent_id": installation.agent_id,
        "agent_instance_id": installation.instance_id,
    }


def plan_values(path: Path, values: dict[str, object], kept: Journal | None) -> Change:
    """The change that gives ``xmemo.json`` these values; the others and their order stay."""
    settings = read_settings(path)
    text = settings.text or ""
    try:
        present = json_edit.entry_at(text, (), json5=False)
        if isinstance(present, dict) and _has_all(cast("dict[str, object]", present), values):
            return Change(settings, settings.text)
        if kept is not None and kept.edits:
            before = reverted(text, kept.edits)
            text = text if before is None else before
        edits: list[Edit] = []
        for key, value in reversed(values.items()):  # each goes in before the last one
            if json_edit.entry_at(text, (key,), json5=False) == value:
                continue
            if _has(text, key):
                patch = json_edit.replacement(text, (key,), value, json5=False)
            else:
                patch = json_edit.insertion(text, (key,), value, settings.newline, json5=False)
            text = patch.applied(text)
            edits.append(Edit(patch.old, patch.new))
        after = json_edit.entry_at(text, (), json5=False)
        if not isinstance(after, dict) or not _has_all(cast("dict[str, object]", after), values):
            raise Unreadable("our values do not fit in there")
    except Unreadable as error:
        raise SettingsRefused(f"{path} was not changed: {error}.") from None
    return Change(settings, text, tuple(edits))


def plan_values_removal(path: Path, kept: Journal | None) -> Change:
    """The change back to what the values were; none where they were changed since."""
    settings = read_settings(path)
    if settings.text is None or kept is None:
        return Change(settings, settings.text)
    before = reverted(settings.text, kept.edits)
    if before is None:
        return Change(settings, settings.text)
    return Change(settings, None if not before and not kept.existed else before)


def check_key_place(places: Places, installation: Installation | None) -> SettingsFile:
    """The shared credential file, if we may write it; ForeignEntry when it holds another key."""
    settings = read_settings(credentials_path(places))
    mine = installation.credential if installation is not None else None
    if settings.text is not None and _token(settings.text) != mine:
        raise ForeignEntry(
            f"{settings.path} already holds the key of another XMemo client.",
            hint="Move it away, or give this client its key alone: --no-file says how.",
        )
    return settings


def write_key(places: Places, installation: Installation, previous: Installation | None) -> None:
    """Put the key into the shared credential file, readable by its owner only.

    ``previous`` is the installation before, whose key may stand there still.
    """
    settings = read_settings(credentials_path(places))
    if settings.text is not None and _token(settings.text) == installation.credential:
        return
    check_key_place(places, previous)
    settings.target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    document = {
        "version": 1,
        "tokenEnvVar": "XMEMO_KEY",
        "storage": "file",
        "createdAt": rfc3339(now_ms()),
        "metadata": {"issuer": "memlocket", "client": installation.client},
        "token": installation.credential,
    }
    write_private(settings.target, json.dumps(document, indent=2).encode() + b"\n")


def remove_key(places: Places, installation: Installation) -> bool:
    """Remove the shared credential file if the key in it is ours."""
    settings = read_settings(credentials_path(places))
    if settings.text is None or installation.credential is None:
        return False
    if _token(settings.text) != installation.credential:
        return False
    settings.target.unlink()
    return True


def _token(text: str) -> str | None:
    try:
        loaded: object = json.loads(text)
    except ValueError:
        return None
    token = cast("dict[str, object]", loaded).get("token") if isinstance(loaded, dict) else None
    return token if isinstance(token, str) else None


def _has(text: str, key: str) -> bool:
    present = json_edit.entry_at(text, (), json5=False)
    return isinstance(present, dict) and key in present


def _has_all(present: Mapping[str, object], values: Mapping[str, object]) -> bool:
    return all(present.get(key) == value for key, value in values.items())
