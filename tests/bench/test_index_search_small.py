"""What a search in opted-in rows fetches from PostgreSQL. Times are only printed."""

from __future__ import annotations

import index_search_speed
import pytest
from figures import show
from postgres_server import NO_PGVECTOR, find_pgvector

pytestmark = [pytest.mark.bench, pytest.mark.timeout(300)]


@pytest.mark.skipif(find_pgvector() is None, reason=NO_PGVECTOR)
def test_with_pgvector_vectors_stay_in_the_database() -> None:
    rows, dimensions = 300, 384
    options = index_search_speed.parse(["--rows", str(rows), "--searches", "12"])
    report = index_search_speed.run(options)
    print("\n" + show(report, False))
    here, there = report["process"], report["pgvector"]
    assert isinstance(here, dict)
    assert isinstance(there, dict)
    vectors = rows * 4 * dimensions  # one piece a row, the least there can be
    assert here["octets_per_search"] - there["octets_per_search"] > vectors
    assert 2 * rows < there["rows_per_search"] < 2 * rows + 25  # each row twice, ten documents
