"""What leaves a machine, and what lies on the server: nothing readable, no exact length.

sync.md T16 and T58 for whole processes: real daemons and a real server with a relay between them
that keeps every octet. Sought in all forms of vault.md T15: texts of every field, memory ids, keys,
recovery words, enrolment strings, tokens.
"""

from __future__ import annotations

import base64
import contextlib
import dataclasses
import gzip
import json
import os
import shutil
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import quote

import aiohttp
import pytest
from canary_story import (
    FIELDS,
    STEM,
    Story,
    gather_secrets,
    mark,
    opt_out,
    play,
    session_tokens,
)
from leak_scan import scan_bytes, scan_folders
from postgres_server import PostgresServer, database_of
from recording_relay import RecordedCall, RecordingRelay, frames
from sandbox_daemon import SandboxDaemon
from sync_server import ServerProcess

from memory_manager.sync.server.running import RunningServer
from memory_manager.sync.wire.envelope import padme
from memory_manager.sync.wire.framing import LogRow, unpack_page, unpack_push

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
BODY_OVERHEAD = 172
PUSH, PULL, INDEX_ROWS = "POST /v1/log/push", "GET /v1/log/pull", "POST /v1/index/rows"
SESSION, VAULTS = "POST /v1/auth/session", "POST /v1/vaults"
SOCKET_EVENTS = """
import os, sys
_HOST = ("socket.getaddrinfo", "socket.gethostbyname")
_ADDRESS = ("socket.connect", "socket.sendto", "socket.sendmsg")
def _note(event, arguments):
    if event in _HOST or event in _ADDRESS:
        where = arguments[0] if event in _HOST else arguments[1]
        out = os.open(os.environ["SOCKET_EVENTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(out, f"{event} {where!r}\\n".encode())
        os.close(out)
if "SOCKET_EVENTS" in os.environ:
    sys.addaudithook(_note)
"""
PUSH_FIXED, ROW_FIXED = 16 + 112 + 64 + 4, 137 + 4 + 92


def machine(folder: Path, hooks: Path, *options: str) -> SandboxDaemon:
    """A machine whose temporary, cache and configuration folders lie in ``folder``, too."""
    environment = {
        "PYTHONPATH": os.pathsep.join([str(hooks), os.environ.get("PYTHONPATH", "")]),
        "SOCKET_EVENTS": str(hooks / f"{folder.name}.events"),
    }
    for variable in ("TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"):
        place = folder / variable.lower()
        place.mkdir(parents=True, mode=0o700)
        environment[variable] = str(place)
    daemon = SandboxDaemon(folder / "home", options, environment)
    daemon.key_file_path = hooks / f"{folder.name}.key"  # a secret by design, not searched
    return daemon


@dataclasses.dataclass
class Told:
    """The story at its end, and copies of what lay on the server at two moments of it."""

    story: Story
    calls: list[RecordedCall]
    octets: bytes
    opted_in: Path
    opted_out: Path
    stopped: Path

    def sought(self) -> dict[str, str | bytes]:
        return {**self.story.sought(), **session_tokens(self.calls)}

    def few(self) -> dict[str, str | bytes]:
        """For many octets: what begins every text, one id, the keys of the epochs."""
        few = {n: each for n, each in self.story.secrets.items() if n.startswith("key of epoch")}
        memory_id = self.story.ids["id of content"]
        return {"stem": STEM, "id": memory_id, "id, raw": uuid.UUID(memory_id).bytes, **few}

    def rows(self) -> list[LogRow]:
        """Every row that was pushed or pulled."""
        found: list[LogRow] = []
        for call in self.calls:
            if call.status == 200 and call.name == PUSH:
                found += unpack_push(call.request.body).rows
            if call.status == 200 and call.name == PULL and call.answer is not None:
                found += unpack_page(call.answer.body).rows
        return found


@pytest.fixture(scope="module", params=["sqlite", "postgres", "pgvector"])
def told(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Told]:
    """The whole story on one storage; at the end every process is stopped."""
    folder = tmp_path_factory.mktemp("canaries")
    database: PostgresServer | None = None
    environment = {}
    if request.param != "sqlite":
        found: PostgresServer = request.getfixturevalue(f"{request.param}_server")
        database, url = found, found.new_database(pgvector=request.param == "pgvector")
        environment["MEMLOCKET_SERVER_DATABASE_URL"] = url
    hooks = folder / "hooks"
    for made in (hooks, folder / "server"):
        made.mkdir(mode=0o700)
    (hooks / "sitecustomize.py").write_text(SOCKET_EVENTS)
    started = time.time()
    with (
        RecordingRelay() as relay,
        ServerProcess(
            folder / "server" / "data", ("--public-host", relay.host), environment
        ) as server,
        machine(folder / "desk", hooks, "--no-embeddings") as desk,
        machine(folder / "laptop", hooks, "--no-embeddings") as laptop,
    ):
        relay.upstream = server.url

        def copy(name: str) -> Path:
            """All files of the server as they are now."""
            target = folder / name
            shutil.copytree(folder / "server", target)
            if database is None:
                done = server.command("backup", str(target / "backup"))
                assert done.returncode == 0, done.stderr
            else:
                copy_database(database, url, target, started)
            return target

        story = Story(folder, relay, server, desk, laptop)
        story.texts = {name: mark(name) for name in FIELDS}
        for name in ("agent id", "instance id"):  # headers hold neither quotes nor other scripts
            story.texts[name] = f"{STEM}/{uuid.uuid4().hex}+{uuid.uuid4().hex}"
        story.opted = {
            "opted in": f"{uuid.uuid4().hex} is the staging database",
            "opted author": f"canary/{uuid.uuid4().hex}",
        }
        play(story)
        opted_in = copy("with the index")
        opt_out(story)
        opted_out = copy("after opting out")
        assert [daemon.stop() for daemon in (desk, laptop)] == [0, 0]
        assert server.stop() == 0
        gather_secrets(story)
        yield Told(story, relay.calls(), relay.octets(), opted_in, opted_out, folder / "server")


def copy_database(database: PostgresServer, url: str, target: Path, started: float) -> None:
    """Its rows as text, and what PostgreSQL wrote into its files since ``started``."""
    name = database_of(url)
    database.sql("VACUUM", name)
    database.sql("CHECKPOINT", name)
    (target / "rows.sql").write_bytes(database.dump(name))
    for path in database.data.rglob("*"):
        with contextlib.suppress(FileNotFoundError):  # one of PostgreSQL's own that went meanwhile
            if path.is_file() and path.stat().st_mtime >= started:
                octets = path.read_bytes().rstrip(b"\0")
                kept = target.with_suffix(".database") / path.relative_to(database.data)
                kept.parent.mkdir(parents=True, exist_ok=True)
                kept.write_bytes(octets)


def test_f37_nothing_readable_passes_the_line(told: Told) -> None:
    """T16, T58: of all texts only the one opted in, and that to the index alone."""
    sought = {**told.sought(), **told.story.opted}
    found = {
        (call.name, name) for call in told.calls for name, _ in scan_bytes(call.octets(), sought)
    }
    by_design = {(call.name, name) for call, name in _session_tokens_by_design(told)}
    assert found - by_design == {
        (INDEX_ROWS, "opted in"),
        (INDEX_ROWS, "opted author"),
        (VAULTS, "registration token"),
    }
    raw = {name for name, _ in scan_bytes(told.octets, sought)}
    assert raw - {name for _, name in by_design} == {
        *told.story.opted,
        "registration token",
    }
    names = {call.name for call in told.calls}
    assert {PUSH, PULL, INDEX_ROWS, SESSION, "GET /v1/notify", "POST /v1/wrap/push"} <= names
    assert any(name.startswith("POST /v1/mailbox/") for name in names)
    assert {len(name.split()) for name in names} == {2}


def _session_tokens_by_design(told: Told) -> Iterator[tuple[RecordedCall, str]]:
    """A token stands in the header of its calls and in the answer that gave it, nowhere else."""
    tokens = session_tokens(told.calls)
    assert len(tokens) >= 2
    for call in told.calls:
        for name, token in tokens.items():
            if call.name == SESSION and call.answer and call.answer.body.count(token.encode()) == 1:
                assert call.octets().count(token.encode()) == 1
                yield call, name
            elif call.request.header("Authorization") == f"Bearer {token}":
                assert call.octets().count(token.encode()) == 1
                yield call, name


def test_every_length_is_one_of_a_few(told: Told) -> None:
    """T16: no exact length, in no row and in no request that carries rows."""
    rows = told.rows()
    padded = {len(row.row.body) - BODY_OVERHEAD for row in rows}
    assert all(length == padme(length) for length in padded)
    assert len(rows) > 40
    assert len(padded) > 2  # and not everything of one length, which would prove nothing
    assert {len(row.row.wrap) for row in rows} == {92}
    for call in told.calls:
        if call.name == PUSH:
            carried = [len(row.row.body) for row in unpack_push(call.request.body).rows]
            rest = len(call.request.body) - sum(carried) - len(carried) * ROW_FIXED
            assert rest == PUSH_FIXED


def test_pokes_tell_a_number_and_nothing_else(told: Told) -> None:
    sockets = [call for call in told.calls if call.status == 101]
    assert sockets
    for call in sockets:
        assert call.answer is not None
        said = [line for line in call.answer.body.splitlines() if line.startswith(b"{")]
        assert all(set(json.loads(line)) == {"n"} for line in said)
        assert b"{" not in call.request.body
    assert any(b'{"n"' in call.answer.body for call in sockets if call.answer)


def test_machines_talk_to_the_server_and_ask_nobody_for_names(told: Told) -> None:
    """T16, the part of DNS: an audit hook in every process of both machines."""
    port = int(told.story.relay.host.rsplit(":", 1)[1])
    events = [path.read_text().splitlines() for path in told.story.folder.glob("hooks/*.events")]
    assert len(events) == 2
    seen = {line for lines in events for line in lines}
    inet = {line for line in seen if "127.0.0.1" in line}
    assert any(str(port) in line for line in inet)
    for line in seen - inet:
        event, _, where = line.partition(" ")
        assert event == "socket.connect", line
        assert where.startswith(("'/", "b'/")), line  # a Unix socket


def test_f37_nothing_readable_lies_on_the_server(told: Told) -> None:
    """T16: database, write-ahead log, log, backup; rows as text too."""
    moments = (told.opted_in, told.opted_out, told.stopped)
    assert scan_folders(moments, told.sought()) == []
    assert scan_folders([each.with_suffix(".database") for each in moments], told.few()) == []
    held = {
        leak.file.name.split("-")[0] for leak in scan_folders([told.opted_in], told.story.opted)
    }
    assert held in ({"index.db"}, {"rows.sql"})  # there it is readable, as the owner was told


def test_what_was_opted_out_is_on_the_server_no_more(told: Told) -> None:
    """T58. PostgreSQL keeps its write-ahead log for a while, which the server does not govern."""
    moments = (told.opted_out, told.opted_out.with_suffix(".database"), told.stopped)
    left = scan_folders(moments, told.story.opted)
    assert [leak for leak in left if "pg_wal" not in leak.file.parts] == []


def test_machines_leave_no_key_string_or_text_beside_the_vault(told: Told) -> None:
    """Logs, temporary files, caches and run folders of both machines, and what they printed."""
    assert (
        scan_folders([told.story.folder / "desk", told.story.folder / "laptop"], told.sought())
        == []
    )


async def test_a_relay_and_a_scan_find_what_is_planted(
    server: RunningServer, http: aiohttp.ClientSession, tmp_path: Path
) -> None:
    """Every place that the tests above call empty, with something in it."""
    planted = {
        name: mark(name) for name in ("path", "header", "body", "socket", "chunks", "base64")
    }
    planted["header"] = f"{STEM}/{uuid.uuid4().hex}"
    with RecordingRelay() as relay:
        relay.upstream = server.url
        sent = quote(planted["path"], safe="")
        await (await http.get(f"{relay.url}/v1/{sent}")).read()
        await (await http.get(f"{relay.url}/v1/health", headers={"X": planted["header"]})).read()
        whole = {"side": "offer"}
        box = f"{relay.url}/v1/mailbox/{'c0ffee00' * 4}"
        await (await http.post(box, params=whole, data=planted["body"].encode())).read()
        hidden = base64.b64encode(b"?" + planted["base64"].encode())
        await (await http.post(f"{relay.url}/v1/vaults", data=hidden)).read()

        async def pieces() -> AsyncIterator[bytes]:
            for letter in planted["chunks"]:
                yield letter.encode()

        await (await http.post(f"{relay.url}/v1/vaults", data=pieces())).read()
        calls = relay.calls()
        raw = {name for name, _ in scan_bytes(relay.octets(), planted)}
    found = {name for call in calls for name, _ in scan_bytes(call.octets(), planted)}
    assert found == planted.keys() - {"socket"}
    assert raw == planted.keys() - {"socket", "chunks"}
    masked = _masked(planted["socket"].encode())
    assert list(scan_bytes(masked, planted)) == []
    assert {name for name, _ in scan_bytes(frames(masked), planted)} == {"socket"}
    stored = tmp_path / "server" / "planted"
    stored.write_bytes(gzip.compress(planted["body"].encode()))
    assert {leak.file for leak in scan_folders([tmp_path / "server"], planted)} >= {stored}


def _masked(text: bytes) -> bytes:
    """A text frame as a client sends it."""
    mask = b"\x11\x22\x33\x44"
    covered = bytes(octet ^ mask[at % 4] for at, octet in enumerate(text))
    return b"\x81" + bytes([0x80 | 126]) + len(text).to_bytes(2, "big") + mask + covered
