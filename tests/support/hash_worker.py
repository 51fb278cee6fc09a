"""The worker program with a tiny deterministic backend: the protocol without a model library.

Started by tests as ``python hash_worker.py``. Texts with a marker make it misbehave, and
``behaviour.json`` in the model's folder sets what it does while loading.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from memory_manager.recall.embedder import TextKind, Vector
from memory_manager.recall.models.installed import PreparedModel, file_record
from memory_manager.recall.models.manifest import MANIFEST_NAME, Backend, Manifest, Pooling
from memory_manager.recall.worker import main

DIM = 16
DIE, HANG, FAIL, NOT_A_NUMBER, SLOW = "(die)", "(hang)", "(fail)", "(nan)", "(slow)"
STEP_SECONDS = 0.05
PIECE_CHARACTERS = 1000


def make_model(folder: Path, name: str = "hash", **behaviour: object) -> PreparedModel:
    """A model folder for this worker."""
    folder.mkdir(parents=True)
    (folder / "weights").write_bytes(name.encode())
    (folder / "behaviour.json").write_text(json.dumps(behaviour))
    record = file_record(folder / "weights")
    manifest = Manifest(
        id=name, base="hash", revision="1", licence="MIT", backend=Backend.ORT, dim=DIM,
        max_tokens=512, pooling=Pooling.MEAN, query_prompt="", document_prompt="", quant="none",
        centring=None, weights_sha256=record.sha256, files={"weights": record}, made_by={},
        self_check={},
    )  # fmt: skip
    (folder / MANIFEST_NAME).write_text(manifest.as_json())
    return PreparedModel(folder, manifest)


class HashBackend:
    name = "ort"
    dim = DIM

    def __init__(self, model: PreparedModel) -> None:
        behaviour = json.loads((model.folder / "behaviour.json").read_text())
        time.sleep(behaviour.get("load_seconds", 0))
        if behaviour.get("die_while_loading"):
            os._exit(9)
        self.model_key = behaviour.get("model_key", model.model_key)
        if behaviour.get("noise"):
            print("a library prints a query to stdout")
            sys.stderr.write("and a memory to stderr\n")
            sys.stderr.write("memlocket-worker event=loaded size=1\n")
            sys.stderr.flush()

    def plan(self, texts: Sequence[str], kind: TextKind) -> HashPlan:
        if any(FAIL in text for text in texts):
            raise ValueError(texts)
        return HashPlan(list(texts), kind)


@dataclasses.dataclass
class HashPlan:
    texts: list[str]
    kind: TextKind

    def steps(self) -> Iterator[None]:
        for text in self.texts:
            if DIE in text:
                os._exit(1)
            if HANG in text:
                time.sleep(3600)
            if SLOW in text:
                time.sleep(STEP_SECONDS)
            yield

    def result(self) -> list[Vector]:
        return [self._pieces(text) for text in self.texts]

    def _pieces(self, text: str) -> Vector:
        if NOT_A_NUMBER in text:
            return np.empty((0, DIM), np.float32)
        starts = range(0, max(len(text), 1), PIECE_CHARACTERS)
        pieces = [text[start : start + PIECE_CHARACTERS] for start in starts][:64]
        return np.stack([hashed(piece, self.kind) for piece in pieces])


def hashed(text: str, kind: TextKind) -> Vector:
    """The vector this worker gives a short text."""
    digest = hashlib.sha256(f"{kind}:{text}".encode("utf-8", "surrogatepass")).digest()
    values = np.frombuffer(digest, np.uint8)[:DIM].astype(np.float32) - 127.5
    return np.asarray(values / np.linalg.norm(values), np.float32)


if __name__ == "__main__":
    main(sys.argv[1:], load_model=HashBackend)
