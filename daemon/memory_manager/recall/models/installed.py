"""Prepared models on disk: find one, verify its files, tidy up after an interrupted preparation.

Contract: recall.md 3.2. Every file a manifest lists is hashed before it is loaded, unless its size
and time equal those of the last good check.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import importlib.util
import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from memory_manager.base.private_files import write_private
from memory_manager.recall.models.errors import ModelDamaged
from memory_manager.recall.models.manifest import (
    MANIFEST_NAME,
    Backend,
    FileRecord,
    Manifest,
    parse_manifest,
)
from memory_manager.recall.models.settings import BackendChoice, EmbeddingSettings
from memory_manager.recall.models.sources import DEFAULT_MODEL, FALLBACK_MODEL, id_of_folder

TEMPORARY_SUFFIX = ".tmp"
ST_SUFFIX = "-st"
"""Folder suffix of a model that sentence-transformers itself runs."""
_CHOICE_NAME = "chosen"
_MODEL_ID = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}")
_CHECKED_NAME = "checked.json"
_MAX_MANIFEST_BYTES = 1 << 20
_RUNTIME_MODULES = {
    Backend.ORT: ("onnxruntime", "tokenizers"),
    Backend.ST: ("sentence_transformers", "torch"),
}


@dataclasses.dataclass(frozen=True, slots=True)
class PreparedModel:
    """A folder and its manifest; ``written_ns`` tells a fresh preparation from the one before."""

    folder: Path
    manifest: Manifest
    written_ns: int = 0

    @property
    def model_key(self) -> str:
        return self.manifest.model_key


def read_model(folder: Path) -> PreparedModel:
    """The model in ``folder`` by its manifest alone; FileNotFoundError or ModelDamaged."""
    with (folder / MANIFEST_NAME).open("rb") as stream:
        raw = stream.read(_MAX_MANIFEST_BYTES)
        written_ns = os.fstat(stream.fileno()).st_mtime_ns
    try:
        return PreparedModel(folder, parse_manifest(raw.decode("utf-8")), written_ns)
    except UnicodeDecodeError:
        raise ModelDamaged(f"{MANIFEST_NAME} of the embedding model cannot be read.") from None


def runtime_is_installed(backend: Backend) -> bool:
    """Whether the libraries can be found; imports none of them."""
    return all(importlib.util.find_spec(name) is not None for name in _RUNTIME_MODULES[backend])


def find_model(models_dir: Path, settings: EmbeddingSettings) -> PreparedModel | None:
    """The prepared model that the settings ask for, else None. ModelDamaged for a bad manifest.

    ``auto`` prefers ``ort`` to ``st``; the English fallback stands in for an unprepared default.
    What the user chose goes before the default.
    """
    if settings.backend is BackendChoice.OFF:
        return None
    for folder in _wanted_folders(models_dir, settings):
        try:
            model = read_model(folder)
        except FileNotFoundError:
            continue
        if settings.backend in (BackendChoice.AUTO, model.manifest.backend.value):
            return model
    return None


def _wanted_folders(models_dir: Path, settings: EmbeddingSettings) -> Iterator[Path]:
    if settings.model_path is not None:
        names = [id_of_folder(settings.model_path)]
    elif settings.model == DEFAULT_MODEL:
        choice = chosen_model(models_dir)
        names = [*([choice] if choice else []), DEFAULT_MODEL, FALLBACK_MODEL]
    else:
        names = [settings.model]
    for name in names:
        yield models_dir / name
        yield models_dir / (name + ST_SUFFIX)


def choose_model(models_dir: Path, model_id: str | None) -> None:
    """Use this model from now on, while it is prepared; None: the default again."""
    if model_id is None:
        (models_dir / _CHOICE_NAME).unlink(missing_ok=True)
    else:
        write_private(models_dir / _CHOICE_NAME, model_id.encode())


def chosen_model(models_dir: Path) -> str | None:
    """The id of the model that the user chose."""
    try:
        with (models_dir / _CHOICE_NAME).open("rb") as stream:
            found = stream.read(200).decode("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
    return found if _MODEL_ID.fullmatch(found) else None


def find_model_by_key(models_dir: Path, model_key: str) -> PreparedModel | None:
    """Any prepared model with this key, for queries while another one is being built."""
    for model in list_models(models_dir):
        if model.model_key == model_key:
            return model
    return None


def list_models(models_dir: Path) -> list[PreparedModel]:
    """Every prepared model with a readable manifest, by folder name."""
    found: list[PreparedModel] = []
    if models_dir.is_dir():
        for folder in sorted(models_dir.iterdir()):
            if not folder.name.endswith(TEMPORARY_SUFFIX):
                with contextlib.suppress(OSError, ModelDamaged):
                    found.append(read_model(folder))
    return found


@dataclasses.dataclass(frozen=True, slots=True)
class _Stamp:
    """What must be unchanged for an earlier hash to count."""

    bytes: int
    mtime_ns: int


def damaged_files(model: PreparedModel) -> list[str]:
    """Names of files that are absent or differ from the manifest; hashes every one (doctor)."""
    return [
        name
        for name, record in model.manifest.files.items()
        if _found(model.folder / name) != record
    ]


def verify_model(model: PreparedModel) -> None:
    """Raise ModelDamaged naming the first bad file; hashes only what changed since last time."""
    checked = _read_checked(model.folder)
    stamps: dict[str, _Stamp] = {}
    for name, record in model.manifest.files.items():
        stamp = _stamp_of(model.folder / name)
        if (
            stamp is None
            or stamp.bytes != record.bytes
            or (
                checked.get(name) != (record.sha256, stamp)
                and _found(model.folder / name) != record
            )
        ):
            raise ModelDamaged(f"The file {name} of the embedding model is damaged.", file=name)
        stamps[name] = stamp
    record_check(model.folder, model.manifest, stamps)


def record_check(
    folder: Path, manifest: Manifest, stamps: Mapping[str, _Stamp] | None = None
) -> None:
    """Remember size and time of files that were just hashed, or just written by us."""
    found: dict[str, tuple[str, int, int]] = {}
    for name, record in manifest.files.items():
        stamp = stamps.get(name) if stamps is not None else _stamp_of(folder / name)
        if stamp is not None:
            found[name] = (record.sha256, stamp.bytes, stamp.mtime_ns)
    text = json.dumps(found)
    path = folder / _CHECKED_NAME
    with contextlib.suppress(OSError, UnicodeDecodeError):
        if path.read_text("utf-8") == text:
            return
    # a model folder on a read-only disk is hashed at every start instead
    with contextlib.suppress(OSError):
        write_private(path, text.encode(), durable=False)


def _read_checked(folder: Path) -> Mapping[str, tuple[str, _Stamp]]:
    try:
        value = cast(
            "dict[str, list[object]]", json.loads((folder / _CHECKED_NAME).read_text("utf-8"))
        )
        return {
            name: (str(sha256), _Stamp(int(cast("int", size)), int(cast("int", mtime_ns))))
            for name, (sha256, size, mtime_ns) in value.items()
        }
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _stamp_of(path: Path) -> _Stamp | None:
    try:
        info = path.stat()
    except OSError:
        return None
    return _Stamp(info.st_size, info.st_mtime_ns)


def _found(path: Path) -> FileRecord | None:
    try:
        return file_record(path)
    except OSError:
        return None


def file_record(path: Path) -> FileRecord:
    """Hash and size of a file that was just written or is about to be used."""
    with path.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        return FileRecord(digest, os.fstat(stream.fileno()).st_size)


def remove_leftovers(models_dir: Path) -> None:
    """Delete the ``.tmp`` folders of interrupted preparations; only under the preparation lock."""
    if models_dir.is_dir():
        for folder in models_dir.iterdir():
            if folder.name.endswith(TEMPORARY_SUFFIX) and folder.is_dir():
                shutil.rmtree(folder, ignore_errors=True)


class InstalledModels:
    """What the daemon's embedder asks for models (worker_embedder.ModelLocator)."""

    def __init__(self, models_dir: Path, settings: EmbeddingSettings) -> None:
        self._models_dir = models_dir
        self._settings = settings

    def find(self) -> PreparedModel | None:
        """None also when the runtime that the model needs is not installed."""
        model = find_model(self._models_dir, self._settings)
        if model is None or not runtime_is_installed(model.manifest.backend):
            return None
        return model

    def by_key(self, model_key: str) -> PreparedModel | None:
        return find_model_by_key(self._models_dir, model_key)
