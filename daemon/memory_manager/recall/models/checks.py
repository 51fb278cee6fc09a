"""What a preparation measures on this machine: the centring, the agreement with float32, the dtype.

Contract: recall.md 3.3 step 5 and section 5. Only in the preparing subprocess.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.resources
import json
import platform
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from memory_manager.recall.centring import (
    LANGUAGE_SHARE_REMOVED,
    finish_vectors,
    measure_centring,
    normalise,
)
from memory_manager.recall.embedder import TextKind, Vector
from memory_manager.recall.models.installed import PreparedModel
from memory_manager.recall.models.manifest import Backend, Centring
from memory_manager.recall.worker_backends import WorkerBackend, centring_of, load_backend

MIN_MEAN_COSINE = 0.98
MIN_COSINE = 0.95
_MIN_SHARED_DIRECTION = 0.5
"""Length of the mean of unit vectors above which a user's model is centred."""
_CHUNK = 16


@dataclasses.dataclass(frozen=True, slots=True)
class TextSet:
    """``groups`` has the texts of one language each."""

    id: str
    groups: tuple[tuple[str, ...], ...]

    @property
    def texts(self) -> tuple[str, ...]:
        return tuple(text for group in self.groups for text in group)


def neutral_texts() -> TextSet:
    """The 400 shipped texts of recall.md 5; another content is another id."""
    return _read_texts("neutral_texts.json")


def check_texts() -> TextSet:
    """The 100 shipped texts of the self-check."""
    return _read_texts("check_texts.json")


def _read_texts(name: str) -> TextSet:
    raw = importlib.resources.files("memory_manager.recall").joinpath(name).read_text("utf-8")
    value = cast("dict[str, Any]", json.loads(raw))
    groups = cast("dict[str, list[str]]", value["texts"])
    return TextSet(str(value["id"]), tuple(tuple(group) for group in groups.values()))


def _processor() -> str:
    """The best integer instruction set, as Linux names it; elsewhere the architecture."""
    try:
        flags = set(Path("/proc/cpuinfo").read_text("ascii", "replace").split())
    except OSError:
        flags = set[str]()
    for name in ("amx_int8", "avx512_vnni", "avx_vnni", "avx2"):
        if name in flags:
            return name
    return platform.machine()


def has_vnni() -> bool:
    """False only where the processor is known to saturate signed 8-bit products."""
    return _processor() not in ("avx2", "x86_64")


@dataclasses.dataclass(frozen=True, slots=True)
class Agreement:
    """Cosines to the float32 vectors, both centred with the same mean."""

    mean_cosine: float
    min_cosine: float
    equal_ids: bool

    @property
    def passed(self) -> bool:
        return (
            self.equal_ids and self.mean_cosine >= MIN_MEAN_COSINE and self.min_cosine >= MIN_COSINE
        )

    def as_json(self) -> dict[str, object]:
        return {
            "mean_cos": round(self.mean_cosine, 5),
            "min_cos": round(self.min_cosine, 5),
            "equal_ids": self.equal_ids,
            "cpu": _processor(),
        }


def write_centring(model: PreparedModel, name: str, *, centred: bool | None) -> Centring | None:
    """Write the centring file beside the model; None when it is not centred.

    ``model`` must not be centred yet. ``centred`` None lets the vectors decide.
    """
    if centred is False:
        return None
    neutral = neutral_texts()
    backend = load_backend(model)
    centring = measure_centring(
        [embed_all(backend, texts, TextKind.DOCUMENT) for texts in neutral.groups]
    )
    if centred is None and centring.mean_length < _MIN_SHARED_DIRECTION:
        return None
    data = centring.as_bytes()
    (model.folder / name).write_bytes(data)
    return Centring(
        f"{neutral.id}-lang{round(100 * LANGUAGE_SHARE_REMOVED)}",
        name,
        hashlib.sha256(data).hexdigest(),
    )


def embed_all(backend: WorkerBackend, texts: Sequence[str], kind: TextKind) -> Vector:
    """One vector per text, shape ``(len(texts), dim)``; the texts are short."""
    parts: list[Vector] = []
    for start in range(0, len(texts), _CHUNK):
        plan = backend.plan(texts[start : start + _CHUNK], kind)
        for _ in plan.steps():
            pass
        parts += [vectors[:1] for vectors in plan.result()]
    return np.concatenate(parts)


def agreement(model: PreparedModel, reference: Any) -> Agreement:
    """Compare with the float32 sentence-transformers output on the check texts."""
    texts = check_texts().texts
    ours = embed_all(load_backend(model), texts, TextKind.DOCUMENT)
    prompt = model.manifest.document_prompt
    theirs = finish_vectors(
        normalise(
            np.asarray(
                reference.encode(
                    [prompt + text for text in texts],
                    prompt="",
                    batch_size=_CHUNK,
                    show_progress_bar=False,
                ),
                dtype=np.float32,
            )
        ),
        centring_of(model),
    )
    if len(ours) != len(theirs):
        return Agreement(0.0, 0.0, equal_ids=False)
    cosines = (ours * theirs).sum(axis=1)
    return Agreement(
        float(cosines.mean()), float(cosines.min()), equal_ids=_equal_ids(model, reference)
    )


def _equal_ids(model: PreparedModel, reference: Any) -> bool:
    if model.manifest.backend is Backend.ST:
        return True
    from memory_manager.recall.worker_ort import TokenIds

    manifest = model.manifest
    tokens = TokenIds(model.folder / "tokenizer.json", manifest.max_tokens)
    texts = [manifest.document_prompt + text for text in check_texts().texts]
    texts.append(manifest.query_prompt + " ".join(check_texts().texts))  # longer than the limit
    theirs = [
        reference.tokenizer(text, truncation=True, max_length=manifest.max_tokens) for text in texts
    ]
    return tokens.encode(texts) == [found["input_ids"] for found in theirs]


def bfloat16_is_faster(reference: Any) -> bool:
    """Whether this processor runs bfloat16 in hardware: measured with 8 texts, not looked up."""
    import torch

    texts = list(check_texts().texts[:8])

    def seconds() -> float:
        started = time.perf_counter()
        reference.encode(texts, batch_size=8, show_progress_bar=False)
        return time.perf_counter() - started

    seconds()  # warm
    full = min(seconds(), seconds())
    reference.to(torch.bfloat16)
    try:
        seconds()
        half = min(seconds(), seconds())
    except RuntimeError:  # an operator without a bfloat16 kernel
        half = float("inf")
    finally:
        reference.to(torch.float32)
    return half < 0.8 * full
