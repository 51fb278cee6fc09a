"""The user's leak scanner finds a canary in every disguise, and nothing where there is nothing."""

from __future__ import annotations

import base64
import gzip
import json
import mmap
import os
import zlib
from pathlib import Path
from urllib.parse import quote, quote_plus

import pytest

from memory_manager.vault.canary import new_canary, scan

CANARY = new_canary()
PLAIN = CANARY.encode()


def lower_escapes(text: str) -> str:
    return "".join(
        text[i : i + 1] if text[max(0, i - 2) : i + 1].find("%") < 0 else text[i : i + 1].lower()
        for i in range(len(text))
    )


WRITTEN = {
    "utf-8": PLAIN,
    "utf-16-le": CANARY.encode("utf-16-le"),
    "utf-16-be": CANARY.encode("utf-16-be"),
    "hex": PLAIN.hex().encode(),
    "hex upper": PLAIN.hex().upper().encode(),
    "base64 0": base64.b64encode(PLAIN),
    "base64 1": base64.b64encode(b"x" + PLAIN + b"yz"),
    "base64 2": base64.b64encode(b"xy" + PLAIN + b"z"),
    "base64 url": base64.urlsafe_b64encode(b"xyz" + PLAIN),
    "reversed": CANARY[::-1].encode(),
    "json": json.dumps({"text": CANARY}).encode(),
    "json unicode": json.dumps({"text": CANARY}, ensure_ascii=False).encode(),
    "url": quote(CANARY, safe="").encode(),
    "url form": quote_plus(CANARY).encode(),
    "url lower": lower_escapes(quote(CANARY, safe="")).encode(),
    "gzip": gzip.compress(b"some words " + PLAIN),
    "zlib": zlib.compress(json.dumps(CANARY).encode(), 9),
    "zlib fast": zlib.compress(PLAIN, 1),
    "cut gzip": gzip.compress(PLAIN + os.urandom(20_000))[:10_000],
}


@pytest.mark.parametrize("form", WRITTEN, ids=str)
@pytest.mark.parametrize("before", [0, 1, 4095])
def test_every_disguise_is_found(tmp_path: Path, form: str, before: int) -> None:
    (tmp_path / "deep").mkdir()
    file = tmp_path / "deep/file"
    file.write_bytes(os.urandom(before) + WRITTEN[form] + os.urandom(100))
    report = scan([tmp_path], [CANARY])
    assert report.hits, form
    assert report.hits[0].path == file


@pytest.mark.parametrize(
    "before", [0, 1, mmap.PAGESIZE - len(PLAIN)], ids=["first", "second", "last"]
)
def test_a_file_that_fills_its_pages_is_read_to_the_end(tmp_path: Path, before: int) -> None:
    # a search that reads one byte past the file would end the process here
    filled = os.urandom(before) + PLAIN
    (tmp_path / "page").write_bytes(filled + os.urandom(mmap.PAGESIZE - len(filled)))
    (tmp_path / "other").write_bytes(os.urandom(mmap.PAGESIZE * 64))
    (hit,) = scan([tmp_path], [CANARY]).hits
    assert (hit.path.name, hit.offset) == ("page", before)


def test_raw_bytes_are_found_as_they_are_and_in_hex(tmp_path: Path) -> None:
    key = os.urandom(32)
    (tmp_path / "a").write_bytes(b"..." + key)
    (tmp_path / "b").write_text(f"key={key.hex()}")
    assert len(scan([tmp_path], [], raw={"key": key}).hits) == 2


def test_random_and_empty_files_give_no_hit(tmp_path: Path) -> None:
    (tmp_path / "random").write_bytes(os.urandom(3_000_000))
    (tmp_path / "empty").touch()
    (tmp_path / "text").write_text("canary " * 1000)
    report = scan([tmp_path], [CANARY], raw={"key": os.urandom(32)})
    assert report.hits == ()
    assert report.files == 3
    assert report.size_bytes > 3_000_000


def test_links_and_pipes_are_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/etc/passwd")
    assert scan([tmp_path], [CANARY]).files == 0


def test_a_short_canary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="accident"):
        scan([tmp_path], ["short"])
