"""The embedding worker: ``python -m memory_manager.recall.worker --parent PID FOLDER``.

Contract: recall.md 2. Speaks frames over stdin and stdout; holds no key, opens no socket. The only
process of the product, beside the one that prepares models, that imports a model library.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from memory_manager.recall.models.installed import PreparedModel, read_model, verify_model
from memory_manager.recall.worker_backends import WorkerBackend, load_backend
from memory_manager.recall.worker_loop import serve


def main(
    arguments: Sequence[str],
    load_model: Callable[[PreparedModel], WorkerBackend] = load_backend,
) -> None:
    """Serve the model in FOLDER until the daemon goes away. Tests bring a backend of their own."""
    parser = argparse.ArgumentParser(prog="memlocket --embed-worker")
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args(arguments)
    folder: Path = options.folder

    def load() -> WorkerBackend:
        model = read_model(folder)
        verify_model(model)
        return load_model(model)

    serve(load, options.parent)


if __name__ == "__main__":
    main(sys.argv[1:])
