"""Times of the sanitizer and their gates (redaction.md 15.5).

No program of its own: ``sanitizer_gates.py`` runs the gates, and ``sanitizer_beside.py`` takes its
texts from here.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from hostile_texts import SHAPES, shaped
from labelled_sets import locomo
from memory_corpus import Corpus
from sanitizer_judge import Gate

from memory_manager.security.redact import anchors, sanitize_server_write

PIECE = 1000
MAX_PIECES = 1000
FIRST_CALL = (
    "import time; t = time.thread_time();"
    "from memory_manager.security.redact import sanitize_server_write;"
    "sanitize_server_write('the token is in the vault, see notes of 2025');"
    "print(time.thread_time() - t)"
)


def clean_pieces() -> list[str]:
    """1000-character pieces of the standard library: developer text nobody tuned for."""
    pieces: list[str] = []
    for path in sorted(Path(json.__file__).parent.parent.glob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        pieces += [text[at : at + PIECE] for at in range(0, len(text) - PIECE, PIECE * 3)]
    return pieces[:MAX_PIECES]


def memory_pieces() -> list[str]:
    """Notes of about 1000 characters, denser than most: many in one, full of identifiers, seven
    in eight pieces not plain ASCII.
    """
    contents = (f"- {memory.content}" for memory in Corpus(7).memories(20 * MAX_PIECES))
    return list(itertools.islice(_pieces(contents), MAX_PIECES))


def conversation_pieces(file: Path) -> list[str]:
    """Turns of the conversations of a LoCoMo file in pieces of about 1000 characters."""
    turns = (row.content for space in locomo(file) for row in space.rows)
    return list(itertools.islice(_pieces(turns), MAX_PIECES))


def _pieces(texts: Iterable[str]) -> Iterator[str]:
    lines: list[str] = []
    for text in texts:
        lines.append(text)
        if sum(map(len, lines)) >= PIECE:
            yield "\n".join(lines)
            lines = []


def microseconds(call: Callable[[str], object], pieces: list[str]) -> list[float]:
    """Thread CPU time for a KB of each piece, sorted."""
    return sorted(_microseconds(call, piece) * PIECE / len(piece) for piece in pieces)


def first_call_seconds() -> float:
    """Thread CPU seconds of import and first call in a fresh process, the best of three."""
    return min(
        float(subprocess.check_output([sys.executable, "-c", FIRST_CALL], text=True))
        for _ in range(3)
    )


def worst_seconds(size: int) -> tuple[float, str]:
    """The dearest hostile text of about ``size`` characters: thread CPU seconds and its name."""
    found = (0.0, "")
    for name in SHAPES:
        text = shaped(name, size)
        spent = min(_seconds(text) for _ in range(2))
        found = max(found, (spent, name))
    return found


def _seconds(text: str) -> float:
    started = time.thread_time()
    sanitize_server_write(text)
    return time.thread_time() - started


def speed_gates(conversations: Path | None = None) -> list[Gate]:
    """Times of the portable tier and, where it can run, of the native one after it."""
    sets = {"note": memory_pieces()}
    if conversations is not None:
        sets["conversation"] = conversation_pieces(conversations)
    gates = _tier_gates("portable", sets, p50=250, p99=1500, least=3, worst=1.0)
    if anchors.native_is_possible():
        anchors.use_native_database(anchors.compile_native_database())
        gates += _tier_gates("native", sets, p50=30, p99=300, least=20, worst=0.25)
    gates.append(Gate("import and first call, seconds", first_call_seconds(), 0.15, False))
    return gates


def _tier_gates(
    tier: str, sets: Mapping[str, list[str]], *, p50: float, p99: float, least: float, worst: float
) -> list[Gate]:
    gates: list[Gate] = []
    for name, pieces in sets.items():
        spent, per_second = _times(pieces)
        gates += [
            Gate(f"{name} of 1 KB, p50 microseconds", spent[len(spent) // 2], p50, False, tier),
            Gate(
                f"{name} of 1 KB, p99 microseconds", spent[len(spent) * 99 // 100], p99, False, tier
            ),
            Gate(f"throughput of {name}s, MB/s", per_second, least, True, tier),
        ]
    code, _ = _times(clean_pieces())
    small, small_name = worst_seconds(20_000)
    large, large_name = worst_seconds(200_000)
    return [
        *gates,
        # code is denser in labels, quotes and escapes than what agents keep
        Gate("code of 1 KB, p50 microseconds", code[len(code) // 2], 2.5 * p50, False, tier),
        Gate("worst 20 KB, seconds", small, 0.25, False, f"{tier}: {small_name}"),
        Gate("worst 200 KB, seconds", large, worst, False, f"{tier}: {large_name}"),
    ]


def _times(pieces: list[str]) -> tuple[list[float], float]:
    """Microseconds for a KB of each piece, sorted, and MB/s; the better of three goes."""
    best: tuple[list[float], float] = ([], 0.0)
    for _ in range(3):
        spent = [_microseconds(sanitize_server_write, piece) for piece in pieces]
        per_second = sum(map(len, pieces)) / sum(spent)
        if per_second > best[1]:
            pairs = zip(spent, pieces, strict=True)
            best = (sorted(one * PIECE / len(piece) for one, piece in pairs), per_second)
    return best


def _microseconds(call: Callable[[str], object], piece: str) -> float:
    started = time.thread_time()
    call(piece)
    return (time.thread_time() - started) * 1e6
