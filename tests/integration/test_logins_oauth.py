"""OAuth on the wire: W7, W32, A8, A20 and the rules of xmemo.md 10."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from oauth_client import (
    REDIRECT_URI,
    answer_of,
    granted,
    granted_code,
    post_form,
    register,
    waiting,
)
from sandbox_daemon import Answer, SandboxDaemon, Wire, running

REFUSED_URIS = [
    "javascript:alert(1)",
    "https://evil.test/cb",
    "http://127.0.0.1.evil.test/cb",
    "http://127.0.0.1@evil.test/cb",
    "http://evil.test/cb",
    "http://127.0.0.1:1/cb#x",
    "http://127.0.0.1\\@evil.test",
    "vscode:evil",
]


@pytest.fixture
def wire(served: SandboxDaemon) -> Iterator[Wire]:
    with Wire(served.url) as opened:
        yield opened


def refused(answer: Answer, error: str) -> None:
    assert (answer.status, answer.json["error"]) == (400, error), answer.body


def test_the_whole_way_of_one_grant(served: SandboxDaemon, wire: Wire, owner: Wire) -> None:
    client = register(wire, "whole-way")
    code, secret = waiting(client.authorize())
    again = wire.get("/oauth/authorize", request=secret)
    assert again.status == 200  # nobody decided: no code
    login = next(x for x in owner.get("/v1/approvals").json["approvals"] if x["user_code"] == code)
    assert (login["client"], login["redirect_uri"]) == ("whole-way", REDIRECT_URI)
    owner.post(f"/v1/approvals/{code}/approve")
    given = answer_of(wire.get("/oauth/authorize", request=secret))
    assert given["state"] == "st&te"
    assert wire.get("/oauth/authorize", request=secret).status == 400  # answered already
    answer = client.redeem(given["code"])
    tokens = answer.json
    assert answer.headers["Cache-Control"] == "no-store"
    assert isinstance(tokens["expires_in"], int)
    assert tokens["token_type"] == "Bearer"
    assert tokens["scope"] == "memory:read memory:write"
    with served.wire(tokens["access_token"]) as agent:
        agent.remember("by an OAuth grant")
        assert agent.get("/v1/auth/token/validate").json["scopes"] == [
            "memory:read", "memory:write",
        ]  # fmt: skip
    agents = {agent["name"]: agent for agent in owner.get("/v1/agents").json["agents"]}
    assert agents["whole-way"]["kind"] == "oauth-grant"


def test_a_refresh_rotates_and_keeps_the_credential(
    served: SandboxDaemon, wire: Wire, owner: Wire
) -> None:
    client, first = granted(served, wire, "rotator")
    before = [a["id"] for a in owner.get("/v1/agents").json["agents"] if a["name"] == "rotator"]
    second = client.refresh(first["refresh_token"]).json
    assert second["refresh_token"] != first["refresh_token"]
    assert second["access_token"] != first["access_token"]
    assert isinstance(second["expires_in"], int)
    after = [a["id"] for a in owner.get("/v1/agents").json["agents"] if a["name"] == "rotator"]
    assert before == after
    with served.wire(second["access_token"]) as agent:
        body = {"content": "once", "path": "p", "idempotency_key": "oauth-key"}
        stored = agent.post("/v1/remember", body).json["id"]
    third = client.refresh(second["refresh_token"]).json
    with served.wire(third["access_token"]) as agent:
        assert agent.post("/v1/remember", body).json["id"] == stored


def test_a_used_refresh_token_ends_its_family(served: SandboxDaemon, wire: Wire) -> None:
    """A20: on data routes 403, on /mcp 401, for every token of the family."""
    client, first = granted(served, wire, "thief")
    second = client.refresh(first["refresh_token"]).json
    with served.wire(second["access_token"]) as agent:
        assert agent.get("/v1/auth/token/validate").status == 200
        refused(client.refresh(first["refresh_token"]), "invalid_grant")
        assert agent.get("/v1/auth/token/validate").status == 403
        on_mcp = agent.post("/mcp")
        assert on_mcp.status == 401
        assert "resource_metadata=" in on_mcp.headers["WWW-Authenticate"]
    refused(client.refresh(second["refresh_token"]), "invalid_grant")


def test_many_refreshes_at_once_give_one_answer(served: SandboxDaemon, wire: Wire) -> None:
    client, tokens = granted(served, wire, "refresh-racer")
    answers: list[Answer] = []
    barrier = threading.Barrier(6)

    def one() -> None:
        with Wire(served.url) as own:
            own.get("/health")
            barrier.wait(20)
            answers.append(
                post_form(
                    own, "/oauth/token", grant_type="refresh_token", client_id=client.client_id,
                    refresh_token=tokens["refresh_token"],
                )
            )  # fmt: skip

    threads = [threading.Thread(target=one) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(answer.status for answer in answers) == [200] + [400] * 5


def test_a_code_used_twice_ends_the_tokens_made_from_it(
    served: SandboxDaemon, wire: Wire, owner: Wire
) -> None:
    client = register(wire, "twice")
    code = granted_code(client, owner)
    tokens = client.redeem(code).json
    refused(client.redeem(code), "invalid_grant")
    with served.wire(tokens["access_token"]) as agent:
        assert agent.get("/v1/auth/token/validate").status == 403
    refused(client.refresh(tokens["refresh_token"]), "invalid_grant")


@pytest.mark.parametrize(
    "changed",
    [
        {"code_verifier": "x" * 43},
        {"code_verifier": ""},
        {"redirect_uri": "http://127.0.0.1:33418/other"},
        {"redirect_uri": ""},
        {"code": "0" * 64},
    ],
    ids=["verifier", "no-verifier", "redirect", "no-redirect", "code"],
)
def test_a_code_is_bound(wire: Wire, owner: Wire, changed: dict[str, str]) -> None:
    client = register(wire, "bound")
    code = granted_code(client, owner)
    refused(client.redeem(**{"code": code, **changed}), "invalid_grant")


def test_a_code_belongs_to_its_client(wire: Wire, owner: Wire) -> None:
    client, other = register(wire, "mine"), register(wire, "yours")
    code = granted_code(client, owner)
    refused(client.redeem(code, client_id=other.client_id), "invalid_grant")


def test_a_refresh_token_belongs_to_its_client(served: SandboxDaemon, wire: Wire) -> None:
    client, tokens = granted(served, wire, "owner-of-token")
    other = register(wire, "stranger")
    refused(client.refresh(tokens["refresh_token"], client_id=other.client_id), "invalid_grant")
    assert client.refresh(tokens["refresh_token"]).status == 200


@pytest.mark.parametrize("number", range(len(REFUSED_URIS)))
def test_registration_refuses_foreign_addresses(wire: Wire, number: int) -> None:
    for uris in ([REFUSED_URIS[number]], [REDIRECT_URI, REFUSED_URIS[number]]):
        body = {"client_name": "evil", "redirect_uris": uris}
        refused(wire.post("/oauth/register", body), "invalid_redirect_uri")


@pytest.mark.parametrize(
    "uris", [None, [], "http://127.0.0.1/", [1], [None], [REDIRECT_URI] * 17],
    ids=["none", "empty", "text", "number", "null", "many"],
)  # fmt: skip
def test_registration_needs_a_list_of_addresses(wire: Wire, uris: object) -> None:
    refused(wire.post("/oauth/register", {"redirect_uris": uris}), "invalid_redirect_uri")


def test_registration_takes_what_sdks_send(wire: Wire) -> None:
    body = {
        "client_name": "sdk",
        "redirect_uris": ["http://localhost:3030/callback"],
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "application_type": "native",
        "scope": "offline_access memory:read",
        "software_id": None,
    }
    answer = wire.post("/oauth/register", body)
    assert answer.status == 201
    assert answer.json["scope"] == "memory:read"
    assert answer.json["token_endpoint_auth_method"] == "none"


@pytest.mark.parametrize(
    ("client_id", "redirect_uri"),
    [
        ("unknown", REDIRECT_URI),
        (None, "http://127.0.0.1:33418/elsewhere"),
        (None, "https://evil.test/"),
        (None, REDIRECT_URI + "?more"),
    ],
    ids=["client", "path", "foreign", "query"],
)
def test_a_bad_client_or_address_gets_a_page_never_a_redirect(
    wire: Wire, client_id: str | None, redirect_uri: str
) -> None:
    client = register(wire)
    wanted = client_id or client.client_id
    page = client.authorize(client_id=wanted, redirect_uri=redirect_uri)
    assert page.status == 400
    assert page.headers["Content-Type"].startswith("text/html")
    assert "Location" not in page.headers
    assert b"evil.test" not in page.body
    plain = wire.get("/oauth/authorize", client_id=wanted, redirect_uri=redirect_uri)
    assert plain.status == 400
    assert plain.json["error"]["code"] == "invalid_login"


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"response_type": "token"}, "unsupported_response_type"),
        ({"response_type": None}, "unsupported_response_type"),
        ({"code_challenge": None}, "invalid_request"),
        ({"code_challenge": "short"}, "invalid_request"),
        ({"code_challenge_method": "plain"}, "invalid_request"),
        ({"code_challenge_method": None}, "invalid_request"),
        ({"resource": "https://xmemo.test/mcp"}, "invalid_target"),
        ({"resource": "http://127.0.0.1:1/mcp"}, "invalid_target"),
    ],
    ids=["token", "no-type", "no-pkce", "short", "plain", "no-method", "foreign", "other-port"],
)
def test_other_faults_go_back_to_the_program(
    wire: Wire, changed: dict[str, str | None], error: str
) -> None:
    given = answer_of(register(wire).authorize(**changed))
    assert given == {"error": error, "state": "st&te"}


def test_an_overlong_state_is_refused_and_not_sent_back(wire: Wire) -> None:
    given = answer_of(register(wire).authorize(state="s" * 4_097))
    assert given == {"error": "invalid_request"}


def test_our_own_resource_is_accepted_everywhere(
    served: SandboxDaemon, wire: Wire, owner: Wire
) -> None:
    client = register(wire, "resource")
    resource = f"{served.url}/mcp"
    code = granted_code(client, owner, resource=resource)
    tokens = client.redeem(code, resource=resource).json
    refused(client.refresh(tokens["refresh_token"], resource="https://x.test"), "invalid_target")
    assert client.refresh(tokens["refresh_token"], resource=resource).status == 200


def test_a_denied_request_goes_back_with_access_denied(wire: Wire, owner: Wire) -> None:
    code, secret = waiting(register(wire).authorize())
    owner.post(f"/v1/approvals/{code}/deny")
    given = answer_of(wire.get("/oauth/authorize", request=secret))
    assert given == {"error": "access_denied", "state": "st&te"}


@pytest.mark.parametrize("which", ["access_token", "refresh_token"])
def test_revocation_ends_every_token_of_the_grant(
    served: SandboxDaemon, wire: Wire, which: str
) -> None:
    client, tokens = granted(served, wire, f"revoked-{which}")
    other = register(wire, "other")
    foreign = post_form(wire, "/oauth/revoke", token=tokens[which], client_id=other.client_id)
    refused(foreign, "invalid_client")
    done = post_form(wire, "/oauth/revoke", token=tokens[which], client_id=client.client_id)
    assert done.status == 200
    with served.wire(tokens["access_token"]) as agent:
        assert agent.get("/v1/auth/token/validate").status == 403
        assert agent.post("/mcp").status == 401
    refused(client.refresh(tokens["refresh_token"]), "invalid_grant")
    assert post_form(wire, "/oauth/revoke", token="unknown").status == 200


def test_revoking_the_credential_ends_the_grant(
    served: SandboxDaemon, wire: Wire, owner: Wire
) -> None:
    client, tokens = granted(served, wire, "by-owner")
    assert owner.post("/v1/agents/by-owner/revoke").status == 200
    with served.wire(tokens["access_token"]) as agent:
        assert agent.get("/v1/auth/token/validate").status == 403
    refused(client.refresh(tokens["refresh_token"]), "invalid_grant")


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({}, "invalid_request"),
        ({"grant_type": "password", "client_id": "x"}, "unsupported_grant_type"),
        ({"grant_type": "client_credentials"}, "unsupported_grant_type"),
        ({"grant_type": "refresh_token"}, "invalid_request"),
        ({"grant_type": "refresh_token", "client_id": "x"}, "invalid_grant"),
        ({"grant_type": "authorization_code", "client_id": "x", "code": "y"}, "invalid_client"),
    ],
    ids=["nothing", "password", "client-credentials", "no-client", "no-token", "unknown-client"],
)
def test_token_errors_are_plain(wire: Wire, fields: dict[str, str], error: str) -> None:
    refused(post_form(wire, "/oauth/token", **fields), error)


def test_the_form_rule(wire: Wire) -> None:
    """W7: forms on the token routes, JSON elsewhere."""
    assert wire.send("POST", "/oauth/token", b"x", {"Content-Type": "text/plain"}).status == 415
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert wire.send("POST", "/v1/auth/device/start", b"client_id=x", form).status == 415
    assert wire.send("POST", "/oauth/register", b"client_name=x", form).status == 415
    many = "&".join(f"a{number}=1" for number in range(5_000)).encode()
    assert wire.send("POST", "/oauth/token", many, form).status in (400, 413)


def test_no_token_and_no_code_reaches_the_disk_or_the_log(tmp_path: Path) -> None:
    """Grants live on after a restart, as digests; the client need not register again."""
    with running(tmp_path / "home") as daemon:
        with Wire(daemon.url) as wire:
            client, tokens = granted(daemon, wire, "persistent")
        assert daemon.stop() == 0
        daemon.start()
        with Wire(daemon.url) as wire, daemon.wire(tokens["access_token"]) as agent:
            assert agent.get("/v1/auth/token/validate").status == 200
            client.wire = wire
            second = client.refresh(tokens["refresh_token"])
            assert second.status == 200
            with daemon.owner() as owner:
                code = granted_code(client, owner)
            assert client.redeem(code).status == 200
        assert daemon.stop() == 0
        stored = daemon.contents().values()
        for secret in (tokens["access_token"], tokens["refresh_token"], code):
            assert not any(secret.encode() in data for data in stored)


def test_a_closed_vault_answers_in_the_words_of_oauth(tmp_path: Path) -> None:
    """Clients read ``error`` as a string; 503 makes them come back with the same refresh token."""
    with running(tmp_path / "home") as daemon, Wire(daemon.url) as wire:
        client, tokens = granted(daemon, wire)
        with daemon.owner() as owner:
            owner.post("/v1/vault/lock")
        closed = client.refresh(tokens["refresh_token"])
        assert closed.status == 503
        assert closed.json["error"] == "temporarily_unavailable"
        assert closed.headers["Retry-After"]
        started = wire.post("/v1/auth/device/start", {"client_id": ["no", "text"]})
        refused_start = (started.status, started.json["error"])
        assert refused_start == (422, "invalid_request")
        assert daemon.stop() == 0
        daemon.start()
        with Wire(daemon.url) as again:
            client.wire = again
            assert client.refresh(tokens["refresh_token"]).status == 200


def test_auto_approve_needs_no_page(tmp_path: Path) -> None:
    with running(tmp_path / "home", "--auto-approve") as daemon, Wire(daemon.url) as wire:
        client = register(wire)
        given = answer_of(client.authorize())
        assert client.redeem(given["code"]).status == 200
