"""Commands on memories and agents against a real daemon, as text and as JSON."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sandbox_daemon import SandboxDaemon, running
from terminal import Terminal

from sandbox_daemon import COMMAND  # isort: skip


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxDaemon]:
    home: Path = tmp_path_factory.mktemp("cli") / "home"
    with running(home, "--no-embeddings") as daemon:
        yield daemon


def document(sandbox: SandboxDaemon, *arguments: str, **options: Any) -> dict[str, Any]:
    return json.loads(sandbox.cli(*arguments, "--json", **options).stdout)  # type: ignore[no-any-return]


def test_a_memory_from_remember_to_restore(sandbox: SandboxDaemon) -> None:
    written = document(
        sandbox, "remember", "The kestrel service listens on port 4711", "--path", "team/kestrel",
        "--tag", "ops", "--tag", "ports", "--importance", "0.8", "--type", "procedural",
        "--expires", "30d",
    )  # fmt: skip
    memory_id = written["id"]
    assert written["status"] == "created"
    assert "kestrel service listens" in sandbox.cli("recall", "where does kestrel listen?").stdout
    hits = document(sandbox, "search", "kestrel port")["results"]
    assert hits[0]["id"] == memory_id
    whole = document(sandbox, "get", memory_id)
    assert whole["memory_type"] == "procedural"
    assert whole["metadata"]["tags"] == ["ops", "ports"]
    assert whole["expires_at"] is not None
    shown = sandbox.cli("get", memory_id).stdout
    assert "tags        ops, ports" in shown
    assert "port 4711" in shown
    assert memory_id in sandbox.cli("list", "--path", "team/kestrel").stdout
    assert sandbox.cli("forget", memory_id, "--reason", "moved").stdout.startswith("Forgotten")
    assert sandbox.cli("get", memory_id, check=False).returncode == 4
    assert memory_id not in sandbox.cli("list").stdout
    assert "deleted" in sandbox.cli("list", "--include-deleted").stdout
    assert sandbox.cli("restore", memory_id).stdout.startswith("Restored")
    actions = [
        line.split()[3] for line in sandbox.cli("versions", memory_id).stdout.splitlines()[1:]
    ]
    assert actions == ["restored", "deleted", "created"]


def test_the_beginning_of_an_id_is_enough_while_it_names_one_memory(
    sandbox: SandboxDaemon,
) -> None:
    # ids begin with their time, so these two begin alike; an import may bring any id
    one, two, third = (
        "0190aaaa-0000-7000-8000-000000000001",
        "0190aaaa-0000-7000-8000-000000000002",
        "0190bbbb-0000-7000-8000-000000000003",
    )
    with sandbox.owner() as owner:
        for memory_id in (one, two, third):
            record = {"id": memory_id, "content": f"short {memory_id}", "path": "short"}
            answer = owner.post("/v1/memories/import", {"records": [record]})
            assert answer.json["results"][0]["status"] == "created", answer.json
    assert document(sandbox, "get", "0190BBBB")["id"] == third
    assert document(sandbox, "get", "0190bbbb-0000-7")["id"] == third
    assert sandbox.cli("versions", third[:13]).stdout
    assert sandbox.cli("forget", "0190bbbb").stdout.split()[1] == third
    assert sandbox.cli("restore", "0190bbbb").stdout.split()[1] == third
    refused = sandbox.cli("get", "0190aaaa", "--json", check=False)
    assert refused.returncode == 2
    assert json.loads(refused.stdout or refused.stderr)["error"]["code"] == "ambiguous_id"
    assert document(sandbox, "get", one[:-1] + "2")["id"] == two
    both = sandbox.cli("forget", "0190bbbb", "0190aaaa", check=False)
    assert both.returncode == 2
    assert document(sandbox, "get", third)["status"] == "active", "nothing was forgotten before"
    assert sandbox.cli("get", "0190cccc", check=False).returncode == 4
    assert sandbox.cli("get", "0190bbb", check=False).returncode == 4, "seven digits are too few"


def test_a_narrow_terminal_shows_half_an_id_and_more_of_the_text(sandbox: SandboxDaemon) -> None:
    sentence = "A sentence long enough to need the room that whole ids would take"
    made = document(sandbox, "remember", sentence, "--path", "narrow")
    command = [*COMMAND, "list", "--path", "narrow"]
    with Terminal(command, sandbox.env, columns=80) as terminal:
        terminal.expect("1 of 1")
    assert made["id"][:18] in terminal.screen
    assert made["id"] not in terminal.screen
    assert sentence[:25] in terminal.screen
    assert sandbox.cli("get", made["id"][:18]).stdout


def test_a_very_long_question_is_cut_like_the_service_cuts_it(sandbox: SandboxDaemon) -> None:
    sandbox.cli("remember", "The halibut daemon keeps its socket in run", "--path", "long")
    found = document(sandbox, "search", "halibut daemon " + "socket " * 17_000)
    assert any("halibut" in hit["content"] for hit in found["results"])


def test_remember_reads_standard_input_and_knows_duplicates(sandbox: SandboxDaemon) -> None:
    first = document(sandbox, "remember", "-", stdin="from a pipe äöü\n")
    again = document(sandbox, "remember", "-", stdin="from a pipe äöü\n")
    assert (first["status"], again["status"]) == ("created", "deduplicated")
    assert first["id"] == again["id"]
    twice = document(sandbox, "remember", "from a pipe äöü\n", "--allow-duplicate")
    assert twice["id"] != first["id"]


def test_same_key_replaces(sandbox: SandboxDaemon) -> None:
    first = document(sandbox, "remember", "we use tabs", "--key", "style")
    second = document(sandbox, "remember", "we use spaces", "--key", "style")
    assert second["id"] == first["id"]
    assert second["status"] == "updated"


def test_a_secret_is_taken_out_and_named_by_its_rule(sandbox: SandboxDaemon) -> None:
    secret = "ghp_" + "aB3dE5gH7jK9mN1pQ3sT5vW7yZ9bC1dE3fG5"
    done = sandbox.cli("remember", f"the token is {secret} for the bot")
    assert "a secret was taken out" in done.stderr
    assert secret not in done.stdout + done.stderr
    listed = sandbox.cli("search", "token for the bot").stdout
    assert secret not in listed


def test_filters_narrow_a_search(sandbox: SandboxDaemon) -> None:
    sandbox.cli("remember", "filter case one", "--path", "f/a", "--bucket", "alpha")
    sandbox.cli("remember", "filter case two", "--path", "f/b", "--bucket", "beta")
    found = document(sandbox, "search", "filter case", "--bucket", "beta")["results"]
    assert [hit["content"] for hit in found] == ["filter case two"]
    none = document(sandbox, "search", "filter case", "--until", "7d")["results"]
    assert none == []
    for nothing in ("", "  ", "*"):
        listed = document(sandbox, "search", nothing, "--path", "f")["results"]
        assert {hit["content"] for hit in listed} == {"filter case one", "filter case two"}
        assert "filter case one" in sandbox.cli("recall", nothing, "--bucket", "alpha").stdout
    page = document(sandbox, "list", "--path", "f", "--limit", "1")
    rest = document(sandbox, "list", "--path", "f", "--limit", "1", "--cursor", page["next_cursor"])
    assert {page["results"][0]["path"], rest["results"][0]["path"]} == {"f/a", "f/b"}


def test_terminal_control_characters_are_not_printed(sandbox: SandboxDaemon) -> None:
    sandbox.cli("remember", "escape \x1b]0;owned\x07 sequence", "--path", "esc")
    for command in (["search", "escape sequence"], ["recall", "escape sequence"], ["list"]):
        shown = sandbox.cli(*command).stdout
        assert "\x1b" not in shown
        assert "\x07" not in shown


def test_degraded_recall_says_how_to_mend_it(sandbox: SandboxDaemon) -> None:
    done = sandbox.cli("recall", "anything at all")
    assert done.returncode == 0
    assert "by words only" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "exit_code", "code"),
    [
        (("get", "00000000-0000-7000-8000-000000000000"), 4, "not_found"),
        (("forget", "no-such-id"), 4, "not_found"),
        (("agent", "revoke", "nobody"), 4, "not_found"),
        (("remember", " "), 2, None),
        (("export", "-"), 11, "passphrase_required"),
        (("import", "/no/such/file.jsonl"), 4, "file_problem"),
        (("import", "/dev/null"), 2, "unknown_format"),
    ],
)
def test_exit_code_and_json_error(
    sandbox: SandboxDaemon, arguments: tuple[str, ...], exit_code: int, code: str | None
) -> None:
    done = sandbox.cli(*arguments, "--json", check=False)
    error = json.loads(done.stdout)["error"]
    assert done.returncode == exit_code == error["exit_code"]
    assert code in (None, error["code"])
    assert "Traceback" not in done.stderr
    as_text = sandbox.cli(*arguments, check=False)
    assert as_text.returncode == exit_code
    assert as_text.stderr.startswith("memlocket: ")


def test_agent_token_is_shown_once_and_ends_with_revoke(sandbox: SandboxDaemon) -> None:
    done = sandbox.cli("agent", "add", "claude-code", "--access", "read")
    token = done.stdout.strip()
    assert token.startswith("mlk_")
    assert token not in done.stderr
    assert token not in sandbox.cli("agent", "list", "--json").stdout
    with sandbox.wire(token) as wire:
        assert wire.get("/v1/memories/search", query="x").status == 200
        assert wire.post("/v1/remember", {"content": "x", "path": "y"}).status == 403
        sandbox.cli("agent", "revoke", "claude-code")
        assert wire.get("/v1/memories/search", query="x").status == 403
    assert "claude-code" not in sandbox.cli("agent", "list").stdout
    assert "revoked" in sandbox.cli("agent", "list", "--all").stdout


def test_an_agent_is_listed_in_eighty_columns_and_revoked_as_it_is_printed(
    sandbox: SandboxDaemon,
) -> None:
    name = "two words and quite a few more of them"
    done = sandbox.cli("agent", "add", name)
    assert f"memlocket agent revoke '{name}'" in done.stderr
    for command in (
        ["agent", "list", "--all"],
        ["agent", "list"],
        ["status"],
        ["doctor", "--quick"],
    ):
        with Terminal([*COMMAND, *command], sandbox.env, columns=80) as terminal:
            assert terminal.wait() in (0, 7)
            lines = [line for line in terminal.screen.splitlines() if " /" not in line]
            assert [line for line in lines if len(line) > 80] == [], command
    with Terminal([*COMMAND, "agent", "list"], sandbox.env, columns=80) as terminal:
        terminal.expect("two words and q… +read-write")
    sandbox.cli("agent", "revoke", name)


def test_a_forgotten_memory_says_how_it_comes_back(sandbox: SandboxDaemon) -> None:
    memory = json.loads(sandbox.cli("remember", "the otter is gone", "--json").stdout)["id"]
    sandbox.cli("forget", memory)
    done = sandbox.cli("get", memory, check=False)
    assert done.returncode == 4
    assert f"memlocket restore {memory}" in done.stderr
    assert "list --include-deleted" in done.stderr
    sandbox.cli("restore", memory)
    assert "otter" in sandbox.cli("get", memory).stdout


def test_wide_characters_keep_the_table_aligned(sandbox: SandboxDaemon) -> None:
    sandbox.cli("remember", "我们的部署在星期四", "--path", "表/部署")
    with Terminal([*COMMAND, "list", "--path", "表"], sandbox.env, columns=90) as terminal:
        assert terminal.wait() == 0
        assert "我们的部署在星期四" in terminal.screen


def test_broken_pipe_is_silent(sandbox: SandboxDaemon) -> None:
    done = subprocess.run(
        ["bash", "-c", '"$@" | head -c 1 >/dev/null', "-", *COMMAND, "list", "--json"],
        env=sandbox.env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
