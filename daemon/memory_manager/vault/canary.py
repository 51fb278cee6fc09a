"""Looks for a known text in files, in every disguise it could have leaked in (vault.md 11, 16 T15).

The scanner for ``doctor --canary``: the caller stores a memory with a fresh canary, lets the daemon
work, and scans data, cache, runtime, log and temporary folders. A hit is a leak.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import mmap
import os
import secrets
import stat
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import quote, quote_plus

_MAX_INFLATED_BYTES = 64 * 1024 * 1024
_MIN_NEEDLE_BYTES = 8
_ZLIB_HEADS = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")
_GZIP_HEAD = b"\x1f\x8b\x08"


@dataclasses.dataclass(frozen=True, slots=True)
class Hit:
    """A file that holds the canary, and how it is written there."""

    path: Path
    encoding: str
    offset: int


@dataclasses.dataclass(frozen=True, slots=True)
class ScanReport:
    """What was found, how much was read, and which files could not be."""

    hits: tuple[Hit, ...]
    files: int
    size_bytes: int
    unreadable: tuple[Path, ...]


def new_canary() -> str:
    """A random text with quotes and letters outside ASCII, so that its escaped forms differ."""
    return f'canary-é漢-{secrets.token_hex(12)}-"q"&<{secrets.token_hex(4)}>'


def disguises(text: str) -> Mapping[str, bytes]:
    """Every byte form of ``text`` that counts as a leak, by name."""
    plain = text.encode("utf-8")
    forms: dict[str, bytes] = {
        "utf-8": plain,
        "utf-16-le": text.encode("utf-16-le"),
        "utf-16-be": text.encode("utf-16-be"),
        "hex": plain.hex().encode(),
        "hex-upper": plain.hex().upper().encode(),
        "reversed": text[::-1].encode("utf-8"),
        "reversed-bytes": plain[::-1],
        "json": json.dumps(text)[1:-1].encode(),
        "json-unicode": json.dumps(text, ensure_ascii=False)[1:-1].encode("utf-8"),
        "url": quote(text, safe="").encode(),
        "url-path": quote(text).encode(),
        "url-form": quote_plus(text).encode(),
        "url-lower": _lower_escapes(quote(text, safe="")).encode(),
    }
    for shift in range(3):
        for name, encode in (
            ("base64", base64.b64encode),
            ("base64url", base64.urlsafe_b64encode),
        ):
            forms[f"{name}-{shift}"] = _base64_core(plain, shift, encode)
    return forms


def _lower_escapes(quoted: str) -> str:
    parts = quoted.split("%")
    return "%".join([parts[0], *(part[:2].lower() + part[2:] for part in parts[1:])])


def _base64_core(plain: bytes, shift: int, encode: Callable[[bytes], bytes]) -> bytes:
    """The characters that depend on ``plain`` alone when ``shift`` bytes stand before it."""
    encoded = encode(bytes(shift) + plain)
    first = (shift * 8 + 5) // 6
    last = (shift + len(plain)) * 8 // 6
    return encoded[first:last]


def scan(
    folders: Iterable[Path], texts: Iterable[str], *, raw: Mapping[str, bytes] | None = None
) -> ScanReport:
    """Read every regular file below ``folders`` and look for ``texts`` in every disguise.

    ``raw`` adds byte strings that are looked for as they are and in hex, such as keys. Links are
    not followed; compressed streams inside files are looked into once.
    """
    needles: list[tuple[str, bytes]] = []
    for text in texts:
        needles += disguises(text).items()
    for name, value in (raw or {}).items():
        needles += [(name, value), (f"{name}-hex", value.hex().encode())]
        needles += [(f"{name}-hex-upper", value.hex().upper().encode())]
    if any(len(needle) < _MIN_NEEDLE_BYTES for _, needle in needles):
        raise ValueError("a canary this short would be found by accident")
    unique = list({needle: (name, needle) for name, needle in needles}.values())
    hits: list[Hit] = []
    unreadable: list[Path] = []
    files = size_bytes = 0
    for path in _regular_files(folders):
        try:
            found, size = _scan_file(path, unique)
        except OSError:
            unreadable.append(path)
            continue
        hits += found
        files += 1
        size_bytes += size
    return ScanReport(tuple(hits), files, size_bytes, tuple(unreadable))


def _regular_files(folders: Iterable[Path]) -> Iterator[Path]:
    seen: set[tuple[int, int]] = set()
    for folder in folders:
        for root, _, names in os.walk(folder):
            for name in names:
                path = Path(root, name)
                try:
                    info = path.lstat()
                except OSError:
                    continue  # gone meanwhile: temporary files come and go while the daemon runs
                if stat.S_ISREG(info.st_mode) and (info.st_dev, info.st_ino) not in seen:
                    seen.add((info.st_dev, info.st_ino))
                    yield path


def _scan_file(path: Path, needles: list[tuple[str, bytes]]) -> tuple[list[Hit], int]:
    with open(path, "rb") as stream:
        size = os.fstat(stream.fileno()).st_size
        if size == 0:
            return [], 0
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            hits = [
                Hit(path, name, offset)
                for name, needle in needles
                if (offset := _find(data, needle)) >= 0
            ]
            for offset, window in _streams(data):
                inflated = _inflate(data[offset : offset + _MAX_INFLATED_BYTES], window)
                hits += [
                    Hit(path, f"compressed-{name}", offset)
                    for name, needle in needles
                    if needle in inflated
                ]
            return hits, size


def _find(data: mmap.mmap, needle: bytes, start: int = 0) -> int:
    """As ``data.find``. That of CPython before 3.11.4 reads one byte past the end it is given,
    which ends the process when a file fills its last page, as every vault does.
    """
    offset = data.find(needle, start, len(data) - 1)
    if offset >= 0:
        return offset
    last = len(data) - len(needle)
    return last if last >= start and data[last:] == needle else -1


def _streams(data: mmap.mmap) -> Iterator[tuple[int, int]]:
    """Offsets where a gzip or zlib stream may begin, with zlib's window argument for it."""
    for head, window in (*((head, 15) for head in _ZLIB_HEADS), (_GZIP_HEAD, 31)):
        offset = _find(data, head)
        while offset >= 0:
            if _inflate(data[offset : offset + 512], window):
                yield offset, window
            offset = _find(data, head, offset + 1)


def _inflate(data: bytes, window: int) -> bytes:
    """What a possibly cut or broken stream gives before it ends; empty when it is none."""
    inflater = zlib.decompressobj(window)
    parts: list[bytes] = []
    size = 0
    view = memoryview(data)
    try:
        while view and size < _MAX_INFLATED_BYTES and not inflater.eof:
            part = inflater.decompress(view[:4096], _MAX_INFLATED_BYTES)
            parts.append(part)
            size += len(part)
            view = view[4096:]
    except zlib.error:
        pass  # broken further on: what came out so far is searched
    return b"".join(parts)
