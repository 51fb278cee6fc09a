"""Accuracy gates of the sanitizer on generated samples (redaction.md 15.2, 15.4, 15.5).

    python tests/bench/sanitizer_gates.py [--seed WORD] [--share 0..1] [--findings FILE] [--fast]
                                          [--conversations LOCOMO]

Prints a line for each gate and a table by family; exits with 1 when a gate fails. ``--findings``
writes what failed, by family and surroundings, with two examples each. The samples come from
``secrets_generator_*``, which was written from the contract without a look at the rules.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

from sanitizer_judge import Verdict, judge
from sanitizer_speed import speed_gates


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", default="public")
    parser.add_argument("--share", type=float, default=1.0, help="share of the surroundings")
    parser.add_argument("--findings", type=Path, help="file for what failed")
    parser.add_argument("--fast", action="store_true", help="accuracy only, no times")
    parser.add_argument("--conversations", type=Path, help="LoCoMo file, to time its turns too")
    options = parser.parse_args()
    verdict: Verdict = judge(options.seed, options.share)
    print(verdict.table())
    gates = verdict.gates()
    if not options.fast:
        gates += speed_gates(options.conversations)
    for gate in gates:
        print(gate.line())
    if options.findings:
        options.findings.write_text(verdict.findings(), encoding="utf-8")
    return 0 if all(gate.passed for gate in gates) else 1


if __name__ == "__main__":
    sys.exit(main())
