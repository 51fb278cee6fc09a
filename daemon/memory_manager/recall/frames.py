"""The wire format between the daemon and its embedding worker: bytes in, frames out, no I/O.

Contract: recall.md 2. A frame is a 4-byte big-endian length, a JSON header, a line feed, and a body
(little-endian float32 rows in ``vectors``, empty elsewhere).
"""

from __future__ import annotations

import dataclasses
import enum
import json
import struct
from collections.abc import Iterator, Mapping

PROTOCOL = 1
MAX_FRAME_BYTES = 8 << 20
_LENGTH = struct.Struct(">I")


class FrameType(enum.StrEnum):
    HELLO = "hello"  # worker: protocol, backend, model_key, dim, rss_bytes, load_s
    EMBED = "embed"  # id, lane, kind, texts
    VECTORS = "vectors"  # worker: id, n, dim, pieces (rows per text, 0 = refused), rss_bytes
    PROGRESS = "progress"  # worker: id; a long batch is alive
    ERROR = "error"  # worker: id (absent while loading), code, file (a name in the manifest)
    PING = "ping"
    PONG = "pong"
    STOP = "stop"


class Lane(enum.StrEnum):
    """``query`` goes before ``batch``; each has one request in flight."""

    QUERY = "query"
    BATCH = "batch"


class WorkerErrorCode(enum.StrEnum):
    TOO_LONG = "too_long"
    BAD_INPUT = "bad_input"
    MODEL_DAMAGED = "model_damaged"
    OUT_OF_MEMORY = "out_of_memory"
    RUNTIME_MISSING = "embedding_runtime_missing"


class FrameError(Exception):
    """The other side does not speak this protocol; the connection is useless from here on."""


@dataclasses.dataclass(frozen=True, slots=True)
class Frame:
    type: FrameType
    fields: Mapping[str, object] = dataclasses.field(repr=False)  # may hold text
    body: bytes = dataclasses.field(default=b"", repr=False)

    def integer(self, name: str) -> int:
        """A non-negative integer field; FrameError otherwise."""
        value = self.fields.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or value < 0:
            raise FrameError(f"field {name}")
        return value

    def string(self, name: str) -> str:
        value = self.fields.get(name)
        if not isinstance(value, str):
            raise FrameError(f"field {name}")
        return value

    def integers(self, name: str) -> list[int]:
        value = self.fields.get(name)
        if not isinstance(value, list):
            raise FrameError(f"field {name}")
        found = [item for item in value if isinstance(item, int) and item >= 0]
        if len(found) != len(value):
            raise FrameError(f"field {name}")
        return found

    def strings(self, name: str) -> list[str]:
        value = self.fields.get(name)
        if not isinstance(value, list):
            raise FrameError(f"field {name}")
        found = [item for item in value if isinstance(item, str)]
        if len(found) != len(value):
            raise FrameError(f"field {name}")
        return found


def encode(frame: Frame) -> bytes:
    """The bytes of a frame; FrameError above MAX_FRAME_BYTES."""
    header = json.dumps({"type": frame.type.value, **frame.fields}).encode("ascii")
    payload = header + b"\n" + frame.body
    if len(payload) > MAX_FRAME_BYTES:
        raise FrameError("frame too large")
    return _LENGTH.pack(len(payload)) + payload


class Decoder:
    """Feed bytes in any portions, get whole frames. Raises FrameError once, then stays broken."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        self._buffer += data
        while len(self._buffer) >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._buffer)
            if length > MAX_FRAME_BYTES:
                raise FrameError("frame too large")
            end = _LENGTH.size + length
            if len(self._buffer) < end:
                return
            payload = bytes(self._buffer[_LENGTH.size : end])
            del self._buffer[:end]
            yield _parse(payload)


def _parse(payload: bytes) -> Frame:
    header, newline, body = payload.partition(b"\n")
    if not newline:
        raise FrameError("no header")
    try:
        fields: dict[str, object] = json.loads(header)
        kind = FrameType(str(fields.pop("type")))
    except (ValueError, KeyError, AttributeError, TypeError):
        # a chained JSON error would carry the header, and the header may carry text
        raise FrameError("bad header") from None
    return Frame(kind, fields, body)
