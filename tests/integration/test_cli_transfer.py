"""import, export, backup and restore through real daemons: nothing is lost on the way."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sandbox_daemon import COMMAND, SandboxDaemon, Wire, wait_until
from terminal import Terminal

from memory_manager.vault.rows import RecordKind

pytestmark = pytest.mark.timeout(240)  # up to four daemons in one test

PASSPHRASE = "cobalt heron " + "violin ledger summit crane"


def opened(home: Path) -> SandboxDaemon:
    """A daemon on a vault with a key file and, for the admin acts, a passphrase."""
    daemon = SandboxDaemon(home, ("--no-embeddings",)).init().start()
    done = with_secrets(daemon, "passphrase", "--add", new_passphrase=PASSPHRASE)
    assert done.returncode == 0, done.stderr
    return daemon


def with_secrets(
    sandbox: SandboxDaemon, *arguments: str, **secrets: str
) -> subprocess.CompletedProcess[str]:
    """The command with each secret on a pipe: ``passphrase=`` becomes ``--passphrase-fd N``."""
    options = {f"--{name.replace('_', '-')}-fd": text for name, text in secrets.items()}
    return sandbox.cli(*arguments, check=False, secrets=options)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxDaemon]:
    """Records of every kind, with tags, expiry, versions, several writers; some are gone."""
    with opened(tmp_path_factory.mktemp("source") / "home") as daemon:
        token = daemon.add_agent("hermes", "memory:read", "memory:write", "ledger:write")
        with daemon.wire(token, agent="hermes", instance="laptop-1") as hermes:
            first = hermes.remember(
                "Deploys run on Thursdays",
                "team/ops",
                metadata={"tags": ["ops", "部署"], "depth": {"a": [1, None, True]}},
                importance=0.7,
                expires_at="2199-01-01T00:00:00Z",
                semantic_key="deploy-day",
                bucket="work",
                scope="team/a",
            )["id"]
            hermes.remember(
                "Deploys run on\r\n\r\nFridays  ", "team/ops", semantic_key="deploy-day",
                bucket="work", scope="team/a", metadata={"tags": ["ops"]},
            )  # fmt: skip
            gone = hermes.remember("an old port number 8080", "team/net")["id"]
            blacked = hermes.remember("the ceo said a word", "team/talk")["id"]
            add_items(hermes)
        daemon.cli("remember", "written by the owner\n---\nwith a rule", "--path", "own")
        daemon.cli("forget", gone, "--reason", "wrong")
        daemon.cli("restore", gone)
        daemon.cli("forget", gone)
        daemon.cli("forget", blacked, "--redact")
        assert first
        yield daemon


SPENT_AT = "2020-02-03T03:03:03Z"
ITEM_LISTS = ("timeline", "reminders", "decisions")


def add_items(wire: Wire) -> None:
    """One record of every kind beside memories, some with a history, one forgotten."""
    here = {"bucket": "work", "scope": "team/a"}

    def made(path: str, **body: object) -> str:
        answer = wire.post(path, {**here, **body})
        assert answer.status in (200, 201), answer.body
        return str(answer.json.get("id"))

    for task in ("mend the export", "test the export"):
        made("/v1/update_state", current_task=task, next_action="go on", ttl_seconds=0)
    made("/v1/timeline/events", content="began\n\nat nine", event_type="note", session_id="s1",
         occurred_at="2020-02-02T02:02:02Z")  # fmt: skip
    done = made("/v1/reminders", content="buy milk", due_at="2199-01-01T00:00:00Z")
    made(f"/v1/reminders/{done}/complete", note="two litres")
    made("/v1/reminders", content="still open")
    taken = made("/v1/decisions", context="Which day?", options=["Thursday", "Friday", "週末"])
    made(f"/v1/decisions/{taken}/resolve", resolution="Friday")
    expense = {"item": "coffee", "amount": "2.5", "currency": "EUR", "spent_at": SPENT_AT, **here}
    made("/v1/skill/operations", operation="expense-add", arguments=expense)
    made("/v1/restart/snapshot", session_id="s1", label="before lunch")
    gone = made("/v1/reminders", content="a forgotten reminder")
    made(f"/v1/memories/{gone}/forget")


def item_lists(daemon: SandboxDaemon) -> dict[str, Any]:
    """What the wire shows of the items, the restored snapshot included."""
    with daemon.owner() as owner:
        shown: dict[str, Any] = {
            name: owner.get(f"/v1/{name}", bucket="%", item_status="%").json for name in ITEM_LISTS
        }
        shown["ledger"] = owner.get("/v1/me/ledger/monthly-summary", month=SPENT_AT[:7]).json
        quiet = {"restore_state": False, "record_restore_event": False, "scope": "team/a"}
        restored = owner.post("/v1/restart/restore", quiet).json
    assert restored.pop("restored_at")
    return {**shown, "restart": restored}


@pytest.fixture
def target(tmp_path: Path) -> Iterator[SandboxDaemon]:
    with opened(tmp_path / "home") as daemon:
        yield daemon


def exported(daemon: SandboxDaemon, path: Path, *options: str) -> list[dict[str, Any]]:
    done = with_secrets(
        daemon, "export", str(path), "--include-deleted", *options, passphrase=PASSPHRASE
    )
    assert done.returncode == 0, done.stderr
    assert "unencrypted" in done.stderr
    if path.is_dir():
        return []
    assert path.stat().st_mode & 0o077 == 0
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return sorted(lines, key=lambda record: str(record["id"]))


@pytest.mark.parametrize("kind", ["jsonl", "markdown"])
def test_g14_export_and_import_lose_nothing(
    source: SandboxDaemon, target: SandboxDaemon, tmp_path: Path, kind: str
) -> None:
    before = exported(source, tmp_path / "a.jsonl")
    assert {record["status"] for record in before} == {"active", "deleted", "redacted"}
    assert max(len(record["versions"]) for record in before) == 4
    assert {record["kind"] for record in before} == {kind.value for kind in RecordKind}
    given = tmp_path / ("out" if kind == "markdown" else "a.jsonl")
    if kind == "markdown":
        exported(source, given, "--format", "markdown")
    done = target.cli("import", str(given), "--json")
    assert json.loads(done.stdout)["created"] == len(before)
    assert exported(target, tmp_path / "b.jsonl") == before
    items = item_lists(source)
    assert [items[name]["total"] for name in ITEM_LISTS] == [1, 2, 1]
    assert items["ledger"]["total"] == 2.5
    assert items["restart"]["snapshot"]["active_state"]["current_task"] == "test the export"
    assert item_lists(target) == items
    again = json.loads(target.cli("import", str(given), "--json").stdout)
    assert (again["created"], again["unchanged"]) == (0, len(before))
    assert exported(target, tmp_path / "c.jsonl") == before
    found = json.loads(target.cli("search", "deploys fridays", "--json").stdout)["results"]
    assert found[0]["content"] == "Deploys run on\r\n\r\nFridays  "


def test_edited_markdown_becomes_a_new_version(
    source: SandboxDaemon, target: SandboxDaemon, tmp_path: Path
) -> None:
    folder = tmp_path / "notes"
    exported(source, folder, "--format", "markdown")
    target.cli("import", str(folder))
    (note,) = (path for path in folder.rglob("*.md") if "own" in path.name)
    note.write_text(note.read_text().replace("written by the owner", "edited by the owner"))
    done = json.loads(target.cli("import", str(folder), "--json").stdout)
    assert done["updated"] == 1
    assert json.loads(target.cli("search", "edited owner", "--json").stdout)["results"]
    assert not json.loads(target.cli("search", "written", "--json").stdout)["results"]


def test_dry_run_counts_and_stores_nothing(target: SandboxDaemon, tmp_path: Path) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("one\n\ntwo\n\n" + "x" * 100_001)
    told = target.cli("import", str(notes), "--dry-run", "--json", check=False)
    assert told.returncode == 7  # as the import itself would end
    done = json.loads(told.stdout)
    assert (done["read"], done["refused"], done["dry_run"]) == (2, 1, True)
    assert json.loads(target.cli("list", "--json").stdout)["results"] == []
    shown = target.cli("import", str(notes), "--dry-run", check=False)
    assert "Would import 2 memories; nothing was stored" in shown.stdout
    assert "1 record would not be imported" in shown.stderr
    assert shown.returncode == target.cli("import", str(notes), check=False).returncode == 7
    notes.write_text("two\n\nthree")
    shown = target.cli("import", str(notes), "--dry-run")
    assert "Would import 1 memory, 1 known already; nothing was stored" in shown.stdout
    assert json.loads(target.cli("list", "--json").stdout)["total"] == 2
    target.cli("lock")
    apart = target.cli("import", str(notes), "--dry-run")
    assert "Would import 2 memories; nothing was stored" in apart.stdout
    assert "Not compared" in apart.stderr


def test_a_folder_is_read_whole_and_says_what_it_passed_over(
    target: SandboxDaemon, tmp_path: Path
) -> None:
    folder = tmp_path / "mixed"
    folder.mkdir()
    (folder / "a.md").write_text("from markdown")
    (folder / "b.txt").write_text("from text")
    (folder / "c.jsonl").write_text('{"content":"from lines"}\n')
    (folder / "d.bin").write_bytes(b"\0\1")
    for number in range(6):
        (folder / f"e{number}.csv").touch()
    done = target.cli("import", str(folder))
    assert done.stdout == "Imported 3 memories\n"
    assert "Passed over 7 (not Markdown, text or JSON Lines): d.bin, e0.csv" in done.stderr
    assert done.stderr.endswith(" and 2 more\n")
    again = json.loads(target.cli("import", str(folder), "--format", "text", "--json").stdout)
    assert (again["read"], again["deduplicated"], len(again["passed_over"])) == (1, 1, 9)
    assert again["passed_over"][0] == {
        "place": "a.md",
        "reason": "not of the format that was asked for",
    }


def test_bad_records_are_named_and_the_others_arrive(target: SandboxDaemon, tmp_path: Path) -> None:
    lines = tmp_path / "mixed.jsonl"
    lines.write_text(
        '{"content":"good one"}\nnot json\n{"content":"x","importance":9}\n{"text":"good two"}\n'
    )
    done = target.cli("import", str(lines), check=False)
    assert done.returncode == 7
    assert "Imported 2 memories" in done.stdout
    assert "mixed.jsonl:2" in done.stderr
    assert "importance" in done.stderr
    again = json.loads(target.cli("import", str(lines), "--json", check=False).stdout)
    assert (again["created"], again["deduplicated"], again["refused"]) == (0, 2, 2)


def test_imported_secrets_are_taken_out(target: SandboxDaemon, tmp_path: Path) -> None:
    secret = "ghp_" + "zY8xW6vU4tS2rQ0pO9nM7lK5jI3hG1fE2dC4"
    (tmp_path / "n.txt").write_text(f"the bot uses {secret}\n\nharmless")
    done = target.cli("import", str(tmp_path / "n.txt"))
    assert "In 1 of them a secret was taken out" in done.stderr
    assert secret not in target.cli("list", "--json").stdout
    for options, mark in (((), "[REDACTED:"), (("--short-marks",), "[REDACTED]")):
        written = tmp_path / f"out{len(options)}.jsonl"
        asked = ("export", str(written), *options)
        assert with_secrets(target, *asked, passphrase=PASSPHRASE).returncode == 0
        assert f"the bot uses {mark}" in written.read_text()


def test_many_records_go_in_batches_with_a_bar_on_a_terminal(
    target: SandboxDaemon, tmp_path: Path
) -> None:
    lines = tmp_path / "many.jsonl"
    lines.write_text("".join(f'{{"content":"line {n} {"y" * 4000}"}}\n' for n in range(600)))
    with Terminal([*COMMAND, "import", str(lines)], target.env) as terminal:
        assert terminal.wait() == 0
        assert "Imported 600 memories" in terminal.screen
        assert "import" in terminal.screen.split("Imported")[0]
    piped = target.cli("import", str(lines))
    assert piped.stderr == ""
    assert json.loads(target.cli("status", "--json").stdout)["counts"]["memories"] == 600


def test_export_never_replaces_and_needs_the_passphrase(
    source: SandboxDaemon, tmp_path: Path
) -> None:
    there = tmp_path / "there.jsonl"
    there.write_text("mine")
    done = with_secrets(source, "export", str(there), passphrase=PASSPHRASE)
    assert done.returncode == 2
    assert there.read_text() == "mine"


def test_wrong_passphrase_has_to_wait(target: SandboxDaemon) -> None:
    target.cli("lock")
    wrong = with_secrets(target, "unlock", passphrase="not " + PASSPHRASE)
    assert wrong.returncode == 11
    assert "wrong" in wrong.stderr
    wait_until(
        lambda: with_secrets(target, "unlock", passphrase=PASSPHRASE).returncode == 0,
        30,
        "the right one opens it",
    )


def test_forgetting_for_good_needs_the_passphrase(target: SandboxDaemon) -> None:
    target.stop()
    target.start()  # the passphrase that was set counts no more
    memory = json.loads(target.cli("remember", "the vixen sleeps here", "--json").stdout)["id"]
    waits = target.cli("forget", "--hard", memory)
    assert "with your passphrase" in waits.stdout
    assert memory in target.cli("list", "--include-deleted").stdout
    gone = with_secrets(target, "forget", "--hard", memory, passphrase=PASSPHRASE)
    assert gone.returncode == 0, gone.stderr
    assert "with your passphrase" not in gone.stdout
    assert memory not in target.cli("list", "--include-deleted").stdout
    assert target.cli("restore", memory, check=False).returncode == 4


def test_ctrl_c_at_a_question_says_what_is_true(target: SandboxDaemon, tmp_path: Path) -> None:
    file = tmp_path / "never.backup"
    memory = json.loads(target.cli("remember", "the stoat waits", "--json").stdout)["id"]
    target.stop()
    target.start()  # no passphrase counts any more
    for command, said in (
        (("backup", str(file)), "nothing was changed"),
        (("forget", "--hard", memory), "memlocket destroy"),
    ):
        with Terminal([*COMMAND, *command], target.env) as terminal:
            terminal.expect("Passphrase: ")
            terminal.interrupt()
            assert terminal.wait() == 130
            assert "Stopped;" in terminal.screen
            assert said in terminal.screen
    assert not file.exists()


def test_backup_restores_elsewhere_and_leaves_no_words(
    source: SandboxDaemon, tmp_path: Path
) -> None:
    before = exported(source, tmp_path / "a.jsonl")
    bundle = tmp_path / "vault.backup"
    done = with_secrets(source, "backup", str(bundle), passphrase=PASSPHRASE)
    assert done.returncode == 0, done.stderr
    assert b"Thursdays" not in bundle.read_bytes()
    other = SandboxDaemon(tmp_path / "other", ("--no-embeddings",), keyless=True)
    other.home.mkdir(mode=0o700)
    wrong = with_secrets(other, "restore-backup", str(bundle), passphrase="x" + PASSPHRASE)
    assert wrong.returncode == 11
    assert not (other.home / "vault").exists()
    done = with_secrets(other, "restore-backup", str(bundle), passphrase=PASSPHRASE)
    assert done.returncode == 0, done.stderr
    twice = with_secrets(other, "restore-backup", str(bundle), passphrase=PASSPHRASE)
    assert twice.returncode == 14
    with other:
        other.start()
        assert with_secrets(other, "unlock", passphrase=PASSPHRASE).returncode == 0
        assert exported(other, tmp_path / "b.jsonl") == before
        assert item_lists(other) == item_lists(source)
        busy = with_secrets(
            other, "restore-backup", str(bundle), "--replace", passphrase=PASSPHRASE
        )
        assert busy.returncode == 3
    blind = with_secrets(other, "restore-backup", str(bundle), "--replace", passphrase=PASSPHRASE)
    assert (blind.returncode, "--current-passphrase-fd" in blind.stderr) == (11, True)
    third = SandboxDaemon(tmp_path / "third")
    third.home.mkdir(mode=0o700)
    with Terminal([*COMMAND, "restore-backup", str(bundle)], third.env) as terminal:
        terminal.expect("Passphrase of the backup: ")
        terminal.type(PASSPHRASE)
        terminal.expect(r"\r +\r\r?\nThese are your recovery words")  # the bar is gone
        terminal.interrupt()
        assert terminal.wait() == 130
    assert not (third.home / "vault").exists()
