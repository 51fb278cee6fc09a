"""Three machines and a server as processes of their own, driven by the command line alone."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sandbox_daemon import SandboxDaemon, wait_until
from sync_server import ServerProcess

PASSPHRASE = "walnut orbit cactus lantern meadow pixel"
NEW_PASSPHRASE = "harbor violet magnet ribbon tundra echo"
SECONDS = 60.0


@dataclasses.dataclass
class Walk:
    """The machines and what they share."""

    server: ServerProcess
    desk: SandboxDaemon
    laptop: SandboxDaemon
    spare: SandboxDaemon
    words: str = ""
    passphrase: str = PASSPHRASE
    vault: str = ""
    secrets: list[str] = dataclasses.field(default_factory=list)


def said(daemon: SandboxDaemon, *arguments: str, **options: Any) -> dict[str, Any]:
    done = daemon.cli("sync", *arguments, "--json", **options)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def status(daemon: SandboxDaemon) -> dict[str, Any]:
    """What ``sync status`` prints, without a process for each look."""
    with daemon.owner() as owner:
        found: dict[str, Any] = owner.get("/v1/sync/status").json["sync"]
    return found


def texts(daemon: SandboxDaemon) -> set[str]:
    with daemon.owner() as owner:
        answer = owner.get("/v1/memories", limit=100)
    assert answer.status == 200, answer.code
    return {memory["content"] for memory in answer.json["results"]}


def join(walk: Walk, newcomer: SandboxDaemon, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """``sync join`` there and ``sync approve`` on the desk; what both printed."""
    reader, writer = os.pipe()
    printed: list[dict[str, Any]] = []

    def wait() -> None:
        printed.append(
            said(
                newcomer,
                *("join", walk.server.url, "--name", name, "--invitation-fd", str(writer)),
                pass_fds=[writer],
            )
        )

    waiting = threading.Thread(target=wait)
    waiting.start()
    with os.fdopen(reader) as stream:
        text = stream.readline().strip()
    os.close(writer)
    walk.secrets.append(text)
    approved = said(
        walk.desk, "approve", "--yes", stdin=text, secrets={"--passphrase-fd": walk.passphrase}
    )
    waiting.join(SECONDS)
    return printed[0], approved


@pytest.fixture
def walk(tmp_path: Path) -> Iterator[Walk]:
    folder = tmp_path
    with (
        ServerProcess(folder / "server") as server,
        SandboxDaemon(folder / "desk", ("--no-embeddings",)) as desk,
        SandboxDaemon(folder / "laptop", ("--no-embeddings",)) as laptop,
        SandboxDaemon(folder / "spare", ("--no-embeddings",)) as spare,
    ):
        found = Walk(server, desk, laptop, spare)
        found.words = desk.init_with_words(PASSPHRASE)
        found.secrets.append(found.words)
        for daemon in (laptop, spare):
            daemon.init()
        for daemon in (desk, laptop, spare):
            daemon.start()
        yield found


def a_machine_alone_says_that_sync_is_off(walk: Walk) -> None:
    assert said(walk.desk, "status")["sync"] == status(walk.desk)
    assert status(walk.desk)["state"] == "off"
    for action in ("devices", "now", "jitter"):
        done = walk.desk.cli("sync", action, "--json", check=False)
        assert done.returncode == 16, (action, done.stdout)
        assert json.loads(done.stdout)["error"]["code"] == "sync_off"
    assert "on this machine only" in walk.desk.cli("sync", "status").stdout


def setup_refuses_other_words_and_says_what_belongs_on_paper(walk: Walk) -> None:
    walk.desk.cli("remember", "deploys run on Thursdays")
    token = walk.server.registration_token()
    walk.secrets.append(token)
    command = ("sync", "setup", walk.server.url, "--name", "desk")
    other = "abandon " * 23 + "art"
    refused = walk.desk.cli(
        *command,
        check=False,
        secrets={"--passphrase-fd": PASSPHRASE, "--token-fd": token, "--words-fd": other},
    )
    assert refused.returncode == 11
    done = walk.desk.cli(
        *command,
        secrets={"--passphrase-fd": PASSPHRASE, "--token-fd": token, "--words-fd": walk.words},
    )
    walk.vault = status(walk.desk)["vault"]
    grouped = "-".join(walk.vault[at : at + 4] for at in range(0, 32, 4))
    assert grouped in done.stdout
    assert "recovery sheet" in done.stderr
    assert "cannot tell a server that was set back" in done.stderr
    again = walk.desk.cli(
        *command,
        check=False,
        secrets={"--passphrase-fd": PASSPHRASE, "--token-fd": token, "--words-fd": walk.words},
    )
    assert again.returncode == 2
    assert "already" in again.stderr


def a_second_machine_joins_and_both_have_everything(walk: Walk) -> None:
    walk.laptop.cli("remember", "the laptop knew this before")
    joined, approved = join(walk, walk.laptop, "laptop")
    both = {"deploys run on Thursdays", "the laptop knew this before"}
    for daemon in (walk.desk, walk.laptop):
        wait_until(lambda d=daemon: texts(d) == both, SECONDS, "both have everything")
    assert (joined["state"], joined["vault"]) == ("joined", walk.vault)
    assert approved["name"] == "laptop"
    wait_until(
        lambda: status(walk.desk)["verified"] == status(walk.laptop)["verified"],
        SECONDS,
        "both verified the same row",
    )

    def same_words() -> bool:  # until neither has anything more to say
        shown = walk.laptop.cli("sync", "status").stdout
        assert "verified up to row" in shown
        return " ".join(status(walk.desk)["verified"]["words"]) in shown

    wait_until(same_words, SECONDS, "the laptop shows the words of the desk's log")
    names = {device["name"] for device in said(walk.laptop, "devices")["devices"]}
    assert {"desk", "laptop"} <= names


def rows_flow_both_ways_also_past_another_passphrase(walk: Walk) -> None:
    for at in range(8):
        walk_remember(walk.desk, f"from the desk {at}")
        walk_remember(walk.laptop, f"from the laptop {at}")
    walk.desk.cli(
        "passphrase",
        secrets={"--passphrase-fd": PASSPHRASE, "--new-passphrase-fd": NEW_PASSPHRASE},
    )
    before = status(walk.desk)["epoch"], len(said(walk.desk, "devices")["devices"])
    wait_until(lambda: len(texts(walk.desk)) == 18, SECONDS, "the desk has everything")
    wait_until(lambda: len(texts(walk.laptop)) == 18, SECONDS, "the laptop has everything")
    assert texts(walk.desk) == texts(walk.laptop)
    assert before == (status(walk.desk)["epoch"], len(said(walk.desk, "devices")["devices"]))
    walk.passphrase = NEW_PASSPHRASE


def walk_remember(daemon: SandboxDaemon, text: str) -> None:
    with daemon.owner() as owner:
        owner.remember(text)


def a_pause_holds_and_now_goes_through_it(walk: Walk) -> None:
    walk.laptop.cli("sync", "pause")
    walk_remember(walk.laptop, "written in the pause")
    assert status(walk.laptop)["state"] == "paused"
    assert status(walk.laptop)["outbox"] >= 1
    walk.laptop.cli("sync", "now")
    wait_until(lambda: "written in the pause" in texts(walk.desk), SECONDS, "it went through")
    walk.laptop.cli("sync", "resume")
    assert status(walk.laptop)["state"] != "paused"


def writes_are_blurred_by_as_many_seconds_as_the_owner_says(walk: Walk) -> None:
    assert said(walk.laptop, "jitter") == {"jitter_seconds": 0.0}
    assert "within 2.5 seconds" in walk.laptop.cli("sync", "jitter", "2.5").stdout
    for wrong in ("61", "-1", "nan", "soon"):
        assert walk.laptop.cli("sync", "jitter", "--", wrong, check=False).returncode == 2, wrong
    assert said(walk.laptop, "jitter") == {"jitter_seconds": 2.5}
    with walk.laptop.owner() as owner:
        for body in ({}, {"seconds": None}, {"seconds": True}):
            assert owner.post("/v1/sync/jitter", body).status == 422, body
    assert said(walk.laptop, "jitter", "0") == {"jitter_seconds": 0.0}


def two_changes_at_once_are_kept_until_the_owner_decides(walk: Walk) -> None:
    memory_id = id_of(walk.desk, "deploys run on Thursdays")
    for daemon in (walk.desk, walk.laptop):
        daemon.cli("sync", "pause")
    change(walk.desk, memory_id, "deploys run on Mondays")
    with walk.laptop.wire(walk.laptop.add_agent("codex")) as agent:
        body = {"content": "deploys run on Fridays"}
        assert agent.send("PATCH", f"/v1/memories/{memory_id}", body).status == 200
    for daemon in (walk.desk, walk.laptop):
        daemon.cli("sync", "resume")
    for daemon in (walk.desk, walk.laptop):
        wait_until(lambda d=daemon: status(d)["conflicts"] == 1, SECONDS, "both see it")
    listed = json.loads(walk.desk.cli("conflicts", "--json").stdout)
    assert [found["id"] for found in listed["conflicts"]] == [memory_id]
    shown = walk.desk.cli("conflicts", "show", memory_id[:13]).stdout
    assert "deploys run on Mondays" in shown
    assert "deploys run on Fridays" in shown
    assert "  owner  device desk" in shown
    assert "  codex  device laptop" in shown
    overview = walk.desk.cli("status").stdout
    assert "1 memory in conflict: memlocket conflicts" in overview
    assert f"desk ({status(walk.desk)['device'][:8]})" in overview
    bundle = walk.desk.home.with_name("report.zip")
    walk.desk.cli("doctor", "--quick", "--bundle", str(bundle))
    with zipfile.ZipFile(bundle) as report:
        held = b"".join(report.read(name) for name in report.namelist())
    assert walk.server.url.partition("://")[2].encode() not in held
    revisions = json.loads(walk.desk.cli("conflicts", "show", memory_id, "--json").stdout)
    wanted = [each["content"] for each in revisions["revisions"]].index("deploys run on Mondays")
    assert walk.desk.cli("conflicts", "keep", memory_id, "3", check=False).returncode == 2
    walk.desk.cli("conflicts", "keep", memory_id, str(wanted + 1))
    wait_until(lambda: status(walk.laptop)["conflicts"] == 0, SECONDS, "both are of one mind")
    assert "deploys run on Mondays" in texts(walk.laptop)
    assert "deploys run on Fridays" not in texts(walk.laptop)
    assert "No memory is in conflict" in walk.desk.cli("conflicts").stdout
    assert walk.desk.cli("conflicts", "merge", memory_id, "x", check=False).returncode == 4


def id_of(daemon: SandboxDaemon, content: str) -> str:
    with daemon.owner() as owner:
        found = owner.get("/v1/memories", limit=100).json["results"]
    return str(next(memory["id"] for memory in found if memory["content"] == content))


def change(daemon: SandboxDaemon, memory_id: str, content: str) -> None:
    with daemon.owner() as owner:
        answer = owner.send("PATCH", f"/v1/memories/{memory_id}", {"content": content})
    assert answer.status == 200, answer.code


def a_lost_machine_is_shut_out_with_one_command(walk: Walk) -> None:
    secret = {"--passphrase-fd": walk.passphrase}
    unasked = walk.desk.cli("sync", "revoke", "laptop", secrets=secret, check=False)
    assert (unasked.returncode, "Give --yes" in unasked.stderr) == (11, True)
    assert all(device["active"] for device in said(walk.desk, "devices")["devices"])
    done = walk.desk.cli("sync", "revoke", "laptop", "--yes", secrets=secret)
    walk_remember(walk.desk, "not for the laptop")
    wait_until(lambda: status(walk.laptop)["state"] == "stopped", SECONDS, "the laptop is told")
    codes = [alarm["code"] for alarm in status(walk.laptop)["alarms"]]
    if "REVOKED_DEVICE" in codes:
        assert "This device was shut out" in walk.laptop.cli("sync", "status").stdout
        assert "revoked" in walk.laptop.cli("sync", "devices").stdout
    assert "cannot be unread" in done.stderr
    assert set(codes) <= {"REVOKED_DEVICE", "ROSTER_CHANGED"}
    assert "not for the laptop" not in texts(walk.laptop)
    assert len(texts(walk.laptop)) == 19
    listed = {device["name"]: device["active"] for device in said(walk.desk, "devices")["devices"]}
    assert not listed["laptop"]
    assert "revoked at row" in walk.desk.cli("sync", "devices").stdout


def a_revoked_machine_leaves_and_keeps_its_memories(walk: Walk) -> None:
    device = status(walk.laptop)["device"]
    assert walk.laptop.cli("sync", "leave", check=False).returncode == 11
    answer = said(walk.laptop, "leave", "--yes")
    assert answer == {"state": "off", "server_told": False}
    assert status(walk.laptop)["state"] == "off"
    assert len(texts(walk.laptop)) == 19
    walk.laptop.stop()
    walk.laptop.start()
    assert walk.laptop.status()["vault"]["state"] == "unlocked"
    joined, _ = join(walk, walk.laptop, "laptop again")
    assert joined["device"] != device
    wait_until(lambda: "not for the laptop" in texts(walk.laptop), SECONDS, "it shares again")
    wait_until(lambda: status(walk.laptop)["outbox"] == 0, SECONDS, "it told what it had")
    assert status(walk.laptop)["conflicts"] == 0
    assert texts(walk.laptop) == texts(walk.desk)


def words_alone_bring_a_new_machine_everything(walk: Walk) -> None:
    verified = status(walk.desk)["verified"]
    sheet = (str(verified["n"]), *verified["words"])
    wrong = walk.spare.cli(
        *("sync", "recover", walk.server.url, "--vault", walk.vault, "--name", "spare"),
        *("--head", sheet[0], *reversed(sheet[1:])),
        check=False,
        secrets={"--words-fd": walk.words},
    )
    assert wrong.returncode == 16
    assert "head words" in wrong.stderr
    done = walk.spare.cli(
        *("sync", "recover", walk.server.url, "--vault", walk.vault, "--name", "spare"),
        *("--head", *sheet),
        secrets={"--words-fd": walk.words},
    )
    assert "The shared memory is back." in done.stdout
    wait_until(lambda: texts(walk.spare) == texts(walk.desk), SECONDS, "everything is back")
    wait_until(lambda: status(walk.desk)["state"] == "stopped", SECONDS, "the desk asks")
    shown = walk.desk.cli("sync", "status").stdout
    assert "ROSTER_CHANGED" in shown
    assert re.search(r"added: \w{8} by the recovery words", shown)
    assert "by the recovery words" in walk.desk.cli("sync", "devices").stdout
    walk.desk.cli("sync", "confirm", "roster_changed", secrets={"--passphrase-fd": walk.passphrase})
    assert status(walk.desk)["state"] != "stopped"
    walk_remember(walk.spare, "from the spare one")
    wait_until(lambda: "from the spare one" in texts(walk.desk), SECONDS, "it shares, too")


def a_round_without_the_server_exits_with_the_code_of_the_table(walk: Walk) -> None:
    walk.server.stop()
    done = walk.desk.cli("sync", "now", check=False)
    assert (done.returncode, "offline" in done.stdout) == (16, True)
    walk.desk.cli("sync", "pause")
    assert walk.desk.cli("sync", "now", check=False).returncode == 16


def no_string_token_or_word_stands_in_a_log_or_file(walk: Walk) -> None:
    logs = [walk.server.log().encode()]
    for daemon in (walk.desk, walk.laptop, walk.spare):
        logs += [daemon.output.read_bytes(), *daemon.contents().values()]
    held = b"\n".join(logs)
    for secret in walk.secrets:
        assert secret.encode() not in held
        assert secret.removeprefix("mlk1:").encode() not in held


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_laptops_share_one_memory_from_setup_to_recovery(walk: Walk) -> None:
    a_machine_alone_says_that_sync_is_off(walk)
    setup_refuses_other_words_and_says_what_belongs_on_paper(walk)
    a_second_machine_joins_and_both_have_everything(walk)
    rows_flow_both_ways_also_past_another_passphrase(walk)
    a_pause_holds_and_now_goes_through_it(walk)
    writes_are_blurred_by_as_many_seconds_as_the_owner_says(walk)
    two_changes_at_once_are_kept_until_the_owner_decides(walk)
    a_lost_machine_is_shut_out_with_one_command(walk)
    a_revoked_machine_leaves_and_keeps_its_memories(walk)
    words_alone_bring_a_new_machine_everything(walk)
    a_round_without_the_server_exits_with_the_code_of_the_table(walk)
    no_string_token_or_word_stands_in_a_log_or_file(walk)
