"""What a route is and what its handler gets: a request that was checked, bounded and read."""

from __future__ import annotations

import asyncio
import dataclasses
import enum
import json
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final, NoReturn, cast

from aiohttp import web

from memory_manager.sync.server.answers import JSON_TYPE, OCTETS
from memory_manager.sync.server.errors import (
    BodyOverLimit,
    Malformed,
    SlowRequest,
    UnsupportedBody,
)
from memory_manager.sync.server.refusals import SessionEnd, SessionRefused
from memory_manager.sync.server.storage import Session
from memory_manager.sync.wire.canonical import hex_bytes
from memory_manager.sync.wire.roster import SignedEntry
from memory_manager.sync.wire.roster_json import read_entry

if TYPE_CHECKING:
    from memory_manager.sync.server.host import SyncHost

JSON_BODY_BYTES: Final = 65_536
ENTRY_BODY_BYTES: Final = 1 << 17
"""With a roster entry in it."""
_MAX_NUMBER: Final = (1 << 63) - 1
_CHUNK_BYTES: Final = 65_536


class Access(enum.Enum):
    """Who may call a route. OWN: its handler checks a credential of another kind itself."""

    OPEN = "open"
    SESSION = "session"
    OWN = "own"


@dataclasses.dataclass(frozen=True, slots=True)
class Call:
    """One request. ``body`` was read up to the limit of its route."""

    host: SyncHost
    request: web.Request
    address: str
    body: bytes = dataclasses.field(repr=False)
    known_session: Session | None = None

    @property
    def session(self) -> Session:
        """The session; the route's ``access`` is SESSION, so there is one."""
        if self.known_session is None:
            raise SessionRefused(SessionEnd.UNKNOWN)
        return self.known_session

    def json(self) -> Mapping[str, object]:
        """The body as one JSON object; Malformed or UnsupportedBody otherwise."""
        if self.request.content_type != JSON_TYPE:
            raise UnsupportedBody
        return parse_object(self.body)

    def octets(self) -> bytes:
        """The body as bytes; UnsupportedBody for another content type."""
        if self.request.content_type != OCTETS:
            raise UnsupportedBody
        return self.body

    def number(self, name: str, default: int, low: int, high: int = _MAX_NUMBER) -> int:
        """A whole number of the query, ``high`` if it is larger; Malformed for anything else."""
        text = self.request.query.get(name)
        if text is None:
            return default
        digits = text.removeprefix("-")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 19):
            raise Malformed
        number = int(text)
        if number < low:
            raise Malformed
        return min(number, high)

    def path_id(self, name: str, size: int = 16) -> bytes:
        """An id of the path, lower-case hex; Malformed otherwise."""
        return _hex(self.request.match_info[name], size)


Handler = Callable[[Call], Awaitable[web.StreamResponse]]


@dataclasses.dataclass(frozen=True, slots=True)
class Route:
    """``path`` as aiohttp writes it, ``{name}`` for a part. ``max_body_bytes`` 0: no body."""

    method: str
    path: str
    handler: Handler
    access: Access = Access.SESSION
    max_body_bytes: int = 0


def parse_object(body: bytes) -> Mapping[str, object]:
    """A JSON object: UTF-8, unique names, no NaN; Malformed otherwise."""
    try:
        value: object = json.loads(
            body.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse
        )
    except (ValueError, RecursionError):
        raise Malformed from None
    if not isinstance(value, dict):
        raise Malformed
    return cast("dict[str, object]", value)


def member_hex(document: Mapping[str, object], name: str, size: int) -> bytes:
    """``size`` bytes of a member in lower-case hex; Malformed otherwise."""
    return _hex(document.get(name), size)


def member_text(document: Mapping[str, object], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str):
        raise Malformed
    return value


def signed_entry(document: Mapping[str, object]) -> SignedEntry:
    """The roster entry in a body, not verified; Malformed."""
    try:
        return read_entry(document)
    except (KeyError, TypeError, ValueError):
        raise Malformed from None


def _hex(text: object, size: int) -> bytes:
    try:
        return hex_bytes(text, size)
    except (TypeError, ValueError):
        raise Malformed from None


def _unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name stands twice")
    return found


def _refuse(_text: str) -> NoReturn:
    raise ValueError("no JSON number")


async def read_body(request: web.Request, max_bytes: int, seconds: float) -> bytes:
    """The body of a request; refused by its announced length before a byte of it is read, or as
    soon as it grows over ``max_bytes``, or when it is not complete after ``seconds``.
    """
    if not request.can_read_body:
        return b""
    if request.headers.get("Content-Encoding", "identity") != "identity":
        raise UnsupportedBody
    if request.content_length is not None and request.content_length > max_bytes:
        raise BodyOverLimit
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(seconds):
            async for part in request.content.iter_chunked(_CHUNK_BYTES):
                size += len(part)
                if size > max_bytes:
                    raise BodyOverLimit
                parts.append(part)
    except TimeoutError:
        raise SlowRequest from None
    except web.RequestPayloadError:
        raise Malformed from None
    return b"".join(parts)
