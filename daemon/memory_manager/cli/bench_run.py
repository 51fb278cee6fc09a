"""Asking questions over the socket and scoring the answers. Holds numbers and ids, never texts."""

from __future__ import annotations

import dataclasses
import math
import os
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import cast

from memory_manager.cli import process_figures
from memory_manager.cli.bench_footprint import Footprint, read_footprint
from memory_manager.cli.bench_naive import NaiveWords
from memory_manager.cli.output import section
from memory_manager.client.memory_client import MemoryClient

CUTS = (1, 5, 10)
USUAL_LIMIT = 10
DEPTH = 100
RRF_K = 60
WORDS, MEANING, BOTH = "words (BM25)", "meaning", "both"
NAIVE, RRF = "naive words (FTS5 OR)", "RRF-60"
PASSES = 5  # over the questions: times of both legs, of each, of the naive index; then the ranks
MODEL_SECONDS = 60.0
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
class Speed:
    """Milliseconds of one question; CPU of service and worker together, None where unknown."""

    wall_ms_p50: float
    wall_ms_p95: float
    cpu_ms_per_query: float | None


@dataclasses.dataclass(frozen=True, slots=True)
class Group:
    """The figures of the questions with one label, by system."""

    questions: int
    systems: Mapping[str, Quality]


@dataclasses.dataclass(frozen=True, slots=True)
class BenchReport:
    """Figures of one run.

    ``questions`` and ``systems`` are about the headline questions, ``speeds`` about all.
    """

    questions: int
    memories: object
    model_key: str | None
    systems: Mapping[str, Quality]
    speeds: Mapping[str, Speed]
    footprint: Footprint
    advice: str | None
    groups: Mapping[str, Group] = dataclasses.field(default_factory=dict[str, Group])

    def as_json(self, *, synthetic: bool) -> dict[str, object]:
        figures = dataclasses.asdict(self)
        figures["systems"] = _systems_as_json(self.systems, self.speeds)
        del figures["speeds"]
        figures["groups"] = {
            name: {"questions": group.questions, "systems": _systems_as_json(group.systems, {})}
            for name, group in self.groups.items()
        }
        figures["synthetic"] = synthetic
        figures["load_average"] = os.getloadavg()[0]
        figures["processor"] = process_figures.processor_name()
        return figures


def _systems_as_json(
    systems: Mapping[str, Quality], speeds: Mapping[str, Speed]
) -> dict[str, dict[str, float | None]]:
    return {
        name: {
            **{f"hit@{k}": quality.hit[at] for at, k in enumerate(CUTS)},
            **{f"recall@{k}": quality.recall[at] for at, k in enumerate(CUTS)},
            "mrr": quality.mrr,
            "ndcg@10": quality.ndcg10,
            **(dataclasses.asdict(speeds[name]) if name in speeds else {}),
        }
        for name, quality in systems.items()
    }


def measure(
    client: MemoryClient,
    questions: Sequence[Question],
    *,
    naive: NaiveWords | None,
    advance: Callable[[int], object],
) -> BenchReport:
    """Time every question by both legs and by each, then score all of them together.

    With ``naive`` also that index and plain rank fusion. ``advance`` is told ``PASSES`` times
    per question.
    """
    has_meaning = _warmed_up(client)
    speeds = _speeds(client, questions, naive, has_meaning=has_meaning, advance=advance)
    orders: list[Mapping[str, list[str]]] = []
    for question in questions:
        asked = {**question.filters, "query": question.text, "limit": DEPTH, "explain": True}
        found = dict(_orders(client.search(asked), peer=naive is not None))
        if naive is not None:
            found[NAIVE] = naive.ask(question.text, question.filters.get("scope"), DEPTH)
        orders.append(found)
        advance(1)
    headline = [at for at, question in enumerate(questions) if question.headline]
    systems = _scored(questions, orders, headline)
    status = client.status()
    embeddings, counts = section(status, "embeddings"), section(status, "counts")
    model_key = embeddings.get("model_key")
    return BenchReport(
        questions=len(headline),
        memories=counts.get("memories"),
        model_key=str(model_key) if model_key else None,
        systems=systems,
        speeds={name: speed for name, speed in speeds.items() if name in systems},
        footprint=read_footprint(client),
        advice=_advice(systems, len(headline)),
        groups=_grouped(questions, orders),
    )


def _warmed_up(client: MemoryClient) -> bool:
    """Whether meaning answers; a model that was at rest is in memory afterwards."""
    deadline = time.monotonic() + MODEL_SECONDS
    while True:
        answer = client.search({"query": "warm up", "limit": 1})
        embeddings = section(client.status(), "embeddings")
        if embeddings.get("answering_model_key") is None or embeddings.get("state") == "failed":
            return False
        if not answer.get("degraded") or time.monotonic() > deadline:
            return True
        time.sleep(0.05)


def _speeds(
    client: MemoryClient,
    questions: Sequence[Question],
    naive: NaiveWords | None,
    *,
    has_meaning: bool,
    advance: Callable[[int], object],
) -> dict[str, Speed]:
    pid = client.connection.peer_pid() or client.connection.address.pid
    chance = random.Random()  # noqa: S311  an order of words, not a secret

    def service() -> float | None:
        return process_figures.cpu_seconds(pid)

    def by(leg: str | None) -> Callable[[Question], object]:
        def ask(question: Question) -> object:
            text = question.text if leg == "words" else _anew(question.text, chance)
            asked = {**question.filters, "query": text, "limit": USUAL_LIMIT}
            return client.search(asked if leg is None else {**asked, "leg": leg})

        return ask

    passes = {BOTH: (by(None), service), WORDS: (by("words"), service)}
    if has_meaning:
        passes[MEANING] = (by("meaning"), service)
    if naive is not None:
        index = naive

        def ask_naive(question: Question) -> object:
            return index.ask(question.text, question.filters.get("scope"), USUAL_LIMIT)

        passes[NAIVE] = (ask_naive, time.process_time)
    speeds = {name: _timed(questions, *how, advance) for name, how in passes.items()}
    advance((PASSES - 1 - len(passes)) * len(questions))
    return speeds


def _anew(text: str, chance: random.Random) -> str:
    """As much work for the model, and seldom a text whose vector is remembered."""
    words = text.split()
    return " ".join(chance.sample(words, len(words)))


def _timed(
    questions: Sequence[Question],
    ask: Callable[[Question], object],
    cpu_seconds: Callable[[], float | None],
    advance: Callable[[int], object],
) -> Speed:
    wall_ms: list[float] = []
    before = cpu_seconds()
    for question in questions:
        began = time.perf_counter()
        ask(question)
        wall_ms.append((time.perf_counter() - began) * 1000)
        advance(1)
    after = cpu_seconds()
    wall_ms.sort()
    return Speed(
        wall_ms_p50=wall_ms[len(wall_ms) // 2],
        wall_ms_p95=wall_ms[min(len(wall_ms) - 1, math.ceil(0.95 * len(wall_ms)) - 1)],
        cpu_ms_per_query=(
            None if before is None or after is None else 1000 * (after - before) / len(questions)
        ),
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
    names = list(orders[0])
    if not any(order[MEANING] for order in orders):
        names = [name for name in names if name in (WORDS, NAIVE)]
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
        yield RRF, _rank_fusion(words, meaning)


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
