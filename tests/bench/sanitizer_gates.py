"""Accuracy and speed of the sanitizer on generated samples (redaction.md 15.2, 15.4, 15.5).

    python tests/bench/sanitizer_gates.py [--seed WORD] [--json]

The seed changes every value. Compare times with the baseline of the same run.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from secret_carriers import carriers
from secret_look_alikes import look_alikes
from secrets_generator import CONTEXTS, LABELLED, TOKENS, Maker, Sample, disguises, leaked

from memory_manager.security.redact import sanitize_server_write

CHUNK_CHARACTERS = 1000
MAX_CHUNKS = 1500


def positives(seed: str) -> Iterable[tuple[str, Sample]]:
    """(text, sample) of every format in every context, and every carrier."""
    make = Maker(seed)
    for draw in TOKENS.values():
        for context in CONTEXTS.values():
            sample = draw(make)
            yield context.format(sample.text), sample
    for draw in LABELLED.values():
        for _ in range(10):
            sample = draw(make)
            yield sample.text, sample
    for sample in carriers(make).values():
        yield sample.text, sample


def accuracy(seed: str) -> dict[str, float]:
    """Counts, and shares 0..1 of what was removed, kept, lost and raised without need."""
    removed = high = high_removed = idempotent = kept = keep = total = 0
    for text, sample in positives(seed):
        cleaned = sanitize_server_write(text).text
        gone = not any(leaked(core, cleaned) for core in sample.cores)
        total += 1
        removed += gone
        high += sample.severity == "high_risk"
        high_removed += gone and sample.severity == "high_risk"
        idempotent += sanitize_server_write(cleaned).text is cleaned
        keep += len(sample.keep)
        kept += sum(part in cleaned for part in sample.keep)
    make = Maker(seed + "-disguises")
    hidden = hidden_removed = 0
    for draw in TOKENS.values():
        sample = draw(make)
        if sample.keep or not sample.self_identifying:
            continue
        for text, forms in disguises(sample, make).values():
            hidden += 1
            cleaned = sanitize_server_write(text).text
            hidden_removed += not any(leaked(form, cleaned) for form in forms)
    harmless = [t for n in range(20) for t in look_alikes(Maker(f"{seed}-{n}")).values()]
    alarms = sum(sanitize_server_write(text).applied for text in harmless)
    return {
        "positives": total,
        "removed": removed / total,
        "high_risk_removed": high_removed / high,
        "idempotent": idempotent / total,
        "context_lost": 1 - kept / keep,
        "disguises": hidden,
        "disguises_removed": hidden_removed / hidden,
        "look_alikes": len(harmless),
        "false_alarms": alarms / len(harmless),
    }


def harmless_chunks() -> list[str]:
    """1000-character pieces of the standard library: developer text nobody tuned for."""
    pieces: list[str] = []
    for path in sorted(Path(json.__file__).parent.parent.glob("*.py")):
        text = path.read_text(encoding="utf-8", errors="replace")
        pieces += [
            text[at : at + CHUNK_CHARACTERS]
            for at in range(0, len(text) - CHUNK_CHARACTERS, CHUNK_CHARACTERS * 3)
        ]
    return pieces[:MAX_CHUNKS]


def _microseconds(call: Callable[[str], object], pieces: list[str]) -> list[float]:
    spent: list[float] = []
    for piece in pieces:
        started = time.thread_time()
        call(piece)
        spent.append((time.thread_time() - started) * 1e6)
    return sorted(spent)


def speed() -> dict[str, float]:
    """Thread CPU microseconds per 1000 characters, beside a naive search for 456 keywords."""
    pieces = harmless_chunks()
    make = Maker("keywords")
    keywords = [make.of("abcdefghijklmnopqrstuvwxyz_", 6) for _ in range(456)]
    naive = _microseconds(lambda text: [word in text for word in keywords], pieces)
    ours = _microseconds(sanitize_server_write, pieces)
    edits = sum(sanitize_server_write(piece).applied for piece in pieces)
    return {
        "chunks": len(pieces),
        "p50_us": ours[len(ours) // 2],
        "mean_us": sum(ours) / len(ours),
        "p99_us": ours[len(ours) * 99 // 100],
        "naive_keywords_p50_us": naive[len(naive) // 2],
        "edits_per_mb": edits / (len(pieces) * CHUNK_CHARACTERS) * 1e6,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", default="public")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    figures = {**accuracy(options.seed), **speed()}
    if options.json:
        print(json.dumps(figures))
        return
    for name, value in figures.items():
        print(f"{name:24} {value:10.4f}" if value < 10 else f"{name:24} {value:10.0f}")


if __name__ == "__main__":
    main()
