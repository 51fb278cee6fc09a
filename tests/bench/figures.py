"""Numbers of a bench run: percentiles, process costs, and one table for people or JSON."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import platform
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import psutil


def percentile(values: Sequence[float], share: float) -> float:
    """Nearest rank; NaN without values."""
    if not values:
        return math.nan
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


@dataclasses.dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds of one operation."""

    p50_ms: float
    p95_ms: float
    p99_ms: float
    count: int


def latency(seconds: Sequence[float]) -> Latency:
    scaled = [value * 1000 for value in seconds]
    return Latency(
        *(round(percentile(scaled, share), 3) for share in (0.5, 0.95, 0.99)), len(scaled)
    )


def timed(operation: Callable[[], object]) -> float:
    begun = time.perf_counter()
    operation()
    return time.perf_counter() - begun


def cpu_timed(operation: Callable[[], object]) -> float:
    """CPU seconds of this thread; other load distorts them less than it does the clock."""
    begun = time.thread_time()
    operation()
    return time.thread_time() - begun


def median_seconds(operation: Callable[[], object], repeats: int) -> float:
    return percentile([timed(operation) for _ in range(repeats)], 0.5)


class ProcessCost:
    """CPU seconds and memory of some processes; the ones that end in between are left out."""

    def __init__(self, processes: Iterable[psutil.Process]) -> None:
        self._processes = list(processes)

    def cpu_seconds(self) -> float:
        total = 0.0
        for process in self._processes:
            times = process.cpu_times()
            total += times.user + times.system
        return total

    def rss_mb(self) -> float:
        return round(sum(x.memory_info().rss for x in self._processes) / 1e6, 1)


def machine() -> dict[str, object]:
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    return {
        "cpu": name,
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "load_average": [round(x, 2) for x in os.getloadavg()],
    }


def plain(value: object) -> object:
    """What ``json.dumps`` takes."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {k: plain(v) for k, v in dataclasses.asdict(value).items()}
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return None if math.isnan(value) else round(value, 4)
    return value


def show(report: dict[str, object], as_json: bool) -> str:
    document = plain(report)
    if as_json:
        return json.dumps(document, ensure_ascii=False, indent=2)
    return "\n".join(_lines(document, ""))


def _lines(value: object, indent: str) -> Iterable[str]:
    assert isinstance(value, dict)
    for key, item in value.items():
        if isinstance(item, dict) and item and all(not isinstance(x, dict) for x in item.values()):
            yield f"{indent}{key:<34} " + "  ".join(f"{k}={v}" for k, v in item.items())
        elif isinstance(item, dict):
            yield f"{indent}{key}"
            yield from _lines(item, indent + "  ")
        else:
            yield f"{indent}{key:<34} {item}"
