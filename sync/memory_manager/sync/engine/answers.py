"""The server's JSON answers as values. Nothing in them is verified here.

Each function raises SyncUnreachable for an answer of another form: whatever answered, it was not
our server.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any, Final, TypeVar

from memory_manager.sync.engine.errors import SyncUnreachable
from memory_manager.sync.wire.canonical import hex_bytes, is_count
from memory_manager.sync.wire.envelope import WRAP_BYTES
from memory_manager.sync.wire.framing import Signed
from memory_manager.sync.wire.labels import HASH_BYTES, ID_BYTES, SIGNATURE_BYTES
from memory_manager.sync.wire.log import ServerHead
from memory_manager.sync.wire.roster import SignedEntry
from memory_manager.sync.wire.roster_json import read_entry

T = TypeVar("T")

_MEMBERS: Final = {
    "/v1/vaults": frozenset({"vault", "server_key", "head"}),
    "/v1/auth/challenge": frozenset({"nonce", "server_key"}),
    "/v1/auth/session": frozenset({"token", "epoch", "expires_in"}),
    "/v1/log/push": frozenset({"head", "first_n"}),
    "/v1/wrap/push": frozenset({"stored"}),
    "/v1/wrap/pull": frozenset({"wraps", "cursor"}),
    "/v1/roster": frozenset({"entries", "idx", "head"}),
    "/v1/notify": frozenset({"n"}),
}
"""All that the protocol has in the answers of a route: it knows no capabilities and no upgrade."""

_TOKEN_BYTES: Final = 32
_NONCE_BYTES: Final = 32


@dataclasses.dataclass(frozen=True, slots=True)
class Created:
    """A new vault on the server; ``server_key`` is what the first device pins (sync.md 7.4)."""

    vault: bytes
    server_key: bytes
    head: Signed[ServerHead]


@dataclasses.dataclass(frozen=True, slots=True)
class Pushed:
    """The server's statement after a push, and the position it gave to the first row."""

    head: Signed[ServerHead]
    first_n: int


@dataclasses.dataclass(frozen=True, slots=True)
class RosterTail:
    """Entries of the roster and the hash of its last one, as the server has them."""

    entries: tuple[SignedEntry, ...]
    head: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class StoredWrap:
    """A WRAP of the row whose BODY has that hash."""

    body_hash: bytes
    epoch: int
    wrap: bytes = dataclasses.field(repr=False)


@dataclasses.dataclass(frozen=True, slots=True)
class OpenSession:
    """What a login gave: the token in hex, and the epoch that goes with it."""

    token: str = dataclasses.field(repr=False)
    epoch: int


def json_object(data: bytes) -> dict[str, Any]:
    """The one JSON object of an answer."""
    try:
        said = json.loads(data)
    except (ValueError, RecursionError):
        raise SyncUnreachable from None
    if not isinstance(said, dict):
        raise SyncUnreachable
    return said


def says_more(path: str, data: bytes) -> bool:
    """Whether a route's answer holds members that nobody asked for; they are read by nobody."""
    known = _MEMBERS.get(path)
    return known is not None and bool(data) and not known >= json_object(data).keys()


def created(data: bytes) -> Created:
    return _read(
        data,
        lambda said: Created(
            hex_bytes(said["vault"], ID_BYTES),
            hex_bytes(said["server_key"], HASH_BYTES),
            _head(said["head"]),
        ),
    )


def challenge(data: bytes) -> tuple[bytes, bytes]:
    """The nonce and the server's key."""
    return _read(
        data,
        lambda said: (
            hex_bytes(said["nonce"], _NONCE_BYTES),
            hex_bytes(said["server_key"], HASH_BYTES),
        ),
    )


def session(data: bytes) -> OpenSession:
    return _read(
        data,
        lambda said: OpenSession(
            hex_bytes(said["token"], _TOKEN_BYTES).hex(), _count(said["epoch"])
        ),
    )


def pushed(data: bytes) -> Pushed:
    return _read(data, lambda said: Pushed(_head(said["head"]), _count(said["first_n"])))


def roster_tail(data: bytes) -> RosterTail:
    return _read(
        data,
        lambda said: RosterTail(
            tuple(read_entry(entry) for entry in said["entries"]),
            hex_bytes(said["head"], HASH_BYTES),
        ),
    )


def stored(data: bytes) -> int:
    """How many wraps were stored."""
    return _read(data, lambda said: _count(said["stored"]))


def wraps(data: bytes) -> tuple[list[StoredWrap], int]:
    """Wraps, and the cursor behind them."""
    return _read(
        data, lambda said: ([_wrap(item) for item in said["wraps"]], _count(said["cursor"]))
    )


def length(data: bytes) -> int:
    """The log's length in a poke."""
    return _read(data, lambda said: _count(said["n"]))


def _read(data: bytes, parse: Callable[[dict[str, Any]], T]) -> T:
    said = json_object(data)
    try:
        return parse(said)
    except (KeyError, ValueError, TypeError):
        raise SyncUnreachable from None


def _count(value: object) -> int:
    if not is_count(value) or value >= 1 << 63:
        raise ValueError("a count")
    return value


def _head(said: Any) -> Signed[ServerHead]:
    statement = ServerHead(_count(said["n"]), hex_bytes(said["g"], HASH_BYTES))
    return Signed(statement, hex_bytes(said["signature"], SIGNATURE_BYTES))


def _wrap(said: Any) -> StoredWrap:
    return StoredWrap(
        hex_bytes(said["body_hash"], HASH_BYTES),
        _count(said["epoch"]),
        hex_bytes(said["wrap"], WRAP_BYTES),
    )
