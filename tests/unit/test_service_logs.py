"""The log keeps event names, codes and places; texts of memories, libraries and errors stay out."""

from __future__ import annotations

import ast
import io
import json
import logging
import secrets
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from memory_manager.base.errors import NotFound
from memory_manager.base.private_files import UnsafeFile
from memory_manager.security.event_log import EVENT, log_event
from memory_manager.service import logs
from memory_manager.sync.server import logs as server_logs


@pytest.fixture
def journal() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def log_path(tmp_path: Path, journal: io.StringIO) -> Iterator[Path]:
    root = logging.getLogger()
    kept, level, filters = list(root.handlers), root.level, warnings.filters[:]
    raises = logging.raiseExceptions
    for handler in kept:
        root.removeHandler(handler)
    (tmp_path / "log").mkdir(mode=0o700)
    path = logs.set_up_logs(tmp_path / "log", journal=journal)
    yield path
    for handler in list(root.handlers):
        root.removeHandler(handler)
        handler.close()
    for handler in kept:
        root.addHandler(handler)
    root.setLevel(level)
    logging.captureWarnings(False)
    logging.raiseExceptions = raises
    warnings.filters[:] = filters


def _lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_an_event_keeps_its_name_and_allowed_fields(log_path: Path, journal: io.StringIO) -> None:
    own = logging.getLogger("memory_manager.anything")
    log_event(own, "thing_done", count=3, reason="user", query="what I asked")
    (line,) = _lines(log_path)
    assert (line["event"], line["count"], line["reason"]) == ("thing_done", 3, "user")
    assert "query" not in line
    assert log_path.stat().st_mode & 0o777 == 0o600
    assert "thing_done" in journal.getvalue()
    assert "what I asked" not in journal.getvalue()


def test_extra_fields_of_our_own_modules_count(log_path: Path) -> None:
    own = logging.getLogger("memory_manager.anything")
    own.info("state_changed", extra={"state": "locked", "content": "secret text"})
    (line,) = _lines(log_path)
    assert line["state"] == "locked"
    assert "content" not in line


def test_errors_leave_class_code_and_place(log_path: Path, journal: io.StringIO) -> None:
    canary = secrets.token_hex(8)
    own = logging.getLogger("memory_manager.anything")
    try:
        raise NotFound(f"no such {canary}")
    except NotFound as error:
        log_event(own, "lookup_failed", level=logging.WARNING, error=error)
        own.warning("also_this_way", exc_info=True)
    first, second = _lines(log_path)
    for line in (first, second):
        assert (line["error"], line["code"]) == ("NotFound", "not_found")
        assert "test_service_logs.py" in str(line["places"])
    assert canary not in log_path.read_text()
    assert canary not in journal.getvalue()
    assert journal.getvalue().count("error=NotFound") == 2


@pytest.mark.parametrize(
    "name", ["aiohttp.server", "asyncio", "memory_manager.base.http_connection"]
)
def test_messages_that_are_no_events_are_dropped(log_path: Path, name: str) -> None:
    canary = secrets.token_hex(8)
    log = logging.getLogger(name)
    try:
        raise ValueError(canary)
    except ValueError:
        log.error("Error handling request %s", canary, exc_info=True)
    log.warning(f"inline {canary}")
    first, second = _lines(log_path)
    assert (first["event"], first["error"]) == ("library_message", "ValueError")
    assert second["event"] == "library_message"
    assert canary not in log_path.read_text()


def test_captured_warnings_lose_their_text(log_path: Path) -> None:
    logging.getLogger("py.warnings").warning("text of a warning")
    assert "text of a warning" not in log_path.read_text()


def test_a_credential_in_an_allowed_field_is_cleaned(log_path: Path) -> None:
    token = "mlk_" + secrets.token_urlsafe(32)
    log_event(logging.getLogger("memory_manager.x"), "odd_reason", reason=token)
    assert token not in log_path.read_text()


def test_the_log_rotates_into_private_files(
    log_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handler = next(
        found
        for found in logging.getLogger().handlers
        if isinstance(found, logs.PrivateRotatingFile)
    )
    handler.maxBytes = 2_000
    own = logging.getLogger("memory_manager.x")
    for number in range(100):
        log_event(own, "filler", count=number)
    files = sorted(log_path.parent.iterdir())
    assert [path.name for path in files] == ["daemon.log", "daemon.log.1", "daemon.log.2"]
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


@pytest.mark.parametrize("mode", [0o644, 0o660])
def test_a_log_open_to_others_is_refused(tmp_path: Path, mode: int) -> None:
    folder = tmp_path / "log"
    folder.mkdir(mode=0o700)
    (folder / "daemon.log").touch()
    (folder / "daemon.log").chmod(mode)
    with pytest.raises(UnsafeFile):
        logs.set_up_logs(folder)


def test_every_log_call_of_ours_is_an_event_that_the_log_keeps(repository: Path) -> None:
    """A message with arguments would be written as ``library_message``, a foreign field not at
    all."""
    server = repository / "sync/memory_manager/sync/server"
    seen = 0
    for root in ("daemon/memory_manager", "sync/memory_manager"):
        for path in sorted((repository / root).rglob("*.py")):
            allowed = server_logs.ALLOWED_FIELDS if server in path.parents else logs.ALLOWED_FIELDS
            for event, fields, line in _events(ast.parse(path.read_text("utf-8"))):
                seen += 1
                place = f"{path.relative_to(repository)}:{line}"
                assert event is not None, place
                assert EVENT.fullmatch(event), place
                assert fields <= allowed, place
    assert seen > 60


def _events(tree: ast.AST) -> Iterator[tuple[str | None, set[str], int]]:
    """Event name (None: not a plain one), fields and line of every call that logs."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Name) and node.func.id == "log_event":
            names = {keyword.arg for keyword in node.keywords if keyword.arg}
            yield _text(node.args[1:]), names - {"level", "error"}, node.lineno
        elif (
            isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
            and node.func.value.id in ("log", "_log")
            and node.func.attr in ("debug", "info", "warning", "error", "exception", "critical")
        ):
            dicts = [each.value for each in node.keywords if isinstance(each.value, ast.Dict)]
            names = {ast.literal_eval(key) for each in dicts for key in each.keys if key}
            yield _text(node.args), names, node.lineno


def _text(arguments: list[ast.expr]) -> str | None:
    if len(arguments) != 1 or not isinstance(arguments[0], ast.Constant):
        return None
    return str(arguments[0].value)
