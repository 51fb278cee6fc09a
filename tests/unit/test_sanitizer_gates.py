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


def _day() -> str:
    return datetime.datetime.now(tz=datetime.UTC).strftime("day-%Y-%m-%d")


def _passed(verdict: Verdict, *, printed_only: tuple[str, ...] = ()) -> None:
    gates = [gate for gate in verdict.gates() if gate.name not in printed_only]
    failed = [gate.line() for gate in gates if not gate.passed]
    assert not failed, "\n".join([verdict.findings()[:6_000], *failed])


def test_the_sets_are_as_broad_as_the_contract_asks() -> None:
    assert format_count() >= 150
    assert len(categories()) >= 65
    assert len(DISGUISES) >= 30
    assert len(CONTEXTS) + len(LABEL_CONTEXTS) >= 20


def test_the_gates_hold_on_a_thin_set() -> None:
    _passed(judge(FIXED_SEED, 0.03))


@pytest.mark.slow
@pytest.mark.parametrize("seed", [FIXED_SEED, "second", "third"])
def test_the_gates_hold_on_fixed_seeds(seed: str) -> None:
    _passed(judge(seed, 0.3))


@pytest.mark.slow
def test_the_gates_hold_on_the_seed_of_the_day(thorough: bool) -> None:
    # zero leaks are asserted on fixed seeds; on one that nobody has seen a leak is printed
    if not thorough:
        pytest.skip("run with --thorough: no day's values decide about a change")
    _passed(judge(_day(), 0.3), printed_only=("row leaks",))
