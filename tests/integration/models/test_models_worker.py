"""The real worker with real models: vectors, damage, threads, no network, nothing imported here."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import numpy as np
import psutil
import pytest
from network_guard import NetworkGuard
from worker_parent import OneFolder

from memory_manager.recall.embedder import (
    EmbedderState,
    EmbedderUnavailable,
    TextKind,
    Vector,
)
from memory_manager.recall.models.checks import check_texts
from memory_manager.recall.models.installed import PreparedModel, damaged_files, read_model
from memory_manager.recall.worker_embedder import WorkerEmbedder, WorkerOptions

pytestmark = [pytest.mark.embed, pytest.mark.timeout(900)]
_PATIENCE = 60.0


@pytest.fixture(params=["minilm", "e5"])
async def embedder(request: pytest.FixtureRequest) -> AsyncIterator[WorkerEmbedder]:
    made = WorkerEmbedder(OneFolder(request.getfixturevalue(request.param)))
    yield made
    await made.stop()


async def documents(embedder: WorkerEmbedder, texts: list[str]) -> Vector:
    rows: list[Vector] = []
    for start in range(0, len(texts), 32):
        for found in await embedder.embed_documents(texts[start : start + 32]):
            assert not isinstance(found, Exception)
            rows.append(found[0])
    return np.stack(rows)


async def test_it_finds_by_meaning_without_a_network(
    network_guard: NetworkGuard, embedder: WorkerEmbedder
) -> None:
    texts = [
        "The ferry to the island leaves at nine.",
        "Our test database is reset every night.",
        "She is afraid of spiders.",
    ]
    rows = await documents(embedder, texts)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-5)
    questions = ("When does the boat go?", "How often is the DB wiped?", "What animal scares her?")
    for number, question in enumerate(questions):
        query = await embedder.embed_query(question, _PATIENCE)
        assert int(np.argmax(rows @ query)) == number
    assert network_guard.was_in_place()


async def test_alone_and_in_a_batch_a_text_has_nearly_the_same_vector(
    embedder: WorkerEmbedder,
) -> None:
    texts = list(check_texts().texts[:24])
    batch = await documents(embedder, texts)
    alone = np.stack([(await documents(embedder, [text]))[0] for text in texts])
    # centring enlarges the small differences of dynamic quantisation
    assert float((batch * alone).sum(axis=1).min()) >= 0.97
    assert float((batch * alone).sum(axis=1).mean()) >= 0.985


async def test_queries_and_documents_get_the_prompts_of_the_model(
    embedder: WorkerEmbedder,
) -> None:
    query = await embedder.embed_query("the same words", _PATIENCE)
    document = await embedder.embed_query("the same words", _PATIENCE, kind=TextKind.DOCUMENT)
    prompts = json.loads(embedder.manifest_json or "")["prompts"]
    assert np.allclose(query, document, atol=1e-6) == (prompts["query"] == prompts["document"])


async def test_long_texts_become_pieces_and_each_is_found(embedder: WorkerEmbedder) -> None:
    filler = "The weekly meeting was moved and nothing else happened that day. " * 120
    text = f"{filler}\n\nThe lighthouse lamp was replaced by a diode.\n\n{filler}"
    (pieces,) = await embedder.embed_documents([text])
    assert not isinstance(pieces, Exception)
    assert 4 <= len(pieces) <= 64
    query = await embedder.embed_query("lamp of the lighthouse", _PATIENCE)
    best = int(np.argmax(pieces @ query))
    assert 0 < best < len(pieces) - 1


@pytest.mark.parametrize("text", ["", " ", "\x00", "\u200b", "😀" * 300, "a" * 5000, "ก" * 3000])
async def test_strange_texts_do_not_kill_the_worker(embedder: WorkerEmbedder, text: str) -> None:
    await embedder.embed_documents([text, "\ud800", "ordinary"])
    await embedder.embed_query(text, _PATIENCE)
    assert embedder.status().state is EmbedderState.READY


async def test_the_worker_has_at_most_three_threads_and_reports_its_memory(
    embedder: WorkerEmbedder,
) -> None:
    await embedder.embed_query("a", _PATIENCE)
    await embedder.embed_documents(["b", "c"])
    assert embedder.worker_pid is not None
    assert psutil.Process(embedder.worker_pid).num_threads() <= 3
    assert (embedder.status().worker_rss_bytes or 0) > 50 << 20


@pytest.mark.parametrize("name", ["model_int8.onnx", "tokenizer.json", "mean.f32"])
async def test_one_other_byte_in_any_file_is_never_loaded(
    tmp_path: Path, e5: PreparedModel, name: str
) -> None:
    folder = tmp_path / e5.folder.name
    shutil.copytree(e5.folder, folder)
    damaged = folder / name
    data = bytearray(damaged.read_bytes())
    data[len(data) // 2] ^= 1
    damaged.write_bytes(data)
    model = read_model(folder)
    embedder = WorkerEmbedder(OneFolder(model))
    with pytest.raises(EmbedderUnavailable):
        await embedder.embed_query("a", _PATIENCE)
    assert embedder.status().state is EmbedderState.FAILED
    assert embedder.status().last_error == "model_damaged"
    assert damaged_files(model) == [name]
    await embedder.stop()


async def test_a_restarted_worker_gives_the_same_vectors(minilm: PreparedModel) -> None:
    options = WorkerOptions(restart_pauses=(0.05, 0.05, 0.05))
    embedder = WorkerEmbedder(OneFolder(minilm), options)
    texts = [f"row number {index} of the table" for index in range(32)]
    before = await documents(embedder, texts)
    assert embedder.worker_pid is not None
    pid = embedder.worker_pid
    async with asyncio.TaskGroup() as group:
        work = group.create_task(documents(embedder, texts))
        await asyncio.sleep(0.05)
        psutil.Process(pid).kill()
    assert (
        np.allclose(before, work.result(), atol=1e-6)
        or float((before * work.result()).sum(axis=1).min()) > 0.97
    )  # after a crash the suspects go one by one, and dynamic quantisation sees the batch
    await embedder.stop()


async def test_a_process_with_the_vault_key_imports_no_model_library(
    minilm: PreparedModel,
) -> None:
    code = (
        "import asyncio, sys\n"
        "from pathlib import Path\n"
        "from worker_parent import OneFolder\n"
        "from memory_manager.recall.models.installed import read_model\n"
        "from memory_manager.recall.worker_embedder import WorkerEmbedder\n"
        "async def main():\n"
        "    embedder = WorkerEmbedder(OneFolder(read_model(Path(sys.argv[1]))))\n"
        "    await embedder.embed_query('a', 60)\n"
        "    await embedder.stop()\n"
        "asyncio.run(main())\n"
        "names = {'torch', 'transformers', 'sentence_transformers', 'onnxruntime', 'tokenizers'}\n"
        "print(sorted(names & set(sys.modules)))\n"
    )
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-c", code, str(minilm.folder)],
        env={"PYTHONPATH": str(Path(__file__).parents[2] / "support"), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.strip() == "[]"


async def test_a_model_that_is_not_what_its_manifest_says_is_refused(
    tmp_path: Path, minilm: PreparedModel
) -> None:
    folder = tmp_path / "model"
    shutil.copytree(minilm.folder, folder)
    claimed = dataclasses.replace(minilm.manifest, dim=768)
    embedder = WorkerEmbedder(OneFolder(PreparedModel(folder, claimed)))
    with pytest.raises(EmbedderUnavailable):
        await embedder.embed_query("a", _PATIENCE)
    assert embedder.status().last_error == "wrong_model_key"
    await embedder.stop()
