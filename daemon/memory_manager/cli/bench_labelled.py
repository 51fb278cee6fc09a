"""Measuring on a labelled set: import into a temporary vault, embed, ask, score, delete.

The set's texts exist outside its own file only in that encrypted vault. Contract: recall.md 12.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from memory_manager.cli import bench_run
from memory_manager.cli.bench_footprint import Numbers, read_footprint
from memory_manager.cli.bench_naive import NaiveWords
from memory_manager.cli.bench_run import BenchReport
from memory_manager.cli.errors import BenchStalled, RecordsRefused
from memory_manager.cli.labelled_sets import LabelledSet
from memory_manager.cli.output import Advance, Console, counted
from memory_manager.cli.temporary_daemon import temporary_daemon
from memory_manager.client.memory_client import MemoryClient, connect_as_owner

BATCH_RECORDS = 256
POLL_SECONDS = 0.2
STALL_SECONDS = 300.0
_WITHOUT_MODEL = ("absent", "failed")


@dataclasses.dataclass(frozen=True, slots=True)
class LabelledReport:
    """Figures and names of a run on a labelled set; no text of it.

    ``embeddings`` is ``used``, or why there were words only: ``off``, or the embedder's state.
    """

    set_name: str
    granularity: str
    spaces: int
    records: int
    unasked: int
    embeddings: str
    report: BenchReport

    def as_json(self) -> dict[str, object]:
        return {
            **self.report.as_json(synthetic=False),
            "set": self.set_name,
            "granularity": self.granularity,
            "spaces": self.spaces,
            "records": self.records,
            "questions_without_answer": self.unasked,
            "embeddings": self.embeddings,
        }


def measure_set(
    labelled: LabelledSet,
    environ: Mapping[str, str],
    console: Console,
    *,
    models: Path | None,
    peer: bool,
) -> LabelledReport:
    """Measure in a daemon of its own; the user's vault and daemon take no part.

    ``models`` None means words only. Raises BenchStalled, RecordsRefused, StartFailed.
    """
    options = () if models is not None else ("--no-embeddings",)
    naive = naive_index(labelled) if peer else None
    with temporary_daemon(environ, "bench", models=models, options=options) as daemon:
        with connect_as_owner(daemon.environ) as client:
            count = len(labelled.records)
            with console.progress("storing", count, labelled.granularity + "s") as advance:
                _store(client, labelled, advance)
            embeddings = "off"
            if models is not None:
                with console.progress("embedding", count, labelled.granularity + "s") as advance:
                    embeddings = _wait_for_embeddings(client, count, advance)
            asked = bench_run.PASSES * len(labelled.questions)
            with console.progress("asking", asked, "questions") as advance:
                report = bench_run.measure(client, labelled.questions, naive=naive, advance=advance)
        daemon.stop()
        daemon.start()  # the first start was one on an empty vault
        start = _start_times(daemon.environ, with_vectors=embeddings == "used")
    report = dataclasses.replace(
        report, footprint=dataclasses.replace(report.footprint, start=start)
    )
    return LabelledReport(
        set_name=labelled.name,
        granularity=labelled.granularity,
        spaces=labelled.spaces,
        records=count,
        unasked=labelled.unasked,
        embeddings=embeddings,
        report=report,
    )


def naive_index(labelled: LabelledSet) -> NaiveWords:
    return NaiveWords((str(r.id), r.content, r.scope) for r in labelled.records)


def _start_times(environ: Mapping[str, str], *, with_vectors: bool) -> Numbers:
    deadline = time.monotonic() + STALL_SECONDS
    with connect_as_owner(environ) as client:
        while True:
            start = read_footprint(client).start
            if not with_vectors or start.get("vectors_ms") is not None:
                return start
            if time.monotonic() > deadline:
                raise BenchStalled
            time.sleep(POLL_SECONDS)


def _store(client: MemoryClient, labelled: LabelledSet, advance: Advance) -> None:
    from memory_manager.capture.records import record_as_json

    refused = 0
    for start in range(0, len(labelled.records), BATCH_RECORDS):
        batch = labelled.records[start : start + BATCH_RECORDS]
        answer = client.import_records([record_as_json(record) for record in batch])
        outcomes = cast("Sequence[Mapping[str, object]]", answer.get("results") or [])
        refused += sum(outcome.get("status") != "created" for outcome in outcomes)
        advance(len(batch))
    if refused:  # an answer that is not there would count as not found
        raise RecordsRefused(f"{counted(refused, 'record')} of the set could not be stored.")


def _wait_for_embeddings(client: MemoryClient, count: int, advance: Advance) -> str:
    """``used`` once every record has its vectors, else the state that leaves words only."""
    seen: tuple[object, object] | None = None
    shown = 0
    deadline = time.monotonic() + STALL_SECONDS
    while True:
        status = cast("Mapping[str, object]", client.status().get("embeddings") or {})
        state = str(status.get("state"))
        if state in _WITHOUT_MODEL:
            return state
        covered = cast("int", status.get("covered") or 0)
        advance(min(covered, count) - shown)
        shown = min(covered, count)
        if covered >= count and not status.get("queued") and not status.get("building"):
            return "used"
        progress = (covered, status.get("queued"))
        if progress != seen:
            seen, deadline = progress, time.monotonic() + STALL_SECONDS
        elif time.monotonic() > deadline:
            raise BenchStalled
        time.sleep(POLL_SECONDS)
