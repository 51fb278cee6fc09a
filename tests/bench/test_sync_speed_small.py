"""The benches of sync run on little, and what they say holds together. Figures are only printed."""

from __future__ import annotations

from pathlib import Path

import idle_daemon
import pytest
import sync_http_speed
from figures import show
from first_sync import first_sync

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]


def test_bench_of_a_server_over_http(tmp_path: Path) -> None:
    options = sync_http_speed.parse(["--rows", "256", "--vaults", "2", "--kinds", "sqlite"])
    options.folder = tmp_path
    report = sync_http_speed.run(options)
    print("\n" + show(report, False))
    figures = report["sqlite"]
    assert isinstance(figures, dict)
    one, many = figures["1 rows a request"], figures["256 rows a request"]
    # a request of many rows is one commit and one answer
    assert many["push_rows_per_s"] > 2 * one["push_rows_per_s"]
    assert many["pull_rows_per_s"] > 2 * one["pull_rows_per_s"]
    assert one["push_octets_per_row"] > many["push_octets_per_row"]
    assert figures["verifying"]["accepted_rows_per_s_by_256"] > 1_000
    assert figures["2 vaults"]["rows"] == 256


async def test_bench_of_a_first_sync(tmp_path: Path) -> None:
    report = await first_sync(tmp_path, 600, "a memory of some length. " * 8)
    print("\n" + show(report, False))
    assert report["heads_agree"]
    for part, phase in (("seal and push", "seal"), ("pull", "pull")):
        figures = report[part]
        assert isinstance(figures, dict)
        assert figures["server_peak_mb"] > 10
        assert all(seen["forward"] for seen in figures["progress"].values()), (phase, figures)


def test_bench_of_an_idle_daemon(tmp_path: Path) -> None:
    report = idle_daemon.idle_cost(tmp_path, seconds=1.0, settle=0.0)
    print("\n" + show({"idle": report}, False))
    assert {"requests_an_hour", "connected_cpu_seconds_an_hour"} <= report.keys()
