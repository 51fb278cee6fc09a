"""``memlocket bench``: how well and how fast this very vault answers. Read-only, numbers only.

One explained search gives all three systems: words, meaning and both, ordered by their own scores.
Contract: recall.md 12.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from memory_manager.cli.arguments import Commands, add_command, positive
from memory_manager.cli.context import Context
from memory_manager.cli.errors import EXIT_OK, FileProblem, Usage
from memory_manager.cli.output import facts, size, table

if TYPE_CHECKING:
    from memory_manager.cli.bench_run import BenchReport, Question

DEFAULT_QUESTIONS = 300


def register(commands: Commands, shared: argparse.ArgumentParser) -> None:
    parser = add_command(
        commands, shared, "bench", run, "measure recall on your own vault",
        "Without --questions the questions are made from the rarest words of random memories\n"
        "(synthetic). hit@k: the right memory is among the first k; recall@k: the share of the\n"
        "right memories among the first k.",
    )  # fmt: skip
    parser.add_argument(
        "--questions", type=Path, metavar="FILE", help='lines of {"q": "...", "ids": ["..."]}'
    )
    parser.add_argument("--count", type=positive, default=DEFAULT_QUESTIONS, metavar="N")
    parser.add_argument("--seed", type=int, default=0, help="which random memories")
    parser.add_argument("--peer", action="store_true", help="also plain rank fusion (RRF, k = 60)")


def run(arguments: argparse.Namespace, context: Context) -> int:
    from memory_manager.cli import bench_questions, bench_run

    with context.client() as client:
        if arguments.questions is not None:
            questions = _read_questions(arguments.questions)
        else:
            with context.console.progress("reading", None, "memories") as advance:
                rows = bench_questions.all_rows(client, advance)
            questions = bench_questions.make_questions(rows, arguments.count, arguments.seed)
        if not questions:
            raise Usage("There is nothing to ask about: too few memories, or an empty file.")
        with context.console.progress("asking", 2 * len(questions), "questions") as advance:
            report = bench_run.measure(client, questions, peer=arguments.peer, advance=advance)
    synthetic = arguments.questions is None
    context.console.result(report.as_json(synthetic=synthetic), _text(report, synthetic=synthetic))
    return EXIT_OK


def _read_questions(path: Path) -> list[Question]:
    from memory_manager.cli.bench_run import Question

    questions: list[Question] = []
    try:
        with path.open(encoding="utf-8") as stream:
            for line in stream:
                if line.strip():
                    entry = json.loads(line)
                    questions.append(Question(str(entry["q"]), frozenset(map(str, entry["ids"]))))
    except OSError as error:
        raise FileProblem(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError):
        raise Usage(f"{path} must hold lines of the form {{'q': ..., 'ids': [...]}}.") from None
    return questions


def _text(report: BenchReport, *, synthetic: bool) -> str:
    rows = [
        (
            name,
            *(f"{100 * figure:.1f}" for figure in quality.hit),
            *(f"{100 * figure:.1f}" for figure in quality.recall),
            f"{quality.mrr:.3f}",
            f"{quality.ndcg10:.3f}",
        )
        for name, quality in report.systems.items()
    ]
    header = (
        "SYSTEM", "HIT@1", "HIT@5", "HIT@10", "RECALL@1", "RECALL@5", "RECALL@10", "MRR", "NDCG@10",
    )  # fmt: skip
    about = facts(
        [
            ("questions", f"{report.questions}{' (synthetic)' if synthetic else ''}"),
            ("memories", report.memories),
            ("model", report.model_key or "none: words only"),
            ("wall time", f"p50 {report.wall_ms_p50:.1f} ms, p95 {report.wall_ms_p95:.1f} ms"),
            ("processor time", _cpu(report.cpu_ms_per_query)),
            ("daemon memory", size(report.daemon_rss_bytes)),
            ("worker memory", size(report.worker_rss_bytes) or None),
            ("load", f"{os.getloadavg()[0]:.2f} on {os.cpu_count()} cores"),
        ]
    )
    advice = f"\n\n{report.advice}" if report.advice else ""
    return f"{table(header, rows)}\n\n{about}{advice}"


def _cpu(figure: float | None) -> str | None:
    return None if figure is None else f"{figure:.1f} ms a query, daemon and worker together"
