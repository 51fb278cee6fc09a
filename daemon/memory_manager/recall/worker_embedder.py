"""The daemon's embedder: owns the worker process and its states. Imports no model library.

Contract: recall.md 2. Everything here runs on the event loop through calls and callbacks, without a
task of its own, so that a kill, a lock or a shutdown leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import collections
import dataclasses
import itertools
from collections.abc import Sequence
from typing import Protocol

import numpy as np

from memory_manager.base.errors import MemlocketError
from memory_manager.recall.embedder import (
    MAX_BATCH_TEXTS,
    EmbedderState,
    EmbedderStatus,
    EmbedderUnavailable,
    TextKind,
    TextRefused,
    Vector,
)
from memory_manager.recall.frames import (
    PROTOCOL,
    Frame,
    FrameError,
    FrameType,
    Lane,
    WorkerErrorCode,
)
from memory_manager.recall.models.errors import INSTALL_COMMAND, PREPARE_COMMAND
from memory_manager.recall.models.installed import PreparedModel
from memory_manager.recall.models.manifest import Backend
from memory_manager.recall.query_cache import QueryVectorCache
from memory_manager.recall.worker_policy import RestartLadder, Suspects
from memory_manager.recall.worker_process import DEFAULT_COMMAND, WorkerProcess
from memory_manager.recall.worker_requests import Lanes, Request, RequestRefused, WorkerDied

MAX_TEXT_CHARACTERS = 200_000
"""Far more than MAX_PIECES pieces hold; the rest of a longer text is not sent."""
_MAX_REQUEST_CHARACTERS = 600_000  # of at most 12 bytes each in the JSON header


class ModelLocator(Protocol):
    """Finds prepared models; may hash or read files, so it is called in a thread."""

    def find(self) -> PreparedModel | None: ...

    def by_key(self, model_key: str) -> PreparedModel | None: ...


@dataclasses.dataclass(frozen=True, slots=True)
class WorkerOptions:
    """Times in seconds. ``command`` is the worker's program without its own arguments."""

    command: Sequence[str] = DEFAULT_COMMAND
    idle_stop_seconds: float = 600.0
    start_timeout_seconds: float = 30.0
    st_start_timeout_seconds: float = 60.0
    silence_timeout_seconds: float = 30.0
    restart_pauses: tuple[float, ...] = (1.0, 4.0, 16.0)
    restart_window_seconds: float = 600.0
    failed_cooldown_seconds: float = 600.0


class WorkerEmbedder:
    """Implements ``Embedder`` with one worker process at a time."""

    def __init__(self, locator: ModelLocator, options: WorkerOptions | None = None) -> None:
        self._locator = locator
        self._options = options or WorkerOptions()
        self._state = EmbedderState.ABSENT
        self._model: PreparedModel | None = None
        self._last_error: str | None = None
        self._worker: WorkerProcess | None = None
        self._worker_rss: int | None = None
        self._lanes = Lanes()
        self._cache = QueryVectorCache()
        self._ladder = RestartLadder(
            self._options.restart_pauses, self._options.restart_window_seconds
        )
        self._failed_until = 0.0
        self._suspects = Suspects()
        self._timer: asyncio.TimerHandle | None = None  # of the present state
        self._silence: dict[Lane, asyncio.TimerHandle] = {}
        self._looked = False

    # -- what is known without a worker ------------------------------------------------------

    @property
    def model_key(self) -> str | None:
        return self._model.model_key if self._model else None

    @property
    def dim(self) -> int | None:
        return self._model.manifest.dim if self._model else None

    @property
    def manifest_json(self) -> str | None:
        return self._model.manifest.as_json() if self._model else None

    @property
    def worker_pid(self) -> int | None:
        return self._worker.pid if self._worker else None

    def status(self) -> EmbedderStatus:
        return EmbedderStatus(
            state=self._state,
            model_key=self.model_key,
            backend=self._model.manifest.backend.value if self._model else None,
            worker_rss_bytes=self._worker_rss if self._worker else None,
            last_error=self._last_error,
            remedy=self._remedy(),
        )

    def _remedy(self) -> str | None:
        if self._state is EmbedderState.ABSENT:
            return f"No embedding model is ready, so recall goes by words: {INSTALL_COMMAND}"
        if self._state is not EmbedderState.FAILED:
            return None
        if self._last_error == WorkerErrorCode.MODEL_DAMAGED:
            return f"The embedding model is damaged; prepare it again: {PREPARE_COMMAND}"
        if self._last_error == WorkerErrorCode.RUNTIME_MISSING:
            return f"The embedding libraries are missing: {INSTALL_COMMAND}"
        return (
            "The embedding worker keeps failing; it is tried again in ten minutes: memlocket doctor"
        )

    async def refresh(self, *, retry: bool = False) -> str | None:
        try:
            model = await asyncio.to_thread(self._locator.find)
        except MemlocketError as error:
            self._use(None)
            self._fail(error.code)
            return None
        self._looked = True
        if model is None or self._model is None or model != self._model:
            self._use(model)
        elif retry and self._state is EmbedderState.FAILED:
            self._recover()
        return self.model_key

    def sibling(self, model_key: str) -> WorkerEmbedder | None:
        model = self._locator.by_key(model_key)
        if model is None:
            return None
        other = WorkerEmbedder(_FixedModel(model), self._options)
        other._use(model)
        other._looked = True
        return other

    def _use(self, model: PreparedModel | None) -> None:
        if model is None and self._model is None and self._state is EmbedderState.ABSENT:
            return
        self._drop_worker()
        self._lanes.fail_all(EmbedderUnavailable("model changed"))
        self._cache.wipe()
        self._model = model
        self._recover()

    def _recover(self) -> None:
        self._ladder.clear()
        self._suspects.clear()
        self._last_error = None
        self._enter(EmbedderState.STOPPED if self._model else EmbedderState.ABSENT)

    # -- requests ----------------------------------------------------------------------------

    async def embed_query(
        self, text: str, timeout_seconds: float, *, kind: TextKind = TextKind.QUERY
    ) -> Vector:
        deadline = asyncio.get_running_loop().time() + timeout_seconds
        model = await self._available_model()
        text = text[:MAX_TEXT_CHARACTERS]
        cached = self._cache.get(model.model_key, kind, text)
        if cached is not None:
            return cached
        if self._state is EmbedderState.RESTARTING or self._lanes.is_full(Lane.QUERY):
            raise EmbedderUnavailable("busy")
        if self._suspects.is_poison(text):
            raise EmbedderUnavailable("text refused")
        request = self._submit(Lane.QUERY, kind, (text,))
        request.answer.add_done_callback(lambda done: self._keep(model.model_key, request))
        left = deadline - asyncio.get_running_loop().time()
        await asyncio.wait({request.answer}, timeout=max(left, 0.0))
        if not request.answer.done():
            raise EmbedderUnavailable("deadline")
        try:
            rows = request.answer.result()[0]
        except (WorkerDied, RequestRefused):
            raise EmbedderUnavailable("worker") from None
        if len(rows) == 0:
            raise EmbedderUnavailable("text refused")
        return np.asarray(rows[0], dtype=np.float32).copy()

    def _keep(self, model_key: str, request: Request) -> None:
        answer = request.answer
        if not answer.cancelled() and answer.exception() is None and len(answer.result()[0]):
            self._cache.put(model_key, request.kind, request.texts[0], answer.result()[0][0])

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector | TextRefused]:
        if len(texts) > MAX_BATCH_TEXTS:
            raise ValueError("too many texts")
        cut = [text[:MAX_TEXT_CHARACTERS] for text in texts]
        found: dict[int, Vector | TextRefused] = {}
        todo = collections.deque(self._groups(cut))
        while todo:
            group = todo.popleft()
            await self._available_model()
            if len(group) > 1 and any(self._suspects.is_suspect(cut[index]) for index in group):
                todo.extendleft([index] for index in reversed(group))  # find out which one it is
                continue
            if self._suspects.is_poison(cut[group[0]]):
                found[group[0]] = TextRefused()
                continue
            request = self._submit(
                Lane.BATCH, TextKind.DOCUMENT, tuple(cut[index] for index in group)
            )
            try:
                answer = await request.answer
            except WorkerDied:
                todo.appendleft(group)
            except RequestRefused:
                if len(group) == 1:
                    found[group[0]] = TextRefused()
                else:
                    todo.extendleft([index] for index in reversed(group))
            else:
                for index, rows in zip(group, answer, strict=True):
                    self._suspects.acquit(cut[index])
                    found[index] = rows if len(rows) else TextRefused()
        return [found[index] for index in range(len(cut))]

    def _groups(self, texts: Sequence[str]) -> list[list[int]]:
        groups: list[list[int]] = []
        room = 0
        for index, text in enumerate(texts):
            if not groups or len(text) > room:
                groups.append([])
                room = _MAX_REQUEST_CHARACTERS
            groups[-1].append(index)
            room -= len(text)
        return groups

    async def _available_model(self) -> PreparedModel:
        if not self._looked:
            await self.refresh()
        if self._state is EmbedderState.FAILED and self._now() >= self._failed_until:
            self._recover()
        if self._model is None or self._state is EmbedderState.FAILED:
            raise EmbedderUnavailable(self._last_error or "no model")
        return self._model

    def _submit(self, lane: Lane, kind: TextKind, texts: tuple[str, ...]) -> Request:
        request = self._lanes.add(lane, kind, texts)
        if self._state is EmbedderState.STOPPED:
            self._start()
        else:
            self._send_startable()
        return request

    def _send_startable(self) -> None:
        if self._state is not EmbedderState.READY or self._worker is None:
            return
        for request in self._lanes.startable():
            try:
                self._worker.send(request.frame())
            except FrameError:
                self._lanes.finished(request.id)
                request.answer.set_exception(RequestRefused())
            else:
                self._watch_silence(request.lane)
        self._rest_if_idle()

    # -- the worker's life -------------------------------------------------------------------

    def _start(self) -> None:
        if self._model is None:
            return
        timeout = (
            self._options.st_start_timeout_seconds
            if self._model.manifest.backend is Backend.ST
            else self._options.start_timeout_seconds
        )
        try:
            self._worker = WorkerProcess(self._options.command, self._model.folder, self)
        except OSError:
            self._fail("worker_not_started")
            return
        self._enter(EmbedderState.STARTING, timeout, self._start_timed_out)

    def _start_timed_out(self) -> None:
        self._fail("worker_start_timeout")

    def frame_received(self, worker: WorkerProcess, frame: Frame) -> None:
        """Called by the worker process (WorkerListener)."""
        if worker is not self._worker:
            return
        try:
            self._handle(frame)
        except FrameError:
            self._drop_worker()
            self._crashed("worker_protocol_error")

    def _handle(self, frame: Frame) -> None:
        if frame.type is FrameType.HELLO:
            self._greet(frame)
        elif frame.type is FrameType.VECTORS:
            self._worker_rss = frame.integer("rss_bytes") or self._worker_rss
            request = self._finish(frame)
            if request is not None and not request.answer.done():
                request.answer.set_result(self._vectors(frame, len(request.texts)))
            self._send_startable()
        elif frame.type is FrameType.PROGRESS:
            self._watch_silence(Lane.BATCH)
        elif frame.type is FrameType.ERROR:
            self._refused(frame)
        elif frame.type is not FrameType.PONG:
            raise FrameError("unexpected frame")

    def _greet(self, frame: Frame) -> None:
        model = self._model
        if model is None or self._state is not EmbedderState.STARTING:
            raise FrameError("unexpected hello")
        if (
            frame.integer("protocol") != PROTOCOL
            or frame.string("model_key") != model.model_key
            or frame.integer("dim") != model.manifest.dim
        ):
            self._fail("wrong_model_key")
            return
        self._worker_rss = frame.integer("rss_bytes")
        self._last_error = None
        self._enter(EmbedderState.READY)
        self._send_startable()

    def _refused(self, frame: Frame) -> None:
        code = frame.string("code")
        if "id" not in frame.fields:  # while loading
            self._fail(code if code in set(WorkerErrorCode) else "worker_error")
            return
        request = self._finish(frame)
        if request is not None and not request.answer.done():
            request.answer.set_exception(RequestRefused())
        self._send_startable()

    def _finish(self, frame: Frame) -> Request | None:
        request = self._lanes.finished(frame.integer("id"))
        if request is not None and (timer := self._silence.pop(request.lane, None)) is not None:
            timer.cancel()
        return request

    def _vectors(self, frame: Frame, texts: int) -> list[Vector]:
        dim, pieces = frame.integer("dim"), frame.integers("pieces")
        rows = np.frombuffer(frame.body, dtype="<f4")
        if dim != self.dim or len(pieces) != texts or len(rows) != sum(pieces) * dim:
            raise FrameError("vectors")
        matrix = np.asarray(rows, dtype=np.float32).reshape(-1, dim)
        borders = itertools.pairwise([0, *itertools.accumulate(pieces)])
        return [matrix[start:end].copy() for start, end in borders]

    def worker_exited(self, worker: WorkerProcess, returncode: int) -> None:
        """Called by the worker process (WorkerListener)."""
        if worker is self._worker:
            self._worker = None
            self._crashed("worker_exited")

    def _crashed(self, code: str) -> None:
        """Climb the restart ladder; whatever the worker worked on is a suspect."""
        for request in self._lanes.fail_running(WorkerDied()):
            for text in request.texts:
                self._suspects.blame(text)
        pause = self._ladder.next_pause(self._now())
        if pause is None:
            self._fail(code)
            return
        self._last_error = code
        self._enter(EmbedderState.RESTARTING, pause, self._start)

    def _fail(self, code: str) -> None:
        self._drop_worker()
        self._last_error = code
        self._failed_until = self._now() + self._options.failed_cooldown_seconds
        self._enter(EmbedderState.FAILED)
        self._lanes.fail_all(EmbedderUnavailable(code))

    def _watch_silence(self, lane: Lane) -> None:
        """A worker that says nothing for long about what it was sent is hanging."""
        if (timer := self._silence.pop(lane, None)) is not None:
            timer.cancel()
        self._silence[lane] = asyncio.get_running_loop().call_later(
            self._options.silence_timeout_seconds, self._hanging
        )

    def _hanging(self) -> None:
        self._drop_worker()
        self._crashed("worker_hanging")

    def _rest_if_idle(self) -> None:
        if self._lanes.is_idle():
            self._enter(EmbedderState.READY, self._options.idle_stop_seconds, self._idle)
        elif self._timer is not None:
            self._timer.cancel()

    def _idle(self) -> None:
        self._drop_worker()
        self._enter(EmbedderState.STOPPED)

    async def stop(self) -> None:
        self._drop_worker()
        self._lanes.fail_all(EmbedderUnavailable("stopped"))
        self._cache.wipe()
        if self._state not in (EmbedderState.ABSENT, EmbedderState.FAILED):
            self._enter(EmbedderState.STOPPED)

    def _drop_worker(self) -> None:
        worker, self._worker = self._worker, None
        self._worker_rss = None
        while self._silence:
            self._silence.popitem()[1].cancel()
        if worker is not None:
            worker.kill()

    def _enter(
        self, state: EmbedderState, seconds: float | None = None, then: object = None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._state = state
        if seconds is not None and callable(then):
            self._timer = asyncio.get_running_loop().call_later(seconds, then)

    @staticmethod
    def _now() -> float:
        return asyncio.get_running_loop().time()


class _FixedModel:
    """Locator of a sibling: its one model."""

    def __init__(self, model: PreparedModel) -> None:
        self._model = model

    def find(self) -> PreparedModel | None:
        return self._model

    def by_key(self, model_key: str) -> PreparedModel | None:
        return self._model if model_key == self._model.model_key else None
