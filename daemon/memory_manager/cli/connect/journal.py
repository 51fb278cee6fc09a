"""What ``connect`` did, so that ``disconnect`` undoes just that and a killed run is noticed.

``<data dir>/clients/NAME.change.json``, 0600, without any secret. It is written before the first
outside effect and names each step that may have happened.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

from memory_manager.base.private_files import (
    UnsafeFile,
    ensure_private_directory,
    read_private,
    write_private,
)
from memory_manager.client.instance import installation_path

KNOWN_SCHEMA: Final = 1
MAX_BYTES: Final = 1_048_576


@dataclasses.dataclass(frozen=True, slots=True)
class Edit:
    """``old`` in a file became ``new``; an entry put in has an empty ``old``."""

    old: str
    new: str


@dataclasses.dataclass(frozen=True, slots=True)
class Journal:
    """One client's change. ``registering`` is true until its credential is kept here.

    The digests are of the file around a change by the client's own command: as long as nothing
    else was written there, going back means the old bytes.
    """

    file: str | None = None
    existed: bool = True
    edits: tuple[Edit, ...] = ()
    made_folders: tuple[str, ...] = ()
    by_command: bool = False
    before_digest: str | None = None
    after_digest: str | None = None
    registering: bool = False


def read_journal(name: str, environ: Mapping[str, str]) -> Journal | None:
    """None when nothing was done, or when what is kept cannot be read: then nothing is assumed."""
    try:
        loaded: object = json.loads(read_private(_path(name, environ), MAX_BYTES))
        document = cast("dict[str, object]", loaded)
        if document["schema"] != KNOWN_SCHEMA:
            return None
        edits = cast("list[dict[str, str]]", document["edits"])
        file = document["file"]
        return Journal(
            file=str(file) if file is not None else None,
            existed=bool(document["existed"]),
            edits=tuple(Edit(str(edit["old"]), str(edit["new"])) for edit in edits),
            made_folders=tuple(map(str, cast("list[str]", document["made_folders"]))),
            by_command=bool(document["by_command"]),
            before_digest=_text(document.get("before_digest")),
            after_digest=_text(document.get("after_digest")),
            registering=bool(document["registering"]),
        )
    except (FileNotFoundError, UnsafeFile, ValueError, KeyError, TypeError, RecursionError):
        return None


def write_journal(name: str, journal: Journal, environ: Mapping[str, str]) -> None:
    path = _path(name, environ)
    ensure_private_directory(path.parent)
    document = {"schema": KNOWN_SCHEMA, **dataclasses.asdict(journal)}
    write_private(path, json.dumps(document, ensure_ascii=False, indent=2).encode() + b"\n")


def remove_journal(name: str, environ: Mapping[str, str]) -> None:
    _path(name, environ).unlink(missing_ok=True)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _path(name: str, environ: Mapping[str, str]) -> Path:
    path = installation_path(name, environ)
    return path.with_name(f"{path.stem}.change.json")
