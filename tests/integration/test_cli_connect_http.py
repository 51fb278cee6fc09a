"""``memlocket connect`` for clients of HTTP: where the key goes, and what of others stays."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import pytest
from connected_user import User, new_user, validates
from sandbox_daemon import SandboxDaemon, running, unused_port


@pytest.fixture
def user(served: SandboxDaemon, tmp_path: Path) -> User:
    return new_user(served, tmp_path)


def test_hermes_gets_address_and_labels_but_no_key_in_its_settings(user: User) -> None:
    path = user.file(".hermes/xmemo.json", '{"base_url": "https://other.test", "bucket": "w"}\n')
    old = path.read_bytes()
    user.run("connect", "hermes", "--yes")
    kept = user.installation("hermes")
    settings = json.loads(path.read_bytes())
    assert settings == {
        "base_url": user.daemon.discovery["url"],
        "bucket": "w",
        "agent_id": "hermes",
        "agent_instance_id": kept["instance_id"],
    }
    key = user.home / ".config/xmemo/credentials.json"
    assert json.loads(key.read_bytes())["token"] == kept["credential"]
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert user.status("hermes")["entry"] == "present"
    assert not user.json("connect", "hermes", "--yes")["changed"]
    user.run("disconnect", "hermes", "--yes")
    assert path.read_bytes() == old
    assert not key.exists()
    key.write_text('{"token": "of another service"}')
    done = user.run("connect", "hermes", "--yes", "--json", check=False)
    assert json.loads(done.stdout)["error"]["code"] == "foreign_entry"
    assert json.loads(key.read_bytes())["token"] == "of another service"
    assert user.live("hermes") == []


FOREIGN_KEY_FILES = {
    "compact": ('{"other":{"api_key":"kept-by-them"}}', 0o644),
    "profiles": ('{\r\n\t"profiles": {"work": {"token": "kept-by-them"}}\r\n}\r\n', 0o600),
    "empty object": ("{}", 0o640),
}


@pytest.mark.parametrize("case", FOREIGN_KEY_FILES)
def test_a_key_file_of_others_gets_our_key_and_its_bytes_back(user: User, case: str) -> None:
    text, mode = FOREIGN_KEY_FILES[case]
    path = user.file(".config/xmemo/credentials.json", text)
    path.chmod(mode)
    backup = path.with_name("credentials.json.before-memlocket")
    planned = user.json("connect", "hermes", "--dry-run")
    assert planned["changes"]
    assert planned["key_file"] == str(path)
    assert path.read_bytes() == text.encode()

    done = user.run("connect", "hermes", "--yes")
    key = user.installation("hermes")["credential"]
    assert json.loads(path.read_bytes()) == {**json.loads(text), "token": key}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert backup.read_bytes() == text.encode()
    assert str(path) in done.stderr
    assert '"token": (the key is not shown)' in done.stderr
    assert not [secret for secret in (key, "kept-by-them") if secret in done.stdout + done.stderr]
    assert not user.json("connect", "hermes", "--yes")["changed"]

    user.run("agent", "revoke", "hermes")
    user.run("connect", "hermes", "--yes")
    key = user.installation("hermes")["credential"]
    assert json.loads(path.read_bytes()) == {**json.loads(text), "token": key}
    gone = user.run("disconnect", "hermes", "--yes")
    assert '-  "token": (the key is not shown)' in gone.stderr
    assert path.read_bytes() == text.encode()
    assert stat.S_IMODE(path.stat().st_mode) == mode
    assert not backup.exists()


def test_what_others_wrote_into_the_key_file_meanwhile_stays(user: User) -> None:
    path = user.home / ".config/xmemo/credentials.json"
    user.run("connect", "hermes", "--yes")
    path.write_text(json.dumps({"profiles": {"a": 1}, **json.loads(path.read_bytes())}))
    user.run("disconnect", "hermes", "--yes")
    assert json.loads(path.read_bytes()) == {"profiles": {"a": 1}}
    path.write_text('{"profiles": {}}')
    user.run("connect", "hermes", "--yes")
    path.write_text(path.read_text().replace("{}", '{"b": [2]}'))
    user.run("disconnect", "hermes", "--yes")
    assert json.loads(path.read_bytes()) == {"profiles": {"b": [2]}}


@pytest.mark.parametrize(
    "text",
    ["", "[]", "null", "not json", '{"a": 1,}', '{"a": 1} // b', '{"token": null}'],
)
def test_an_odd_key_file_is_refused_and_nothing_changes(user: User, text: str) -> None:
    path = user.file(".config/xmemo/credentials.json", text)
    done = user.run("connect", "hermes", "--yes", "--json", check=False)
    assert json.loads(done.stdout)["error"]["code"] in ("settings_refused", "foreign_entry")
    assert done.returncode == 2
    assert path.read_bytes() == text.encode()
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    assert not (user.home / ".hermes").exists()
    assert user.live("hermes") == []


def test_a_key_file_that_is_gone_is_told_and_written_again(user: User) -> None:
    user.run("connect", "hermes", "--yes")
    key = user.home / ".config/xmemo/credentials.json"
    key.unlink()
    (problem,) = user.status("hermes")["problems"]
    assert str(key) in problem
    shown = user.run("connect", "--status").stderr
    assert problem in shown
    assert "memlocket connect hermes" in shown
    again = user.run("connect", "hermes", "--yes")
    assert "written again" in again.stderr
    assert "already" not in again.stdout
    assert json.loads(key.read_bytes())["token"] == user.installation("hermes")["credential"]
    assert user.status("hermes")["problems"] == []
    user.run("disconnect", "hermes", "--yes")


def test_an_address_that_is_not_ours_any_more_is_told_and_mended(tmp_path: Path) -> None:
    home = tmp_path / "user"
    home.mkdir(mode=0o700)
    with running(tmp_path / "home", HOME=str(home)) as daemon:
        user = User(daemon, home)
        user.run("connect", "hermes", "--yes")
        old = json.loads((home / ".hermes/xmemo.json").read_bytes())["base_url"]
        port = str(unused_port())
        key_file = ("--insecure-key-file", str(daemon.key_file))
        new = user.json("restart", "--no-embeddings", "--port", port, *key_file)["url"]
        assert new.endswith(f":{port}")
        (problem,) = user.status("hermes")["problems"]
        assert problem == (
            f"hermes asks at {old}, but the service listens at {new}: memlocket connect hermes"
        )
        assert problem in user.run("connect", "--status").stderr
        report = json.loads(user.run("doctor", "--quick", "--json", check=False).stdout)
        (finding,) = [found for found in report["findings"] if found["check"] == "clients"]
        assert (finding["level"], finding["hint"]) == ("problem", "Run: memlocket connect hermes")

        user.run("connect", "hermes", "--yes")
        assert user.status("hermes")["problems"] == []
        user.run("disconnect", "hermes", "--yes")
        assert [path for path in (home / ".hermes").glob("*")] == []
        user.run("lock")
        shown = user.run("connect", "--status").stderr
        assert "The vault is locked." in shown
        assert "memlocket unlock" in shown
        assert "vault_locked" not in shown
        user.run("stop")


def test_hermes_gets_a_new_key_after_the_old_one_was_revoked(user: User) -> None:
    user.run("connect", "hermes", "--yes")
    user.run("agent", "revoke", "hermes")
    again = user.json("connect", "hermes", "--yes")
    assert again["new_credential"]
    key = json.loads((user.home / ".config/xmemo/credentials.json").read_bytes())["token"]
    assert key == user.installation("hermes")["credential"]
    assert validates(user, "hermes") == 200
    user.run("disconnect", "hermes", "--yes")


def test_openclaw_with_its_plugin_gets_a_key_and_its_settings_are_only_printed(user: User) -> None:
    done = user.run("connect", "openclaw", "--http", "--yes")
    assert user.daemon.discovery["url"] in done.stderr
    assert user.installation("openclaw")["credential"] not in done.stdout + done.stderr
    assert not (user.home / ".openclaw").exists()
    key = user.home / ".config/xmemo/credentials.json"
    assert json.loads(key.read_bytes())["token"] == user.installation("openclaw")["credential"]
    # one file, one key: a second client of that file is told so
    done = user.run("connect", "hermes", "--yes", "--json", check=False)
    assert json.loads(done.stdout)["error"]["code"] == "foreign_entry"
    user.run("disconnect", "openclaw", "--yes")
    assert not key.exists()
    assert user.run("connect", "zed", "--http", "--yes", check=False).returncode == 2
