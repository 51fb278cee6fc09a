"""Which clients are connected: what is kept here, what the vault knows, what their files say."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from memory_manager.base.errors import MemlocketError
from memory_manager.cli.connect import http_client, key_file
from memory_manager.cli.connect.change import entry_of
from memory_manager.cli.connect.clients import CLIENTS, Launch, Places
from memory_manager.cli.connect.journal import read_journal
from memory_manager.cli.connect.registration import credentials_of, live_credential
from memory_manager.cli.connect.settings_file import read_settings
from memory_manager.cli.context import Context
from memory_manager.cli.errors import SettingsRefused, code_of
from memory_manager.client.instance import Installation, list_installations
from memory_manager.client.memory_client import JsonObject

NO_FILE: Final = "-"


def connection_status(context: Context, launch_of: Mapping[str, Launch]) -> dict[str, object]:
    """The document of ``connect --status``; asks the daemon if there is one, and never fails."""
    places = Places(context.environ)
    known: Sequence[JsonObject] | None = None
    service: dict[str, object] = {"reachable": False, "problem": None}
    url: str | None = None
    try:
        with context.client() as client:
            service["reachable"] = True
            url = client.connection.address.url
            service["url"] = url
            known = credentials_of(client)
    except MemlocketError as error:
        service |= {"problem": code_of(error), "message": error.message, "hint": error.hint}
        service["reachable"] = code_of(error) not in ("daemon_not_running", "daemon_unreachable")
    kept = {found.client: found for found in list_installations(context.environ)}
    rows: list[dict[str, object]] = []
    for name in (*CLIENTS, http_client.NAME, "generic"):
        entry, path = _entry(name, launch_of, places, kept.get(name), context.environ)
        installation = kept.get(name)
        credential = _credential(name, installation, known, context.environ)
        if credential == "missing" and entry in ("absent", NO_FILE):
            continue
        rows.append({
            "client": name,
            "title": CLIENTS[name].title if name in CLIENTS else name,
            "agent_id": installation.agent_id if installation else None,
            "instance_id": installation.instance_id if installation else None,
            "credential": credential,
            "last_seen": _last_seen(installation, known),
            "entry": entry,
            "file": str(path) if path is not None else None,
            "problems": [str(found) for found in problems_of(name, places, installation, url)],
        })  # fmt: skip
    return {"service": service, "clients": rows}


def _entry(
    name: str,
    launch_of: Mapping[str, Launch],
    places: Places,
    installation: Installation | None,
    environ: Mapping[str, str],
) -> tuple[str, Path | None]:
    """present, outdated, foreign, absent or unreadable, and the file."""
    if name == http_client.NAME:
        path = http_client.settings_path(places)
        journal = read_journal(name, environ)
        with contextlib.suppress(MemlocketError):
            if journal is not None and journal.edits and installation is not None:
                change = http_client.plan_values_removal(path, journal)
                return ("present" if change.is_needed else "outdated"), path
        return "absent", path
    if name not in CLIENTS:
        return NO_FILE, None
    client = CLIENTS[name]
    path = client.file(places)
    try:
        found = entry_of(client, path)
    except SettingsRefused:
        return "unreadable", path
    launch = launch_of[name]
    if found is None:
        return "absent", path
    if launch.is_current(found):
        return "present", path
    return ("outdated" if launch.is_ours(found) else "foreign"), path


@dataclasses.dataclass(frozen=True, slots=True)
class Problem:
    """Why a connected client cannot reach us, and the command that mends it."""

    text: str
    way_out: str

    def __str__(self) -> str:
        return f"{self.text}: {self.way_out}"


def all_problems(environ: Mapping[str, str], url: str | None) -> list[Problem]:
    """Those of every client; ``url`` is where the service listens, None if that is not known."""
    places = Places(environ)
    return [
        problem
        for installation in list_installations(environ)
        for problem in problems_of(installation.client, places, installation, url)
    ]


def problems_of(
    name: str, places: Places, installation: Installation | None, url: str | None
) -> list[Problem]:
    if name != http_client.NAME or installation is None or installation.credential is None:
        return []
    journal = read_journal(name, places.environ)
    if journal is None or not journal.edits:
        return []  # connected without files
    again, texts = f"memlocket connect {name}", list[str]()
    with contextlib.suppress(SettingsRefused):
        used = http_client.url_in(http_client.settings_path(places))
        if url is not None and used is not None and used != url:
            texts.append(f"{name} asks at {used}, but the service listens at {url}")
    path = key_file.credentials_path(places)
    try:
        settings = read_settings(path)
        if settings.text is None:
            texts.append(f"the key file of {name} is gone, {path}")
        elif key_file.key_in(settings) != installation.credential:
            texts.append(f"the key of {name} is not in {path} any more")
    except SettingsRefused as error:
        texts.append(error.message.removesuffix("."))
    return [Problem(text, again) for text in texts]


def _known(
    installation: Installation | None, known: Sequence[JsonObject] | None
) -> JsonObject | None:
    if installation is None or known is None:
        return None
    for credential in known:
        if credential.get("id") == installation.credential_id:
            return credential
    return None


def _credential(
    name: str,
    installation: Installation | None,
    known: Sequence[JsonObject] | None,
    environ: Mapping[str, str],
) -> str:
    """valid, revoked, missing (none kept, or the vault has no such), unknown, or interrupted: a
    killed run left one that nobody holds; connecting or disconnecting clears it up.
    """
    if installation is None or installation.credential is None:
        journal = read_journal(name, environ)
        interrupted = journal is not None and journal.registering
        if interrupted and live_credential(known or (), "name", name) is not None:
            return "interrupted"
        return "missing"
    if known is None:
        return "unknown"
    found = _known(installation, known)
    if found is None:
        return "missing"
    return "revoked" if found.get("revoked_at") else "valid"


def _last_seen(installation: Installation | None, known: Sequence[JsonObject] | None) -> str | None:
    found = _known(installation, known)
    seen = found.get("last_used_at") if found is not None else None
    return str(seen) if seen else None
