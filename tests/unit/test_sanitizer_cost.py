"""What hostile texts cost (redaction.md 5.5, 15.5), and patterns that could cost too much."""

from __future__ import annotations

import json
import subprocess
import sys
import time

import pytest
from hostile_texts import DEAR, SHAPES, shaped

from memory_manager.security.redact import sanitize_server_write

ASSERTED = [name for name in SHAPES if name not in DEAR]


def seconds(text: str, bound: float) -> float:
    """Thread CPU time of a call; a second try when the first was over the bound."""
    found = bound + 1
    for _ in range(2):
        if found > bound:
            started = time.thread_time()
            sanitize_server_write(text)
            found = min(found, time.thread_time() - started)
    return found


@pytest.mark.parametrize("name", ASSERTED)
def test_20_kilobytes_of_a_hostile_shape_cost_a_quarter_second_at_most(name: str) -> None:
    assert seconds(shaped(name, 20_000), 0.25) <= 0.25


@pytest.mark.slow
@pytest.mark.parametrize("name", ASSERTED)
def test_200_kilobytes_of_a_hostile_shape_cost_a_second_at_most(name: str) -> None:
    assert seconds(shaped(name, 200_000), 1.0) <= 1.0


# every pattern that the package compiles, also those it compiles late
COLLECT = """
import json, re, sys
seen = {}
compile_pattern = re._compile
def spy(pattern, flags):
    if isinstance(pattern, str):
        seen[pattern, int(flags)] = None
    return compile_pattern(pattern, flags)
re._compile = spy
from memory_manager.security.redact import sanitize_row, sanitize_server_write
from secrets_generator_sets import disguises, positives
seen_before = set(seen)
for samples in (positives("patterns", 0.02), disguises("patterns", 0.02)):
    for sample in samples:
        sanitize_row({"content": sample.text}, redact_contact_pii=True)
print(json.dumps(list(seen)))
"""


@pytest.mark.filterwarnings("ignore:module 'sre_:DeprecationWarning")  # regexploit imports them
def test_no_pattern_is_worse_than_quadratic() -> None:
    """The static check of redaction.md 5.5, on what the process really compiles."""
    from regexploit import redos
    from regexploit.ast.sre import SreOpParser

    class Parser(SreOpParser):  # type: ignore[misc]
        """Reads possessive repeats and atomic groups as their greedy kin, which cost more."""

        def from_POSSESSIVE_REPEAT(self, *parts: object) -> object:
            return self.from_MAX_REPEAT(*parts)

        def from_ATOMIC_GROUP(self, *parts: object) -> object:
            return self.from_SUBPATTERN(None, 0, 0, parts[-1])

    paths = [path for path in sys.path if "support" in path]
    code = f"import sys; sys.path += {paths!r}\n{COLLECT}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    patterns = json.loads(done.stdout)
    assert len(patterns) > 100
    bad = [
        pattern
        for pattern, flags in patterns
        if any(found.starriness > 2 for found in redos.find(Parser().parse_sre(pattern, flags)))
    ]
    assert not bad
