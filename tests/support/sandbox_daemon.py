"""A real daemon process on a vault of its own, for tests and benches; also a small HTTP client.

The client is deliberately not the product's: what is measured and attacked here is the wire.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import http.client
import json
import os
import random
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import urlencode, urlsplit

import psutil

START_SECONDS = 60.0
KEPT_SECONDS = 30.0  # the daemon ends a connection on which nothing was asked for 75
EPHEMERAL_PORTS_FROM = 32_768  # Linux; elsewhere they begin higher
PASSED_ON = ("PATH", "PYTHONPATH", "LANG", "LC_ALL", "COVERAGE_PROCESS_START", "TMPDIR")


class Answer:
    """Status, headers and body of one answer; ``json`` parses the body."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = dict(response.getheaders())
        self.body = response.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body) if self.body else {}

    @property
    def code(self) -> str:
        error = self.json.get("error")
        return str(error.get("code") if isinstance(error, dict) else error)


class Wire:
    """One keep-alive connection with one credential; reopened after a lost or a long silent one,
    never retried.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        socket_path: str | None = None,
        agent: str | None = None,
        instance: str | None = None,
        timeout: float = 60.0,
    ) -> None:
        if socket_path is not None:
            self._connection: http.client.HTTPConnection = _UnixConnection(socket_path, timeout)
        else:
            assert url is not None
            target = urlsplit(url)
            self._connection = http.client.HTTPConnection(
                str(target.hostname), target.port, timeout=timeout
            )
        self._used = time.monotonic()
        self.headers: dict[str, str] = {}
        if token is not None:
            self.headers["Authorization"] = f"Bearer {token}"
        if agent is not None:
            self.headers["X-Memory-OS-Agent-ID"] = agent
        if instance is not None:
            self.headers["X-Memory-OS-Agent-Instance-ID"] = instance

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def send(
        self,
        method: str,
        path: str,
        /,
        body: object = None,
        headers: Mapping[str, str] | None = None,
        **query: object,
    ) -> Answer:
        if query:
            path = f"{path}?{urlencode({k: v for k, v in query.items() if v is not None})}"
        extra = dict(headers or {})
        data = body if isinstance(body, bytes) else None
        if body is not None and data is None:
            data = json.dumps(body).encode()
        if data is not None:
            extra.setdefault("Content-Type", "application/json")
        if time.monotonic() - self._used > KEPT_SECONDS:
            self._connection.close()
        try:
            self._connection.request(method, path, body=data, headers={**self.headers, **extra})
            return Answer(self._connection.getresponse())
        except BaseException:
            self._connection.close()
            raise
        finally:
            self._used = time.monotonic()

    def get(self, path: str, /, **query: object) -> Answer:
        return self.send("GET", path, **query)

    def post(self, path: str, /, body: object = None, **headers: str) -> Answer:
        return self.send("POST", path, {} if body is None else body, headers)

    def remember(self, content: str, path: str = "notes/test", **fields: object) -> dict[str, Any]:
        answer = self.post("/v1/remember", {"content": content, "path": path, **fields})
        assert answer.status in (200, 201), (answer.status, answer.code)
        return answer.json  # type: ignore[no-any-return]

    def search(self, query: str, /, **params: object) -> list[dict[str, Any]]:
        answer = self.get("/v1/memories/search", query=query, **params)
        assert answer.status == 200, (answer.status, answer.code)
        return answer.json["results"]  # type: ignore[no-any-return]

    def context(self, query: str, /, **fields: object) -> dict[str, Any]:
        answer = self.post("/v1/recall/context", {"query": query, **fields})
        assert answer.status == 200, (answer.status, answer.code)
        return answer.json  # type: ignore[no-any-return]


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


@dataclasses.dataclass
class SandboxDaemon:
    """``home`` is the MEMLOCKET_HOME of this daemon. Start, kill and start it again at will."""

    home: Path
    options: tuple[str, ...] = ()
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    keyless: bool = False  # start without the key file: the vault stays locked
    key_file_path: Path | None = None
    output_path: Path | None = None
    process: subprocess.Popen[bytes] | None = None
    discovery: dict[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def key_file(self) -> Path:
        # Beside the home, not in it: a scan of the home must not find the key by design.
        return self.key_file_path or self.home.with_name(self.home.name + ".key")

    @property
    def output(self) -> Path:
        return self.output_path or self.home.with_name(self.home.name + ".out")

    @property
    def env(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
        return {
            **kept,
            "HOME": str(self.home.parent),
            "MEMLOCKET_HOME": str(self.home),
            "PYTHON_KEYRING_BACKEND": "keyring.backends.null.Keyring",
            **self.environment,
        }

    def cli(
        self,
        *arguments: str,
        check: bool = True,
        stdin: str | None = None,
        secrets: Mapping[str, str] | None = None,
        pass_fds: Sequence[int] = (),
        timeout: float = 120,
    ) -> subprocess.CompletedProcess[str]:
        """Run the real command line on this home; ``secrets`` go in through descriptors."""
        command = [*COMMAND, *arguments]
        descriptors: list[int] = []
        for option, secret in (secrets or {}).items():
            reader, writer = os.pipe()
            os.write(writer, secret.encode() + b"\n")
            os.close(writer)
            descriptors.append(reader)
            command += [option, str(reader)]
        try:
            done = subprocess.run(
                command,
                env=self.env,
                input=stdin,
                stdin=subprocess.DEVNULL if stdin is None else None,
                capture_output=True,
                text=True,
                timeout=timeout,
                pass_fds=[*descriptors, *pass_fds],
            )
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        if check and done.returncode:
            said = (done.stderr + done.stdout)[-2000:]
            raise AssertionError(f"{arguments}: exit {done.returncode}\n{said}")
        return done

    def init(self, passphrase: str | None = None) -> SandboxDaemon:
        """Make the vault; a key file opens it, and the passphrase too if there is one."""
        self._init(passphrase, "--no-recovery")
        return self

    def init_with_words(self, passphrase: str) -> str:
        """As ``init``, and with recovery words; the words."""
        reader, writer = os.pipe()
        with os.fdopen(reader) as stream:
            self._init(passphrase, "--recovery-fd", str(writer), pass_fds=[writer])
            os.close(writer)
            return stream.readline().strip()

    def _init(self, passphrase: str | None, *options: str, pass_fds: Sequence[int] = ()) -> None:
        self.home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.key_file.exists():
            self.cli("keyfile", "new", str(self.key_file))
        self.cli(
            *("init", "--no-keyring", "--insecure-key-file", str(self.key_file), *options),
            secrets={} if passphrase is None else {"--passphrase-fd": passphrase},
            pass_fds=pass_fds,
        )

    def launch(self) -> subprocess.Popen[bytes]:
        """Start the process and return at once."""
        key = () if self.keyless else ("--insecure-key-file", str(self.key_file))
        with self.output.open("ab") as out:
            self.process = subprocess.Popen(
                [*COMMAND, "daemon", *key, *self.options],
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )
        return self.process

    def start(self) -> SandboxDaemon:
        """Start and wait until this very process answers; AssertionError with its output if not."""
        process = self.launch()
        wait_until(lambda: self._answers(process), START_SECONDS, "the daemon answers", 0.01)
        return self

    def _answers(self, process: subprocess.Popen[bytes]) -> bool:
        if process.poll() is not None:
            tail = self.output.read_text(errors="replace")[-2000:]
            raise AssertionError(f"the daemon ended with {process.returncode}:\n{tail}")
        try:
            found = json.loads((self.home / "run" / "daemon.json").read_bytes())
        except (OSError, ValueError):
            return False
        if found["pid"] != process.pid:
            return False
        self.discovery = found
        try:
            with Wire(socket_path=found["socket"], timeout=5) as wire:
                return wire.get("/health").status == 200
        except OSError:
            return False

    @property
    def url(self) -> str:
        return str(self.discovery["url"])

    @property
    def owner_token(self) -> str:
        return (Path(self.discovery["runtime_dir"]) / "token").read_text().strip()

    def owner(self, **options: Any) -> Wire:
        """The owner over the Unix socket."""
        return Wire(token=self.owner_token, socket_path=self.discovery["socket"], **options)

    def add_agent(self, name: str, *scopes: str) -> str:
        """A new credential; its token."""
        wanted = list(scopes or ("memory:read", "memory:write"))
        with self.owner() as owner:
            answer = owner.post("/v1/agents", {"name": name, "scopes": wanted})
        assert answer.status in (200, 201), (answer.status, answer.code)
        return str(answer.json["token"])

    def wire(self, token: str, **options: Any) -> Wire:
        """An agent over TCP."""
        return Wire(self.url, token, **options)

    def status(self) -> dict[str, Any]:
        with self.owner() as owner:
            return owner.get("/v1/status").json  # type: ignore[no-any-return]

    def modes(self) -> dict[str, int]:
        """Permission bits of the home and all in it that stays: a running daemon puts each new
        file in place by renaming it.
        """
        found: dict[str, int] = {}
        for path in [self.home, *self.home.rglob("*")]:
            with contextlib.suppress(FileNotFoundError):
                found[str(path.relative_to(self.home))] = stat.S_IMODE(path.lstat().st_mode)
        return found

    def contents(self) -> dict[str, bytes]:
        """Every regular file of the home that stays."""
        found: dict[str, bytes] = {}
        for path in self.home.rglob("*"):
            with contextlib.suppress(FileNotFoundError):
                if path.is_file():
                    found[str(path.relative_to(self.home))] = path.read_bytes()
        return found

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Inside, no thread of it runs: what is copied now is of one moment."""
        assert self.process is not None
        with frozen(self.process.pid):
            yield

    def kill(self) -> None:
        """kill -9 and reap."""
        assert self.process is not None
        self.process.kill()
        self.process.wait(30)

    def stop(self, timeout: float = 30) -> int:
        """SIGTERM; the exit code."""
        assert self.process is not None
        self.process.terminate()
        return self.process.wait(timeout)

    def children(self) -> list[psutil.Process]:
        assert self.process is not None
        with contextlib.suppress(psutil.NoSuchProcess):
            return psutil.Process(self.process.pid).children(recursive=True)  # type: ignore[no-any-return]
        return []

    def cleanup(self) -> None:
        """End whatever of ours still runs."""
        if self.process is None or self.process.poll() is not None:
            return
        children = self.children()
        self.process.terminate()
        try:
            self.process.wait(15)
        except subprocess.TimeoutExpired:
            self.kill()
        for child in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                child.kill()

    def __enter__(self) -> SandboxDaemon:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.cleanup()


COMMAND = (
    sys.executable,
    "-c",
    "import sys; from memory_manager.cli.main import main; sys.exit(main())",
)


def _die_with_parent() -> None:
    """A killed test run leaves no daemon behind; Linux only."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def wait_until(
    condition: Callable[[], object], seconds: float, what: str, pause: float = 0.05
) -> None:
    """Poll until the condition is true; AssertionError that names it when time is up."""
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(pause)


@contextlib.contextmanager
def running(home: Path, *options: str, **environment: str) -> Iterator[SandboxDaemon]:
    """A fresh vault with a daemon on it."""
    with SandboxDaemon(home, options, environment) as daemon:
        yield daemon.init().start()


@contextlib.contextmanager
def frozen(pid: int) -> Iterator[None]:
    """Stop a process and wait until each of its threads stands: one may still end a system call."""

    def stands() -> bool:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that ended
            said = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/stat")]
            return all(line.rpartition(")")[2].split()[0] == "T" for line in said)
        return False

    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(stands, 20, "every thread stands", 0.001)
        yield
    finally:
        os.kill(pid, signal.SIGCONT)


def unused_port() -> int:
    """Of those that the system gives to nobody by itself, so that it stays unused."""
    while True:
        port = random.SystemRandom().randrange(20_000, EPHEMERAL_PORTS_FROM)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def is_alive(pid: int) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    return False


TERMINATE = signal.SIGTERM

BROKEN = (OSError, http.client.HTTPException)
"""What a dead or dying daemon looks like to a client."""
