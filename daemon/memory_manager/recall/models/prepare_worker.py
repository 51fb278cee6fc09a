"""The preparing subprocess: ``python -m memory_manager.recall.models.prepare_worker``.

Contract: recall.md 3.3. Loads with sentence-transformers, exports, quantises, checks itself on this
machine and renames the finished folder into place. Prints one JSON line per step.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import importlib.metadata
import json
import os
import shutil
import sys
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any

from memory_manager.base.errors import MemlocketError
from memory_manager.base.private_files import sync_directory
from memory_manager.recall.models import checks, e5_rebuild
from memory_manager.recall.models.errors import ModelRefused, RuntimeMissing
from memory_manager.recall.models.installed import (
    ST_SUFFIX,
    TEMPORARY_SUFFIX,
    PreparedModel,
    file_record,
    record_check,
)
from memory_manager.recall.models.manifest import (
    MANIFEST_NAME,
    Backend,
    Centring,
    Manifest,
    Pooling,
)
from memory_manager.recall.models.settings import BackendChoice
from memory_manager.recall.models.sources import (
    E5,
    KnownModel,
    check_user_folder,
    id_of_folder,
    known_model,
    source_folder,
    verify_pins,
)
from memory_manager.recall.models.st_folder import load_sentence_transformer
from memory_manager.recall.worker_loop import tie_to_parent

_STEPS = ("verify", "rebuild", "load", "export", "quantise", "centre", "check", "install")
_LOWEST_PRIORITY = 19
_CENTRING_NAME = "mean.f32"
_ST_FOLDER = "st"
_MAX_TOKENS_DEFAULT = 512
_PACKAGES = ("sentence-transformers", "torch", "transformers", "onnxruntime", "tokenizers")


@dataclasses.dataclass(frozen=True, slots=True)
class _Recipe:
    """What is known of a model before it is loaded."""

    id: str
    base: str
    revision: str
    licence: str
    folder: Path  # a sentence-transformers folder
    weights_sha256: str
    query_prompt: str | None  # None: what the folder says
    document_prompt: str | None
    centred: bool | None  # None: decided by how close together its vectors lie
    float_nodes: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, slots=True)
class _Variant:
    """One way to run the model, tried in order until the self-check passes."""

    quant: str
    backend: Backend
    reduced_range: bool = False


_SIGNED = _Variant("int8-dyn-pc", Backend.ORT)
_REDUCED = _Variant("int8-rr-dyn-pc", Backend.ORT, reduced_range=True)
_FLOAT = _Variant("fp32", Backend.ORT)


class Preparation:
    """Builds ``<id>.tmp`` and renames it to ``<id>``."""

    def __init__(
        self, models_dir: Path, backend: BackendChoice, report: Callable[[str], None]
    ) -> None:
        self._models_dir = models_dir
        self._choice = backend
        self._report = report

    def run_known(self, model: KnownModel) -> Path:
        self._report("verify")
        folder = source_folder(model)
        verify_pins(model, folder)
        with self._scratch(model.id + ".source") as scratch:
            if model is E5:
                self._report("rebuild")
                e5_rebuild.rebuild(folder / model.weights, scratch)
                folder = scratch
            return self._build(
                _Recipe(
                    model.id, model.base, model.revision, model.licence, folder,
                    model.pins[model.weights], model.query_prompt, model.document_prompt,
                    model.centred, model.float_nodes,
                )
            )  # fmt: skip

    def run_folder(self, folder: Path) -> Path:
        self._report("verify")
        weights = file_record(check_user_folder(folder))
        return self._build(
            _Recipe(
                id_of_folder(folder), folder.name, "local", "unknown", folder, weights.sha256,
                None, None, None,
            )
        )  # fmt: skip

    @contextlib.contextmanager
    def _scratch(self, name: str) -> Generator[Path]:
        folder = self._models_dir / (name + TEMPORARY_SUFFIX)
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def _build(self, recipe: _Recipe) -> Path:
        self._report("load")
        reference = load_sentence_transformer(recipe.folder)
        with self._scratch(recipe.id) as scratch:
            variant, self_check, centring = self._first_good(recipe, reference, scratch)
            manifest = _manifest(recipe, reference, variant, scratch, centring, self_check)
            self._report("install")
            name = recipe.id + (ST_SUFFIX if variant.backend is Backend.ST else "")
            return _install(scratch, self._models_dir / name, manifest)

    def _first_good(
        self, recipe: _Recipe, reference: Any, scratch: Path
    ) -> tuple[_Variant, dict[str, object], Centring | None]:
        for variant in self._variants(reference):
            with contextlib.suppress(_NotRunnable):
                self._write_files(recipe, reference, variant, scratch)
                draft = _manifest(recipe, reference, variant, scratch, None, {})
                self._report("centre")
                centring = checks.write_centring(
                    PreparedModel(scratch, draft), _CENTRING_NAME, centred=recipe.centred
                )
                model = PreparedModel(
                    scratch, _manifest(recipe, reference, variant, scratch, centring, {})
                )
                self._report("check")
                result = checks.agreement(model, reference)
                if result.passed or variant.backend is Backend.ST:
                    return variant, result.as_json(), centring
            _empty(scratch)
        raise ModelRefused("The model gives no usable vectors on this machine.")

    def _variants(self, reference: Any) -> Sequence[_Variant]:
        dtype = "st-bf16" if checks.bfloat16_is_faster(reference) else "st-fp32"
        st = _Variant(dtype, Backend.ST)
        if self._choice is BackendChoice.ST:
            return (st,)
        if not _is_plain(reference):
            return () if self._choice is BackendChoice.ORT else (st,)
        # without VNNI a signed product saturates: it would pass or fail the check by a hair
        quantised = (_SIGNED, _REDUCED) if checks.has_vnni() else (_REDUCED, _SIGNED)
        ort = (*quantised, _FLOAT)
        return ort if self._choice is BackendChoice.ORT else (*ort, st)

    def _write_files(
        self, recipe: _Recipe, reference: Any, variant: _Variant, scratch: Path
    ) -> None:
        if variant.backend is Backend.ST:
            shutil.copytree(recipe.folder, scratch / _ST_FOLDER, ignore=_only_safe_files)
            return
        from memory_manager.recall.models.onnx_export import export_onnx, quantise

        try:
            full = scratch / "model.onnx"
            self._report("export")
            export_onnx(reference, full)
            if variant.quant != "fp32":
                self._report("quantise")
                quantise(
                    full,
                    scratch / "model_int8.onnx",
                    reduced_range=variant.reduced_range,
                    float_nodes=recipe.float_nodes,
                )
                full.unlink()
        except ImportError:
            raise
        except Exception as error:
            raise _NotRunnable from error
        (scratch / "tokenizer.json").write_text(
            reference.tokenizer.backend_tokenizer.to_str(), encoding="utf-8"
        )


class _NotRunnable(Exception):
    """This variant cannot be built; the next one is tried."""


def _is_plain(model: Any) -> bool:
    """Transformer, pooling we know, optional normalisation, a fast tokenizer: the ``ort`` shape."""
    names = [type(module).__name__ for module in model]
    if names not in (["Transformer", "Pooling"], ["Transformer", "Pooling", "Normalize"]):
        return False
    tokenizer = getattr(model, "tokenizer", None)
    return (
        _pooling(model) is not None
        and bool(getattr(tokenizer, "is_fast", False))
        and not getattr(model[0], "do_lower_case", False)
    )


def _pooling(model: Any) -> Pooling | None:
    mode = model[1].get_config_dict().get("pooling_mode")
    return Pooling(mode) if mode in ("mean", "cls", "max") else None


def _only_safe_files(folder: str, names: list[str]) -> list[str]:
    kept = (".safetensors", ".json", ".txt", ".model")
    return [
        name for name in names if not name.endswith(kept) and not (Path(folder) / name).is_dir()
    ]


def _empty(folder: Path) -> None:
    for path in folder.iterdir():
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def _manifest(
    recipe: _Recipe,
    model: Any,
    variant: _Variant,
    folder: Path,
    centring: Centring | None,
    self_check: dict[str, object],
) -> Manifest:
    prompts: dict[str, str] = dict(model.prompts or {})
    pooling = _pooling(model) if variant.backend is Backend.ORT else None
    quantised = variant.quant.endswith("-pc") and bool(recipe.float_nodes)
    return Manifest(
        id=recipe.id,
        base=recipe.base,
        revision=recipe.revision,
        licence=recipe.licence,
        backend=variant.backend,
        dim=int(model.get_sentence_embedding_dimension()),
        max_tokens=int(model.max_seq_length or _MAX_TOKENS_DEFAULT),
        pooling=pooling or Pooling.OWN,
        query_prompt=_first(recipe.query_prompt, prompts.get("query")),
        document_prompt=_first(
            recipe.document_prompt, prompts.get("document"), prompts.get("passage")
        ),
        quant=variant.quant + (f"-f{len(recipe.float_nodes)}" if quantised else ""),
        centring=centring,
        weights_sha256=recipe.weights_sha256,
        files={
            path.relative_to(folder).as_posix(): file_record(path)
            for path in sorted(folder.rglob("*"))
            if path.is_file()
        },
        made_by={name: importlib.metadata.version(name) for name in _PACKAGES},
        self_check=self_check,
    )


def _first(*values: str | None) -> str:
    return next((value for value in values if value is not None), "")


def _install(scratch: Path, target: Path, manifest: Manifest) -> Path:
    (scratch / MANIFEST_NAME).write_text(manifest.as_json(), encoding="utf-8")
    record_check(scratch, manifest)
    for path in scratch.rglob("*"):
        if path.is_file():
            path.chmod(0o600)
            descriptor = os.open(path, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    sync_directory(scratch)
    if target.exists():
        # a folder cannot be renamed over another one; between the two renames there is no model,
        # and a crash there leaves a state that the next preparation mends
        retired = target.with_name(target.name + ".old" + TEMPORARY_SUFFIX)
        shutil.rmtree(retired, ignore_errors=True)
        target.rename(retired)
        scratch.rename(target)
        shutil.rmtree(retired, ignore_errors=True)
    else:
        scratch.rename(target)
    sync_directory(target.parent)
    return target


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--backend", type=BackendChoice, required=True)
    parser.add_argument("--id")
    parser.add_argument("--path", type=Path)
    parser.add_argument("models_dir", type=Path)
    options = parser.parse_args(arguments)
    tie_to_parent(options.parent)
    os.umask(0o077)
    if hasattr(os, "nice"):
        os.nice(_LOWEST_PRIORITY)
    output = os.fdopen(os.dup(1), "w", encoding="utf-8", buffering=1)
    os.dup2(2, 1)  # what libraries print is not for our reader

    def report(name: str) -> None:
        number = _STEPS.index(name) + 1
        output.write(
            json.dumps({"event": "step", "name": name, "number": number, "of": len(_STEPS)}) + "\n"
        )

    preparation = Preparation(options.models_dir, options.backend, report)
    try:
        folder = (
            preparation.run_folder(options.path)
            if options.path is not None
            else preparation.run_known(known_model(options.id))
        )
    except MemlocketError as error:
        output.write(_error_line(error))
        return 1
    except ImportError:
        output.write(_error_line(RuntimeMissing()))
        return 1
    output.write(json.dumps({"event": "done", "folder": folder.name}) + "\n")
    return 0


def _error_line(error: MemlocketError) -> str:
    return json.dumps({"event": "error", "code": error.code, "message": error.message}) + "\n"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
