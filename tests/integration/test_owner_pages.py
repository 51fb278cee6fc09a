"""The owner's pages under attack, without a browser: A10, cookies, forms, foreign users."""

from __future__ import annotations

import dataclasses
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from oauth_client import granted, post_form, register, waiting
from sandbox_daemon import Answer, SandboxDaemon, Wire, wait_until

PASSPHRASE = "cobalt heron violin ledger nine"
HTML = {"Accept": "text/html"}
PAGES = ["/", "/me", "/device", "/device?user_code=BCDF-GHJK", "/guide", "/docs", "/open?code=x"]


@dataclasses.dataclass
class Browser:
    """A cookie and the form token of its pages."""

    wire: Wire
    cookie: str
    csrf: str = ""

    def get(self, path: str, **headers: str) -> Answer:
        return self.wire.send("GET", path, headers={**HTML, "Cookie": self.cookie, **headers})

    def post(self, path: str, headers: dict[str, str] | None = None, **fields: str) -> Answer:
        self.wire.headers.update({**HTML, "Cookie": self.cookie, **(headers or {})})
        try:
            return post_form(self.wire, path, **{"csrf": self.csrf, **fields})
        finally:
            self.wire.headers.clear()


def sign_in(served: SandboxDaemon, wire: Wire) -> Browser:
    with served.owner() as owner:
        answer = owner.post("/v1/owner/sign-in-code")
    opened = wire.get(answer.json["url"].removeprefix(served.url))
    assert opened.status == 200
    browser = Browser(wire, opened.headers["Set-Cookie"].partition(";")[0])
    found = re.search(r'name="csrf" value="([0-9a-f]+)"', browser.get("/me").body.decode())
    assert found is not None
    browser.csrf = found[1]
    return browser


@pytest.fixture
def wire(served: SandboxDaemon) -> Iterator[Wire]:
    with Wire(served.url) as opened:
        yield opened


@pytest.fixture
def browser(served: SandboxDaemon, wire: Wire) -> Browser:
    return sign_in(served, wire)


def device_login(wire: Wire, name: str = "cli") -> dict[str, Any]:
    return wire.post("/v1/auth/device/start", {"client_id": name}).json  # type: ignore[no-any-return]


def state_of(wire: Wire, started: dict[str, Any]) -> str:
    answer = wire.post("/v1/auth/device/token", {"device_code": started["device_code"]})
    return "token" if answer.status == 200 else str(answer.json["error"])


@pytest.mark.parametrize("path", PAGES)
def test_every_page_forbids_frames_scripts_and_caches(wire: Wire, path: str) -> None:
    answer = wire.send("GET", path, headers=HTML)
    policy = answer.headers["Content-Security-Policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "script-src 'none'" in policy
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Referrer-Policy"] in ("no-referrer", "same-origin")
    assert answer.headers["Server"] == "memlocket"
    assert not [name for name in answer.headers if name.startswith("Access-Control")]
    assert b"<script" not in answer.body
    assert b"style=" not in answer.body
    assert not re.search(rb"https?://(?!127\.0\.0\.1)", answer.body)


def test_the_cookie_is_strict_and_opens_pages_only(
    served: SandboxDaemon, wire: Wire, browser: Browser
) -> None:
    with served.owner() as owner:
        code = owner.post("/v1/owner/sign-in-code").json["url"].removeprefix(served.url)
    cookie = wire.get(code).headers["Set-Cookie"]
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert served.discovery["daemon_id"].replace("-", "") in cookie
    assert wire.send("GET", code, headers=HTML).status == 403  # once
    assert browser.get("/me").status == 200
    for path in ("/v1/status", "/v1/agents", "/v1/memories", "/v1/approvals", "/v1/settings"):
        assert browser.get(path).status == 401
    for path in ("/mcp", "/v1/remember", "/v1/owner/sign-in-code", "/v1/daemon/stop"):
        assert wire.send("POST", path, {}, {"Cookie": browser.cookie}).status == 401


def test_an_owner_token_is_no_session(served: SandboxDaemon, wire: Wire) -> None:
    headers = {"Authorization": f"Bearer {served.owner_token}"}
    assert wire.send("GET", "/me", headers=headers).status == 401
    name = f"memlocket_{served.discovery['daemon_id'].replace('-', '')}"
    for value in (served.owner_token, "", "x" * 64):
        assert wire.send("GET", "/me", headers={"Cookie": f"{name}={value}"}).status == 401


def test_a_page_does_what_it_says(served: SandboxDaemon, wire: Wire, browser: Browser) -> None:
    started = device_login(wire, "from-page")
    page = browser.get(f"/device?user_code={started['user_code'].lower()}")
    assert page.status == 200
    assert b"from-page" in page.body
    done = browser.post("/device", user_code=started["user_code"], act="approve")
    assert b"Approved." in done.body
    assert state_of(wire, started) == "token"
    me = browser.get("/me").body.decode()
    found = re.search(r'from-page.*?name="id" value="([0-9a-f-]+)"', me, re.DOTALL)
    assert found is not None
    assert b"Revoked: from-page" in browser.post("/me", act="revoke", id=found[1]).body
    other = device_login(wire, "unwanted")
    assert b"Denied" in browser.post("/me", act="deny", code=other["user_code"]).body
    assert state_of(wire, other) == "access_denied"


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/device", {"act": "approve"}),
        ("/me", {"act": "approve"}),
        ("/me", {"act": "lock"}),
        ("/me", {"act": "sign-out"}),
        ("/me", {"act": "set", "name": "auto_redact_pii", "value": "on"}),
    ],
    ids=["device", "me", "lock", "sign-out", "set"],
)
def test_a_form_without_its_token_does_nothing(
    served: SandboxDaemon, wire: Wire, browser: Browser, path: str, fields: dict[str, str]
) -> None:
    started = device_login(wire)
    code = started["user_code"]
    other = sign_in(served, wire)
    for csrf in ("", "0" * 64, other.csrf, browser.csrf[:-1]):
        answer = browser.post(path, user_code=code, code=code, **{**fields, "csrf": csrf})
        assert answer.status == 403
        assert b"Form refused" in answer.body
    assert state_of(wire, started) == "authorization_pending"
    assert browser.get("/me").status == 200
    assert served.status()["vault"]["state"] == "unlocked"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.test"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
    ids=["origin", "null", "cross-site", "same-site"],
)
def test_a_foreign_page_cannot_send_the_form(
    wire: Wire, browser: Browser, headers: dict[str, str]
) -> None:
    started = device_login(wire)
    answer = browser.post("/device", headers, user_code=started["user_code"], act="approve")
    assert answer.status == 403
    assert browser.get("/me", **headers).status == 403
    assert state_of(wire, started) == "authorization_pending"


def test_forms_are_forms_and_small(browser: Browser) -> None:
    for kind in ("application/json", "text/plain", "multipart/form-data; boundary=x"):
        sent = browser.wire.send(
            "POST", "/me", b"{}", {"Content-Type": kind, "Cookie": browser.cookie}
        )
        assert sent.status == 415
    assert browser.post("/me", act="nonsense").status == 403


def test_a_stranger_learns_nothing_about_codes(wire: Wire) -> None:
    started = device_login(wire, "secret-name")
    right = wire.send("GET", f"/device?user_code={started['user_code']}", headers=HTML)
    wrong = wire.send("GET", "/device?user_code=BCDF-GHJK", headers=HTML)
    assert right.status == wrong.status == 401
    assert b"secret-name" not in right.body
    assert right.body.replace(started["user_code"].encode(), b"BCDF-GHJK") == wrong.body


def test_names_and_codes_are_escaped(wire: Wire, browser: Browser) -> None:
    started = device_login(wire, "<img src=x onerror=alert(1)>\"'")
    for page in (browser.get("/me"), browser.get(f"/device?user_code={started['user_code']}")):
        assert b"<img src=x" not in page.body
        assert b"&lt;img src=x" in page.body
    hostile = browser.get("/device?user_code=%22%3E%3Cscript%3E")
    assert b"<script" not in hostile.body
    assert b"<script" not in wire.send(
        "GET", "/device?user_code=%3Cscript%3E", headers=HTML
    ).body  # fmt: skip
    browser.post("/me", act="deny", code=started["user_code"])


def test_consent_on_the_page(served: SandboxDaemon, wire: Wire, browser: Browser) -> None:
    client = register(wire, "consent-client")
    code, secret = waiting(client.authorize())
    page = browser.get(f"/oauth/authorize?request={secret}")
    assert code in page.body.decode()
    assert b'name="request"' in page.body
    forged = browser.post("/oauth/authorize", request=secret, act="approve", csrf="")
    assert forged.status == 403
    strangers = post_form(wire, "/oauth/authorize", request=secret, act="approve")
    assert strangers.status == 401
    done = browser.post("/oauth/authorize", request=secret, act="approve")
    assert done.status == 302
    assert done.headers["Location"].startswith(client.redirect_uri + "?code=")
    _, secret = waiting(client.authorize())
    denied = browser.post("/oauth/authorize", request=secret, act="deny")
    assert "error=access_denied" in denied.headers["Location"]


def test_the_page_names_a_shared_key(served: SandboxDaemon, browser: Browser) -> None:
    token = served.add_agent("shared-key")
    for agent in ("first-agent", "second-agent"):
        with served.wire(token, agent=agent, instance=agent) as one:
            one.get("/v1/auth/token/validate")

    def text() -> str:
        return browser.get("/me").body.decode()

    wait_until(lambda: "first-agent, second-agent" in text(), 10, "both names are shown")
    assert "used by more than one agent or installation" in text()
    with served.owner() as owner:
        agents = owner.get("/v1/agents").json["agents"]
    seen = next(agent["seen_as"] for agent in agents if agent["name"] == "shared-key")
    assert {label["agent_id"] for label in seen} == {"first-agent", "second-agent"}


@pytest.mark.skipif(
    sys.platform != "linux", reason="needs Linux, which tells the user of a TCP peer"
)
@pytest.mark.skipif(os.getuid() != 0, reason="run as root: becomes another user")
def test_another_users_process_cannot_use_a_stolen_cookie(
    served: SandboxDaemon, wire: Wire, browser: Browser
) -> None:
    """Cookies are shared by all ports of a host, other users' servers included."""
    script = (
        "import http.client,sys,os,encodings.idna\n"
        "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "c=http.client.HTTPConnection('127.0.0.1', int(sys.argv[1]))\n"
        "for path, cookie in (('/me', sys.argv[2]), (sys.argv[3], '')):\n"
        "    c.request('GET', path, headers={'Cookie': cookie})\n"
        "    r=c.getresponse(); r.read(); print(r.status)\n"
    )
    with served.owner() as owner:
        code = owner.post("/v1/owner/sign-in-code").json["url"].removeprefix(served.url)
    port = served.url.rpartition(":")[2]
    done = subprocess.run(
        [sys.executable, "-I", "-c", script, port, browser.cookie, code],
        capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    assert done.stdout.split() == ["403", "403"]
    assert browser.get("/me").status == 200
    assert wire.get(code).status == 200  # the refused try did not spend it


def test_the_passphrase_is_asked_on_a_locked_vault(tmp_path: Path) -> None:
    daemon = SandboxDaemon(tmp_path / "home", keyless=True)
    with daemon.init(PASSPHRASE).start(), Wire(daemon.url) as wire:
        browser = sign_in(daemon, wire)
        assert b"The vault is locked" in browser.get("/me").body
        started = device_login(wire)
        closed = browser.post("/device", user_code=started["user_code"], act="approve")
        assert closed.status == 403
        assert state_of(wire, started) == "authorization_pending"
        opened = browser.post(
            "/device", user_code=started["user_code"], act="approve", passphrase=PASSPHRASE
        )
        assert b"Approved." in opened.body
        assert state_of(wire, started) == "token"
        browser.post("/me", act="lock")
        wrong = browser.post("/me", act="unlock", passphrase="wrong horse battery staple")
        assert b"The vault is open" not in wrong.body
        assert daemon.status()["vault"]["state"] == "locked"
        log = next(daemon.home.rglob("daemon.log")).read_text()
        assert PASSPHRASE not in log
        assert browser.csrf not in log


def test_open_prints_an_address_that_signs_in(served: SandboxDaemon, wire: Wire) -> None:
    for command in ("open", "dashboard"):
        printed = served.cli(command, "--print").stdout.strip()
        assert printed.startswith(f"{served.url}/open?code=")
        assert wire.get(printed.removeprefix(served.url)).status == 200


def test_grants_stand_on_the_page(served: SandboxDaemon, wire: Wire, browser: Browser) -> None:
    granted(served, wire, "granted-editor")
    text = browser.get("/me").body.decode()
    assert re.search(r"granted-editor</strong> <span class=\"pill\">OAuth", text)
