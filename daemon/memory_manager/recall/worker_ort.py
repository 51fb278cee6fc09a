"""The worker's hot path: ``tokenizers`` and onnxruntime, one thread. Contract: recall.md 2, 3."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from memory_manager.recall.centring import finish_vectors
from memory_manager.recall.embedder import MAX_PIECES, TextKind, Vector
from memory_manager.recall.models.installed import PreparedModel
from memory_manager.recall.models.manifest import Pooling
from memory_manager.recall.worker_backends import centring_of, prompt_of, usable_rows
from memory_manager.recall.worker_pieces import PIECE_TOKENS, split_text

Ids = npt.NDArray[np.int64]

STEP_PIECES = 16
STEP_TOKENS = 768
"""Padded tokens of one step, unless a single piece is longer: bounds how long a step takes."""
_BORDER_TOKENS = 8
"""A piece may have a few tokens more than its part of the whole text had."""


class TokenIds:
    """Token ids as sentence-transformers makes them, from ``tokenizer.json`` alone."""

    def __init__(self, path: Path, max_tokens: int) -> None:
        from tokenizers import Tokenizer

        self._tokenizer = Tokenizer.from_file(str(path))
        # both are done below: they are state of the shared object, and two threads use it
        self._tokenizer.no_padding()
        self._tokenizer.no_truncation()
        self._max_tokens = max_tokens
        bare = self._tokenizer.encode("")
        self._special = len(bare.ids)
        self.pad_id = self._find_pad_id()

    def _find_pad_id(self) -> int:
        for token in ("<pad>", "[PAD]"):
            found = self._tokenizer.token_to_id(token)
            if found is not None:
                return int(found)
        return 0

    def content_limit(self, prompt: str) -> int:
        """Tokens of a text that still fit beside the prompt and the special tokens."""
        prompt_tokens = len(self._tokenizer.encode(prompt, add_special_tokens=False).ids)
        return max(self._max_tokens - self._special - prompt_tokens - _BORDER_TOKENS, 8)

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Character spans of the tokens of a text, special tokens left out."""
        encoding = self._tokenizer.encode(text, add_special_tokens=False)
        return [(int(start), int(end)) for start, end in encoding.offsets]

    def encode(self, texts: Sequence[str]) -> list[list[int]]:
        """Ids with special tokens, truncated to the model's limit, without padding."""
        encodings = self._tokenizer.encode_batch(list(texts))
        return [
            self._truncated(encoding.ids, encoding.special_tokens_mask) for encoding in encodings
        ]

    def _truncated(self, ids: list[int], special: list[int]) -> list[int]:
        if len(ids) <= self._max_tokens:
            return ids
        tail = 0
        while special[-1 - tail]:
            tail += 1
        return ids[: self._max_tokens - tail] + ids[len(ids) - tail :]


class OrtBackend:
    """A prepared ONNX model. Thread-safe: the session and the tokeniser keep no state per call."""

    name = "ort"

    def __init__(self, model: PreparedModel) -> None:
        import onnxruntime

        manifest = model.manifest
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.enable_cpu_mem_arena = False
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 4  # its messages may quote input
        self._session = onnxruntime.InferenceSession(
            str(model.folder / onnx_file(manifest.files)),
            options,
            providers=["CPUExecutionProvider"],
        )
        self._manifest = manifest
        self._tokens = TokenIds(model.folder / "tokenizer.json", manifest.max_tokens)
        self._centring = centring_of(model)
        self.model_key = manifest.model_key
        self.dim = manifest.dim

    def plan(self, texts: Sequence[str], kind: TextKind) -> OrtPlan:
        prompt = prompt_of(self._manifest, kind)
        limit = min(PIECE_TOKENS, self._tokens.content_limit(prompt))
        pieces: list[str] = []
        owners: list[int] = []
        for index, text in enumerate(texts):
            cut = [text] if kind is TextKind.QUERY else self._cut(text, limit)
            pieces += [prompt + piece for piece in cut]
            owners += [index] * len(cut)
        return OrtPlan(self, self._tokens.encode(pieces), owners, len(texts))

    def _cut(self, text: str, limit: int) -> list[str]:
        if len(text) <= limit:  # a token has at least one character, nearly always
            return [text]
        return split_text(text, self._tokens.offsets(text), MAX_PIECES, piece_tokens=limit)

    def run(self, rows: Sequence[list[int]]) -> Vector:
        """Finished vectors of a few token sequences, shape ``(len(rows), dim)``."""
        width = max(len(row) for row in rows)
        ids: Ids = np.full((len(rows), width), self._tokens.pad_id, dtype=np.int64)
        mask: Ids = np.zeros((len(rows), width), dtype=np.int64)
        for index, row in enumerate(rows):
            ids[index, : len(row)] = row
            mask[index, : len(row)] = 1
        (hidden,) = self._session.run(None, {"input_ids": ids, "attention_mask": mask})
        pooled = pool(np.asarray(hidden, dtype=np.float32), mask, self._manifest.pooling)
        return finish_vectors(pooled, self._centring)


class OrtPlan:
    """Token sequences of one request, shortest first, so that little is padded."""

    def __init__(
        self, backend: OrtBackend, rows: list[list[int]], owners: list[int], texts: int
    ) -> None:
        self._backend = backend
        self._rows = rows
        self._owners = owners
        self._texts = texts
        self._vectors: Vector = np.full((len(rows), backend.dim), np.nan, dtype=np.float32)

    def steps(self) -> Iterator[None]:
        order = sorted(range(len(self._rows)), key=lambda index: len(self._rows[index]))
        for group in _groups(order, [len(row) for row in self._rows]):
            self._vectors[group] = self._backend.run([self._rows[index] for index in group])
            yield

    def result(self) -> list[Vector]:
        owners = np.asarray(self._owners)
        return [usable_rows(self._vectors[owners == index]) for index in range(self._texts)]


def _groups(order: Sequence[int], lengths: Sequence[int]) -> Iterator[list[int]]:
    group: list[int] = []
    for index in order:  # ascending length: the newcomer is the widest
        if group and (len(group) == STEP_PIECES or (len(group) + 1) * lengths[index] > STEP_TOKENS):
            yield group
            group = []
        group.append(index)
    if group:
        yield group


def pool(hidden: npt.NDArray[np.float32], mask: Ids, pooling: Pooling) -> Vector:
    """``(n, tokens, dim)`` to ``(n, dim)``; padding does not count."""
    if pooling is Pooling.CLS:
        return np.asarray(hidden[:, 0], dtype=np.float32)
    weights = mask[:, :, None].astype(np.float32)
    if pooling is Pooling.MAX:
        return np.asarray(np.where(weights > 0, hidden, -np.inf).max(axis=1), dtype=np.float32)
    return np.asarray((hidden * weights).sum(axis=1) / weights.sum(axis=1), dtype=np.float32)


def onnx_file(names: object) -> str:
    """The one ONNX file among the names of a manifest."""
    (name,) = [name for name in names if str(name).endswith(".onnx")]  # type: ignore[attr-defined]
    return str(name)
