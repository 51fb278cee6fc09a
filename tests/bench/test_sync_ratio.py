"""A write with sync on costs its sealing, and not more than that."""

from __future__ import annotations

from pathlib import Path

import pytest
from sync_ratio import measure

pytestmark = pytest.mark.bench
MAX_RATIO = 2.5


def test_sealing_a_write_costs_less_than_the_write(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], thorough: bool
) -> None:
    found = measure(tmp_path, 4000 if thorough else 400)
    with capsys.disabled():
        print(
            f"\nwrite without sync {found.plain_us:.0f} us, sealed {found.sealed_us:.0f} us"
            f" ({found.ratio:.2f}x), applied from another device {found.applied_us:.0f} us;"
            f" with its commit {found.plain_write_ms:.1f} ms and {found.sealed_write_ms:.1f} ms"
            f" ({found.write_ratio:.2f}x)"
        )
    assert found.ratio < MAX_RATIO
