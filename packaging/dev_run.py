"""``dev.py run``: a sandbox vault with a daemon on it, one round trip, then wait for Ctrl-C.

Facts go to standard output, one a line, in a fixed form that scripts may read.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dev_environment
from dev_environment import ROOT, Failure, child_environment, ensure_packages, say, venv_python
from dev_wire import Wire, discovery_of

START_SECONDS = 20.0
STOP_SECONDS = 10.0
POLL_SECONDS = 0.05
MODEL_SECONDS = 900.0
SHOWN_OUTPUT_CHARACTERS = 2000
ALREADY_RUNNING_EXIT = 3
AGENT = "memlocket-dev"
SENTENCE = "The Memlocket sandbox remembers this sentence and finds it again."
QUESTION = "Which sentence does the sandbox remember?"
FOREIGN_SENTENCE = "La llave de repuesto está escondida debajo de la maceta azul."
ENGLISH_QUESTION = "Where did we hide the extra key?"


class Stopped(BaseException):
    """SIGINT or SIGTERM arrived: leave the way a finished run leaves."""


def fact(name: str, text: str) -> None:
    print(f"memlocket-dev {name:<10} {text}", flush=True)


def run(arguments: argparse.Namespace) -> int:
    once = bool(arguments.once)
    lite = once or bool(arguments.lite)
    home = sandbox_path(arguments.home)
    _install_handlers(_raise_stopped)
    sandbox = Sandbox(home)
    try:
        ensure_packages("base")
        sandbox.prepare()
        sandbox.start(arguments.port)
        _show_round_trip(sandbox)
        if not once:
            fact("ready", "Ctrl-C stops")
            _stay(sandbox, with_meaning=not lite)
        return sandbox.stop()
    except Stopped:
        return sandbox.stop()
    except BaseException:
        sandbox.stop(silent=True)
        raise


def _raise_stopped(number: int, frame: object) -> None:
    raise Stopped()


def _install_handlers(handler: Callable[[int, object], None] | signal.Handlers) -> None:
    # by hand: a background job of a shell inherits SIGINT ignored
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, handler)


# -- the sandbox folder


def sandbox_path(chosen: Path | None) -> Path:
    """The absolute sandbox; Failure if it could touch a real installation of this user."""
    home = Path(os.path.abspath(str(chosen or ROOT / ".sandbox")))
    resolved = home.resolve()
    for real in real_directories():
        if _related(resolved, real.resolve()):
            raise Failure(f"{home} would touch your own Memlocket at {real}; choose another.")
    return home


def real_directories() -> list[Path]:
    """Every directory that an installation of this user may use."""
    user = Path(os.path.expanduser("~"))
    if sys.platform == "darwin":
        library = user / "Library"
        parts = ["Application Support", "Logs", "Caches"]
        return [library / part / "memlocket" for part in parts]
    if sys.platform == "win32":
        return [Path(os.environ.get("LOCALAPPDATA") or str(user / "AppData/Local")) / "memlocket"]
    folders = []
    for name, default in (
        ("XDG_DATA_HOME", ".local/share"),
        ("XDG_CONFIG_HOME", ".config"),
        ("XDG_STATE_HOME", ".local/state"),
        ("XDG_CACHE_HOME", ".cache"),
    ):
        folders.append(user / default / "memlocket")
        if os.environ.get(name):
            folders.append(Path(os.environ[name]) / "memlocket")
    if os.environ.get("XDG_RUNTIME_DIR"):
        folders.append(Path(os.environ["XDG_RUNTIME_DIR"]) / "memlocket")
    folders.append(Path(f"/run/user/{os.getuid()}/memlocket"))
    return folders


def _related(one: Path, other: Path) -> bool:
    return one == other or one in other.parents or other in one.parents


class Sandbox:
    """One sandbox home and the daemon on it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.key_file = home / "vault.key"
        self.output = home / "log" / "daemon.out"
        self.process: subprocess.Popen[bytes] | None = None
        self.is_ours = False
        self.address: dict[str, Any] = {}
        self.helper: subprocess.Popen[bytes] | None = None

    def environment(self) -> dict[str, str]:
        """A daemon that knows only this home and never looks at the real keyring."""
        return dict(
            child_environment(),
            MEMLOCKET_HOME=str(self.home),
            PYTHON_KEYRING_BACKEND="keyring.backends.null.Keyring",
        )

    def command(self, *arguments: str) -> list[str]:
        return [str(venv_python()), "-m", "memory_manager.cli.main", *list(arguments)]

    def prepare(self) -> None:
        """Folder, key file and vault, each only if it is missing."""
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.chmod(str(self.home), 0o700)
        ignore = self.home / ".gitignore"
        if not ignore.exists():
            _write_private(ignore, "*\n")
        if not self.key_file.exists():
            self._cli("keyfile", "new", str(self.key_file))
        if not (self.home / "vault").exists():
            self._cli("init", "--insecure-key-file", str(self.key_file))

    def _cli(self, *arguments: str) -> None:
        done = subprocess.run(
            self.command(*arguments),
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if done.returncode != 0:
            raise Failure(done.stdout.decode("utf-8", "replace").strip())

    def start(self, port: int | None) -> None:
        """Start the daemon and wait until it answers; one that runs already is used as it is."""
        self.output.parent.mkdir(mode=0o700, exist_ok=True)
        options = [] if port is None else ["--port", str(port)]
        descriptor = os.open(str(self.output), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        try:
            self.process = subprocess.Popen(
                self.command("daemon", "--insecure-key-file", str(self.key_file), *options),
                cwd=str(self.home),
                env=self.environment(),
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                start_new_session=True,
            )
        finally:
            os.close(descriptor)
        self.is_ours = True
        self._wait_for_answer()

    def _wait_for_answer(self) -> None:
        assert self.process is not None  # noqa: S101
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            ended = self.process.poll()
            if ended == ALREADY_RUNNING_EXIT:
                self.is_ours = False
            elif ended is not None:
                raise Failure(f"The daemon ended with exit code {ended}.\n{self.words()}")
            found = discovery_of(self.home)
            if found is not None and (not self.is_ours or found["pid"] == self.process.pid):
                with contextlib.suppress(OSError, ValueError), Wire(found, None, {}) as wire:
                    status, health = wire.send("GET", "/health", None)
                    if status == 200 and health.get("vault") == "unlocked":
                        self.address = found
                        return
            time.sleep(POLL_SECONDS)
        raise Failure(f"The daemon did not answer in {START_SECONDS:g} s.\n{self.words()}")

    def words(self) -> str:
        """The end of what the daemon printed."""
        try:
            text = self.output.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""
        return text[-SHOWN_OUTPUT_CHARACTERS:]

    def wire(self) -> Wire:
        """The owner over the Unix socket, with the labels of this sandbox."""
        token = (Path(str(self.address["runtime_dir"])) / "token").read_text().strip()
        labels = {
            "X-Memory-OS-Agent-ID": AGENT,
            "X-Memory-OS-Agent-Instance-ID": self._instance_id(),
        }
        return Wire(self.address, token, labels)

    def _instance_id(self) -> str:
        path = self.home / "instance-id"
        if not path.exists():
            _write_private(path, f"dev-{uuid.uuid4()}\n")
        return path.read_text().strip()

    def stop(self, silent: bool = False) -> int:
        """End what this run started: SIGTERM, 10 s, SIGKILL. Returns the exit code of the run."""
        _install_handlers(signal.SIG_IGN)
        dev_environment.end_children()
        _end(self.helper)
        if self.process is None or not self.is_ours:
            return 0
        ended_before = self.process.poll()
        code = _end(self.process)
        if not silent and ended_before is None:
            fact("stopped", f"rc={code}")
        return 0 if code == 0 or silent else 1


def _end(process: subprocess.Popen[bytes] | None) -> int:
    if process is None:
        return 0
    if process.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
    return process.wait()


def _write_private(path: Path, text: str) -> None:
    descriptor = os.open(str(path), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w") as stream:
        stream.write(text)


# -- what it shows


def _show_round_trip(sandbox: Sandbox) -> None:
    address = sandbox.address
    fact("home", str(sandbox.home))
    where = address.get("socket") or address.get("url")
    running = "" if sandbox.is_ours else " running-already"
    fact("daemon", f"pid={address['pid']} socket={where} insecure-key-file{running}")
    with sandbox.wire() as wire:
        memory = {"content": SENTENCE, "path": "memlocket-dev/hello", "dedupe": True}
        status, written = wire.send("POST", "/v1/remember", memory)
        memory_id = written.get("id")
        if status not in (200, 201) or not memory_id:
            raise Failure(f"remember answered {status}: {written}")
        fact("remember", f"ok id={memory_id}")
        status, found = wire.send("POST", "/v1/recall/context", {"query": QUESTION})
    items = found.get("items") or []
    item = next((item for item in items if item.get("id") == memory_id), {})
    relation = (item.get("memory_agent_boundary") or {}).get("relation")
    if status != 200 or item.get("content") != SENTENCE or relation != "self":
        raise Failure(f"recall answered {status}: {found}")
    degraded = ",".join(found.get("degraded") or []) or "none"
    fact("recall", f"ok hits={len(items)} relation={relation} degraded={degraded}")
    fact("address", f"{address.get('url')}   for agents; a token for one: see README")


def _stay(sandbox: Sandbox, with_meaning: bool) -> None:
    """Until a signal comes; a daemon of ours that ends by itself is a failure."""
    if with_meaning:
        threading.Thread(target=_add_meaning, args=(sandbox,), daemon=True).start()
    while True:
        if sandbox.is_ours and sandbox.process is not None and sandbox.process.poll() is not None:
            raise Failure(
                f"The daemon ended with exit code {sandbox.process.returncode}.\n{sandbox.words()}"
            )
        time.sleep(0.2)


def _add_meaning(sandbox: Sandbox) -> None:
    """Install embeddings, prepare the model, show one recall by meaning across two languages."""
    if not dev_environment.install_embeddings(local_only=False):
        fact("meaning", "absent: embeddings cannot be installed here; recall goes on by words")
        return
    say("preparing the embedding model; about a minute the first time")
    if not _prepare_model(sandbox):
        fact("meaning", "absent: the model could not be prepared; see memlocket model prepare")
        return
    with contextlib.suppress(OSError, ValueError):
        _show_meaning(sandbox)


def _prepare_model(sandbox: Sandbox) -> bool:
    sandbox.helper = subprocess.Popen(
        sandbox.command("model", "prepare", "--if-missing"),
        env=sandbox.environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    return sandbox.helper.wait() == 0


def _show_meaning(sandbox: Sandbox) -> None:
    deadline = time.monotonic() + MODEL_SECONDS
    with sandbox.wire() as wire:
        memory = {"content": FOREIGN_SENTENCE, "path": "memlocket-dev/es", "dedupe": True}
        _, written = wire.send("POST", "/v1/remember", memory)
        while time.monotonic() < deadline:
            question = {"query": ENGLISH_QUESTION, "max_items": 1}
            _, found = wire.send("POST", "/v1/recall/context", question)
            items = found.get("items") or []
            if items and not found.get("degraded") and items[0].get("id") == written.get("id"):
                score = items[0].get("score") or 0.0
                fact("meaning", f"ok asked=en found=es score={score:.2f} id={written['id']}")
                return
            time.sleep(1.0)
    fact("meaning", "late: no recall by meaning yet; see memlocket status")


def doctor(chosen: Path | None) -> int:
    """``memlocket doctor`` on the sandbox."""
    ensure_packages("base")
    sandbox = Sandbox(sandbox_path(chosen))
    return subprocess.run(
        sandbox.command("doctor"), env=sandbox.environment(), stdin=subprocess.DEVNULL, check=False
    ).returncode
