"""The gates of redaction.md 15.4 on generated sets; ``tests/bench/sanitizer_gates.py`` prints them.

The generator was written from the contract, without a look at the rules. Formats and surroundings
are the same for each seed, values and combinations are not.
"""

from __future__ import annotations

import datetime

import pytest
from sanitizer_judge import Verdict, judge
from secrets_generator_contexts import CONTEXTS, LABEL_CONTEXTS
from secrets_generator_disguises import DISGUISES
from secrets_generator_harmless import categories
from secrets_generator_sets import format_count

FIXED_SEED = "public"
# a single text of thousands fails these: asserted on fixed seeds; of a seed that nobody has seen
# they are printed, and asserted with --thorough, but for leaks of rows
ONE_TEXT_DECIDES = (
    "worst vendor family", "high risk removed", "high risk told as such", "idempotent",
    "  in hashes, ids, marks, ...", "row leaks",
)  # fmt: skip


def _day() -> str:
    return datetime.datetime.now(tz=datetime.UTC).strftime("day-%Y-%m-%d")


def _passed(verdict: Verdict, *, printed_only: tuple[str, ...] = ()) -> None:
    below = [gate for gate in verdict.gates() if not gate.passed]
    failed = [gate.line() for gate in below if gate.name not in printed_only]
    told = "\n".join([verdict.findings()[:6_000], *failed])
    if below and not failed:
        print(told)
    assert not failed, told


def test_the_sets_are_as_broad_as_the_contract_asks() -> None:
    assert format_count() >= 150
    assert len(categories()) >= 65
    assert len(DISGUISES) >= 30
    assert len(CONTEXTS) + len(LABEL_CONTEXTS) >= 20


def test_the_gates_hold_on_a_thin_set() -> None:
    _passed(judge(FIXED_SEED, 0.03))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [FIXED_SEED, "second"])
def test_the_gates_hold_on_fixed_seeds(seed: str) -> None:
    _passed(judge(seed, 0.3))


@pytest.mark.slow
def test_the_gates_hold_on_the_seed_of_the_day(thorough: bool) -> None:
    _passed(judge(_day(), 0.3), printed_only=("row leaks",) if thorough else ONE_TEXT_DECIDES)
