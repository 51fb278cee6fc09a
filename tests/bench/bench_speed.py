"""Speed and footprint of the whole product, from the outside, with baselines of the same run.

    python tests/bench/bench_speed.py --rows 1000 10000 100000 [--json]

Ratios are what counts; absolute figures depend on the machine and on what else it does.
"""

from __future__ import annotations

import os

# One thread for every numpy product, ours and the baselines': before numpy is imported.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_name] = "1"

import argparse  # noqa: E402
import sys  # noqa: E402
import tempfile  # noqa: E402
from collections.abc import Sequence  # noqa: E402
from pathlib import Path  # noqa: E402

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

import http_speed  # noqa: E402
from figures import machine, show  # noqa: E402
from memory_corpus import Corpus  # noqa: E402
from sandbox_daemon import SandboxDaemon, wait_until  # noqa: E402

PARTS = ("http", "store", "words", "vectors", "load", "naive")
QUERIES = 400
MANY_CLIENTS = 8


def measure_http(folder: Path, rows: int, options: argparse.Namespace) -> dict[str, object]:
    """One daemon on one vault of ``rows`` memories."""
    corpus = Corpus()
    queries = corpus.questions(options.queries + http_speed.WARM_UP)
    report: dict[str, object] = {}
    models = {} if options.models is None else {"models": options.models}
    with SandboxDaemon(folder / f"http-{rows}") as daemon:
        daemon.init()
        if models:
            _use_models(daemon, options.models)
        daemon.start()
        token = daemon.add_agent("bench")
        report["import_rows_per_s"] = http_speed.load(daemon, corpus, rows)
        with daemon.wire(token, agent="bench") as wire:
            report["remember"] = http_speed.latency(
                http_speed.remember_speed(wire, corpus, rows, options.writes)
            )
        extra = options.writes
        rate = http_speed.load_with_clients(daemon, token, corpus, options.writes, rows + extra)
        report["remember_by_4_clients_rows_per_s"] = rate
        total = rows + 2 * extra
        meaning = http_speed.embeddings(daemon).get("state") not in (None, "absent", "off")
        if meaning and total > options.embed_up_to:
            report["vectors"] = _synthetic_vectors(daemon)
        elif meaning:
            report["vectors"] = http_speed.wait_for_vectors(daemon, total, options.patience)
        report["recall"] = http_speed.recall_speed(daemon, token, queries)
        report["search_8_clients"] = http_speed.recall_by_many(daemon, token, queries, MANY_CLIENTS)
        report["after_queries"] = http_speed.footprint(daemon, total)
        report["start"] = http_speed.start_speed(daemon, token, queries, options.starts, meaning)
        report["after_start"] = http_speed.footprint(daemon, total)
        report["mcp_after_start"] = http_speed.mcp_speed(daemon, token, options.starts)
        report["unlock"] = http_speed.unlock_speed(daemon, token, "plinth orchid 7731 ferrous kite")
        daemon.stop()
        if "words" in options.parts:
            from opened_vault import opened
            from word_speed import compare_words

            with opened(daemon) as connection:
                report["words"] = compare_words(connection, total)
    return report


def _use_models(daemon: SandboxDaemon, models: Path) -> None:
    """Prepared models are large: link the folder instead of preparing it again."""
    (daemon.home / "models").symlink_to(models.resolve(), target_is_directory=True)


def _synthetic_vectors(daemon: SandboxDaemon) -> dict[str, object]:
    from opened_vault import opened
    from vector_fill import fill_vectors

    model = http_speed.embeddings(daemon)
    key = str(model["model_key"])
    daemon.stop()
    with opened(daemon) as connection:
        count = fill_vectors(connection, key, int(key.rpartition("/")[2]))
    daemon.start()
    wait_until(
        lambda: http_speed.embeddings(daemon)["index"]["vectors"] >= count,
        http_speed.INDEX_SECONDS,
        "the index is loaded",
    )
    return {"synthetic": count}


def run(options: argparse.Namespace) -> dict[str, object]:
    report: dict[str, object] = {"machine": machine(), "seed": http_speed.SEED}
    with tempfile.TemporaryDirectory(prefix="memlocket-bench-", dir=options.folder) as name:
        folder = Path(name)
        for rows in options.rows:
            part: dict[str, object] = {}
            report[f"{rows} rows"] = part
            if "http" in options.parts:
                part["http"] = measure_http(folder, rows, options)
            if "store" in options.parts and rows <= options.store_up_to:
                from store_ratio import store_ratio

                part["store"] = store_ratio(folder, rows, options.writes)
            if "words" in options.parts and "http" not in options.parts:
                from word_speed import word_speed

                part["words"] = word_speed(folder, rows)
            if "vectors" in options.parts:
                from vector_speed import vector_speed

                part["vectors"] = vector_speed(folder, rows)
            if "load" in options.parts:
                from index_load import index_load_speed

                part["load"] = index_load_speed(folder, rows)
            if "naive" in options.parts:
                from naive_baseline import naive_speed

                part["naive"] = naive_speed(folder, rows)
            _compare(part)
    report["load_average_at_end"] = [round(x, 2) for x in os.getloadavg()]
    return report


def _compare(part: dict[str, object]) -> None:
    """Our search over HTTP against the naive in-process one, of the same run."""
    ours, naive = part.get("http"), part.get("naive")
    if isinstance(ours, dict) and isinstance(naive, dict) and "query" in naive:
        part["search_times_faster_than_naive"] = (
            naive["query"].p50_ms / ours["recall"]["search"].p50_ms
        )


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1000])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--queries", type=int, default=QUERIES)
    parser.add_argument("--writes", type=int, default=200)
    parser.add_argument("--starts", type=int, default=5, help="daemon starts to measure")
    parser.add_argument(
        "--embed-up-to", type=int, default=2_000, help="above: synthetic vectors, for time"
    )
    parser.add_argument("--store-up-to", type=int, default=10_000, help="rows, for time")
    parser.add_argument("--patience", type=float, default=7200, help="seconds for the backfill")
    parser.add_argument("--models", type=Path, help="folder with prepared models to use")
    parser.add_argument("--folder", type=Path, help="where to put the vaults")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args(arguments)


def main() -> int:
    options = parse()
    print(show(run(options), options.json))
    return 0


if __name__ == "__main__":
    sys.exit(main())
