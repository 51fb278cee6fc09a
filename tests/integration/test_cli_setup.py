"""Setup, unlocking and recovery words at a real terminal and without one (vault.md T53, T55)."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest
from leak_scan import scan_folders
from sandbox_daemon import COMMAND, SandboxDaemon
from terminal import Terminal

PASSPHRASE = "turnip lantern " + "orbit maple quartz fjord"
NUMBERED_WORD = r"(?<!\S)(\d{1,2}) ([a-z]{3,8})(?!\S)"
NO_WORD = "bogus"  # stands in no list of recovery words


def with_secrets(
    sandbox: SandboxDaemon, *arguments: str, **secrets: str
) -> subprocess.CompletedProcess[str]:
    """The command with each secret on a pipe: ``passphrase=`` becomes ``--passphrase-fd N``."""
    options = {f"--{name.replace('_', '-')}-fd": text for name, text in secrets.items()}
    return sandbox.cli(*arguments, check=False, secrets=options)


@pytest.fixture
def sandbox(tmp_path: Path) -> SandboxDaemon:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return SandboxDaemon(home)


def words_on(screen: str) -> list[str]:
    """The 24 words in order; each number was shown once. A word may be there twice."""
    found = [(int(number), word) for number, word in re.findall(NUMBERED_WORD, screen)]
    assert sorted(number for number, _ in found) == list(range(1, 25))
    return [word for _, word in sorted(found)]


def test_setup_at_a_terminal_shows_words_once_and_asks_for_three(sandbox: SandboxDaemon) -> None:
    with Terminal([*COMMAND, "init"], sandbox.env) as terminal:
        terminal.expect("New passphrase: ")
        terminal.type(PASSPHRASE)
        terminal.expect("Again: ")
        terminal.type(PASSPHRASE)
        terminal.expect("Press Enter")
        words = words_on(terminal.screen)
        terminal.type("")
        for slips in (2, 0, 1):
            for _ in range(slips):
                terminal.expect(r"Word \d+: ")
                terminal.type(NO_WORD)
                terminal.expect(r"That is not word \d+; .* more tr")
            match = terminal.expect(r"Word (\d+): ")
            terminal.type(words[int(match[1]) - 1])
        assert terminal.wait() == 0
        assert PASSPHRASE not in terminal.screen
        assert "Next: memlocket up && memlocket unlock\n" in terminal.screen
        shown, cleared, after = terminal.screen.partition("\x1b[2J")
    assert cleared
    assert words_on(shown) == words
    assert re.findall(rf"{NUMBERED_WORD} +\d", after) == []
    assert (sandbox.home / "vault" / "vault.db").exists()
    sandbox.keyless = True
    with sandbox:
        sandbox.start()
        assert sandbox.status()["vault"]["state"] == "locked"
        answer = sandbox.cli("recall", "anything", "--json", check=False)
        assert answer.returncode == 10
        assert json.loads(answer.stdout)["error"]["code"] == "vault_locked"
        with Terminal([*COMMAND, "unlock"], sandbox.env) as terminal:
            terminal.expect("Passphrase: ")
            terminal.type(PASSPHRASE)
            assert terminal.wait() == 0
        status = sandbox.status()["vault"]
        assert (status["state"], status["recovery"]) == ("unlocked", "confirmed")
    canaries = {"passphrase": PASSPHRASE, "words": " ".join(words)}
    assert scan_folders([sandbox.home], canaries) == []
    assert not any(word in sandbox.output.read_text() for word in (PASSPHRASE, " ".join(words[:3])))


def test_wrong_word_makes_no_vault(sandbox: SandboxDaemon) -> None:
    with Terminal([*COMMAND, "init"], sandbox.env) as terminal:
        terminal.expect("New passphrase: ")
        terminal.type(PASSPHRASE)
        terminal.expect("Again: ")
        terminal.type(PASSPHRASE)
        terminal.expect("Press Enter")
        terminal.type("")
        for _ in range(3):
            terminal.expect(r"Word \d+: ")
            terminal.type(NO_WORD)
        assert terminal.wait() == 11
        assert "not confirmed" in terminal.screen.lower()
    assert not (sandbox.home / "vault").exists()


@pytest.mark.parametrize("step", ["passphrase", "words"])
def test_a_setup_that_is_broken_off_says_that_there_is_no_vault(
    sandbox: SandboxDaemon, step: str
) -> None:
    with Terminal([*COMMAND, "init"], sandbox.env) as terminal:
        terminal.expect("New passphrase: ")
        if step == "words":
            terminal.type(PASSPHRASE)
            terminal.expect("Again: ")
            terminal.type(PASSPHRASE)
            terminal.expect("Press Enter")
        terminal.interrupt()
        assert terminal.wait() == 130
        assert "no vault was made" in terminal.screen
        assert "Stopped" not in terminal.screen
    assert not (sandbox.home / "vault").exists()


def test_two_different_passphrases_make_no_vault(sandbox: SandboxDaemon) -> None:
    with Terminal([*COMMAND, "init"], sandbox.env) as terminal:
        terminal.expect("New passphrase: ")
        terminal.type(PASSPHRASE)
        terminal.expect("Again: ")
        terminal.type(PASSPHRASE + "x")
        assert terminal.wait() == 2
    assert not (sandbox.home / "vault").exists()


def test_setup_without_a_terminal_needs_a_descriptor_and_prints_no_words(
    sandbox: SandboxDaemon,
) -> None:
    refused = sandbox.cli("init", check=False)
    assert refused.returncode == 11
    assert "--passphrase-fd" in refused.stderr
    assert not (sandbox.home / "vault").exists()
    done = with_secrets(sandbox, "init", "--json", passphrase=PASSPHRASE)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["recovery"] == "none"
    assert len((done.stdout + done.stderr).split()) < 40
    again = with_secrets(sandbox, "init", passphrase=PASSPHRASE)
    assert again.returncode == 14


def test_recovery_words_go_to_their_descriptor_only(sandbox: SandboxDaemon) -> None:
    reading, writing = os.pipe()
    descriptor, secret = os.pipe()
    os.write(secret, PASSPHRASE.encode() + b"\n")
    os.close(secret)
    done = subprocess.run(
        [*COMMAND, "init", "--passphrase-fd", str(descriptor), "--recovery-fd", str(writing)],
        env=sandbox.env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        pass_fds=[writing, descriptor],
        timeout=120,
    )
    os.close(writing)
    os.close(descriptor)
    with os.fdopen(reading) as stream:
        words = stream.read()
    assert done.returncode == 0, done.stderr
    assert len(words.split()) == 24
    assert words.strip() not in done.stdout + done.stderr
    sandbox.keyless = True
    with sandbox:
        sandbox.start()
        new = PASSPHRASE + " renewed"
        opened = with_secrets(
            sandbox, "unlock", "--recovery", passphrase=words.strip(), new_passphrase=new
        )
        assert opened.returncode == 0, opened.stderr
        sandbox.cli("lock")
        old = with_secrets(sandbox, "unlock", passphrase=PASSPHRASE)
        assert old.returncode == 11
        assert "wrong" in old.stderr.lower()


def test_weak_passphrase_is_refused(sandbox: SandboxDaemon) -> None:
    done = with_secrets(sandbox, "init", passphrase="hunter2")
    assert done.returncode == 2
    assert "guess" in done.stderr


def test_passphrase_never_comes_from_arguments_or_environment(sandbox: SandboxDaemon) -> None:
    text = sandbox.cli("init", "--help").stdout + sandbox.cli("unlock", "--help").stdout
    assert "--passphrase " not in text
    assert "--passphrase=" not in text
    assert "environment" not in text.lower()


def test_a_restore_over_a_vault_names_the_option_that_allows_it(
    sandbox: SandboxDaemon, tmp_path: Path
) -> None:
    sandbox.init("orchard lantern gravel sixteen")
    (tmp_path / "some.backup").write_bytes(b"")
    done = sandbox.cli("restore-backup", str(tmp_path / "some.backup"), check=False)
    assert done.returncode == 14
    assert "--replace" in done.stderr


def test_new_recovery_words_end_the_old_ones(sandbox: SandboxDaemon) -> None:
    assert with_secrets(sandbox, "init", passphrase=PASSPHRASE).returncode == 0
    sandbox.keyless = True
    with sandbox:
        sandbox.start()
        refused = sandbox.cli("recovery", "new", check=False)
        assert refused.returncode == 11
        assert with_secrets(sandbox, "unlock", passphrase=PASSPHRASE).returncode == 0
        with Terminal([*COMMAND, "recovery", "new"], sandbox.env) as terminal:
            terminal.expect("Press Enter")
            words = words_on(terminal.screen)
            terminal.type("")
            for _ in range(3):
                match = terminal.expect(r"Word (\d+): ")
                terminal.type(words[int(match[1]) - 1])
            assert terminal.wait() == 0
        assert sandbox.status()["vault"]["recovery"] == "confirmed"
