"""``memlocket bench``: how well and how fast this very vault answers. Read-only, numbers only.

One explained search gives all three systems: words, meaning and both, ordered by their own scores.
Contract: recall.md 12.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memory_manager.cli import process_figures
from memory_manager.cli.arguments import Commands, add_command, positive
from memory_manager.cli.context import Context
from memory_manager.cli.errors import EXIT_OK, FileProblem, Usage
from memory_manager.cli.output import counted, facts, table

if TYPE_CHECKING:
    from memory_manager.cli.bench_labelled import LabelledReport
    from memory_manager.cli.bench_run import BenchReport, Quality, Question

DEFAULT_QUESTIONS = 300


def register(commands: Commands, shared: argparse.ArgumentParser) -> None:
    parser = add_command(
        commands, shared, "bench", run, "measure recall on your own vault or a labelled set",
        "Without a file the questions are made from the rarest words of random memories\n"
        "(synthetic). hit@k: a right memory is among the first k; recall@k: the share of the\n"
        "right memories among the first k. A labelled set is measured in a temporary vault with\n"
        "your models; your own vault takes no part, and no text of the set is shown or kept.",
    )  # fmt: skip
    source = parser.add_mutually_exclusive_group()
    source.add_argument(
        "--questions", type=Path, metavar="FILE", help='lines of {"q": "...", "ids": ["..."]}'
    )
    source.add_argument(
        "--locomo", type=Path, metavar="FILE", help="conversations with questions, scored by turn"
    )
    source.add_argument(
        "--miracl", type=Path, metavar="FOLDER", help="passages with questions, scored by passage"
    )
    parser.add_argument(
        "--count", type=positive, metavar="N",
        help=f"how many synthetic questions (default: {DEFAULT_QUESTIONS})",
    )  # fmt: skip
    parser.add_argument("--seed", type=int, help="which random memories (default: 0)")
    parser.add_argument(
        "--no-embeddings", action="store_true", help="words only; with a labelled set"
    )
    parser.add_argument(
        "--peer",
        action="store_true",
        help="also a naive full-text index and plain rank fusion (RRF, k = 60)",
    )


def run(arguments: argparse.Namespace, context: Context) -> int:
    is_labelled = arguments.locomo is not None or arguments.miracl is not None
    if arguments.no_embeddings and not is_labelled:
        raise Usage("--no-embeddings goes with --locomo or --miracl only.")
    if (is_labelled or arguments.questions is not None) and (
        arguments.count is not None or arguments.seed is not None
    ):
        raise Usage("--count and --seed are for synthetic questions only.")
    return _run_labelled(arguments, context) if is_labelled else _run_own(arguments, context)


def _run_labelled(arguments: argparse.Namespace, context: Context) -> int:
    from memory_manager.cli import bench_labelled, labelled_sets

    if arguments.locomo is not None:
        labelled = labelled_sets.read_locomo(arguments.locomo)
    else:
        labelled = labelled_sets.read_miracl(arguments.miracl)
    found = bench_labelled.measure_set(
        labelled,
        context.environ,
        context.console,
        models=None if arguments.no_embeddings else context.directories.models,
        peer=arguments.peer,
    )
    context.console.result(found.as_json(), _labelled_text(found))
    return EXIT_OK


def _run_own(arguments: argparse.Namespace, context: Context) -> int:
    from memory_manager.cli import bench_questions, bench_run

    with context.client() as client:
        rows: Sequence[Mapping[str, object]] = ()
        if arguments.questions is None or arguments.peer:
            with context.console.progress("reading", None, "memories") as advance:
                rows = bench_questions.all_rows(client, advance)
        if arguments.questions is not None:
            questions = _read_questions(arguments.questions)
        else:
            questions = bench_questions.make_questions(
                rows, arguments.count or DEFAULT_QUESTIONS, arguments.seed or 0
            )
        if not questions:
            raise Usage("There is nothing to ask about: too few memories, or an empty file.")
        naive = bench_questions.naive_index(rows) if arguments.peer else None
        asked = bench_run.PASSES * len(questions)
        with context.console.progress("asking", asked, "questions") as advance:
            report = bench_run.measure(client, questions, naive=naive, advance=advance)
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
    questions = f"{report.questions}{' (synthetic)' if synthetic else ''}"
    advice = f"\n\n{report.advice}" if report.advice else ""
    about = facts([("questions", questions), *_about(report)])
    return f"{_figures([('', report.systems)])}\n\n{_speeds(report)}\n\n{about}{advice}"


def _labelled_text(found: LabelledReport) -> str:
    report = found.report
    groups = [
        (f"{name} ({group.questions})", group.systems) for name, group in report.groups.items()
    ]
    used = found.embeddings == "used"
    about = facts(
        [
            ("set", f"{found.set_name}, {counted(found.spaces, 'search space')}"),
            ("granularity", found.granularity),
            (
                "questions",
                f"{report.questions} in 'all', {found.unasked} without an answer left out",
            ),
            ("embeddings", found.embeddings if used else f"{found.embeddings}: words only"),
            *_about(report),
        ]
    )
    whole = (f"all ({report.questions})", report.systems)
    advice = f"\n\n{report.advice}" if report.advice else ""
    return f"{_figures([whole, *groups])}\n\n{_speeds(report)}\n\n{about}{advice}"


def _figures(parts: Sequence[tuple[str, Mapping[str, Quality]]]) -> str:
    """A line per part and system; the column of parts only if they have names."""
    header = (
        "SYSTEM", "HIT@1", "HIT@5", "HIT@10", "RECALL@1", "RECALL@5", "RECALL@10", "MRR", "NDCG@10",
    )  # fmt: skip
    named = any(part for part, _ in parts)
    rows = [
        (
            *((part,) if named else ()),
            name,
            *(f"{100 * figure:.1f}" for figure in quality.hit),
            *(f"{100 * figure:.1f}" for figure in quality.recall),
            f"{quality.mrr:.3f}",
            f"{quality.ndcg10:.3f}",
        )
        for part, systems in parts
        for name, quality in systems.items()
    ]
    return table(("QUESTIONS", *header) if named else header, rows)


def _speeds(report: BenchReport) -> str:
    """Milliseconds of a question; the service's own clock is not asked."""
    rows = [
        (name, f"{speed.wall_ms_p50:.1f}", f"{speed.wall_ms_p95:.1f}", _cpu(speed.cpu_ms_per_query))
        for name, speed in report.speeds.items()
    ]
    return table(("SYSTEM", "P50 MS", "P95 MS", "CPU MS"), rows)


def _cpu(figure: float | None) -> str:
    return "" if figure is None else f"{figure:.1f}"


def _about(report: BenchReport) -> list[tuple[str, object]]:
    return [
        ("memories", report.memories),
        ("model", report.model_key or "none: words only"),
        *report.footprint.facts(),
        ("processor", process_figures.processor_name()),
        ("load", f"{os.getloadavg()[0]:.2f} on {os.cpu_count()} cores"),
    ]
