"""The scanner behind the canary test finds every form it promises, and nothing in noise."""

from __future__ import annotations

import base64
import gzip
import json
import random
import zlib
from pathlib import Path
from urllib.parse import quote

import pytest
from leak_scan import scan_bytes, scan_folders

CANARY = 'Zaffre "Kümmel" 秘密 nr/7741 end'
NOISE = random.Random(5).randbytes(200_000)
ENCODERS = {
    "raw": lambda text: text.encode(),
    "reversed": lambda text: text.encode()[::-1],
    "utf-16-le": lambda text: text.encode("utf-16-le"),
    "utf-16-be": lambda text: text.encode("utf-16-be"),
    "hex": lambda text: text.encode().hex().encode(),
    "HEX": lambda text: text.encode().hex().upper().encode(),
    "json": lambda text: json.dumps({"x": text}).encode(),
    "json-utf-8": lambda text: json.dumps([text], ensure_ascii=False).encode(),
    "url": lambda text: quote(text, safe="").encode(),
    "gzip": lambda text: gzip.compress(NOISE[:300] + text.encode()),
    "zlib": lambda text: zlib.compress(text.encode() * 3, 9),
    "zlib torn": lambda text: zlib.compress(text.encode() + NOISE[:4000])[:-900],
    "gzip of json": lambda text: gzip.compress(json.dumps([text]).encode()),
}


@pytest.mark.parametrize("form", ENCODERS)
def test_scan_finds_form_in_noise(form: str) -> None:
    data = NOISE[:5000] + ENCODERS[form](CANARY) + NOISE[5000:9000]
    assert {name for name, _ in scan_bytes(data, {"canary": CANARY})} == {"canary"}


@pytest.mark.parametrize("before", range(3))
@pytest.mark.parametrize("after", range(3))
@pytest.mark.parametrize("encode", [base64.b64encode, base64.urlsafe_b64encode])
def test_scan_finds_base64_at_every_alignment(before: int, after: int, encode: object) -> None:
    data = encode(NOISE[:before] + CANARY.encode() + NOISE[:after])  # type: ignore[operator]
    assert list(scan_bytes(data, {"canary": CANARY}))


def test_scan_of_key_bytes() -> None:
    key = NOISE[:32]
    rest = NOISE[1000:]
    assert list(scan_bytes(rest + key.hex().encode(), {"key": key}))
    assert list(scan_bytes(rest + zlib.compress(key), {"key": key}))
    assert not list(scan_bytes(rest, {"key": key}))


def test_scan_folders_names_file_and_reads_names(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "log").write_bytes(NOISE + b"token-canary-5512" + NOISE)
    (tmp_path / "token-canary-5512.txt").write_bytes(b"")
    (tmp_path / "clean").write_bytes(NOISE)
    found = scan_folders([tmp_path], {"token": "token-canary-5512"})
    assert {leak.file.name for leak in found} == {"log", "token-canary-5512.txt"}
