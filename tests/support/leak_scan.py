"""Looks for planted canaries in every file of a folder, in every form a leak could take.

Forms: UTF-8, UTF-16 LE and BE, hex in both cases, base64 and URL-safe base64 at three alignments,
reversed, JSON-escaped, URL-escaped; all of them again inside gzip and zlib streams.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import json
import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import quote, quote_plus

_MAX_STREAM, _STEP = 1 << 20, 512
_STREAM_START = re.compile(rb"\x1f\x8b\x08|\x78[\x01\x5e\x9c\xda]")


@dataclasses.dataclass(frozen=True, slots=True)
class Leak:
    """Where a canary stands: its name (never its value), the form it has, and the file."""

    canary: str
    form: str
    file: Path


def forms(value: str | bytes) -> dict[str, bytes]:
    """Every byte sequence that would give the value away."""
    raw = value.encode() if isinstance(value, str) else value
    found: dict[str, bytes] = {"raw": raw, "reversed": raw[::-1]}
    found["hex"], found["HEX"] = raw.hex().encode(), raw.hex().upper().encode()
    for shift in range(3):
        encoded = base64.b64encode(bytes(shift) + raw)
        # The first characters mix in the bytes before, the last ones the bytes after.
        core = encoded[(0, 2, 3)[shift] :].rstrip(b"=")
        core = core[: len(core) - (1 if (shift + len(raw)) % 3 else 0)]
        found[f"base64+{shift}"] = core
        found[f"base64url+{shift}"] = core.replace(b"+", b"-").replace(b"/", b"_")
    if isinstance(value, str):
        found["utf-16-le"], found["utf-16-be"] = (
            value.encode("utf-16-le"),
            value.encode("utf-16-be"),
        )
        escaped = json.dumps(value)[1:-1]
        found["json"], found["JSON"] = escaped.encode(), escaped.upper().encode()
        found["json-utf-8"] = json.dumps(value, ensure_ascii=False)[1:-1].encode()
        found["json-slash"] = escaped.replace("/", "\\/").encode()
        found["url"], found["url-plus"] = quote(value, safe="").encode(), quote_plus(value).encode()
        found["url-lower"] = re.sub(
            "%[0-9A-F]{2}", lambda match: match[0].lower(), quote(value, safe="")
        ).encode()
    return found


def scan_bytes(data: bytes, canaries: Mapping[str, str | bytes]) -> Iterator[tuple[str, str]]:
    """``(canary, form)`` of everything found in ``data`` and in compressed streams inside it."""
    wanted = {(name, form): x for name, v in canaries.items() for form, x in forms(v).items()}
    yield from _scan(data, wanted, "")
    for match in _STREAM_START.finditer(data):
        if inflated := _inflate(data, match.start()):
            kind = "gzip:" if match[0][0] == 0x1F else "zlib:"
            yield from _scan(inflated, wanted, kind)


def scan_folders(folders: Iterable[Path], canaries: Mapping[str, str | bytes]) -> list[Leak]:
    """Leaks in the contents and in the names of all regular files below ``folders``."""
    leaks: list[Leak] = []
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            names = list(scan_bytes(str(path.relative_to(folder)).encode(), canaries))
            leaks += [Leak(name, f"file name, {form}", path) for name, form in names]
            if path.is_symlink() or not path.is_file():
                continue
            with contextlib.suppress(FileNotFoundError):  # renamed or removed meanwhile
                data = path.read_bytes()
                leaks += [Leak(n, form, path) for n, form in scan_bytes(data, canaries)]
    return leaks


def _scan(
    data: bytes, wanted: Mapping[tuple[str, str], bytes], prefix: str
) -> Iterator[tuple[str, str]]:
    for (name, form), pattern in wanted.items():
        if pattern in data:
            yield name, prefix + form


def _inflate(data: bytes, start: int) -> bytes:
    """What a stream gives, also when it breaks off: a leak may be cut by the end of a block."""
    inflater = zlib.decompressobj(31 if data[start] == 0x1F else 15)
    out = bytearray()
    try:
        for offset in range(start, min(len(data), start + _MAX_STREAM), _STEP):
            out += inflater.decompress(data[offset : offset + _STEP])
            if inflater.eof:
                break
    except zlib.error:
        pass
    return bytes(out)
