"""Real processes: an owner at the command line, agents over REST and MCP, a hosted agent."""

from __future__ import annotations

import dataclasses
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from leak_scan import scan_folders
from mcp_wire import tool
from sandbox_daemon import SandboxDaemon, Wire, wait_until
from sync_server import ServerProcess

PASSPHRASE = "walnut orbit cactus lantern meadow pixel"
SECONDS = 60.0

pytestmark = pytest.mark.timeout(300)


@dataclasses.dataclass
class Home:
    """One machine of the owner with an agent on it, and its server."""

    daemon: SandboxDaemon
    server: ServerProcess
    agent: str

    def owner(self, *arguments: str, **options: Any) -> dict[str, Any]:
        """``memlocket opt-in ... --json``."""
        found: dict[str, Any] = json.loads(
            self.daemon.cli("opt-in", *arguments, "--json", **options).stdout
        )
        return found

    def approve(self, *ids: str) -> dict[str, Any]:
        return self.owner("approve", *ids, secrets={"--passphrase-fd": PASSPHRASE})

    def counts(self) -> dict[str, int]:
        with self.daemon.owner() as owner:
            found: dict[str, int] = owner.get("/v1/opt-in/status").json["opt_in"]
        return found

    def settled(self) -> None:
        """Nothing waits to be sent or removed."""

        def done() -> bool:
            counts = self.counts()
            return counts["waiting"] == counts["leaving"] == 0

        wait_until(done, SECONDS, "the index is up to date", 0.05)

    def passphrase_taken_again(self) -> None:
        """After a wrong passphrase the right one has to wait, for a second or so."""

        def taken() -> bool:
            with self.daemon.owner() as owner:
                answer = owner.post("/v1/vault/unlock", {"passphrase": PASSPHRASE})
            return answer.status == 200

        wait_until(taken, SECONDS, "the passphrase is taken again", 0.2)

    def hosted(self, token: str) -> Wire:
        return Wire(self.server.url, token)

    def leaks(self, **canaries: str) -> set[str]:
        """Which of these stand in the server's files."""
        return {leak.canary for leak in scan_folders([self.server.data], canaries)}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    folder: Path = tmp_path_factory.mktemp("opt-in")
    with (
        ServerProcess(folder / "server") as server,
        SandboxDaemon(folder / "desk", ("--no-embeddings",)) as daemon,
    ):
        daemon.init(PASSPHRASE).start()
        token = server.registration_token()
        daemon.cli(
            *("sync", "setup", server.url, "--name", "desk", "--without-recovery"),
            secrets={"--passphrase-fd": PASSPHRASE, "--token-fd": token},
        )
        yield Home(daemon, server, daemon.add_agent("codex"))


def _canary() -> str:
    return uuid.uuid4().hex


def test_from_an_agents_wish_to_a_hosted_agents_answer_and_back(home: Home) -> None:
    text, kept = _canary(), _canary()
    with home.daemon.wire(home.agent) as agent:
        wanted = agent.remember(f"{text} is the staging database", "team/db")["id"]
        agent.remember(f"{kept} stays here", "team/db")
        asked = agent.post(f"/v1/memories/{wanted}/opt-in", {"reason": "the build bot asks"})
        assert (asked.status, asked.json["status"]) == (202, "awaiting_owner")
        assert "compromise" in asked.json["notice"]
    shown = home.daemon.cli("opt-in", "list").stdout
    assert wanted in shown
    assert "the build bot asks" in shown
    assert home.leaks(text=text) == set()

    seen = home.daemon.cli("opt-in", "approve", "--all", secrets={"--passphrase-fd": PASSPHRASE})
    assert "Opted in: 1 memory" in seen.stdout
    assert text in seen.stderr
    assert "compromise" in seen.stderr
    home.settled()
    assert home.owner("status")["opt_in"] == {
        "requests": 0,
        "waiting": 0,
        "sent": 1,
        "blocked": 0,
        "leaving": 0,
    }
    assert home.leaks(text=text, kept=kept) == {"text"}

    issued = home.owner("token", "build bot")
    token = issued["token"]
    assert issued["server"] == home.server.url
    with home.hosted(token) as hosted:
        (hit,) = hosted.search("staging database")
        assert text in hit["content"]
        assert hit["id"] != wanted
        pack = hosted.context("staging database")
        assert text in pack["context_text"]
        assert hosted.search(kept) == []
    (mine,) = home.owner("search", "staging database")["results"]
    assert mine["id"] == wanted

    assert home.owner("out", wanted)["count"] == 1
    home.settled()
    assert home.leaks(text=text, kept=kept) == set()
    with home.hosted(token) as hosted:
        assert hosted.search("*") == []
    with home.daemon.owner() as owner:
        assert text in owner.get(f"/v1/memories/{wanted}").json["content"]
    (listed,) = home.owner("tokens")["tokens"]
    assert listed["name"] == "build bot"
    told = home.daemon.cli("opt-in", "token", "other bot").stderr
    assert f"XMEMO_URL={home.server.url}" in told
    assert "X-API-Key: <the token>" in told
    unknown = home.daemon.cli("opt-in", "revoke-token", "nobody", check=False)
    assert (unknown.returncode, "No token has this name" in unknown.stderr) == (4, True)
    with home.daemon.owner() as owner:
        answer = owner.post(f"/v1/opt-in/tokens/{'0' * 32}/revoke", {})
    assert (answer.status, "There is no such token" in answer.body.decode()) == (404, True)
    home.owner("revoke-token", "build bot")
    with home.hosted(token) as hosted:
        assert hosted.get("/v1/auth/token/validate").status == 403


def test_an_agent_can_ask_and_do_nothing_else(home: Home) -> None:
    """REST, MCP and every owner route, with every scope an agent can have."""
    every = home.daemon.add_agent(
        "greedy",
        *("memory:read", "memory:write", "memory:restore", "ledger:read", "ledger:write"),
    )
    text = _canary()
    with home.daemon.wire(every) as agent:
        wanted = agent.remember(text)["id"]
        told = tool(agent, "request_opt_in", memory_id=wanted, reason="mine")
        assert not told.is_error
        assert told.body["status"] == "awaiting_owner"
        again = tool(agent, "request_opt_in", memory_id=wanted)
        assert again.body["status"] == "unchanged"
        unknown = tool(agent, "request_opt_in", memory_id="0" * 8 + "-0000-7000-8000-" + "0" * 12)
        assert unknown.is_error
        digest = home_preview(home, wanted)
        for method, path, body in (
            ("GET", "/v1/opt-in", None),
            ("POST", "/v1/opt-in/preview", {"ids": [wanted]}),
            (
                "POST",
                "/v1/opt-in/approve",
                {"ids": [wanted], "digest": digest, "passphrase": PASSPHRASE},
            ),
            ("POST", "/v1/opt-in/out", {"ids": [wanted]}),
            ("POST", "/v1/opt-in/decline", {"ids": [wanted]}),
            ("POST", "/v1/opt-in/search", {"query": "x"}),
            ("POST", "/v1/opt-in/tokens", {"name": "mine"}),
            ("GET", "/v1/opt-in/tokens", None),
        ):
            assert agent.send(method, path, body).status == 403, path
        names = {entry["name"] for entry in mcp_tools(agent)}
        assert {name for name in names if "opt" in name} <= {"request_opt_in"}
    reader = home.daemon.add_agent("reader", "memory:read")
    with home.daemon.wire(reader) as agent:
        assert agent.post(f"/v1/memories/{wanted}/opt-in").status == 403
    assert home.counts()["sent"] == 0
    assert home.leaks(text=text) == set()
    home.owner("decline", wanted)


def home_preview(home: Home, memory_id: str) -> str:
    with home.daemon.owner() as owner:
        return str(owner.post("/v1/opt-in/preview", {"ids": [memory_id]}).json["digest"])


def mcp_tools(agent: Wire) -> list[dict[str, Any]]:
    from mcp_wire import result, rpc

    found: list[dict[str, Any]] = result(rpc(agent, "tools/list"))["tools"]
    return found


ENVELOPE = {
    "security_mode": "cloud",
    "encryption_state": "plaintext",
    "retrieval_visibility": "server_retrievable",
    "server_embeddings_enabled": True,
    "server_content_search_enabled": True,
}


def test_no_write_turns_a_vault_row_into_one_that_leaves(home: Home, tmp_path: Path) -> None:
    """Flags in metadata, envelopes in bodies, PATCH, import: none is an opt-in."""
    text = _canary()
    flags = {"vault_semantic_index_opt_in": True, **ENVELOPE, "security_envelope": ENVELOPE}
    lines = tmp_path / "import.jsonl"
    lines.write_text(
        json.dumps(
            {
                "content": f"{text} imported",
                "path": "in",
                "metadata": flags,
                "security_envelope": ENVELOPE,
                **ENVELOPE,
            }
        )
        + "\n"
    )
    home.daemon.cli("import", str(lines))
    with home.daemon.wire(home.agent) as agent:
        made = agent.remember(f"{text} written", metadata=flags, security_envelope=ENVELOPE)
        patched = agent.send(
            "PATCH",
            f"/v1/memories/{made['id']}",
            {"metadata": flags, "security_envelope": ENVELOPE, **ENVELOPE, "opt_in": True},
        )
        assert patched.status == 200
        tool(
            agent, "remember", content=f"{text} by tool", path="in", metadata_json="{}", **ENVELOPE
        )
        for row in agent.search(text):
            assert row["security_envelope"]["retrieval_visibility"] == "client_local_only"
            assert "vault_semantic_index_opt_in" not in row["metadata"]
    with home.daemon.owner() as owner:
        synced = owner.post("/v1/sync/now")
        assert synced.status == 200, synced.body
    home.settled()
    assert home.counts()["sent"] == 0
    assert home.leaks(text=text) == set()


def test_approval_takes_the_passphrase_each_time_and_the_digest_that_was_shown(
    home: Home,
) -> None:
    text = _canary()
    with home.daemon.wire(home.agent) as agent:
        wanted = agent.remember(text)["id"]
    digest = home_preview(home, wanted)
    body = {"ids": [wanted], "digest": digest}
    with home.daemon.owner() as owner:
        # the vault is open, and the passphrase was entered a moment ago: that is not enough
        assert owner.post("/v1/vault/unlock", {"passphrase": PASSPHRASE}).status == 200
        assert owner.post("/v1/opt-in/approve", body).status == 422
        wrong = owner.post(
            "/v1/opt-in/approve", {**body, "digest": "0" * 64, "passphrase": PASSPHRASE}
        )
        assert (wrong.status, wrong.code) == (409, "opt_in_changed")
    refused = home.daemon.cli(
        "opt-in", "approve", wanted, check=False, secrets={"--passphrase-fd": "not the one at all"}
    )
    assert refused.returncode == 11
    home.passphrase_taken_again()
    assert home.counts()["waiting"] == home.counts()["sent"] == 0
    assert home.leaks(text=text) == set()


def test_no_log_holds_a_word_or_an_id_of_what_was_opted_in(home: Home) -> None:
    text = _canary()
    with home.daemon.wire(home.agent) as agent:
        wanted = agent.remember(text)["id"]
        agent.post(f"/v1/memories/{wanted}/opt-in", {"reason": text})
    home.approve(wanted)
    home.settled()
    with home.daemon.owner() as owner:
        assert owner.post("/v1/opt-in/out", {"ids": [wanted]}).json["count"] == 1
    home.settled()
    logs = b"".join(path.read_bytes() for path in home.daemon.home.rglob("*.log*"))
    logs += home.daemon.output.read_bytes() + home.server.log_path.read_bytes()
    assert text.encode() not in logs
    assert wanted.encode() not in logs
