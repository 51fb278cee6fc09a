"""From a sentence-transformers folder to an int8 ONNX file. Only in the preparing subprocess.

Contract: recall.md 3.3 steps 3 and 4. No optimum: it cannot be installed beside
sentence-transformers 6.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

_OPSET = 17
_QUANTISED_OPERATORS = ["MatMul", "Gather"]


def export_onnx(model: Any, path: Path) -> None:
    """Write the transformer of a loaded SentenceTransformer as float32 ONNX.

    Inputs ``input_ids`` and ``attention_mask`` (int64, ``(batch, tokens)``), output
    ``last_hidden_state`` (float32, ``(batch, tokens, dim)``).
    """
    import torch

    transformer = model[0].auto_model.eval()

    module: Any = torch.nn.Module  # untyped where torch is absent

    class HiddenStates(module):  # type: ignore[misc]  # pyright: ignore[reportUntypedBaseClass]
        def __init__(self) -> None:
            super().__init__()
            self.transformer = transformer

        def forward(self, input_ids: Any, attention_mask: Any) -> Any:
            return self.transformer(
                input_ids=input_ids, attention_mask=attention_mask
            ).last_hidden_state

    # two rows of different length, so that nothing is traced as a constant
    encoded = model.tokenizer(
        ["two rows", "of different length"], padding=True, return_tensors="pt"
    )
    axes = {0: "batch", 1: "tokens"}
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")  # tracer warnings about constant shapes
        torch.onnx.export(
            HiddenStates(),
            (encoded["input_ids"], encoded["attention_mask"]),
            str(path),
            input_names=["input_ids", "attention_mask"],
            output_names=["last_hidden_state"],
            dynamic_axes={
                "input_ids": axes,
                "attention_mask": axes,
                "last_hidden_state": axes,
            },
            opset_version=_OPSET,
            dynamo=False,
        )


def quantise(
    source: Path, target: Path, *, reduced_range: bool = False, float_nodes: Sequence[str] = ()
) -> None:
    """Per-channel dynamic int8 of the float32 file; nodes that end in ``float_nodes`` stay float32.

    ``reduced_range`` keeps weights within 7 bits: processors with AVX2 only saturate above. Signed
    weights are as exact there as unsigned ones, and a fifth faster.
    """
    import onnx
    from onnxruntime.quantization import QuantType, quantize_dynamic

    graph = onnx.load(str(source), load_external_data=False).graph
    excluded = [node.name for node in graph.node if node.name.endswith(tuple(float_nodes))]

    logging.getLogger().setLevel(logging.ERROR)  # it advises preprocessing, which we do not need
    quantize_dynamic(
        str(source),
        str(target),
        per_channel=True,
        reduce_range=reduced_range,
        weight_type=QuantType.QInt8,
        op_types_to_quantize=_QUANTISED_OPERATORS,
        nodes_to_exclude=excluded,
    )
