"""Setup asks the server first, and no recovery words end before the new ones are in use."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sandbox_daemon import COMMAND, SandboxDaemon
from sync_server import ServerProcess
from terminal import Terminal

PASSPHRASE = "walnut orbit cactus lantern meadow pixel"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("open") / "server", ("--open-registration",)) as it:
        yield it


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[SandboxDaemon, str]]:
    with SandboxDaemon(tmp_path_factory.mktemp("desk") / "desk", ("--no-embeddings",)) as daemon:
        words = daemon.init_with_words(PASSPHRASE)
        daemon.start()
        yield daemon, words


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_old_words_stay_until_the_new_ones_are_in_use(
    server: ServerProcess, desk: tuple[SandboxDaemon, str], tmp_path: Path
) -> None:
    daemon, words = desk
    assert daemon.status()["vault"]["recovery"] == "unconfirmed"
    for command in (["sync", "setup", server.url], ["recovery", "new"]):
        with Terminal([*COMMAND, *command], daemon.env) as shown:
            if command[0] == "sync":
                shown.expect("Passphrase:")
                shown.type(PASSPHRASE)
                shown.expect("at hand")
                shown.type("")
            shown.expect("written them down")
            shown.interrupt()
            assert shown.wait() == 130
    wrong = daemon.cli(
        *("sync", "setup", "http://127.0.0.1:1", "--json"),
        check=False,
        secrets={"--passphrase-fd": PASSPHRASE, "--words-fd": words},
    )
    error = json.loads(wrong.stdout)["error"]
    assert (wrong.returncode, error["code"]) == (16, "sync_unreachable")
    assert "by itself" not in error["hint"]
    mistyped = daemon.cli(
        *("sync", "setup", server.url, "--json"),
        check=False,
        secrets={"--passphrase-fd": PASSPHRASE, "--words-fd": words.replace(" ", " x", 1)},
    )
    error = json.loads(mistyped.stdout)["error"]
    assert (error["code"], error["title"]) == ("wrong_recovery_words", "Wrong recovery words")
    assert "Word 2 is not on the list" in error["message"]
    # one word a line, no token: the old words still open the vault, and are confirmed by that
    done = daemon.cli(
        *("sync", "setup", server.url, "--name", "desk"),
        secrets={"--passphrase-fd": PASSPHRASE, "--words-fd": words.replace(" ", "\n")},
    )
    assert "On your recovery sheet" in done.stderr
    assert daemon.status()["vault"]["recovery"] == "confirmed"
    told = json.loads(daemon.cli("sync", "status", "--json").stdout)
    assert told["sync"]["words_recover"] is True
    again = daemon.cli("sync", "setup", server.url, check=False)
    assert again.returncode == 2
    assert "synced with a server already" in again.stderr
