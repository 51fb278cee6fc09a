"""Asking questions over the socket and scoring the answers. Holds numbers and ids, never texts."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from memory_manager.cli.output import section
from memory_manager.client.memory_client import MemoryClient

CUTS = (1, 5, 10)
USUAL_LIMIT = 10
DEPTH = 100
RRF_K = 60
WORDS, MEANING, BOTH = "words (BM25)", "meaning", "both"
MIN_QUESTIONS_FOR_ADVICE = 200
ADVICE_POINTS = 0.01
ADVICE = (
    "On this vault meaning makes the ranking worse than words alone. By words only:\n"
    "memlocket restart --no-embeddings"
)


@dataclasses.dataclass(frozen=True, slots=True)
class Question:
    """A query, the ids of the memories that answer it, and where it looks for them.

    ``filters`` are those of search. ``group`` is a label with figures of its own; a question with
    ``headline`` false counts in its group only.
    """

    text: str = dataclasses.field(repr=False)
    ids: frozenset[str]
    filters: Mapping[str, str] = dataclasses.field(default_factory=dict[str, str], repr=False)
    group: str | None = None
    headline: bool = True


@dataclasses.dataclass(frozen=True, slots=True)
class Quality:
    """Means over all questions; ``hit`` and ``recall`` at 1, 5 and 10, all in [0, 1]."""

    hit: tuple[float, float, float]
    recall: tuple[float, float, float]
    mrr: float
    ndcg10: float


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """The figures of the questions with one label, by system."""

    questions: int
    systems: Mapping[str, Quality]


@dataclasses.dataclass(frozen=True, slots=True)
class BenchReport:
    """Figures of one run; times in milliseconds, sizes in bytes, None where unknown.

    ``questions`` and ``systems`` are about the headline questions, the times about all.
    """

    questions: int
    memories: object
    model_key: str | None
    systems: Mapping[str, Quality]
    wall_ms_p50: float
    wall_ms_p95: float
    cpu_ms_per_query: float | None
    daemon_rss_bytes: int | None
    worker_rss_bytes: int | None
    advice: str | None
    groups: Mapping[str, Group] = dataclasses.field(default_factory=dict[str, Group])

    def as_json(self, *, synthetic: bool) -> dict[str, object]:
        figures = dataclasses.asdict(self)
        figures["systems"] = _systems_as_json(self.systems)
        figures["groups"] = {
            name: {"questions": group.questions, "systems": _systems_as_json(group.systems)}
            for name, group in self.groups.items()
        }
        figures["synthetic"] = synthetic
        figures["load_average"] = os.getloadavg()[0]
        figures["processor"] = _processor_name()
        return figures


def _systems_as_json(systems: Mapping[str, Quality]) -> dict[str, dict[str, float]]:
    return {
        name: {
            **{f"hit@{k}": quality.hit[at] for at, k in enumerate(CUTS)},
            **{f"recall@{k}": quality.recall[at] for at, k in enumerate(CUTS)},
            "mrr": quality.mrr,
            "ndcg@10": quality.ndcg10,
        }
        for name, quality in systems.items()
    }


def measure(
    client: MemoryClient,
    questions: Sequence[Question],
    *,
    peer: bool,
    advance: Callable[[int], object],
) -> BenchReport:
    """Time every question as agents ask it, then score words, meaning and both together.

    ``advance`` is told twice per question.
    """
    pid = client.connection.peer_pid() or client.connection.address.pid
    client.search({"query": "warm up", "limit": 1})
    orders: list[Mapping[str, list[str]]] = []
    wall_ms: list[float] = []
    cpu_before = _cpu_seconds(pid)
    for question in questions:
        began = time.perf_counter()
        client.search({**question.filters, "query": question.text, "limit": USUAL_LIMIT})
        wall_ms.append((time.perf_counter() - began) * 1000)
        advance(1)
    cpu_after = _cpu_seconds(pid)
    for question in questions:
        asked = {**question.filters, "query": question.text, "limit": DEPTH, "explain": True}
        orders.append(dict(_orders(client.search(asked), peer=peer)))
        advance(1)
    headline = [at for at, question in enumerate(questions) if question.headline]
    systems = _scored(questions, orders, headline)
    status = client.status()
    embeddings, counts = section(status, "embeddings"), section(status, "counts")
    ordered = sorted(wall_ms)
    spent = None if cpu_before is None or cpu_after is None else cpu_after - cpu_before
    model_key, worker_rss = embeddings.get("model_key"), embeddings.get("worker_rss_bytes")
    return BenchReport(
        questions=len(headline),
        memories=counts.get("memories"),
        model_key=str(model_key) if model_key else None,
        systems=systems,
        wall_ms_p50=ordered[len(ordered) // 2],
        wall_ms_p95=ordered[min(len(ordered) - 1, math.ceil(0.95 * len(ordered)) - 1)],
        cpu_ms_per_query=None if spent is None else 1000 * spent / len(questions),
        daemon_rss_bytes=_rss_bytes(pid),
        worker_rss_bytes=worker_rss if isinstance(worker_rss, int) else None,
        advice=_advice(systems, len(headline)),
        groups=_grouped(questions, orders),
    )


def _grouped(
    questions: Sequence[Question], orders: Sequence[Mapping[str, list[str]]]
) -> dict[str, Group]:
    members: dict[str, list[int]] = {}
    for at, question in enumerate(questions):
        if question.group is not None:
            members.setdefault(question.group, []).append(at)
    return {
        name: Group(len(places), _scored(questions, orders, places))
        for name, places in members.items()
    }


def _scored(
    questions: Sequence[Question],
    orders: Sequence[Mapping[str, list[str]]],
    places: Sequence[int],
) -> dict[str, Quality]:
    """Every system over the questions at ``places``; words alone when nothing has a meaning."""
    if not places:
        return {}
    names = list(orders[0]) if any(order[MEANING] for order in orders) else [WORDS]
    asked = [questions[at] for at in places]
    return {name: _quality(asked, [orders[at][name] for at in places]) for name in names}


def _orders(answer: Mapping[str, object], *, peer: bool) -> Iterator[tuple[str, list[str]]]:
    hits = cast("Sequence[Mapping[str, object]]", answer.get("results") or [])
    words = _sorted_by(hits, "lexical")
    meaning = _sorted_by(hits, "cosine")
    yield WORDS, words
    yield MEANING, meaning
    yield BOTH, [str(hit.get("id")) for hit in hits]
    if peer:
        yield "RRF-60", _rank_fusion(words, meaning)


def _sorted_by(hits: Sequence[Mapping[str, object]], figure: str) -> list[str]:
    known: list[tuple[float, str]] = []
    for hit in hits:
        value = section(hit, "explanation").get(figure)
        if isinstance(value, (int, float)):
            known.append((float(value), str(hit.get("id"))))
    return [memory_id for _, memory_id in sorted(known, key=lambda pair: -pair[0])]


def _rank_fusion(*orders: Sequence[str]) -> list[str]:
    scores: dict[str, float] = {}
    for order in orders:
        for rank, memory_id in enumerate(order, start=1):
            scores[memory_id] = scores.get(memory_id, 0.0) + 1 / (RRF_K + rank)
    return sorted(scores, key=lambda memory_id: -scores[memory_id])


def _quality(questions: Sequence[Question], orders: Sequence[Sequence[str]]) -> Quality:
    count = len(questions)
    hit, recall = [0.0] * len(CUTS), [0.0] * len(CUTS)
    mrr = ndcg = 0.0
    for question, order in zip(questions, orders, strict=True):
        ranks = [rank for rank, found in enumerate(order, start=1) if found in question.ids]
        for at, cut in enumerate(CUTS):
            within = sum(rank <= cut for rank in ranks)
            hit[at] += within > 0
            recall[at] += within / len(question.ids)
        mrr += 1 / ranks[0] if ranks else 0.0
        ideal = sum(1 / math.log2(rank + 1) for rank in range(1, min(10, len(question.ids)) + 1))
        ndcg += sum(1 / math.log2(rank + 1) for rank in ranks if rank <= 10) / ideal
    return Quality(
        hit=(hit[0] / count, hit[1] / count, hit[2] / count),
        recall=(recall[0] / count, recall[1] / count, recall[2] / count),
        mrr=mrr / count,
        ndcg10=ndcg / count,
    )


def _advice(systems: Mapping[str, Quality], questions: int) -> str | None:
    both, words = systems.get(BOTH), systems.get(WORDS)
    if both is None or words is None or questions < MIN_QUESTIONS_FOR_ADVICE:
        return None
    worse = (
        words.hit[1] - both.hit[1] > ADVICE_POINTS
        or words.recall[2] - both.recall[2] > ADVICE_POINTS
    )
    return ADVICE if worse else None


def _cpu_seconds(pid: int) -> float | None:
    """Processor time of a process and its living children, from the system's process table."""
    total, found = 0.0, False
    for process in (pid, *_children(pid)):
        with contextlib.suppress(OSError, ValueError, IndexError):
            parts = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
            total += (int(parts[11]) + int(parts[12])) / os.sysconf("SC_CLK_TCK")
            found = True
    return total if found else None


def _children(pid: int) -> list[int]:
    found: list[int] = []
    with contextlib.suppress(OSError):
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal():
                with contextlib.suppress(OSError, IndexError):
                    parts = (entry / "stat").read_text().rsplit(")", 1)[1].split()
                    if parts[1] == str(pid):
                        found.append(int(entry.name))
    return found


def _rss_bytes(pid: int) -> int | None:
    with contextlib.suppress(OSError, ValueError, IndexError):
        parts = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        return int(parts[21]) * os.sysconf("SC_PAGE_SIZE")
    return None


def _processor_name() -> str | None:
    with contextlib.suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return None
