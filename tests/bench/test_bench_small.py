"""The speed bench runs, and its ratios hold on a small vault. Absolute figures are only printed."""

from __future__ import annotations

from pathlib import Path

import bench_speed
import pytest
from figures import show

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]


def test_bench_of_a_small_vault(tmp_path: Path) -> None:
    options = bench_speed.parse(
        ["--rows", "300", "--parts", "http", "--queries", "40", "--writes", "40", "--starts", "1"]
    )
    options.folder = tmp_path
    report = bench_speed.run(options)
    print("\n" + show(report, False))
    figures = report["300 rows"]
    assert isinstance(figures, dict)
    assert figures["http"]["recall"]["search"].count == 20
    assert figures["http"]["after_start"]["bytes_per_memory"] > 100
    mcp = figures["http"]["mcp_after_start"]
    assert mcp["initialize_ms"] * 3 < mcp["first_call_ms"]  # opening does not load the library
    assert mcp["rss_after_mb"] > mcp["rss_before_mb"] + 10


def test_encryption_costs_a_bounded_factor(tmp_path: Path) -> None:
    from store_ratio import store_ratio

    report = store_ratio(tmp_path, rows=600, writes=60)
    print("\n" + show(report, False))
    ratio = report["encrypted_over_plain"]
    assert isinstance(ratio, dict)
    assert ratio["fill_rows_per_s"] < 4
    assert ratio["bytes_per_memory"] < 1.5


def test_vector_leg_beats_the_exact_scan_and_finds_the_neighbours(tmp_path: Path) -> None:
    from vector_speed import vector_speed

    report = vector_speed(tmp_path, rows=20_000, queries=15)
    print("\n" + show(report, False))
    assert float(str(report["recall_at_10_filtered"])) >= 0.95
    assert float(str(report["target_3_ours_over_exact_scan"])) < 1.5
