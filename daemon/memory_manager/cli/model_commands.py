"""``memlocket model`` and ``memlocket embeddings``: recall by meaning, prepared on this machine."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from memory_manager.cli.arguments import Commands, add_command, add_group
from memory_manager.cli.context import Context
from memory_manager.cli.errors import EXIT_OK, FileProblem
from memory_manager.cli.output import facts, table

if TYPE_CHECKING:
    from memory_manager.recall.models.installed import PreparedModel

_NEXT = "A running memory service takes it up by itself within seconds."


def register(commands: Commands, shared: argparse.ArgumentParser) -> None:
    model = add_group(commands, shared, "model", "embedding models")
    prepare = add_command(
        model, shared, "prepare", run_prepare, "prepare a model from a package or a folder",
        "Works offline. Takes about a minute; the result does not need torch. FOLDER holds a\n"
        "sentence-transformers model of your own. What you name is used from now on; without a\n"
        "name it is the best one that is here.",
    )  # fmt: skip
    prepare.add_argument(
        "id", metavar="ID|FOLDER", nargs="?", help="default: the best one that is here"
    )
    prepare.add_argument(
        "--if-missing", action="store_true", help="nothing to do if one is prepared already"
    )
    add_command(model, shared, "status", run_status, "which models are prepared")
    embeddings = add_group(commands, shared, "embeddings", "recall by meaning")
    install = add_command(
        embeddings, shared, "install", run_install, "install what recall by meaning needs",
        "Installs torch without CUDA and sentence-transformers into this Python environment, then\n"
        "prepares the multilingual model. About 1.4 GB on disk, a few minutes.",
    )  # fmt: skip
    install.add_argument(
        "--local-only", action="store_true", help="torch only from a wheel on this machine"
    )
    install.add_argument("--no-prepare", action="store_true", help="do not prepare a model yet")
    add_command(embeddings, shared, "status", run_status, "which models are prepared")


def run_prepare(arguments: argparse.Namespace, context: Context) -> int:
    from memory_manager.recall.models.installed import find_model
    from memory_manager.recall.models.settings import EmbeddingSettings

    folder = context.directories.models
    if arguments.if_missing:
        known = find_model(folder, EmbeddingSettings())
        if known is not None:
            context.console.result(_as_json(known), f"Prepared already: {known.model_key}")
            return EXIT_OK
    made = _prepare(arguments.id, context)
    context.console.result(_as_json(made), f"Prepared: {made.model_key}")
    context.console.note(_NEXT)
    return EXIT_OK


def _prepare(named: str | None, context: Context) -> PreparedModel:
    """Prepare what was named, and use it from now on."""
    from memory_manager.base.private_files import ensure_private_directory
    from memory_manager.recall.models.installed import choose_model
    from memory_manager.recall.models.prepare import PrepareStep, prepare, prepare_best

    ensure_private_directory(context.directories.data)
    with context.console.progress("prepare", None, "steps") as advance:

        def step(done: PrepareStep) -> None:
            advance(1)

        models = context.directories.models
        if named is None:
            made = prepare_best(models, step)
            choose_model(models, None)
            return made
        made = prepare(_folder(named) or named, models, step)
        choose_model(models, made.manifest.id)
        return made


def _folder(named: str) -> Path | None:
    """The folder that is meant; None for the id of a model."""
    from memory_manager.recall.models.sources import KNOWN_MODELS

    path = Path(named)
    if named in KNOWN_MODELS or not (path.is_dir() or "/" in named or os.sep in named):
        return None
    if not path.is_dir():
        raise FileProblem(f"There is no folder {named}.")
    return path.resolve()


def _as_json(model: PreparedModel) -> dict[str, object]:
    return {
        "id": model.folder.name,
        "model_key": model.model_key,
        "backend": str(model.manifest.backend),
        "folder": str(model.folder),
    }


def run_status(arguments: argparse.Namespace, context: Context) -> int:
    from memory_manager.recall.models.installed import list_models, runtime_is_installed
    from memory_manager.recall.models.manifest import Backend

    models = list_models(context.directories.models)
    runtimes = {str(backend): runtime_is_installed(backend) for backend in Backend}
    document: dict[str, object] = {
        "models": [_as_json(model) for model in models],
        "runtimes": runtimes,
    }
    rows = [(model.folder.name, str(model.manifest.backend), model.model_key) for model in models]
    text = table(("MODEL", "RUNS WITH", "KEY"), rows) if rows else "No model is prepared."
    installed = facts(
        (name, "installed" if there else "absent") for name, there in runtimes.items()
    )
    context.console.result(document, f"{text}\n\n{installed}")
    if not models:
        context.console.note("Prepare one: memlocket embeddings install")
    return EXIT_OK


def run_install(arguments: argparse.Namespace, context: Context) -> int:
    from memory_manager.recall.models.install import install_embeddings

    with context.console.progress("install", None, "steps") as advance:

        def step(text: str) -> None:
            advance(1)
            context.console.note(text)

        install_embeddings(step, local_only=arguments.local_only, environ=context.environ)
    if arguments.no_prepare:
        context.console.result({"installed": True}, "Installed. Next: memlocket model prepare")
        return EXIT_OK
    made = _prepare(None, context)
    context.console.result(_as_json(made), f"Recall by meaning is ready: {made.model_key}")
    context.console.note(_NEXT)
    return EXIT_OK
