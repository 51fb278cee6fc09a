"""Device login on the wire and in the terminal: W30, W31, A9, A21 (xmemo.md 9)."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sandbox_daemon import Answer, SandboxDaemon, Wire, running

GRANT = "urn:ietf:params:oauth:grant-type:device_code"
PASSPHRASE = "cobalt heron violin ledger nine"


@pytest.fixture
def wire(served: SandboxDaemon) -> Iterator[Wire]:
    with Wire(served.url) as opened:
        yield opened


def start(wire: Wire, name: str = "@xmemo/client", **more: object) -> dict[str, Any]:
    body = {"client_id": name, "scopes": ["memory:read", "memory:write"], **more}
    answer = wire.post("/api/v1/auth/device/start", body)
    assert answer.status == 200
    return answer.json  # type: ignore[no-any-return]


def poll(wire: Wire, started: dict[str, Any], family: str = "/v1") -> Answer:
    body = {"device_code": started["device_code"], "grant_type": GRANT}
    return wire.post(f"{family}/auth/device/token", body)


def approve(owner: Wire, started: dict[str, Any]) -> Answer:
    return owner.post(f"/v1/approvals/{started['user_code']}/approve")


@pytest.mark.parametrize("approved", [False, True])
def test_a_client_that_ends_takes_its_login_back(
    served: SandboxDaemon, wire: Wire, owner: Wire, approved: bool
) -> None:
    started, other = start(wire, "leaving"), start(wire, "staying")
    if approved:
        assert approve(owner, started).status == 200
    for code in (started["device_code"], "0" * 64, started["user_code"]):
        answer = wire.post("/v1/auth/device/cancel", {"device_code": code})
        assert (answer.status, answer.json) == (200, {"status": "cancelled"})
    assert poll(wire, started).json["error"] == "expired_token"
    waiting = [entry["client"] for entry in owner.get("/v1/approvals").json["approvals"]]
    assert "leaving" not in waiting
    assert approve(owner, other).status == 200
    assert poll(wire, other).status == 200


def test_the_whole_way_of_one_login(served: SandboxDaemon, wire: Wire, owner: Wire) -> None:
    started = start(wire, "way")
    assert started["expires_in"] == 600
    assert started["interval"] >= 1
    assert started["verification_uri_complete"].startswith(f"{served.url}/device?user_code=")
    assert poll(wire, started).json["error"] == "authorization_pending"
    fast = poll(wire, started, "/api/v1")
    assert (fast.status, fast.json["error"]) == (400, "slow_down")
    assert approve(owner, started).status == 200
    answer = poll(wire, started)
    assert answer.status == 200
    token = answer.json["access_token"]
    assert answer.json["token"] == token
    assert answer.json["scope"] == "memory:read memory:write"
    assert answer.json["user"]["id"]
    for _ in range(2):
        again = poll(wire, started)
        assert (again.status, again.json["error"]) == (400, "expired_token")
    with served.wire(token) as agent:
        assert agent.get("/v1/auth/token/validate").json["setup_state"] == "setup_completed"
        agent.remember("from a device login")
        assert agent.post("/v1/auth/token/revoke-self").status == 200
        assert agent.get("/v1/auth/token/validate").status == 403
        assert agent.send("POST", "/mcp", {}).status == 401


def test_a_denied_login_gets_nothing(wire: Wire, owner: Wire) -> None:
    started = start(wire)
    assert owner.post(f"/v1/approvals/{started['user_code']}/deny").status == 200
    answer = poll(wire, started)
    assert (answer.status, answer.json["error"]) == (400, "access_denied")
    assert approve(owner, started).status == 404


def test_two_logins_give_two_keys_with_two_names(wire: Wire, owner: Wire) -> None:
    tokens = []
    for _ in range(2):
        started = start(wire, "twin")
        approve(owner, started)
        tokens.append(poll(wire, started).json["access_token"])
    assert tokens[0] != tokens[1]
    names = [agent["name"] for agent in owner.get("/v1/agents").json["agents"]]
    assert {"twin", "twin 2"} <= set(names)


def test_many_polls_at_once_get_one_token(served: SandboxDaemon, wire: Wire, owner: Wire) -> None:
    started = start(wire, "racer")
    approve(owner, started)
    answers: list[Answer] = []
    barrier = threading.Barrier(8)

    def one() -> None:
        with Wire(served.url) as own:
            own.get("/health")
            barrier.wait(20)
            answers.append(poll(own, started))

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(answer.status for answer in answers) == [200] + [400] * 7
    live = [a for a in owner.get("/v1/agents").json["agents"] if a["name"].startswith("racer")]
    assert len(live) == 1


@pytest.mark.parametrize(
    ("asked", "granted"),
    [
        (["memory:read", "ledger:read", "admin"], "ledger:read memory:read"),
        (["everything"], "memory:read memory:write"),
        (None, "memory:read memory:write"),
        ("memory:read offline_access", "memory:read"),
        ([1, {}, "memory:restore"], "memory:restore"),
    ],
    ids=["known-part", "unknown", "none", "text", "odd"],
)
def test_unknown_scopes_are_ignored(wire: Wire, owner: Wire, asked: object, granted: str) -> None:
    started = start(wire, "scoped", scopes=asked)
    approve(owner, started)
    assert poll(wire, started).json["scope"] == granted


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"device_code": None},
        {"device_code": "0" * 64},
        {"device_code": "x" * 200, "grant_type": GRANT},
    ],
    ids=["empty", "null", "unknown", "long"],
)
def test_a_code_nobody_knows_has_expired(wire: Wire, body: dict[str, object]) -> None:
    answer = wire.post("/v1/auth/device/token", body)
    assert (answer.status, answer.json["error"]) == (400, "expired_token")


def test_another_grant_type_is_refused(wire: Wire) -> None:
    body = {"device_code": "x", "grant_type": "password"}
    answer = wire.post("/v1/auth/device/token", body)
    assert (answer.status, answer.json["error"]) == (400, "unsupported_grant_type")


def test_no_sequence_of_calls_without_the_owner_yields_a_token(
    served: SandboxDaemon, agent: Wire, wire: Wire
) -> None:
    """W31: neither nobody nor an agent can approve, on any route or page."""
    started = start(wire, "intruder")
    code = started["user_code"]
    for caller in (wire, agent):
        for method, path in (
            ("GET", "/v1/approvals"),
            ("POST", f"/v1/approvals/{code}/approve"),
            ("POST", f"/api/v1/approvals/{code}/approve"),
            ("POST", f"/v1/approvals/{code}/deny"),
            ("POST", "/v1/owner/sign-in-code"),
            ("POST", "/v1/agents"),
        ):
            answer = caller.send(method, path, {} if method == "POST" else None)
            assert answer.status in (401, 403), path
        form = {"Content-Type": "application/x-www-form-urlencoded"}
        fields = f"user_code={code}&act=approve&csrf=".encode()
        for path in ("/device", "/me", "/oauth/authorize"):
            assert caller.send("POST", path, fields, form).status == 401, path
        caller.get(f"/device?user_code={code}&act=approve")
    assert poll(wire, started).json["error"] == "authorization_pending"


def test_a_sign_in_code_is_given_on_the_socket_only(served: SandboxDaemon) -> None:
    with served.wire(served.owner_token) as over_tcp:
        assert over_tcp.post("/v1/owner/sign-in-code").status == 403


def test_names_of_clients_are_shown_without_disguise(wire: Wire, owner: Wire) -> None:
    started = start(wire, "cli\u202e<b>\x1b[2K")
    shown = [
        login["client"]
        for login in owner.get("/v1/approvals").json["approvals"]
        if login["user_code"] == started["user_code"]
    ]
    assert shown == ["cli<b>[2K"]
    owner.post(f"/v1/approvals/{started['user_code']}/deny")


def test_a_secret_as_a_name_is_not_stored(wire: Wire, owner: Wire) -> None:
    started = start(wire, "token=" + "ghp_" + "a1B2" * 9)
    approve(owner, started)
    assert poll(wire, started).status == 200
    names = [agent["name"] for agent in owner.get("/v1/agents").json["agents"]]
    assert not any("ghp_" in name for name in names)


@pytest.mark.parametrize("name", ["owner", " Owner ", "auto-approve"])
def test_no_client_is_named_like_the_owner(wire: Wire, owner: Wire, name: str) -> None:
    """The audit calls the owner's acts by this name."""
    started = start(wire, name)
    approve(owner, started)
    assert poll(wire, started).status == 200
    names = {agent["name"] for agent in owner.get("/v1/agents").json["agents"]}
    assert not names & {"owner", "Owner", "auto-approve"}
    assert any(each.startswith("unnamed client") for each in names)
    assert owner.post("/v1/agents", {"name": name}).status == 422


def test_the_terminal_lists_approves_and_denies(served: SandboxDaemon, wire: Wire) -> None:
    started = start(wire, "terminal-client")
    listed = served.cli("approvals")
    assert started["user_code"] in listed.stdout
    assert "terminal-client" in listed.stdout
    assert "terminal-client" in served.cli("approve", started["user_code"].lower()).stdout
    assert poll(wire, started).status == 200
    other = start(wire, "unwanted")
    served.cli("deny", other["user_code"].replace("-", ""))
    assert poll(wire, other).json["error"] == "access_denied"
    gone = served.cli("approve", "ZZZZ-ZZZZ", check=False)
    assert gone.returncode == 4
    assert "memlocket approvals" in gone.stderr


def test_guessing_user_codes_is_stopped(tmp_path: Path) -> None:
    """A9; on a daemon of its own, since the limit is for everybody."""
    with running(tmp_path / "home") as daemon, Wire(daemon.url) as wire, daemon.owner() as owner:
        started = start(wire)
        seen = [owner.post(f"/v1/approvals/WRNG{number:04}/approve") for number in range(100)]
        assert {answer.status for answer in seen} == {404, 503}
        assert [answer.status for answer in seen].count(404) <= 10
        assert seen[-1].headers["Retry-After"]
        assert approve(owner, started).status == 503
        assert poll(wire, started).json["error"] == "authorization_pending"


def test_a_vault_with_a_passphrase_asks_for_it_again(tmp_path: Path) -> None:
    daemon = SandboxDaemon(tmp_path / "home", keyless=True)
    with daemon.init(PASSPHRASE).start(), Wire(daemon.url) as wire, daemon.owner() as owner:
        started = start(wire)
        assert approve(owner, started).json["error"]["code"] == "vault_locked"
        assert owner.post("/v1/vault/unlock", {"passphrase": PASSPHRASE}).status == 200
        done = daemon.cli("approve", started["user_code"], secrets={"--passphrase-fd": PASSPHRASE})
        assert "Approved" in done.stdout
        owner.post("/v1/vault/lock")
        waits = poll(wire, started)
        assert waits.json["error"] == "authorization_pending"  # approved, but nobody can write it
        owner.post("/v1/vault/unlock", {"passphrase": PASSPHRASE})
        assert poll(wire, started).status == 200


def test_without_a_vault_the_client_is_told_so(tmp_path: Path) -> None:
    daemon = SandboxDaemon(tmp_path / "home", keyless=True)
    daemon.home.mkdir(mode=0o700)
    with daemon.start(), Wire(daemon.url) as wire:
        answer = poll(wire, start(wire))
        assert (answer.status, answer.json["error"]) == (400, "setup_required")
        assert wire.get("/v1/onboarding/status").json["ready"] is False


def test_auto_approve_is_seen_everywhere(tmp_path: Path) -> None:
    """A21, and the rule of one pending answer before the token."""
    with running(tmp_path / "home", "--auto-approve") as daemon, Wire(daemon.url) as wire:
        started = start(wire, "ci")
        assert poll(wire, started).json["error"] == "authorization_pending"
        time.sleep(started["interval"])  # what the protocol asks of a client
        answer = poll(wire, started)
        assert answer.status == 200
        assert daemon.status()["approvals"]["auto_approve"] is True
        assert "AUTO-APPROVE IS ON" in daemon.cli("status").stdout
        assert "auto-approve" in daemon.cli("approvals").stderr
        assert "Auto-approve is on" in wire.get("/guide").body.decode()
        log = next(daemon.home.rglob("daemon.log")).read_text()
        assert log.count("login_auto_approved") == 1
        assert answer.json["access_token"] not in log
        assert daemon.stop() == 0
        again = SandboxDaemon(daemon.home)
        with again.start():
            assert again.status()["approvals"]["auto_approve"] is False
