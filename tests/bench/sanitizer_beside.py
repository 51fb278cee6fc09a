"""The sanitizer beside the public scanners that are installed, in one run (redaction.md 14, 15.6).

    python tests/bench/sanitizer_beside.py [--seed WORD] [--share 0..1]

For each: share of generated secrets removed, share of harmless texts altered, time per KB of clean
text. Then what Kingfisher, when installed, still finds in what our sanitizer has cleaned.
"""

from __future__ import annotations

import argparse
import collections
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from public_scanners import Cleaner, installed, kingfisher_scan, scanners
from sanitizer_speed import clean_pieces, microseconds
from secrets_generator_draw import Draw, remains
from secrets_generator_harmless import harmless
from secrets_generator_sets import positives

from memory_manager.security.redact import sanitize_server_write

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
    spent = microseconds(clean, clean_pieces()[:SPEED_PIECES])
    mean = sum(spent) / len(spent)
    return (
        f"{name:16} {removed / total:8.3f} {altered / len(texts):8.3f}"
        f" {spent[len(spent) // 2]:10.0f} {mean:10.0f}"
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
    print(f"{'':16} {'removed':>8} {'altered':>8} {'p50 us/KB':>10} {'mean':>10}")
    print(line("memlocket", ours, options.seed, options.share))
    with scanners() as others:
        for name, clean in others.items():
            print(line(name, clean, options.seed, options.share))
    if installed("kingfisher_sdk"):
        rules = still_found(options.seed, options.share)
        print("kingfisher on our output:", dict(rules.most_common()) or "nothing")
    return 0


if __name__ == "__main__":
    sys.exit(main())
