"""JSON as a memory can hold it: without NaN and infinities, which the daemon would refuse."""

from __future__ import annotations

import json
import math
from typing import NoReturn


def load_json(text: str | bytes) -> object:
    """The value of a JSON text; ValueError (or RecursionError) for anything else."""
    loaded: object = json.loads(text, parse_constant=_refuse, parse_float=_finite)
    return loaded


def _refuse(_name: str) -> NoReturn:
    raise ValueError("not a JSON number")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError("a number out of range")
    return value
