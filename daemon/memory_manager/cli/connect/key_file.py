"""The credential file that XMemo's clients share, ``credentials.json``, and our key in it.

A file we made holds nothing but our key, and goes with it. In any other file our key is one member
more: what others keep there stays, byte for byte, and no line of it is ever shown, since it may be
their secret. Contract: xmemo.md 8.
"""

from __future__ import annotations

import dataclasses
import enum
import json
from pathlib import Path
from typing import Final, cast

from memory_manager.base.times import now_ms, rfc3339
from memory_manager.cli.connect import json_edit
from memory_manager.cli.connect.clients import Places
from memory_manager.cli.connect.jsonc import Unreadable
from memory_manager.cli.connect.settings_file import (
    SettingsFile,
    drop_backup,
    keep_backup,
    read_settings,
    write_settings,
)
from memory_manager.cli.errors import ForeignEntry, SettingsRefused
from memory_manager.client.instance import Installation

ISSUER: Final = "memlocket"
_KEY: Final = "token"
_MEMBERS: Final = ("version", "tokenEnvVar", "storage", "createdAt", "metadata", _KEY)
_WAY_OUT: Final = "Mend it or move it away, or give this client its key alone: --no-file says how."


class KeyAction(enum.Enum):
    """What happens to the file. KEEP: our key is there; a renewed one takes its place."""

    KEEP = "keep"
    MAKE = "make"
    PUT_IN = "put in"
    TAKE_OUT = "take out"
    REMOVE = "remove"


@dataclasses.dataclass(frozen=True, slots=True)
class KeyChange:
    """What is planned for the file; ``after`` is its text once our key is out of it."""

    settings: SettingsFile
    action: KeyAction
    after: SettingsFile | None = dataclasses.field(default=None, repr=False)

    @property
    def is_needed(self) -> bool:
        return self.action is not KeyAction.KEEP

    @property
    def shown(self) -> str:
        path = self.settings.path
        member = f'  "{_KEY}": (the key is not shown)'
        match self.action:
            case KeyAction.KEEP:
                return ""
            case KeyAction.MAKE:
                return f"+++ {path} (a new file that only you can read)\n+{member}"
            case KeyAction.PUT_IN:
                rest = f"All else in it stays. As it is now: {self.settings.backup}"
                return f"--- {path}\n+++ {path}\n+{member}\n{rest}"
            case KeyAction.TAKE_OUT:
                return f"--- {path}\n+++ {path}\n-{member}\nAll else in it stays."
            case KeyAction.REMOVE:
                return f"--- {path} (the file goes)\n-{member}"


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


def plan_key(places: Places, installation: Installation | None) -> KeyChange:
    """How our key gets into the file; ForeignEntry when it holds another key, SettingsRefused
    when it is nothing that a key can be put into.

    ``installation`` is what was kept before, whose key may stand there already.
    """
    settings = read_settings(credentials_path(places))
    if settings.text is None:
        return KeyChange(settings, KeyAction.MAKE)
    document = _document(settings)
    if _KEY not in document:
        _with_key(settings, "any")  # a file it does not fit into is refused before anything is done
        return KeyChange(settings, KeyAction.PUT_IN)
    mine = installation.credential if installation is not None else None
    if mine is None or document[_KEY] != mine:
        raise ForeignEntry(
            f"{settings.path} already holds the key of another XMemo client.",
            hint="Move it away, or give this client its key alone: --no-file says how.",
        )
    return KeyChange(settings, KeyAction.KEEP)


def write_key(planned: KeyChange, installation: Installation) -> None:
    """Carry it out; only the owner can read the file from now on."""
    settings, key = planned.settings, installation.credential or ""
    if planned.action is KeyAction.MAKE:
        settings.target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        document = {
            "version": 1,
            "tokenEnvVar": "XMEMO_KEY",
            "storage": "file",
            "createdAt": rfc3339(now_ms()),
            "metadata": {"issuer": ISSUER, "client": installation.client},
            _KEY: key,
        }
        write_settings(settings, json.dumps(document, indent=2) + "\n")
        return
    if planned.action is KeyAction.PUT_IN:
        keep_backup(settings)
    elif _document(settings).get(_KEY) == key:
        return
    private = dataclasses.replace(settings, mode=settings.mode & 0o600)
    write_settings(private, _with_key(settings, key), back_up=False)


def plan_key_removal(places: Places, installation: Installation | None) -> KeyChange | None:
    """How our key gets out of the file; None where it is not in there."""
    key = installation.credential if installation is not None else None
    try:
        settings = read_settings(credentials_path(places))
    except SettingsRefused:
        return None  # we never wrote into what is no file of text
    if settings.text is None or key is None or key_in(settings) != key:
        return None
    backup = read_settings(settings.backup)
    if backup.text is not None and _is_with_key(backup, key, settings.text):
        return KeyChange(settings, KeyAction.TAKE_OUT, backup)
    document = _document(settings)
    metadata = document.get("metadata")
    issuer = cast("dict[str, object]", metadata).get("issuer") if isinstance(metadata, dict) else ""
    ours = _MEMBERS if issuer == ISSUER else (_KEY,)
    if issuer == ISSUER and not document.keys() - set(ours):
        return KeyChange(settings, KeyAction.REMOVE)
    text = settings.text
    try:
        for member in ours:
            if member in document:
                text = json_edit.without(text, (member,), json5=False)
        rest = json.loads(text)
    except ValueError:
        rest = None
    if rest != {name: value for name, value in document.items() if name not in ours}:
        raise _refused(settings, "our key cannot be taken out of it")
    return KeyChange(settings, KeyAction.TAKE_OUT, dataclasses.replace(settings, text=text))


def remove_key(planned: KeyChange) -> None:
    if planned.after is None:
        write_settings(planned.settings, None)
        return
    restored = dataclasses.replace(planned.settings, mode=planned.after.mode)
    write_settings(restored, planned.after.text, back_up=False)
    drop_backup(planned.settings, planned.after.text)


def key_in(settings: SettingsFile) -> str | None:
    """The key that stands in a file as it was read; None without one, or if the file is odd."""
    try:
        token = _document(settings).get(_KEY)
    except SettingsRefused:
        return None
    return token if isinstance(token, str) else None


def _document(settings: SettingsFile) -> dict[str, object]:
    """The file's object; its readers know plain JSON only, so nothing else is accepted."""
    try:
        loaded: object = json.loads(settings.text or "")
        json_edit.entry_at(settings.text or "", (_KEY,), json5=False)
    except (ValueError, RecursionError):
        raise _refused(settings, "it is not JSON that can be read") from None
    if not isinstance(loaded, dict):
        raise _refused(settings, "it is not a JSON object")
    return cast("dict[str, object]", loaded)


def _with_key(settings: SettingsFile, key: str) -> str:
    """The text with our key as its first member, or in the place of the key that is there."""
    text, before = settings.text or "", _document(settings)
    try:
        if _KEY in before:
            patch = json_edit.replacement(text, (_KEY,), key, json5=False)
        else:
            patch = json_edit.insertion(text, (_KEY,), key, settings.newline, json5=False)
        after = patch.applied(text)
        if json.loads(after) == {**before, _KEY: key}:
            return after
    except Unreadable as error:
        raise _refused(settings, str(error)) from None
    raise _refused(settings, "a key does not fit in there")


def _is_with_key(before: SettingsFile, key: str, text: str) -> bool:
    try:
        return _KEY not in _document(before) and _with_key(before, key) == text
    except SettingsRefused:
        return False


def _refused(settings: SettingsFile, why: str) -> SettingsRefused:
    return SettingsRefused(f"{settings.path} was not changed: {why}.", hint=_WAY_OUT)
