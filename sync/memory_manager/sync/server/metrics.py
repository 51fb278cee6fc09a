"""Counters in Prometheus' text form: of the whole process, never of one vault (sync.md 10)."""

from __future__ import annotations

import bisect
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)

_COUNTERS: Final[Mapping[str, str]] = {
    "rows_pushed": "Log rows accepted.",
    "rows_pulled": "Log rows sent.",
    "body_bytes_pushed": "Bytes of accepted push bodies.",
    "body_bytes_pulled": "Bytes of sent pages.",
    "sessions_opened": "Sessions opened.",
    "logins_refused": "Logins refused.",
    "pokes_sent": "Pokes sent to waiting devices.",
}


class Metrics:
    """What is counted. Label values are route templates, statuses and codes: a closed set."""

    def __init__(self) -> None:
        self._requests: Counter[tuple[str, str, int]] = Counter()
        self._refusals: Counter[str] = Counter()
        self._counters: Counter[str] = Counter(dict.fromkeys(_COUNTERS, 0))
        self._buckets = [0] * (len(SECONDS) + 1)
        self._seconds = 0.0
        self._gauges: dict[str, tuple[str, Callable[[], float]]] = {}

    def count(self, name: str, units: int = 1) -> None:
        """Add to a counter of this module's table."""
        if name not in _COUNTERS:
            raise KeyError(name)
        self._counters[name] += units

    def gauge(self, name: str, what: str, value: Callable[[], float]) -> None:
        """A number that is asked for whenever metrics are read."""
        self._gauges[name] = (what, value)

    def request(self, method: str, route: str, status: int, seconds: float) -> None:
        """One answered request; ``route`` is the template, never the path."""
        self._requests[method, route, status] += 1
        self._buckets[bisect.bisect_left(SECONDS, seconds)] += 1
        self._seconds += seconds

    def refusal(self, code: str) -> None:
        self._refusals[code] += 1

    def text(self) -> str:
        """The whole exposition."""
        lines: list[str] = []
        for name, what in _COUNTERS.items():
            _family(lines, f"{name}_total", "counter", what, [("", self._counters[name])])
        for name, (what, value) in self._gauges.items():
            _family(lines, name, "gauge", what, [("", value())])
        requests = [
            (f'{{method="{method}",route="{route}",status="{status}"}}', count)
            for (method, route, status), count in sorted(self._requests.items())
        ]
        _family(lines, "http_requests_total", "counter", "Answered requests.", requests)
        refusals = [(f'{{code="{code}"}}', n) for code, n in sorted(self._refusals.items())]
        _family(lines, "refusals_total", "counter", "Refusals by their code.", refusals)
        self._histogram(lines)
        return "\n".join(lines) + "\n"

    def _histogram(self, lines: list[str]) -> None:
        name, total = "memlocket_server_request_seconds", 0
        lines += [f"# HELP {name} Time to answer.", f"# TYPE {name} histogram"]
        for edge, count in zip((*map(str, SECONDS), "+Inf"), self._buckets, strict=True):
            total += count
            lines.append(f'{name}_bucket{{le="{edge}"}} {total}')
        lines += [f"{name}_sum {self._seconds:.6f}", f"{name}_count {total}"]


def _family(
    lines: list[str], name: str, kind: str, what: str, samples: Sequence[tuple[str, float]]
) -> None:
    full = f"memlocket_server_{name}"
    lines += [f"# HELP {full} {what}", f"# TYPE {full} {kind}"]
    lines += [f"{full}{labels} {_number(value)}" for labels, value in samples]


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
