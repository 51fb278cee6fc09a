"""The daemon's embedder with a real worker process and a tiny backend: states, crashes, poison."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import hash_worker
import numpy as np
import psutil
import pytest
import worker_parent
from hash_worker import DIE, FAIL, HANG, NOT_A_NUMBER, SLOW, hashed, make_model
from worker_parent import OneFolder

from memory_manager.recall.embedder import (
    EmbedderState,
    EmbedderUnavailable,
    TextKind,
    TextRefused,
)
from memory_manager.recall.worker_embedder import WorkerEmbedder, WorkerOptions

_OPTIONS = WorkerOptions(
    command=(sys.executable, str(Path(hash_worker.__file__))),
    restart_pauses=(0.05, 0.05, 0.05),
)
_PATIENCE = 20.0


Maker = Callable[..., WorkerEmbedder]


@pytest.fixture
async def make(tmp_path: Path) -> AsyncIterator[Maker]:
    made: list[WorkerEmbedder] = []

    def maker(options: dict[str, object] | None = None, **behaviour: object) -> WorkerEmbedder:
        model = make_model(tmp_path / f"model{len(made)}", **behaviour)
        chosen = dataclasses.replace(_OPTIONS, **(options or {}))  # type: ignore[arg-type]
        made.append(WorkerEmbedder(OneFolder(model), chosen))
        return made[-1]

    yield maker
    for embedder in made:
        await embedder.stop()


async def until(condition: Callable[[], bool], seconds: float = _PATIENCE) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited too long"
        await asyncio.sleep(0.01)


def state(embedder: WorkerEmbedder) -> EmbedderState:
    return embedder.status().state


async def started(embedder: WorkerEmbedder) -> int:
    await embedder.embed_query("warm", _PATIENCE)
    assert embedder.worker_pid is not None
    return embedder.worker_pid


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


async def test_it_starts_with_the_first_call_and_answers(make: Maker) -> None:
    embedder = make()
    assert await embedder.refresh() == embedder.model_key
    assert state(embedder) is EmbedderState.STOPPED
    assert embedder.worker_pid is None
    vector = await embedder.embed_query("a", _PATIENCE)
    assert np.array_equal(vector, hashed("a", TextKind.QUERY))
    passage = await embedder.embed_query("a", _PATIENCE, kind=TextKind.DOCUMENT)
    assert np.array_equal(passage, hashed("a", TextKind.DOCUMENT))
    assert state(embedder) is EmbedderState.READY
    status = embedder.status()
    assert status.backend == "ort"
    assert status.last_error is None


async def test_documents_come_in_order_with_their_pieces(make: Maker) -> None:
    embedder = make()
    texts = ["short", "x" * 2500, "", NOT_A_NUMBER, "end"]
    answers = await embedder.embed_documents(texts)
    shapes = [None if isinstance(found, TextRefused) else found.shape for found in answers]
    assert shapes == [(1, 16), (3, 16), (1, 16), None, (1, 16)]
    assert np.array_equal(answers[4], [hashed("end", TextKind.DOCUMENT)])  # type: ignore[arg-type]


async def test_texts_too_large_for_one_frame_are_sent_in_several(make: Maker) -> None:
    answers = await make().embed_documents(["\U0001f600" * 250_000] * 6)
    assert [len(found) for found in answers] == [64] * 6  # type: ignore[arg-type]


async def test_more_than_a_batch_is_refused(make: Maker) -> None:
    with pytest.raises(ValueError, match="too many"):
        await make().embed_documents(["x"] * 33)


async def test_one_bad_text_does_not_spoil_its_batch(make: Maker) -> None:
    first, bad, last = await make().embed_documents(["a", FAIL, "b"])
    assert isinstance(bad, TextRefused)
    assert not isinstance(first, TextRefused)
    assert not isinstance(last, TextRefused)


async def test_no_model_is_absent_and_an_install_is_found_without_a_restart(
    tmp_path: Path,
) -> None:
    locator = OneFolder(None)
    embedder = WorkerEmbedder(locator, _OPTIONS)
    with pytest.raises(EmbedderUnavailable):
        await embedder.embed_query("a", 1)
    assert state(embedder) is EmbedderState.ABSENT
    assert "memlocket embeddings install" in (embedder.status().remedy or "")
    locator.model = make_model(tmp_path / "m")
    assert await embedder.refresh() == locator.model.model_key
    await embedder.embed_query("a", _PATIENCE)
    await embedder.stop()


async def test_a_killed_idle_worker_comes_back_by_itself(make: Maker) -> None:
    embedder = make()
    pid = await started(embedder)
    os.kill(pid, signal.SIGKILL)
    await until(lambda: embedder.worker_pid not in (pid, None))
    await until(lambda: state(embedder) is EmbedderState.READY)
    await embedder.embed_query("b", _PATIENCE)


async def test_a_kill_in_a_batch_loses_and_doubles_nothing(make: Maker) -> None:
    embedder = make()
    pid = await started(embedder)
    texts = [f"{SLOW} {index}" for index in range(8)]
    async with asyncio.TaskGroup() as group:
        work = group.create_task(embedder.embed_documents(texts))
        await asyncio.sleep(0.1)
        os.kill(pid, signal.SIGKILL)
    answers = work.result()
    expected = [hashed(text, TextKind.DOCUMENT)[None] for text in texts]
    assert all(np.array_equal(a, b) for a, b in zip(answers, expected, strict=True))  # type: ignore[arg-type]


async def test_a_kill_in_a_query_is_told_at_once(make: Maker) -> None:
    embedder = make()
    pid = await started(embedder)
    async with asyncio.TaskGroup() as group:
        work = group.create_task(_failure(embedder.embed_query(HANG, _PATIENCE)))
        await asyncio.sleep(0.1)
        os.kill(pid, signal.SIGKILL)
    assert isinstance(work.result(), EmbedderUnavailable)
    await until(lambda: state(embedder) is EmbedderState.READY)


async def _failure(call: object) -> BaseException | None:
    try:
        await call  # type: ignore[misc]
    except EmbedderUnavailable as error:
        return error
    return None


async def test_a_poison_text_is_refused_and_the_others_go_on(make: Maker) -> None:
    embedder = make()
    answers = await embedder.embed_documents(["a", f"b {DIE}", "c"])
    assert [isinstance(found, TextRefused) for found in answers] == [False, True, False]
    pid = embedder.worker_pid
    (again,) = await embedder.embed_documents([f"b {DIE}"])
    assert isinstance(again, TextRefused)
    assert embedder.worker_pid == pid  # it was not even tried


async def test_after_three_restarts_it_has_failed_until_a_command(make: Maker) -> None:
    embedder = make(die_while_loading=True)
    assert isinstance(await _failure(embedder.embed_documents(["a"])), EmbedderUnavailable)
    assert state(embedder) is EmbedderState.FAILED
    assert embedder.status().last_error == "worker_exited"
    await embedder.refresh()
    assert state(embedder) is EmbedderState.FAILED
    await embedder.refresh(retry=True)
    assert state(embedder) is EmbedderState.STOPPED


async def test_failure_ends_by_itself_after_its_cooldown(make: Maker, tmp_path: Path) -> None:
    embedder = make({"failed_cooldown_seconds": 0.1}, model_key="another/key")
    assert isinstance(await _failure(embedder.embed_query("a", _PATIENCE)), EmbedderUnavailable)
    assert state(embedder) is EmbedderState.FAILED
    assert embedder.status().last_error == "wrong_model_key"
    (tmp_path / "model0" / "behaviour.json").write_text("{}")
    await asyncio.sleep(0.15)
    await embedder.embed_query("a", _PATIENCE)


async def test_a_damaged_file_is_never_loaded(make: Maker, tmp_path: Path) -> None:
    embedder = make()
    (tmp_path / "model0" / "weights").write_bytes(b"hasj")
    assert isinstance(await _failure(embedder.embed_query("a", _PATIENCE)), EmbedderUnavailable)
    status = embedder.status()
    assert (status.state, status.last_error) == (EmbedderState.FAILED, "model_damaged")
    assert "memlocket model prepare" in (status.remedy or "")


async def test_a_worker_that_hangs_while_loading_fails_after_its_deadline(make: Maker) -> None:
    embedder = make({"start_timeout_seconds": 4.0}, load_seconds=60)
    began = time.monotonic()
    with pytest.raises(EmbedderUnavailable):
        await embedder.embed_query("a", 0.15)
    assert time.monotonic() - began < 3.5, "the query waited for the start to fail"
    pid = embedder.worker_pid
    assert pid is not None
    await until(lambda: state(embedder) is EmbedderState.FAILED)
    assert embedder.status().last_error == "worker_start_timeout"
    await until(lambda: gone(pid))


async def test_a_worker_that_hangs_at_work_is_replaced(make: Maker) -> None:
    # long enough that a busy machine does not take a working worker for a hanging one
    embedder = make({"silence_timeout_seconds": 2.0})
    pid = await started(embedder)
    answers = await embedder.embed_documents(["a", HANG])
    assert isinstance(answers[1], TextRefused)
    assert not isinstance(answers[0], TextRefused)
    assert embedder.worker_pid != pid


async def test_a_late_vector_serves_the_next_equal_query(make: Maker) -> None:
    embedder = make(load_seconds=0.4)
    with pytest.raises(EmbedderUnavailable):
        await embedder.embed_query("late", 0.05)
    await until(lambda: state(embedder) is EmbedderState.READY)
    await embedder.embed_query("another", _PATIENCE)
    assert (await embedder.embed_query("late", 0.0)).shape == (16,)


async def test_a_query_overtakes_a_batch(make: Maker) -> None:
    embedder = make()
    await started(embedder)
    async with asyncio.TaskGroup() as group:
        batch = group.create_task(embedder.embed_documents([f"{SLOW} {n}" for n in range(32)]))
        await asyncio.sleep(0.1)
        await embedder.embed_query("now", _PATIENCE)
        assert not batch.done()


async def test_it_stops_when_idle_and_starts_again(make: Maker) -> None:
    embedder = make({"idle_stop_seconds": 0.2})
    pid = await started(embedder)
    await until(lambda: state(embedder) is EmbedderState.STOPPED)
    await until(lambda: gone(pid))
    await embedder.embed_query("again", _PATIENCE)
    assert embedder.worker_pid not in (pid, None)


async def test_stop_kills_the_worker_and_forgets_queries(make: Maker) -> None:
    embedder = make()
    pid = await started(embedder)
    async with asyncio.TaskGroup() as group:
        work = group.create_task(_failure(embedder.embed_documents([HANG])))
        await asyncio.sleep(0.1)
        await embedder.stop()
    assert isinstance(work.result(), EmbedderUnavailable)
    assert state(embedder) is EmbedderState.STOPPED
    await until(lambda: gone(pid))
    with pytest.raises(EmbedderUnavailable):
        await embedder.embed_query("warm", 0.0)  # it was cached before


async def test_another_model_replaces_the_worker_and_the_old_one_stays_reachable(
    tmp_path: Path,
) -> None:
    old, new = make_model(tmp_path / "old", "old"), make_model(tmp_path / "new", "new")
    locator = OneFolder(old)
    embedder = WorkerEmbedder(locator, _OPTIONS)
    pid = await started(embedder)
    locator.model = new
    assert await embedder.refresh() == new.model_key
    await until(lambda: gone(pid))
    locator.model = old
    sibling = embedder.sibling(old.model_key)
    assert sibling is not None
    assert sibling.model_key == old.model_key
    await sibling.embed_query("a", _PATIENCE)
    await embedder.embed_query("a", _PATIENCE)
    assert sibling.worker_pid != embedder.worker_pid
    await sibling.stop()
    await embedder.stop()


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: reads /proc")
async def test_the_worker_has_no_foreign_descriptors_and_a_session_of_its_own(make: Maker) -> None:
    secret = os.open("/dev/null", os.O_RDONLY)
    os.set_inheritable(secret, True)
    try:
        pid = await started(make())
        assert os.getsid(pid) == pid
        process = psutil.Process(pid)
        assert process.num_threads() == 2
        if os.getuid() == 0:  # the worker closed its memory to everybody else
            assert process.net_connections() == []
            assert process.num_fds() <= 7  # three standard ones, two pipes, spares
    finally:
        os.close(secret)


async def test_what_the_worker_prints_reaches_the_log_by_allow_list(
    make: Maker, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="memory_manager.recall"):
        embedder = make(noise=True)
        pid = await started(embedder)
        await embedder.stop()
        await until(lambda: gone(pid))
        await until(lambda: "dropped" in caplog.text)
    told = [record.__dict__["what"] for record in caplog.records if "what" in record.__dict__]
    assert any("event=loaded size=1" in line for line in told)
    logged = "\n".join([caplog.text, *told])
    assert "query" not in logged
    assert "and a memory" not in logged


def test_no_worker_survives_the_daemon(tmp_path: Path) -> None:
    """kill -9 of the process that started it."""
    make_model(tmp_path / "model")
    program = [sys.executable, str(Path(worker_parent.__file__))]
    with subprocess.Popen(
        [*program, str(Path(hash_worker.__file__)), str(tmp_path / "model")],
        stdout=subprocess.PIPE,
        text=True,
    ) as daemon:
        assert daemon.stdout is not None
        worker = int(daemon.stdout.readline())
        assert psutil.pid_exists(worker)
        daemon.kill()
    deadline = time.monotonic() + 10
    while not gone(worker):
        assert time.monotonic() < deadline, "the worker is an orphan"
        time.sleep(0.01)
