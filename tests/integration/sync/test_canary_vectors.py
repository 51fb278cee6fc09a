"""No vector of a memory leaves the machine, in whatever form arrays travel (sync.md T22)."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from canary_story import PASSPHRASE, SECONDS, mark, sync_status
from leak_scan import scan_bytes, scan_folders
from opened_vault import opened
from recording_relay import RecordingRelay
from sandbox_daemon import SandboxDaemon, wait_until
from sync_server import ServerProcess

from memory_manager.recall.models.installed import PreparedModel

PUSH = "POST /v1/log/push"


@pytest.mark.embed
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_no_vector_of_a_memory_leaves_the_machine(minilm: PreparedModel, tmp_path: Path) -> None:
    """The real vectors of the vault, with the texts they belong to, on every connection."""
    (tmp_path / "server").mkdir(mode=0o700)
    texts = {f"text {at}": mark(str(at)) for at in range(4)}
    with (
        RecordingRelay() as relay,
        ServerProcess(tmp_path / "server" / "data", ("--public-host", relay.host)) as server,
        SandboxDaemon(tmp_path / "desk") as desk,
    ):
        relay.upstream = server.url
        desk.home.mkdir(mode=0o700)
        shutil.copytree(minilm.folder, desk.home / "models" / minilm.folder.name)
        desk.init(PASSPHRASE).start()
        with desk.owner() as owner:
            for text in texts.values():
                owner.remember(text)
            wait_until(lambda: _embedded(desk) == len(texts), 60, "every memory has a vector")
            desk.cli(
                *("sync", "setup", relay.url, "--name", "desk", "--without-recovery"),
                secrets={
                    "--passphrase-fd": PASSPHRASE,
                    "--token-fd": server.registration_token(),
                },
            )
            owner.remember(mark("later"), "again")
        wait_until(lambda: sync_status(desk)["outbox"] == 0, SECONDS, "all is pushed")
        assert desk.stop() == 0
        assert server.stop() == 0
        calls, octets = relay.calls(), relay.octets()
    vectors = _vectors(desk)
    assert len(vectors) >= len(texts)
    assert any(call.name == PUSH for call in calls)
    sought = {**texts, **_vector_forms(vectors)}
    assert list(scan_bytes(octets, sought)) == []
    assert scan_folders([tmp_path / "server"], sought) == []
    planted = b"..." + np.asarray(vectors[0], np.float32).tobytes() + b"..."
    assert "0 float32" in {name for name, _ in scan_bytes(planted, sought)}


def _embedded(daemon: SandboxDaemon) -> int:
    return int(daemon.status()["embeddings"]["covered"])


def _vectors(daemon: SandboxDaemon) -> list[Any]:
    """The stored vectors of a stopped machine as the product reads them, and their codes."""
    with opened(daemon) as connection:
        found = connection.execute("SELECT scale, code FROM vector_tail").fetchall()
    return [np.frombuffer(code, np.int8).astype(np.float32) * scale for scale, code in found]


def _vector_forms(vectors: list[Any]) -> dict[str, str | bytes]:
    """Each vector as arrays and as JSON lists would carry it."""
    forms: dict[str, str | bytes] = {}
    for at, vector in enumerate(vectors):
        unit = vector / np.linalg.norm(vector)
        codes = np.round(vector / np.abs(vector).max() * 127)
        forms[f"{at} int8"] = codes.astype(np.int8).tobytes()
        for name, values in (("", vector), ("unit ", unit)):
            for kind in (np.float32, np.float16, np.float64):
                forms[f"{at} {name}{np.dtype(kind).name}"] = values.astype(kind).tobytes()
            few = [float(value) for value in values[:4]]
            forms[f"{at} {name}JSON"] = json.dumps(few)[1:-1]
            forms[f"{at} {name}short JSON"] = json.dumps(few, separators=(",", ":"))[1:-1]
    return forms
