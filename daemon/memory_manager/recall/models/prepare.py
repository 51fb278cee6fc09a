"""Prepare a model: start the preparing subprocess, relay its progress, return the result.

Contract: recall.md 3.3. This side imports no model library; it is what the CLI and the daemon call.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import cast

from memory_manager.base.errors import MemlocketError
from memory_manager.base.private_files import ensure_private_directory
from memory_manager.recall.models.errors import (
    ModelDamaged,
    ModelRefused,
    ModelSourceMissing,
    ModelUnknown,
    PreparationFailed,
    RuntimeMissing,
)
from memory_manager.recall.models.installed import (
    PreparedModel,
    read_model,
    remove_leftovers,
    runtime_is_installed,
)
from memory_manager.recall.models.manifest import Backend
from memory_manager.recall.models.settings import BackendChoice
from memory_manager.recall.models.sources import KNOWN_MODELS, known_model, source_folder
from memory_manager.recall.process_environment import child_environment

_LOCK_NAME = "prepare.lock"
_ERRORS: tuple[type[MemlocketError], ...] = (
    ModelDamaged, ModelRefused, ModelSourceMissing, ModelUnknown, RuntimeMissing,
)  # fmt: skip


@dataclasses.dataclass(frozen=True, slots=True)
class PrepareStep:
    """``name`` is one of verify, rebuild, load, export, quantise, centre, check, install."""

    name: str
    number: int  # from 1
    of: int


Progress = Callable[[PrepareStep], None]


def prepare(
    model: str | Path,
    models_dir: Path,
    progress: Progress = lambda step: None,
    *,
    backend: BackendChoice = BackendChoice.AUTO,
    cancelled: threading.Event | None = None,
) -> PreparedModel:
    """Prepare a known model by its id, or a sentence-transformers folder by its absolute path.

    Blocks for half a minute and more: call it in a thread. The old model, if there is one, stays in
    place until the new one is complete. Raises ModelUnknown, ModelSourceMissing, RuntimeMissing,
    ModelDamaged, ModelRefused or PreparationFailed; nothing is left behind then.
    """
    if isinstance(model, str):
        source_folder(known_model(model))
    if not runtime_is_installed(Backend.ST):
        raise RuntimeMissing()
    ensure_private_directory(models_dir)
    with _preparation_lock(models_dir):
        remove_leftovers(models_dir)
        try:
            return _run(model, models_dir, progress, backend, cancelled)
        finally:
            remove_leftovers(models_dir)


def prepare_best(models_dir: Path, progress: Progress = lambda step: None) -> PreparedModel:
    """Prepare the first known model whose weights are installed: multilingual, else English."""
    for model_id in KNOWN_MODELS:
        with contextlib.suppress(ModelSourceMissing):
            return prepare(model_id, models_dir, progress)
    raise ModelSourceMissing()


def tidy_models(models_dir: Path) -> None:
    """At the daemon's start: remove what an interrupted preparation left, unless one is running."""
    if models_dir.is_dir():
        with contextlib.suppress(PreparationFailed), _preparation_lock(models_dir):
            remove_leftovers(models_dir)


@contextlib.contextmanager
def _preparation_lock(models_dir: Path) -> Generator[None]:
    """One preparation at a time; the kernel drops the lock when its holder dies."""
    descriptor = os.open(
        models_dir / _LOCK_NAME, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600
    )
    try:
        if sys.platform != "win32":
            import fcntl

            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise PreparationFailed("Another process is preparing a model.") from None
        yield
    finally:
        os.close(descriptor)


def _run(
    model: str | Path,
    models_dir: Path,
    progress: Progress,
    backend: BackendChoice,
    cancelled: threading.Event | None,
) -> PreparedModel:
    command = [sys.executable, "-P", "-m", "memory_manager.recall.models.prepare_worker"]
    command += ["--parent", str(os.getpid()), "--backend", backend.value]
    command += ["--path" if isinstance(model, Path) else "--id", str(model), str(models_dir)]
    with subprocess.Popen(  # noqa: S603  # our own module and two paths, no shell
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=child_environment(os.environ),
        start_new_session=True,
    ) as process:
        stop_watch = _kill_when(cancelled, process)
        try:
            result = _relay(cast("Sequence[bytes]", process.stdout), progress)
        finally:
            stop_watch.set()
            if process.poll() is None:
                process.kill()
    if result is None:
        raise PreparationFailed()
    if (name := result.get("folder")) is not None:
        return read_model(models_dir / str(name))
    for error in _ERRORS:
        if error.code == result.get("code"):
            raise error(str(result.get("message")))
    raise PreparationFailed(str(result.get("message")))


def _kill_when(
    cancelled: threading.Event | None, process: subprocess.Popen[bytes]
) -> threading.Event:
    finished = threading.Event()

    def watch(event: threading.Event) -> None:
        while not finished.is_set():
            if event.wait(0.2):
                process.kill()
                return

    if cancelled is not None:
        threading.Thread(target=watch, args=(cancelled,), daemon=True).start()
    return finished


def _relay(lines: Sequence[bytes], progress: Progress) -> dict[str, object] | None:
    for line in lines:
        try:
            event = cast("dict[str, object]", json.loads(line))
        except ValueError:
            continue  # something a library printed
        if event.get("event") == "step":
            progress(
                PrepareStep(str(event["name"]), int(str(event["number"])), int(str(event["of"])))
            )
        elif event.get("event") in ("done", "error"):
            return event
    return None
