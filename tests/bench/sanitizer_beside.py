"""The sanitizer beside the public scanners that are installed, in one run (redaction.md 14, 15.6).

    python tests/bench/sanitizer_beside.py [--seed WORD] [--share 0..1]

For each, and for both tiers of ours: share of generated secrets removed, share of harmless texts
altered, p50 of the CPU time for a KB of notes and of code. Then what Kingfisher, when installed,
still finds in what our sanitizer has cleaned.
"""

from __future__ import annotations

import argparse
import collections
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from public_scanners import Cleaner, installed, kingfisher_scan, scanners
from sanitizer_speed import clean_pieces, memory_pieces, microseconds
from secrets_generator_draw import Draw, remains
from secrets_generator_harmless import harmless
from secrets_generator_sets import positives

from memory_manager.security.redact import anchors, sanitize_server_write

SPEED_PIECES = 150  # of 1000 characters: detect-secrets takes milliseconds for each


def ours(text: str) -> str:
    return sanitize_server_write(text).text


def line(name: str, clean: Cleaner, seed: str, share: float) -> str:
    """One scanner's figures."""
    total = removed = 0
    for sample in positives(seed, share):
        total += 1
        removed += not remains(sample, clean(sample.text))
    texts = [text for _, text in harmless(Draw(seed))]
    altered = sum(clean(text) != text for text in texts)
    times = [
        microseconds(clean, pieces[:SPEED_PIECES])[SPEED_PIECES // 2]
        for pieces in (memory_pieces(), clean_pieces())
    ]
    return (
        f"{name:20} {removed / total:8.3f} {altered / len(texts):8.3f}"
        f" {times[0]:14.0f} {times[1]:14.0f}"
    )


def still_found(seed: str, share: float) -> collections.Counter[str]:
    """Rules of Kingfisher that fire on a part of a secret in our cleaned text, with counts."""
    scan = kingfisher_scan()
    found: collections.Counter[str] = collections.Counter()
    for sample in positives(seed, share):
        cleaned = ours(sample.text)
        for rule, secret in scan(cleaned):
            if (
                "[REDACTED" not in secret
                and secret not in "[REDACTED]"
                and "REDACTED" not in secret
            ):
                found[rule] += 1
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", default="beside")
    parser.add_argument("--share", type=float, default=0.03)
    options = parser.parse_args()
    print(f"{'':20} {'removed':>8} {'altered':>8} {'us/KB of notes':>14} {'of code':>14}")
    print(line("memlocket, portable", ours, options.seed, options.share))
    if anchors.native_is_possible():
        anchors.use_native_database(anchors.compile_native_database())
        print(line("memlocket, native", ours, options.seed, options.share))
    with scanners() as others:
        for name, clean in others.items():
            print(line(name, clean, options.seed, options.share))
    if installed("kingfisher_sdk"):
        rules = still_found(options.seed, options.share)
        print("kingfisher on our output:", dict(rules.most_common()) or "nothing")
    return 0


if __name__ == "__main__":
    sys.exit(main())
