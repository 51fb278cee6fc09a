"""With and without the native libraries the sanitizer says the same (redaction.md 5.1, 15.6)."""

from __future__ import annotations

import subprocess
import sys

import pytest

NATIVE = ("hyperscan", "re2", "ahocorasick_rs", "ahocorasick")
CODE = """
import sys

import pytest
sys.path += {paths!r}
for name in {blocked!r}:
    sys.modules[name] = None  # importing it fails, as where it is not installed
from secrets_generator_sets import disguises, harmless_texts, positives
from memory_manager.security.redact import sanitize_server_write
for samples in (positives("tiers", 0.02), disguises("tiers", 0.02)):
    for sample in samples:
        result = sanitize_server_write(sample.text)
        print(ascii((result.text, [(r.rule, r.severity, r.count) for r in result.redactions])))
for name, text in harmless_texts("tiers", 1):
    print(name, sanitize_server_write(text).applied)
"""


def _said(blocked: tuple[str, ...]) -> list[str]:
    paths = [path for path in sys.path if path]
    code = CODE.format(paths=paths, blocked=blocked)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.slow
def test_every_tier_gives_the_same_output() -> None:
    plain = _said(NATIVE)
    assert len(plain) > 600
    # without generated keys, which are new in each process
    for blocked in ((), ("hyperscan",)):
        said = _said(blocked)
        assert len(said) == len(plain)
        different = [(one, two) for one, two in zip(said, plain, strict=True) if one != two]
        assert not different, (blocked, different[:3])
