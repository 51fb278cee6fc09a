"""Another database key and the system keyring, through the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from sandbox_daemon import SandboxDaemon

PASSPHRASE = "turnip lantern " + "orbit maple quartz fjord"


def salt_of(sandbox: SandboxDaemon) -> bytes:
    return (sandbox.home / "vault" / "vault.db").read_bytes()[:16]


@pytest.fixture
def sandbox(tmp_path: Path) -> SandboxDaemon:
    """A vault with a passphrase and nothing else, not yet running."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    sandbox = SandboxDaemon(home)
    sandbox.keyless = True
    sandbox.cli("init", "--no-recovery", secrets={"--passphrase-fd": PASSPHRASE})
    return sandbox


def test_rekey_changes_the_file_key_and_keeps_every_memory(sandbox: SandboxDaemon) -> None:
    with sandbox:
        sandbox.start()
        sandbox.cli("unlock", secrets={"--passphrase-fd": PASSPHRASE})
        sandbox.cli("remember", "the falcon cluster moved to rack nine", "--path", "ops/racks")
        before = salt_of(sandbox)
        done = sandbox.cli("rekey", "--json", secrets={"--passphrase-fd": PASSPHRASE})
        assert json.loads(done.stdout)["rekeyed"] is True
        assert salt_of(sandbox) != before
        found = json.loads(sandbox.cli("search", "falcon rack", "--json").stdout)
        assert [hit["path"] for hit in found["results"]] == ["ops/racks"]
        sandbox.stop()
        sandbox.start()
        sandbox.cli("unlock", secrets={"--passphrase-fd": PASSPHRASE})
        found = json.loads(sandbox.cli("search", "falcon rack", "--json").stdout)
        assert len(found["results"]) == 1
        after = salt_of(sandbox)
        wrong = sandbox.cli(
            "rekey", check=False, secrets={"--passphrase-fd": PASSPHRASE + " wrong"}
        )
        assert wrong.returncode == 11
        assert salt_of(sandbox) == after


def test_rekey_with_words_to_show_and_nobody_to_see_them_changes_nothing(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    sandbox = SandboxDaemon(home)
    sandbox.keyless = True
    with open(tmp_path / "words", "wb") as words:
        sandbox.cli(
            "init",
            "--recovery-fd",
            str(words.fileno()),
            secrets={"--passphrase-fd": PASSPHRASE},
            pass_fds=[words.fileno()],
        )
    with sandbox:
        sandbox.start()
        sandbox.cli("unlock", secrets={"--passphrase-fd": PASSPHRASE})
        before = salt_of(sandbox)
        refused = sandbox.cli("rekey", check=False, secrets={"--passphrase-fd": PASSPHRASE})
        assert refused.returncode == 11
        assert "--recovery-fd" in refused.stderr
        assert salt_of(sandbox) == before
        kept = sandbox.cli(
            "rekey",
            "--json",
            secrets={
                "--passphrase-fd": PASSPHRASE,
                "--words-fd": (tmp_path / "words").read_text("ascii").strip(),
            },
        )
        assert json.loads(kept.stdout)["new_recovery_words"] is False
        assert salt_of(sandbox) != before


def test_the_keyring_cannot_be_switched_on_where_there_is_none(sandbox: SandboxDaemon) -> None:
    with sandbox:
        sandbox.start()
        sandbox.cli("unlock", secrets={"--passphrase-fd": PASSPHRASE})
        answer = sandbox.cli("keyring", "on", "--json", check=False)
        assert answer.returncode == 10
        assert sandbox.status()["vault"]["state"] == "unlocked"
        off = sandbox.cli("keyring", "off")
        assert off.returncode == 0
