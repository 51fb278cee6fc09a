"""The worker's backend for everything onnxruntime cannot run: sentence-transformers itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from memory_manager.recall.centring import finish_vectors
from memory_manager.recall.embedder import MAX_PIECES, TextKind, Vector
from memory_manager.recall.models.installed import PreparedModel
from memory_manager.recall.models.st_folder import load_sentence_transformer
from memory_manager.recall.worker_backends import centring_of, prompt_of, usable_rows
from memory_manager.recall.worker_pieces import PIECE_TOKENS, split_text

STEP_PIECES = 4
_BORDER_TOKENS = 16
ST_FOLDER = "st"


class StBackend:
    """A sentence-transformers folder inside the model's folder, float32 or bfloat16, one thread."""

    name = "st"

    def __init__(self, model: PreparedModel) -> None:
        manifest = model.manifest
        self._model = load_sentence_transformer(
            model.folder / ST_FOLDER, bfloat16=manifest.quant == "st-bf16"
        )
        self._manifest = manifest
        self._centring = centring_of(model)
        self.model_key = manifest.model_key
        self.dim = manifest.dim

    def plan(self, texts: Sequence[str], kind: TextKind) -> StPlan:
        prompt = prompt_of(self._manifest, kind)
        pieces: list[str] = []
        owners: list[int] = []
        for index, text in enumerate(texts):
            cut = [text] if kind is TextKind.QUERY else self._cut(text)
            pieces += [prompt + piece for piece in cut]
            owners += [index] * len(cut)
        return StPlan(self, pieces, owners, len(texts))

    def _cut(self, text: str) -> list[str]:
        limit = min(PIECE_TOKENS, max(self._manifest.max_tokens - _BORDER_TOKENS, 8))
        tokenizer = getattr(self._model, "tokenizer", None)
        if len(text) <= limit or not getattr(tokenizer, "is_fast", False):
            return [text]
        encoding = tokenizer(  # type: ignore[misc]
            text, add_special_tokens=False, return_offsets_mapping=True, verbose=False
        )
        return split_text(text, encoding["offset_mapping"], MAX_PIECES, piece_tokens=limit)

    def run(self, pieces: Sequence[str]) -> Vector:
        raw = self._model.encode(
            list(pieces),
            prompt="",
            batch_size=len(pieces),
            convert_to_numpy=True,
            show_progress_bar=False,
        )
        return finish_vectors(np.asarray(raw, dtype=np.float32), self._centring)


class StPlan:
    def __init__(
        self, backend: StBackend, pieces: list[str], owners: list[int], texts: int
    ) -> None:
        self._backend = backend
        self._pieces = pieces
        self._owners = owners
        self._texts = texts
        self._vectors: Vector = np.full((len(pieces), backend.dim), np.nan, dtype=np.float32)

    def steps(self) -> Iterator[None]:
        order = sorted(range(len(self._pieces)), key=lambda index: len(self._pieces[index]))
        for start in range(0, len(order), STEP_PIECES):
            group = order[start : start + STEP_PIECES]
            self._vectors[group] = self._backend.run([self._pieces[index] for index in group])
            yield

    def result(self) -> list[Vector]:
        owners = np.asarray(self._owners)
        return [usable_rows(self._vectors[owners == index]) for index in range(self._texts)]
