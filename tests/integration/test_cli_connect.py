"""``memlocket connect`` as a person uses it: a real daemon, a home of its own, real files."""

from __future__ import annotations

import dataclasses
import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from connected_user import User, new_user, validates
from sandbox_daemon import COMMAND, SandboxDaemon, Wire, running
from terminal import Terminal

OLD_ZED = '// mine\n{\n  "theme": "One", // dark\n}\n'
PASSPHRASE = "cobalt heron violin ledger 9"
SMALL_FILE = 1 << 20  # octets that a process may write into one file


@pytest.fixture
def user(served: SandboxDaemon, tmp_path: Path) -> User:
    return new_user(served, tmp_path)


def test_in_twice_and_out_again(user: User) -> None:
    path = user.file(".cursor/mcp.json", '{\r\n  "mcpServers": {}\r\n}')
    old = path.read_bytes()
    first = user.json("connect", "cursor", "--yes")
    assert first["changed"]
    assert first["new_credential"]
    new = path.read_bytes()
    entry = json.loads(new)["mcpServers"]["memlocket"]
    assert os.path.isabs(entry["command"])
    assert entry["args"] == ["mcp", "--client", "cursor"]
    assert entry["env"] == {"MEMLOCKET_HOME": str(user.daemon.home)}
    kept = user.installation("cursor")
    assert kept["credential"].encode() not in new
    assert kept["instance_id"] == first["instance_id"]
    assert stat.S_IMODE((user.kept / "cursor.json").stat().st_mode) == 0o600
    assert validates(user, "cursor") == 200
    again = user.json("connect", "cursor", "--yes")
    assert not again["changed"]
    assert not again["new_credential"]
    assert path.read_bytes() == new
    assert user.installation("cursor") == kept
    row = user.status("cursor")
    assert (row["credential"], row["entry"], row["file"]) == ("valid", "present", str(path))
    assert row["last_seen"]
    gone = user.json("disconnect", "cursor", "--yes")
    assert gone["entry_removed"]
    assert gone["credential_revoked"]
    assert path.read_bytes() == old
    assert [entry.name for entry in path.parent.iterdir()] == ["mcp.json"]
    assert user.live("cursor") == []
    assert user.installation("cursor")["credential"] is None
    assert user.status("cursor") == {}
    # the installation stays the same one when it comes back
    assert user.json("connect", "cursor", "--yes")["instance_id"] == first["instance_id"]
    user.run("disconnect", "cursor", "--yes")


def test_print_and_dry_run_change_nothing_and_need_no_daemon(tmp_path: Path) -> None:
    home = tmp_path / "user"
    home.mkdir(mode=0o700)
    environment = {"HOME": str(home), "PATH": os.environ["PATH"]}
    for arguments in (("vscode", "--print"), ("vscode", "--dry-run"), ("codex", "--print")):
        done = subprocess.run(
            [*COMMAND, "connect", *arguments], env=environment, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert "memlocket" in done.stdout
        assert ("[mcp_servers.memlocket]" in done.stdout) == (arguments[0] == "codex")
    done = subprocess.run(
        [*COMMAND, "connect", "vscode", "--yes"], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 6
    assert list(home.rglob("*")) == []


def test_refused_files_cost_no_credential(user: User) -> None:
    broken = user.file(".codeium/windsurf/mcp_config.json", '{"mcpServers": {')
    foreign = user.file(".gemini/settings.json", '{"mcpServers": {"memlocket": {"command": "x"}}}')
    for client, path, code in (
        ("windsurf", broken, "settings_refused"),
        ("gemini", foreign, "foreign_entry"),
    ):
        old = path.read_bytes()
        done = user.run("connect", client, "--yes", "--json", check=False)
        assert done.returncode == 2
        assert json.loads(done.stdout)["error"]["code"] == code
        assert path.read_bytes() == old
        assert user.live(client) == []
        done = user.run("disconnect", client, "--yes", check=False)
        assert done.returncode == (2 if client == "windsurf" else 0)
        assert path.read_bytes() == old
    assert user.status("gemini")["entry"] == "foreign"
    assert user.status("windsurf")["entry"] == "unreadable"


@pytest.mark.skipif(os.name == "nt", reason="needs a POSIX system: files of limited size")
@pytest.mark.parametrize("backed_up", [False, True])
def test_a_file_that_cannot_be_written_takes_the_new_credential_back(
    user: User, backed_up: bool
) -> None:
    """The disk has no room for the file, or for its backup: nothing half written stays."""
    old = json.dumps({"note": "x" * 2 * SMALL_FILE})
    path = user.file(".config/devin/mcp_config.json", old)
    if backed_up:
        path.with_name("mcp_config.json.before-memlocket").write_text("older")
    names = sorted(entry.name for entry in path.parent.iterdir())
    limited = ["sh", "-c", f'ulimit -f {SMALL_FILE // 1024} && exec "$@"', "sh"]
    done = subprocess.run(
        [*limited, *COMMAND, "connect", "devin", "--yes", "--json"],
        env=user.daemon.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "settings_refused"
    assert path.read_text() == old
    assert sorted(entry.name for entry in path.parent.iterdir()) == names
    assert user.live("devin") == []
    assert user.installation("devin")["credential"] is None


def test_a_credential_made_by_hand_is_not_ended_without_a_word(user: User) -> None:
    user.run("agent", "add", "vscode")
    done = user.run("connect", "vscode", "--yes", "--json", check=False)
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "credential_taken"
    assert len(user.live("vscode")) == 1
    assert not (user.home / ".config").exists()
    user.run("connect", "vscode", "--yes", "--replace")
    assert validates(user, "vscode") == 200
    assert len(user.live("vscode")) == 1
    user.run("disconnect", "vscode", "--yes")


def test_what_it_may_do_can_be_less(user: User) -> None:
    user.run("connect", "other", "--yes", "--read-only")
    token = user.installation("generic")["credential"]
    with Wire(user.daemon.discovery["url"], token) as wire:
        assert wire.get("/v1/memories/search", query="*").status == 200
        answer = wire.post("/v1/remember", {"content": "x", "path": "y"})
        assert answer.status == 403
    user.run("disconnect", "generic", "--yes")


def _fake_claude(user: User, works: bool) -> None:
    """A client's own command: it writes the user's file, as documented for ``mcp add``."""
    user.file(
        "bin/claude",
        f"#!{sys.executable}\n"
        "import json, os, pathlib, sys\n"
        "path = pathlib.Path(os.environ['HOME'], '.claude.json')\n"
        "document = json.loads(path.read_text()) if path.exists() else {'mcpServers': {}}\n"
        "if sys.argv[2] == 'add':\n"
        "    at = sys.argv.index('--')\n"
        "    assert sys.argv[at - 1] == 'memlocket', sys.argv\n"
        "    env = [a.split('=', 1) for a in sys.argv if a.startswith('MEMLOCKET_HOME=')]\n"
        "    document['mcpServers']['memlocket'] = {'type': 'stdio', 'command':"
        " sys.argv[at + 1], 'args': sys.argv[at + 2:], 'env': dict(env)}\n"
        "else:\n"
        "    del document['mcpServers']['memlocket']\n"
        f"path.write_text(json.dumps(document)) if {works} else None\n",
    ).chmod(0o755)


@pytest.mark.parametrize("works", [True, False], ids=["works", "does nothing"])
def test_the_own_command_of_a_client_goes_first(user: User, works: bool) -> None:
    _fake_claude(user, works)
    path = user.file(".claude.json", '{"mcpServers": {  }, "token": "kept"}')
    old = path.read_bytes()
    environment = {**user.daemon.environment, "PATH": f"{user.home}/bin:{os.environ['PATH']}"}
    by_command = User(dataclasses.replace(user.daemon, environment=environment), user.home)
    assert by_command.json("connect", "claude-code", "--dry-run")["command"][1:3] == ["mcp", "add"]
    done = by_command.run("connect", "claude-code", "--yes", "--json", check=False)
    if not works:
        assert json.loads(done.stdout)["error"]["code"] == "client_command_failed"
        assert path.read_bytes() == old
        assert user.live("claude-code") == []
        return
    assert done.returncode == 0, done.stderr
    assert by_command.status("claude-code")["entry"] == "present"
    assert not by_command.json("connect", "claude-code", "--yes")["changed"]
    by_command.run("disconnect", "claude-code", "--yes")
    assert path.read_bytes() == old  # nothing else was written there in between
    by_command.run("connect", "claude-code", "--yes")
    path.write_text(path.read_text().replace("kept", "changed"))
    by_command.run("disconnect", "claude-code", "--yes")
    assert json.loads(path.read_bytes()) == {"mcpServers": {}, "token": "changed"}
    path.unlink()
    by_command.run("connect", "claude-code", "--yes")
    by_command.run("disconnect", "claude-code", "--yes")
    assert not path.exists()


KILLED = """
import os, signal, sys
left = int(sys.argv.pop(1))
def hook(event, arguments):
    global left
    if event in ("os.rename", "os.link", "os.remove", "os.mkdir", "http.client.send") or (
        event == "open" and isinstance(arguments[2], int) and arguments[2] & os.O_CREAT
    ):
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(hook)
from memory_manager.cli.main import main
sys.exit(main())
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_killed_at_any_step_the_file_is_old_or_new_and_no_credential_is_lost(user: User) -> None:
    path = user.file(".config/zed/settings.json", OLD_ZED)
    user.run("connect", "zed", "--yes")
    new = path.read_text()
    user.run("disconnect", "zed", "--yes")
    interrupted, step = 0, 0
    while True:
        done = subprocess.run(
            [sys.executable, "-c", KILLED, str(step), "connect", "zed", "--yes"],
            env=user.daemon.env,
            capture_output=True,
            text=True,
        )
        assert path.read_text() in (OLD_ZED, new)
        if done.returncode == 0:
            break
        assert done.returncode == -9, done.stderr
        if user.live("zed") and user.installation("zed")["credential"] is None and not interrupted:
            assert user.status("zed")["credential"] == "interrupted"
        mended = user.run("connect", "zed", "--yes")
        interrupted += "interrupted run" in mended.stderr
        assert path.read_text() == new
        (live,) = user.live("zed")
        assert live["id"] == user.installation("zed")["credential_id"]
        step += 1
        with user.daemon.owner() as owner:  # as it was before, without one more process
            assert owner.post(f"/v1/agents/{live['id']}/revoke").status == 200
        for entry in (*user.kept.glob("zed.*"), *path.parent.iterdir()):
            entry.unlink()
        path.write_text(OLD_ZED)
    assert step >= 10
    assert interrupted >= 1
    assert [entry.name for entry in path.parent.iterdir() if ".memlocket-" in entry.name] == []
    user.run("disconnect", "zed", "--yes")
    assert path.read_text() == OLD_ZED


def test_a_person_is_shown_the_change_and_asked(user: User) -> None:
    path = user.file(".codex/config.toml", 'model = "o9"\n')
    for answer, words in (("n", "nothing was changed"), ("y", "Codex is connected")):
        with Terminal([*COMMAND, "connect", "codex"], user.daemon.env) as terminal:
            terminal.expect(r"\+\[mcp_servers\.memlocket\]")
            terminal.expect(r"Make this change\? \[y/N\]")
            terminal.type(answer)
            terminal.expect(words)
            assert terminal.wait() == (0 if answer == "y" else 2)
        assert ("memlocket" in path.read_text()) == (answer == "y")
        assert len(user.live("codex")) == (1 if answer == "y" else 0)
    done = user.run("disconnect", "codex", check=False)
    assert done.returncode == 11  # nobody to ask
    user.run("disconnect", "codex", "--yes")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxDaemon]:
    """A daemon whose vault a passphrase opens, so that giving access asks for it."""
    daemon = SandboxDaemon(tmp_path_factory.mktemp("g") / "home")
    daemon.init(PASSPHRASE)
    daemon.keyless = True
    try:
        yield daemon.start()
    finally:
        daemon.cleanup()


def test_giving_access_is_an_act_of_the_owner(guarded: SandboxDaemon, tmp_path: Path) -> None:
    user = User(dataclasses.replace(guarded, environment={"HOME": str(tmp_path)}), tmp_path)
    done = user.run("connect", "zed", "--yes", "--json", check=False)
    assert json.loads(done.stdout)["error"]["code"] == "vault_locked"
    assert user.run("connect", "--status", check=False).returncode == 0
    assert not (tmp_path / ".config").exists()


def test_our_own_command_line_names_itself(user: User) -> None:
    written = user.json("remember", "the label of the command line", "--path", "cli/labels")
    with user.daemon.owner() as owner:
        item = owner.get(f"/v1/memories/{written['id']}").json
        assert item["ownership"] == "unverified"  # this caller sends no labels
    shown = user.json("get", written["id"])
    assert shown["ownership"] == "current_agent"
    raw = json.loads((user.kept / "cli.json").read_bytes())
    assert raw["credential"] is None
    assert raw["instance_id"] not in json.dumps(shown)


def test_status_without_a_daemon(tmp_path: Path) -> None:
    with running(tmp_path / "home") as daemon:
        user = User(dataclasses.replace(daemon, environment={"HOME": str(tmp_path)}), tmp_path)
        user.run("connect", "zed", "--yes")
        assert user.status("zed")["credential"] == "valid"
        (wanted,) = user.live("zed")
        user.run("agent", "revoke", wanted["id"])
        assert user.status("zed")["credential"] == "revoked"
        again = user.json("connect", "zed", "--yes")
        assert again["new_credential"]
        assert not again["changed"]
    document = user.json("connect", "--status")
    assert document["service"]["reachable"] is False
    assert user.run("disconnect", "zed", "--yes", check=False).returncode == 6
    (row,) = document["clients"]
    assert (row["credential"], row["entry"]) == ("unknown", "present")
    user.run("disconnect", "zed", "--yes", "--entry-only")
    assert not (tmp_path / ".config" / "zed").exists()
