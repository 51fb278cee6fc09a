"""The sanitizer on texts written by others (redaction.md 14.5, 15.4, 15.7): nothing is kept.

    python tests/bench/sanitizer_corpora.py [--seed WORD] [--megabytes N] [--verbose]

Touch rate on texts drawn from a public scanner's patterns (when the scanner is installed), and
edits per MB of installed library code, beside those of the scanners that are installed.
"""

from __future__ import annotations

import argparse
import collections
import random
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from pattern_samples import drawn
from secrets_generator_draw import survives

from memory_manager.security.redact import sanitize_server_write

SUFFIXES = (".py", ".pyi", ".js", ".ts", ".css", ".html", ".md", ".txt", ".json", ".toml", ".yml")
PIECE = 8_000


def library_code(
    megabytes: float, seed: str = "library", *, places: tuple[str, ...] = ("stdlib", "purelib")
) -> Iterator[tuple[Path, str]]:
    """Pieces of installed files in a shuffled order, about so many MB; no tests, no data dumps."""
    roots = [Path(sysconfig.get_paths()[name]) for name in places]
    skipped = () if "purelib" in places else ("site-packages",)
    files = sorted(
        path
        for root in roots
        for path in root.rglob("*")
        if path.suffix in SUFFIXES
        and not {"test", "tests", "idlelib", *skipped}.intersection(path.relative_to(root).parts)
        and path.is_file()
        and path.stat().st_size < 150_000
    )
    random.Random(seed).shuffle(files)
    size = 0
    for path in files:
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        for at in range(0, len(text), PIECE):
            yield path, text[at : at + PIECE]
        size += len(text)
        if size > megabytes * 1e6:
            return


def edits(
    megabytes: float, seed: str, *, places: tuple[str, ...] = ("stdlib", "purelib")
) -> tuple[int, int, list[str]]:
    """Edits, characters read, and a line for each edited piece."""
    count = size = 0
    lines = []
    for path, piece in library_code(megabytes, seed, places=places):
        result = sanitize_server_write(piece)
        size += len(piece)
        if result.applied:
            count += sum(entry.count for entry in result.redactions)
            rules = ", ".join(f"{r.rule} x{r.count}" for r in result.redactions)
            at = result.text.find("[REDACTED")
            lines.append(f"{path.name}: {rules}: {piece[max(0, at - 60) : at + 60]!r}")
    return count, size, lines


def touched(seed: str, rounds: int) -> tuple[dict[str, list[bool]], list[str]]:
    """By rule of the public scanner: was a drawn text touched; and a line for each untouched."""
    found: dict[str, list[bool]] = collections.defaultdict(list)
    lines = []
    removed = 0
    for name, text, secret in drawn(seed, rounds):
        result = sanitize_server_write(text)
        found[name].append(result.applied)
        removed += not survives(secret, result.text)
        if not result.applied:
            lines.append(f"{name}: {text[:160]!r}")
    total = sum(map(len, found.values()))
    if total:
        print(f"secret removed from {removed / total:.3f} of {total} drawn texts")
    return found, lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", default="library")
    parser.add_argument("--megabytes", type=float, default=6.0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--verbose", action="store_true", help="show what failed")
    options = parser.parse_args()
    found, untouched = touched(options.seed, options.rounds)
    failed = False
    if found:
        total = sum(map(len, found.values()))
        share = sum(map(sum, found.values())) / total
        failed |= share < 0.75
        print(f"touched {share:.3f} of {total} texts of {len(found)} public rules (>= 0.75)")
    else:
        print("no public scanner with readable rules is installed: no touch rate")
    count, size, edited = edits(options.megabytes, options.seed)
    per_mb = count / size * 1e6
    failed |= per_mb > 0.5
    print(f"edits per MB of library code {per_mb:.2f} in {size / 1e6:.1f} MB (<= 0.5)")
    if options.verbose:
        print("\n".join(untouched))
        print("\n".join(edited))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
