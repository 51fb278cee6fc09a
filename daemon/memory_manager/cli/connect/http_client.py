"""Clients with an XMemo plugin speak HTTP, so they need an address and a key: Hermes above all.

Address and labels go into ``$HERMES_HOME/xmemo.json``. The key never does: see
``key_file``. Contract: xmemo.md 8.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

from memory_manager.cli.connect import json_edit
from memory_manager.cli.connect.change import Change, reverted
from memory_manager.cli.connect.clients import Places
from memory_manager.cli.connect.journal import Edit, Journal
from memory_manager.cli.connect.jsonc import Unreadable
from memory_manager.cli.connect.settings_file import read_settings
from memory_manager.cli.errors import SettingsRefused
from memory_manager.client.instance import Installation

NAME: Final = "hermes"
KEY_VARIABLES: Final = ("XMEMO_KEY", "MEMORY_OS_API_KEY", "MEMORY_OS_MCP_TOKEN")


def settings_path(places: Places) -> Path:
    return places.under("HERMES_HOME", ".hermes") / "xmemo.json"


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
    all_ours = False
    try:
        present = json_edit.entry_at(text, (), json5=False)
        if isinstance(present, dict) and _has_all(cast("dict[str, object]", present), values):
            return Change(settings, settings.text)
        if kept is not None and kept.edits:
            before = reverted(text, kept.edits)
            text = text if before is None else before
            all_ours = not text and not kept.existed
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
    return Change(settings, text, tuple(edits), back_up=not all_ours)


def plan_values_removal(path: Path, kept: Journal | None) -> Change:
    """The change back to what the values were; none where they were changed since."""
    settings = read_settings(path)
    if settings.text is None or kept is None:
        return Change(settings, settings.text)
    before = reverted(settings.text, kept.edits)
    if before is None:
        return Change(settings, settings.text)
    return Change(settings, None if not before and not kept.existed else before)


def url_in(path: Path) -> str | None:
    """The address in ``xmemo.json``, None without one; SettingsRefused if the file is odd."""
    settings = read_settings(path)
    try:
        url = json_edit.entry_at(settings.text or "", ("base_url",), json5=False)
    except Unreadable as error:
        raise SettingsRefused(f"{path} cannot be read: {error}.") from None
    return url if isinstance(url, str) else None


def _has(text: str, key: str) -> bool:
    present = json_edit.entry_at(text, (), json5=False)
    return isinstance(present, dict) and key in present


def _has_all(present: Mapping[str, object], values: Mapping[str, object]) -> bool:
    return all(present.get(key) == value for key, value in values.items())
