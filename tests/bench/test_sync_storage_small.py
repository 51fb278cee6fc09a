"""The bench of the server's storages runs. Absolute figures are only printed."""

from __future__ import annotations

from pathlib import Path

import pytest
import sync_storage_speed
from figures import show
from postgres_server import NOT_INSTALLED

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]


def test_bench_of_small_storages(tmp_path: Path) -> None:
    options = sync_storage_speed.parse(["--rows", "300", "--vaults", "2"])
    options.folder = tmp_path
    report = sync_storage_speed.run(options)
    print("\n" + show(report, False))
    for kind in sync_storage_speed.KINDS:
        figures = report[kind]
        if figures == "not installed":
            pytest.skip(NOT_INSTALLED)
        assert isinstance(figures, dict)
        # a push of many rows is one commit: it must not cost as much as that many pushes
        assert figures["push 100"]["rows_per_s"] > 2 * figures["push 1"]["rows_per_s"]
        many = figures["2 vaults"]
        assert many["octets_per_row"] > many["body_octets_per_row"] > 428
