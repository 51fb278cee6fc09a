"""The ``[recall] embedding.*`` settings. Contract: recall.md 14."""

from __future__ import annotations

import dataclasses
import enum
from pathlib import Path

from memory_manager.recall.models.sources import DEFAULT_MODEL


class BackendChoice(enum.StrEnum):
    AUTO = "auto"
    ORT = "ort"
    ST = "st"
    OFF = "off"


@dataclasses.dataclass(frozen=True, slots=True)
class EmbeddingSettings:
    """``model_path`` is a sentence-transformers folder of the user's and wins over ``model``."""

    backend: BackendChoice = BackendChoice.AUTO
    model: str = DEFAULT_MODEL
    model_path: Path | None = None
    idle_stop_seconds: float = 600.0
