"""A folder whose path leaves room for that of a Unix socket, wherever tests keep their files."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def short_folder() -> Iterator[Path]:
    """Private and empty; gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="ml-", dir="/tmp") as name:
        yield Path(name)
