"""The command line with closed, full or narrow streams and odd arguments: a sentence, no traceback.

The shell stands between on purpose: only it can start a process without a standard stream.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from sandbox_daemon import COMMAND, SandboxDaemon, running

TEXT = "crêpes, 漢字 and 🦊 on Thursdays"


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxDaemon]:
    with running(tmp_path_factory.mktemp("c") / "home") as daemon:
        daemon.cli("remember", TEXT)
        yield daemon


def _shell(
    sandbox: SandboxDaemon, redirection: str, *arguments: str | bytes, **environment: str
) -> subprocess.CompletedProcess[bytes]:
    command = ["bash", "-c", f'"$@" {redirection}', "bash", *COMMAND, *arguments]
    env = {**sandbox.env, **environment}
    done = subprocess.run(
        command, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=60
    )
    assert b"Traceback" not in done.stdout + done.stderr
    assert b"Exception ignored" not in done.stderr
    return done


@pytest.mark.parametrize("redirection", [">&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_error(sandbox: SandboxDaemon, redirection: str) -> None:
    assert _shell(sandbox, redirection, "list").returncode == 0


def test_closed_input_is_an_empty_one(sandbox: SandboxDaemon) -> None:
    assert _shell(sandbox, "<&-", "remember", "-").returncode == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs Linux, which has /dev/full")
@pytest.mark.parametrize("command", ["status", "list", "--help"])
def test_output_that_cannot_be_written_is_said(sandbox: SandboxDaemon, command: str) -> None:
    done = _shell(sandbox, ">/dev/full", command)
    assert done.returncode == 4
    assert b"No space left" in done.stderr


def test_a_narrow_encoding_loses_characters_and_not_the_command(sandbox: SandboxDaemon) -> None:
    narrow = {"PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "LC_ALL": "C"}
    shown = _shell(sandbox, "", "list", **narrow)
    assert shown.returncode == 0
    assert b"on Thursdays" in shown.stdout
    document = json.loads(_shell(sandbox, "", "list", "--json", **narrow).stdout)
    assert document["results"][0]["content"] == TEXT


@pytest.mark.parametrize("command", ["remember", "search", "recall", "get"])
def test_arguments_that_are_no_text_are_refused(sandbox: SandboxDaemon, command: str) -> None:
    done = _shell(sandbox, "", command, b"bad \xff\xfe bytes")
    assert done.returncode == 2


def test_a_long_question_of_wide_characters_is_answered(sandbox: SandboxDaemon) -> None:
    done = _shell(sandbox, "", "search", "漢字" * 2_000)
    assert done.returncode == 0, done.stderr


def test_a_home_that_is_a_file_is_said(sandbox: SandboxDaemon) -> None:
    done = _shell(sandbox, "", "status", MEMLOCKET_HOME=str(sandbox.key_file))
    assert done.returncode == 4
