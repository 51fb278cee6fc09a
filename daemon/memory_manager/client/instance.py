"""One installation of a client: credential, agent id and instance id, in one private file.

``<data dir>/clients/NAME.json``, written by ``memlocket connect`` and read by the stdio shim. The
instance id is made once and outlives restarts, disconnecting and connecting again; it lies in the
data directory, so no repository carries it. It is a label and no secret; the credential is one.
Standard library only. Contract: desktop.md 12.1, xmemo.md 12.1, 11.3.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final, cast

from memory_manager.auth.agent_identity import AGENT_HEADER, INSTANCE_HEADER
from memory_manager.base.directories import directories
from memory_manager.base.errors import InvalidInput, MemlocketError
from memory_manager.base.private_files import (
    UnsafeFile,
    check_private_directory,
    ensure_private_directory,
    read_private,
    sync_directory,
    write_private,
)
from memory_manager.client.errors import ClientNotConnected

CLI_NAME: Final = "cli"
CLI_AGENT_ID: Final = "memlocket-cli"
KNOWN_SCHEMA: Final = 1
MAX_FILE_BYTES: Final = 16_384
MAX_AGENT_ID_CHARACTERS: Final = 256
INSTANCE_RANDOM_BYTES: Final = 16

_NAME = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,62}[a-z0-9])?")
_ALIASES: Final = {"other": "generic"}


@dataclasses.dataclass(frozen=True, slots=True)
class Installation:
    """One installation of a client on this machine.

    ``credential`` is its token, None for our own command line and for a client that was
    disconnected; ``credential_id`` names it to the owner's routes.
    """

    client: str
    agent_id: str
    instance_id: str
    credential: str | None = dataclasses.field(default=None, repr=False)
    credential_id: str | None = None

    @property
    def labels(self) -> dict[str, str]:
        """The two attribution headers (xmemo.md 4.4)."""
        return {AGENT_HEADER: self.agent_id, INSTANCE_HEADER: self.instance_id}


def installation_name(name: str) -> str:
    """The name a client's file has: lower-case letters, digits, ``-``, ``_``; InvalidInput else."""
    name = _ALIASES.get(name, name)
    if _NAME.fullmatch(name) is None:
        raise InvalidInput(
            "A client's name has 1 to 64 lower-case letters, digits, - and _.", field="client"
        )
    return name


def installation_path(name: str, environ: Mapping[str, str] = os.environ) -> Path:
    return directories(environ).clients / f"{installation_name(name)}.json"


def read_installation(name: str, environ: Mapping[str, str] = os.environ) -> Installation:
    """The installation of a connected client; ClientNotConnected without file or credential.

    UnsafeFile for a file that is not private or holds something else.
    """
    found = find_installation(name, environ)
    if found is None or found.credential is None:
        raise ClientNotConnected(
            f"'{name}' is not connected.", hint=f"Connect it: memlocket connect {name}"
        )
    return found


def find_installation(name: str, environ: Mapping[str, str] = os.environ) -> Installation | None:
    """What is kept about a client, connected or not; None when it was never here."""
    path = installation_path(name, environ)
    try:
        check_private_directory(path.parent)
        raw = read_private(path, MAX_FILE_BYTES)
    except FileNotFoundError:
        return None
    try:
        return _parse(json.loads(raw), installation_name(name))
    except (ValueError, KeyError, TypeError, RecursionError):
        raise UnsafeFile(
            f"{path} is not a file of memlocket.", hint=f"Look at it, then remove it: rm '{path}'"
        ) from None


def list_installations(environ: Mapping[str, str] = os.environ) -> list[Installation]:
    """Every client that was ever connected here, by name; a file that is not ours is left out."""
    folder = directories(environ).clients
    found: list[Installation] = []
    with contextlib.suppress(FileNotFoundError):
        for path in sorted(folder.iterdir()):
            if path.suffix == ".json" and _NAME.fullmatch(path.stem) and path.stem != CLI_NAME:
                with contextlib.suppress(UnsafeFile):
                    if (installation := find_installation(path.stem, environ)) is not None:
                        found.append(installation)
    return found


def write_installation(installation: Installation, environ: Mapping[str, str] = os.environ) -> None:
    """Replace the client's file atomically; 0600 in a 0700 folder."""
    path = installation_path(installation.client, environ)
    ensure_private_directory(path.parent)
    write_private(path, _encoded(installation))


def ensure_installation(
    name: str, agent_id: str, environ: Mapping[str, str] = os.environ
) -> Installation:
    """What is kept about a client, made now if there is nothing; of two at once one wins."""
    name = installation_name(name)
    found = find_installation(name, environ)
    if found is not None:
        return found
    made = Installation(name, agent_id, f"{name}-{secrets.token_hex(INSTANCE_RANDOM_BYTES)}")
    path = installation_path(name, environ)
    ensure_private_directory(path.parent)
    fresh = path.with_name(f".{path.name}.{secrets.token_hex(8)}.new")
    write_private(fresh, _encoded(made))
    try:
        os.link(fresh, path)  # unlike a rename it never replaces what another process just made
    except FileExistsError:
        return find_installation(name, environ) or made
    finally:
        fresh.unlink()
    sync_directory(path.parent)
    return made


def own_labels(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The attribution headers of our own command line.

    Labels must never fail a command: without a data directory, or with a file we cannot use, the
    instance is left out.
    """
    with contextlib.suppress(OSError, MemlocketError):
        if directories(environ).data.is_dir():
            return ensure_installation(CLI_NAME, CLI_AGENT_ID, environ).labels
    return {AGENT_HEADER: CLI_AGENT_ID}


def _encoded(installation: Installation) -> bytes:
    document = {"schema": KNOWN_SCHEMA, **dataclasses.asdict(installation)}
    return json.dumps(document, ensure_ascii=False, indent=2).encode() + b"\n"


def _parse(loaded: object, name: str) -> Installation:
    if not isinstance(loaded, dict):
        raise ValueError
    document = cast("dict[str, object]", loaded)
    if document["schema"] != KNOWN_SCHEMA or document["client"] != name:
        raise ValueError
    return Installation(
        client=name,
        agent_id=_text(document["agent_id"]),
        instance_id=_text(document["instance_id"]),
        credential=_optional_text(document.get("credential")),
        credential_id=_optional_text(document.get("credential_id")),
    )


def _text(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= MAX_AGENT_ID_CHARACTERS:
        raise ValueError
    if not value.isprintable():  # it goes into a header line
        raise ValueError
    return value


def _optional_text(value: object) -> str | None:
    return None if value is None else _text(value)
