"""The manifest of a prepared model and the key that names its vector space.

Contract: recall.md 3.4. Two vectors may meet in one index only when their model keys are equal.
"""

from __future__ import annotations

import dataclasses
import enum
import json
import re
from collections.abc import Mapping
from typing import Any, cast

from memory_manager.recall.models.errors import ModelDamaged

FORMAT = "memlocket-model/1"
MANIFEST_NAME = "manifest.json"
_MAX_DIM = 8192
_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class Backend(enum.StrEnum):
    """Which runtime loads the files: onnxruntime, or sentence-transformers."""

    ORT = "ort"
    ST = "st"


class Pooling(enum.StrEnum):
    """How token vectors become one text vector in the ``ort`` backend."""

    MEAN = "mean"
    CLS = "cls"
    MAX = "max"
    OWN = "own"  # sentence-transformers runs whatever modules the folder has


@dataclasses.dataclass(frozen=True, slots=True)
class FileRecord:
    sha256: str
    bytes: int


@dataclasses.dataclass(frozen=True, slots=True)
class Centring:
    """The neutral text set and the file with what it measured (recall/centring.py)."""

    id: str
    file: str
    sha256: str


@dataclasses.dataclass(frozen=True, slots=True)
class Manifest:
    """Parsed ``manifest.json``. ``max_tokens`` includes special tokens; prompts may be empty."""

    id: str
    base: str
    revision: str
    licence: str
    backend: Backend
    dim: int
    max_tokens: int
    pooling: Pooling
    query_prompt: str
    document_prompt: str
    quant: str
    centring: Centring | None
    weights_sha256: str
    files: Mapping[str, FileRecord]
    made_by: Mapping[str, str]
    self_check: Mapping[str, object]

    @property
    def model_key(self) -> str:
        centring = f"{self.centring.id}-{self.centring.sha256[:8]}" if self.centring else "none"
        return f"{self.id}/{self.weights_sha256[:16]}/{self.quant}/{centring}/{self.dim}"

    def as_json(self) -> str:
        """Canonical text; kept in the vault beside the vectors."""
        value = {
            "format": FORMAT,
            "id": self.id,
            "base": self.base,
            "revision": self.revision,
            "licence": self.licence,
            "backend": self.backend.value,
            "dim": self.dim,
            "max_tokens": self.max_tokens,
            "pooling": self.pooling.value,
            "normalize": True,
            "prompts": {"query": self.query_prompt, "document": self.document_prompt},
            "quant": self.quant,
            "centring": dataclasses.asdict(self.centring) if self.centring else None,
            "weights_sha256": self.weights_sha256,
            "files": {name: dataclasses.asdict(record) for name, record in self.files.items()},
            "made_by": dict(self.made_by),
            "self_check": dict(self.self_check),
        }
        return json.dumps(value, ensure_ascii=False, indent=1)


def parse_manifest(text: str) -> Manifest:
    """Read a manifest written by ``Manifest.as_json``; ModelDamaged for anything else."""
    try:
        return _parse(cast("dict[str, Any]", json.loads(text)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ModelDamaged(f"{MANIFEST_NAME} of the embedding model cannot be read.") from error


def _parse(value: dict[str, Any]) -> Manifest:
    if value["format"] != FORMAT or value["normalize"] is not True:
        raise ValueError("unknown format")
    centring = value["centring"]
    manifest = Manifest(
        id=_matching(_ID, value["id"]),
        base=str(value["base"]),
        revision=str(value["revision"]),
        licence=str(value["licence"]),
        backend=Backend(value["backend"]),
        dim=_between(1, _MAX_DIM, value["dim"]),
        max_tokens=_between(8, 1 << 20, value["max_tokens"]),
        pooling=Pooling(value["pooling"]),
        query_prompt=str(value["prompts"]["query"]),
        document_prompt=str(value["prompts"]["document"]),
        quant=_matching(_ID, value["quant"]),
        centring=None
        if centring is None
        else Centring(
            _matching(_ID, centring["id"]),
            str(centring["file"]),
            _matching(_SHA256, centring["sha256"]),
        ),
        weights_sha256=_matching(_SHA256, value["weights_sha256"]),
        files={
            _file_name(name): FileRecord(
                _matching(_SHA256, record["sha256"]), _between(0, 1 << 40, record["bytes"])
            )
            for name, record in value["files"].items()
        },
        made_by={str(name): str(version) for name, version in value["made_by"].items()},
        self_check=dict(value["self_check"]),
    )
    mean = manifest.centring
    if mean is not None and manifest.files[mean.file].sha256 != mean.sha256:
        raise ValueError("two hashes of the mean vector")
    return manifest


def _matching(pattern: re.Pattern[str], value: object) -> str:
    if not isinstance(value, str) or not pattern.fullmatch(value):
        raise ValueError("unexpected text")
    return value


def _between(low: int, high: int, value: object) -> int:
    if not isinstance(value, int) or not low <= value <= high:
        raise ValueError("unexpected number")
    return value


def _file_name(name: str) -> str:
    """A relative path below the model's folder, with forward slashes and without tricks."""
    parts = name.split("/")
    if not all(parts) or any(part in (".", "..") or "\\" in part or ":" in part for part in parts):
        raise ValueError("unexpected file name")
    return name
