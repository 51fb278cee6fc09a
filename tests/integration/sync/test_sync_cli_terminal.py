"""Two people at two terminals: words shown and confirmed, a picture, a name to agree to."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from sandbox_daemon import COMMAND, SandboxDaemon
from sync_server import ServerProcess
from terminal import Terminal

PASSPHRASE = "walnut orbit cactus lantern meadow pixel"


@pytest.fixture
def machines(tmp_path: Path) -> Iterator[tuple[ServerProcess, SandboxDaemon, SandboxDaemon]]:
    with (
        ServerProcess(tmp_path / "server") as server,
        SandboxDaemon(tmp_path / "desk", ("--no-embeddings",)) as desk,
        SandboxDaemon(tmp_path / "laptop", ("--no-embeddings",)) as laptop,
    ):
        desk.init(PASSPHRASE).start()
        laptop.init().start()
        yield server, desk, laptop


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_setup_and_enrolment_on_terminals(
    machines: tuple[ServerProcess, SandboxDaemon, SandboxDaemon],
) -> None:
    server, desk, laptop = machines
    setup = Terminal([*COMMAND, "sync", "setup", server.url, "--name", "desk"], desk.env)
    setup.expect("six words")
    setup.expect("Passphrase:")
    setup.type(PASSPHRASE)
    setup.expect("the old ones end")
    setup.expect("at hand")
    setup.type("abandon ability able")
    setup.expect("next prompt")
    setup.expect("at hand")
    setup.type("n")
    setup.expect("written them down")
    words = {int(at): word for at, word in re.findall(r"(\d+) ([a-z]+)", setup.screen)}
    setup.type("")
    for _ in range(3):
        setup.type(words[int(setup.expect(r"Word (\d+):")[1])])
    setup.expect("Registration token")
    setup.type("mlkreg-of-another-server")
    setup.expect("wrong, used up or older")
    setup.expect("Registration token")
    setup.type(server.registration_token())
    assert setup.wait() == 0
    assert f"memlocket sync join {server.url}" in setup.screen
    assert desk.status()["vault"]["recovery"] == "confirmed"
    told = json.loads(desk.cli("sync", "status", "--json").stdout)
    assert told["sync"]["words_recover"] is True
    assert "On your recovery sheet" in setup.screen

    asked = [*COMMAND, "sync", "join", server.url, "--name", "laptop"]
    with Terminal(asked, laptop.env) as given_up:
        given_up.expect(r"mlk1:[\w-]+\s")
        given_up.interrupt()  # before the waiting begins, too
        assert given_up.wait() == 130
    with laptop.owner() as owner:
        assert owner.post("/v1/sync/join/look").code == "enrolment_expired"
    join = Terminal(asked, laptop.env)
    text = join.expect(r"(mlk1:[\w-]+)\s")[1]
    assert "█▀▀▀▀▀▀▀█" in join.screen  # the corners of the picture
    approve = Terminal([*COMMAND, "sync", "approve"], desk.env)
    approve.expect("mlk1")
    approve.type("mlk1:AAAA")
    assert approve.wait() == 16
    approve = Terminal([*COMMAND, "sync", "approve"], desk.env)
    approve.expect("mlk1")
    approve.type(text)
    approve.expect("Asks to join: laptop")
    approve.expect("y/N")
    approve.type("n")
    assert approve.wait() == 2
    assert "the string is used up" in approve.screen
    assert join.wait() == 16
    assert "was asked and declined" in join.screen
    again = Terminal([*COMMAND, "sync", "join", server.url, "--name", "laptop"], laptop.env)
    text = again.expect(r"(mlk1:[\w-]+)\s")[1]
    approve = Terminal([*COMMAND, "sync", "approve"], desk.env)
    approve.expect("mlk1")
    approve.type(text)
    approve.expect("y/N")
    approve.type("y")
    assert approve.wait() == 0
    assert text not in approve.screen  # what is a secret is not echoed
    assert again.wait() == 0
    with Terminal([*COMMAND, "sync", "revoke", "nobody"], desk.env) as nobody:
        assert nobody.wait() == 4
    assert "assphrase" not in nobody.screen
    with Terminal([*COMMAND, "sync", "revoke", "laptop"], desk.env) as revoke:
        revoke.expect(r"Shut out laptop \(\w{8}\)\? \[y/N\]")
        revoke.type("n")
        assert revoke.wait() == 2
    confirm = desk.cli("sync", "confirm", "NOPE", check=False)
    assert confirm.returncode == 16
    assert "does not wait for that" in confirm.stderr
    devices = json.loads(laptop.cli("sync", "devices", "--json").stdout)["devices"]
    assert {device["name"] for device in devices if device["role"] == "device"} == {
        "desk",
        "laptop",
    }


@pytest.mark.timeout(180)
def test_only_the_owner_reaches_sync(tmp_path: Path) -> None:
    with SandboxDaemon(tmp_path / "desk", ("--no-embeddings",)) as desk:
        desk.init().start()
        with desk.wire(desk.add_agent("an-agent")) as agent:
            for path in ("status", "devices", "evidence", "jitter"):
                assert agent.get(f"/v1/sync/{path}").status == 403
            for path in (
                "setup",
                "join",
                "offers",
                "rotate",
                "leave",
                "recover",
                "confirm",
                "jitter",
            ):
                assert agent.post(f"/v1/sync/{path}").status == 403
            assert agent.get("/v1/conflicts").status == 403
        desk.cli("lock")
        refused = desk.cli("sync", "status", check=False)
        assert refused.returncode == 10
        assert "locked" in refused.stderr
