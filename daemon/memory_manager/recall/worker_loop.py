"""The worker's main loop: reads frames, runs two lanes, writes frames. Knows no model library.

Contract: recall.md 2. Two threads: this one reads and answers queries, the other one works on
batches, in small steps, and waits between two of them while a query runs. onnxruntime adds a third.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence

import numpy as np

from memory_manager.recall.embedder import MAX_BATCH_TEXTS, TextKind, Vector
from memory_manager.recall.frames import (
    PROTOCOL,
    Decoder,
    Frame,
    FrameError,
    FrameType,
    Lane,
    WorkerErrorCode,
    encode,
)
from memory_manager.recall.models.errors import ModelDamaged
from memory_manager.recall.worker_backends import WorkerBackend

BATCH_NICENESS = 10
EXIT_PROTOCOL = 3
EXIT_LOADING = 4
_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_READ_BYTES = 1 << 16
_PROGRESS_SECONDS = 2.0


def serve(load: Callable[[], WorkerBackend], parent: int) -> None:
    """Run until stdin ends, ``stop`` arrives or the parent dies. Does not return."""
    tie_to_parent(parent)
    inbox = os.dup(0)
    outbox = os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    # whatever a library prints must not get between the frames
    os.dup2(null, 0)
    os.dup2(2, 1)
    _Worker(load, inbox, outbox).run()


def tie_to_parent(parent: int) -> None:
    """Die with the daemon even when it is killed, and keep our memory closed to other processes."""
    if sys.platform == "linux":
        libc = ctypes.CDLL(None, use_errno=True)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
    if hasattr(os, "getppid") and os.getppid() != parent:
        os._exit(0)  # it died before the line above


def resident_bytes() -> int:
    """Resident memory of this process; 0 where the platform does not say cheaply."""
    with (
        contextlib.suppress(OSError, ValueError, IndexError),
        open("/proc/self/statm", "rb") as file,
    ):
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return 0


class _Worker:
    def __init__(self, load: Callable[[], WorkerBackend], inbox: int, outbox: int) -> None:
        self._load = load
        self._inbox = inbox
        self._outbox = outbox
        self._write_lock = threading.Lock()
        self._batches: queue.SimpleQueue[Frame] = queue.SimpleQueue()
        self._no_query = threading.Event()
        self._no_query.set()

    def run(self) -> None:
        backend = self._load_or_exit()
        threading.Thread(target=self._batch_thread, args=(backend,), daemon=True).start()
        decoder = Decoder()
        try:
            while data := os.read(self._inbox, _READ_BYTES):
                for frame in decoder.feed(data):
                    self._dispatch(backend, frame)
        except FrameError:
            os._exit(EXIT_PROTOCOL)
        except OSError:
            pass  # the daemon is gone
        os._exit(0)

    def _dispatch(self, backend: WorkerBackend, frame: Frame) -> None:
        if frame.type is FrameType.EMBED:
            if frame.string("lane") == Lane.QUERY:
                self._no_query.clear()
                self._answer(backend, frame, between_steps=lambda: None)
                self._no_query.set()
            else:
                self._batches.put(frame)
        elif frame.type is FrameType.PING:
            self._send(Frame(FrameType.PONG, {"rss_bytes": resident_bytes()}))
        elif frame.type is FrameType.STOP:
            os._exit(0)
        else:
            raise FrameError("unexpected frame")

    def _load_or_exit(self) -> WorkerBackend:
        started = time.monotonic()
        error: dict[str, object]
        try:
            backend = self._load()
            # the first run allocates: better now than in the first query
            plan = backend.plan(["warm"], TextKind.QUERY)
            for _ in plan.steps():
                pass
        except ModelDamaged as damage:
            error = {"code": WorkerErrorCode.MODEL_DAMAGED.value, "file": damage.file or ""}
        except ImportError:
            error = {"code": WorkerErrorCode.RUNTIME_MISSING.value}
        except MemoryError:
            error = {"code": WorkerErrorCode.OUT_OF_MEMORY.value}
        except Exception:  # hashes were right and it still does not load: nothing else to try
            error = {"code": WorkerErrorCode.MODEL_DAMAGED.value, "file": ""}
        else:
            self._send(
                Frame(
                    FrameType.HELLO,
                    {
                        "protocol": PROTOCOL,
                        "backend": backend.name,
                        "model_key": backend.model_key,
                        "dim": backend.dim,
                        "rss_bytes": resident_bytes(),
                        "load_s": round(time.monotonic() - started, 3),
                    },
                )
            )
            return backend
        self._send(Frame(FrameType.ERROR, error))
        os._exit(EXIT_LOADING)

    def _batch_thread(self, backend: WorkerBackend) -> None:
        lower_priority_of_this_thread()
        while True:
            frame = self._batches.get()
            last = time.monotonic()

            def between_steps(identifier: int = frame.integer("id")) -> None:
                nonlocal last
                self._no_query.wait()
                if time.monotonic() - last > _PROGRESS_SECONDS:
                    last = time.monotonic()
                    self._send(Frame(FrameType.PROGRESS, {"id": identifier}))

            self._answer(backend, frame, between_steps)

    def _answer(
        self, backend: WorkerBackend, frame: Frame, between_steps: Callable[[], None]
    ) -> None:
        identifier = frame.integer("id")
        try:
            texts = frame.strings("texts")
            kind = TextKind(frame.string("kind"))
            if not 0 < len(texts) <= MAX_BATCH_TEXTS:
                raise ValueError("texts")
            plan = backend.plan(texts, kind)
            for _ in plan.steps():
                between_steps()
            answer = _vectors_frame(identifier, plan.result(), backend.dim)
        except MemoryError:
            answer = _error_frame(identifier, WorkerErrorCode.OUT_OF_MEMORY)
        except Exception:  # a library may fail on a text in any way; its message may quote the text
            answer = _error_frame(identifier, WorkerErrorCode.BAD_INPUT)
        self._send(answer)

    def _send(self, frame: Frame) -> None:
        data = memoryview(encode(frame))
        with self._write_lock:
            try:
                while data:
                    data = data[os.write(self._outbox, data) :]
            except OSError:
                os._exit(0)  # nobody listens any more


def lower_priority_of_this_thread() -> None:
    """Linux lowers one thread; elsewhere the batch lane only waits for queries."""
    if sys.platform == "linux":
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), BATCH_NICENESS)


def _vectors_frame(identifier: int, vectors: Sequence[Vector], dim: int) -> Frame:
    rows = np.concatenate(vectors) if vectors else np.empty((0, dim), dtype=np.float32)
    return Frame(
        FrameType.VECTORS,
        {
            "id": identifier,
            "n": len(rows),
            "dim": dim,
            "pieces": [len(part) for part in vectors],
            "rss_bytes": resident_bytes(),
        },
        np.ascontiguousarray(rows, dtype="<f4").tobytes(),
    )


def _error_frame(identifier: int, code: WorkerErrorCode) -> Frame:
    return Frame(FrameType.ERROR, {"id": identifier, "code": code.value})
