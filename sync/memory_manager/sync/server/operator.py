"""What an operator does beside a running server: tokens, quotas, a look at the database, a backup.

Each call opens the storage for itself and blocks until it is done.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

from memory_manager.base.private_files import write_private
from memory_manager.base.times import now_ms, rfc3339
from memory_manager.sync.server.errors import SettingsRefused
from memory_manager.sync.server.registration import (
    VALID_MS,
    new_registration_token,
    registration_hash,
)
from memory_manager.sync.server.running import storage_of
from memory_manager.sync.server.server_key import KEY_NAME, ServerKey, load_key
from memory_manager.sync.server.settings import ServerSettings
from memory_manager.sync.server.storage import OwnQuota, Usage, VaultHead
from memory_manager.sync.wire.canonical import hex_bytes
from memory_manager.sync.wire.log import head_words

if TYPE_CHECKING:
    from memory_manager.sync.server.index.storage import Comparing

HEADS_NAME: Final = "heads.json"


@dataclasses.dataclass(frozen=True, slots=True)
class ServerState:
    """What the database held at a moment; ``words`` are the server key's."""

    words: tuple[str, ...]
    heads: tuple[VaultHead, ...]

    def head_words(self) -> list[tuple[str, int, tuple[str, ...]]]:
        """Vault id in hex, n, and the head in six words, for every vault."""
        return [
            (h.vault.hex(), h.head.n, head_words(h.vault, h.head.n, h.head.g)) for h in self.heads
        ]

    def as_json(self) -> dict[str, object]:
        return {"server_words": list(self.words), "heads": heads_json(self.heads)}


def heads_json(heads: tuple[VaultHead, ...]) -> list[dict[str, object]]:
    """(n, G) per vault, by which a restored copy is recognised."""
    return [{"vault": h.vault.hex(), "n": h.head.n, "g": h.head.g.hex()} for h in heads]


def add_registration_token(settings: ServerSettings) -> tuple[str, str]:
    """A token that lets one vault be made, and when it ends (RFC 3339)."""
    _own_key(settings)
    token, end = new_registration_token(), now_ms() + VALID_MS

    async def add() -> None:
        async with storage_of(settings) as storage:
            await storage.add_registration(registration_hash(token), end)

    asyncio.run(add())
    return token, rfc3339(end)


def read_state(settings: ServerSettings) -> tuple[ServerState, Usage]:
    """Heads and sums; the server may run meanwhile."""
    key = _own_key(settings)

    async def read() -> tuple[ServerState, Usage]:
        async with storage_of(settings) as storage:
            state = ServerState(key.words, await storage.heads())
            return state, await storage.usage(now_ms())

    return asyncio.run(read())


def read_comparing(settings: ServerSettings) -> Comparing:
    """Who compares the vectors of opted-in rows; the server may run meanwhile."""
    from memory_manager.sync.server.index.storage import Comparing

    if settings.database_url is None:
        return Comparing.SQLITE
    from memory_manager.sync.server.index.postgres import comparing_at

    return asyncio.run(comparing_at(settings.database_url))


def set_quota(settings: ServerSettings, vault: str, quota: OwnQuota) -> None:
    """Give one vault, named by its id in hex, limits of its own; the server may run meanwhile."""
    _own_key(settings)
    try:
        vault_id = hex_bytes(vault, 16)
    except ValueError:
        raise SettingsRefused(
            f"{vault!r} is not the id of a vault.", hint="memlocket server status lists them."
        ) from None

    async def put() -> None:
        async with storage_of(settings) as storage:
            await storage.set_quota(vault_id, quota)

    asyncio.run(put())


def back_up(settings: ServerSettings, folder: Path) -> ServerState:
    """Copy the server's key and its SQLite database into the new folder ``folder``, with the heads
    of that copy; SettingsRefused when the folder is there already.

    A PostgreSQL database is not copied: its own tools do that, and the heads are of this moment.
    """
    key = _own_key(settings)
    try:
        folder.mkdir(mode=0o700)
    except OSError as error:
        raise SettingsRefused(f"{folder} cannot be made: {error.strerror}.") from None
    write_private(folder / KEY_NAME, bytes(key.signing))
    if settings.database_url is None:
        heads = _copy_database(settings.data, folder)
    else:
        heads = read_state(settings)[0].heads
    write_private(folder / HEADS_NAME, json.dumps(heads_json(heads), indent=2).encode())
    return ServerState(key.words, heads)


def _copy_database(data: Path, folder: Path) -> tuple[VaultHead, ...]:
    from memory_manager.sync.server.sqlite.backup import back_up as copy
    from memory_manager.sync.server.sqlite.backup import copy_file
    from memory_manager.sync.server.sqlite.database import FILE_NAME

    heads = copy(data, folder / FILE_NAME)
    for other in sorted(data.glob("*.db")):  # of mounted parts
        if other.name != FILE_NAME:
            copy_file(other, folder / other.name)
    return heads


def _own_key(settings: ServerSettings) -> ServerKey:
    try:
        return load_key(settings.data)
    except FileNotFoundError:
        raise SettingsRefused(
            f"No server was started in {os.fspath(settings.data)} yet.",
            hint="Start it once: memlocket server --data DIR",
        ) from None
