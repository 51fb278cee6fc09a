"""Loading a sentence-transformers folder: local files, safetensors, no foreign code, one thread."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any


def load_sentence_transformer(folder: Path, *, bfloat16: bool = False) -> Any:
    """A ``SentenceTransformer`` on the CPU. Only in a process that may import torch."""
    import torch
    from sentence_transformers import SentenceTransformer

    torch.set_num_threads(1)
    # its load report and warnings are about pooler weights and a tokenizer regex: both harmless
    quiet: Any = importlib.import_module("transformers.utils.logging")
    quiet.set_verbosity_error()
    quiet.disable_progress_bar()
    arguments: dict[str, Any] = {"attn_implementation": "eager", "use_safetensors": True}
    if bfloat16:
        arguments["torch_dtype"] = torch.bfloat16
    return SentenceTransformer(
        str(folder),
        device="cpu",
        local_files_only=True,
        trust_remote_code=False,
        model_kwargs=arguments,
    )
