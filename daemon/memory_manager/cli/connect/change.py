"""The edit of one client's settings: planned, shown, proved and undone.

Every new text is read again before it is written: it must be the old document with our entry and
nothing else changed. Contract: desktop.md 12.4.
"""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Mapping
from pathlib import Path

from memory_manager.cli.connect import json_edit, jsonc, toml_edit
from memory_manager.cli.connect.clients import Client, Format, Launch, Places
from memory_manager.cli.connect.journal import Edit, Journal
from memory_manager.cli.connect.json_edit import Patch
from memory_manager.cli.connect.jsonc import Unreadable
from memory_manager.cli.connect.settings_file import (
    SettingsFile,
    drop_backup,
    read_settings,
    write_settings,
)
from memory_manager.cli.errors import ForeignEntry, SettingsRefused


@dataclasses.dataclass(frozen=True, slots=True)
class Change:
    """What a settings file becomes; ``after`` is its whole new text, None if the file goes.

    ``back_up`` is false where we made the file and nobody else wrote into it.
    """

    settings: SettingsFile
    after: str | None
    edits: tuple[Edit, ...] = ()
    back_up: bool = True

    @property
    def is_needed(self) -> bool:
        return self.after != self.settings.text

    @property
    def diff(self) -> str:
        """A unified diff with one line around, since the neighbours may hold secrets of others."""
        old, new = ((text or "").splitlines() for text in (self.settings.text, self.after))
        name = str(self.settings.path)
        return "\n".join(difflib.unified_diff(old, new, name, name, n=1, lineterm=""))

    def journal(self) -> Journal:
        missing = [str(folder) for folder in self.settings.target.parents if not folder.exists()]
        return Journal(
            file=str(self.settings.path),
            existed=self.settings.text is not None,
            edits=self.edits,
            made_folders=tuple(missing),
        )

    def apply(self) -> None:
        write_settings(self.settings, self.after, back_up=self.back_up)


def plan_entry(client: Client, launch: Launch, places: Places, kept: Journal | None) -> Change:
    """The change that puts our entry in; SettingsRefused or ForeignEntry where there is none."""
    settings = read_settings(client.file(places))
    text = settings.text or ""
    found = _reading(settings, client, text)
    if launch.is_current(found):
        return Change(settings, settings.text)
    if found is not None:
        if not launch.is_ours(found):
            name = client.keys[-1]
            raise ForeignEntry(
                f"{settings.path} already has an entry '{name}' that starts something else.",
                hint="Remove or rename it in there, then run this again.",
            )
        text = _taken_out(settings, client, text, kept)
    entry = launch.entry(with_type=client.with_type)
    try:
        patch = _insertion(client, text, entry, settings.newline)
    except Unreadable as error:
        raise _refused(settings, error) from None
    after = patch.applied(text)
    _prove(settings, client, text, after, entry)
    all_ours = not text and kept is not None and not kept.existed
    return Change(settings, after, (Edit(patch.old, patch.new),), back_up=not all_ours)


def plan_removal(client: Client, launch: Launch, path: Path, kept: Journal | None) -> Change:
    """The change that takes our entry out; nothing is changed where it is not, or is not ours."""
    settings = read_settings(path)
    text = settings.text
    if text is None or not launch.is_ours(_reading(settings, client, text)):
        return Change(settings, settings.text)
    after: str | None = _taken_out(settings, client, text, kept)
    if not after and kept is not None and not kept.existed:
        after = None
    return Change(settings, after)


def plan_return(client: Client, launch: Launch, path: Path, kept: Journal) -> Change | None:
    """The change back to the bytes from before the client's own command; None if it must do it.

    Only where nothing was written since: then no comment and no setting of others can be lost.
    """
    settings = read_settings(path)
    if settings.digest is None or settings.digest != kept.after_digest:
        return None
    if not launch.is_ours(_reading(settings, client, settings.text or "")):
        return None
    if not kept.existed:
        only_ours = _is_without(client, settings.text or "", "")
        return Change(settings, None) if only_ours else None
    backup = read_settings(settings.backup)
    return Change(settings, backup.text) if backup.digest == kept.before_digest else None


def undo(change: Change, kept: Journal | None) -> None:
    """Write a removal and clear up what ``connect`` made beside it."""
    if change.is_needed:
        write_settings(change.settings, change.after, back_up=False)
    drop_backup(change.settings, change.after)
    for folder in kept.made_folders if kept is not None else ():
        try:
            Path(folder).rmdir()
        except OSError:
            break  # something else lives there by now


def entry_of(client: Client, path: Path) -> object:
    """Our entry in a settings file, None without one; SettingsRefused if the file is odd."""
    settings = read_settings(path)
    return _reading(settings, client, settings.text or "")


def reverted(text: str, edits: tuple[Edit, ...]) -> str | None:
    """The text before the edits, None if one of them is not there unchanged."""
    for edit in reversed(edits):
        if text.count(edit.new) != 1:
            return None
        text = text.replace(edit.new, edit.old)
    return text


def _taken_out(settings: SettingsFile, client: Client, text: str, kept: Journal | None) -> str:
    if kept is not None and kept.edits:
        before = reverted(text, kept.edits)
        if before is not None and _is_without(client, text, before):
            return before
    try:
        if client.format is Format.TOML:
            return toml_edit.without(text, client.keys)
        before = json_edit.without(text, client.keys, json5=client.format is Format.JSON5)
        if _is_without(client, text, before):
            return before
        raise Unreadable("our entry was changed there")
    except Unreadable as error:
        raise _refused(settings, error) from None


def _is_without(client: Client, text: str, shorter: str) -> bool:
    """Whether ``shorter`` is the document of ``text`` without our entry, all else equal."""
    try:
        document, rest = _document(client, text), _document(client, shorter)
    except Unreadable:
        return False
    variants = (toml_edit.removed(document, client.keys, prune=prune) for prune in (False, True))
    return any((rest or {}) == variant for variant in variants)


def _prove(
    settings: SettingsFile, client: Client, text: str, after: str, entry: Mapping[str, object]
) -> None:
    try:
        proved = _found(client, after) == entry and _is_without(client, after, text)
    except Unreadable:
        proved = False
    if not proved:
        raise _refused(settings, Unreadable("our entry does not fit in there"))


def _reading(settings: SettingsFile, client: Client, text: str) -> object:
    try:
        return _found(client, text)
    except Unreadable as error:
        raise _refused(settings, error) from None


def _refused(settings: SettingsFile, error: Unreadable) -> SettingsRefused:
    return SettingsRefused(
        f"{settings.path} was not changed: {error}.",
        hint="Put the entry in yourself (--print shows it), then run this again with --no-file.",
    )


def _found(client: Client, text: str) -> object:
    if client.format is Format.TOML:
        return toml_edit.entry_at(text, client.keys)
    return json_edit.entry_at(text, client.keys, json5=client.format is Format.JSON5)


def _insertion(client: Client, text: str, entry: Mapping[str, object], newline: str) -> Patch:
    if client.format is Format.TOML:
        return toml_edit.insertion(text, client.keys, entry, newline)
    json5 = client.format is Format.JSON5
    return json_edit.insertion(text, client.keys, entry, newline, json5=json5)


def _document(client: Client, text: str) -> object:
    if client.format is Format.TOML:
        return toml_edit.parse(text)
    node = jsonc.parse(text, json5=client.format is Format.JSON5)
    return None if node is None else node.plain
