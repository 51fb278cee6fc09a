"""The owner's pages in a real browser: sign-in, approval, consent, cross-site requests."""

from __future__ import annotations

import http.server
import threading
import urllib.parse
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from chromium import Tab, browser, find_chromium
from sandbox_daemon import SandboxDaemon, Wire, running

pytestmark = [
    pytest.mark.desktop,
    pytest.mark.skipif(
        find_chromium() is None, reason="needs Chromium (on Debian: apt-get install chromium)"
    ),
]
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"  # of RFC 7636


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxDaemon]:
    with running(tmp_path_factory.mktemp("p") / "home") as daemon:
        yield daemon


@pytest.fixture
async def tab(tmp_path: Path) -> AsyncIterator[Tab]:
    async with browser(tmp_path / "profile") as opened:
        yield opened


class _Callback(http.server.BaseHTTPRequestHandler):
    """A client's own listener, and a page of a foreign site that tries to approve."""

    seen: list[str]
    page: bytes = b"<h1>Back in the program</h1>"

    def do_GET(self) -> None:
        type(self).seen.append(self.path)
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(self.page)

    def log_message(self, *_: object) -> None:
        return None


@pytest.fixture
def listener() -> Iterator[tuple[str, type[_Callback]]]:
    handler = type("Handler", (_Callback,), {"seen": []})
    # browsers open connections ahead of need, and those say nothing for a while
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/callback", handler
    server.shutdown()
    server.server_close()
    thread.join(10)


async def sign_in(served: SandboxDaemon, tab: Tab) -> None:
    with served.owner() as owner:
        await tab.goto(owner.post("/v1/owner/sign-in-code").json["url"])
    await tab.heading("Your memory on this machine")


async def test_sign_in_approve_a_device_and_sign_out(served: SandboxDaemon, tab: Tab) -> None:
    with Wire(served.url) as client:
        started = client.post("/v1/auth/device/start", {"client_id": "browser-cli"}).json
        await tab.goto(started["verification_uri_complete"])
        await tab.heading("This browser is not signed in")
        await sign_in(served, tab)
        assert await tab.evaluate("document.cookie") == ""  # HttpOnly
        await tab.goto(started["verification_uri_complete"])
        await tab.heading("Give a program access")
        assert started["user_code"] in await tab.evaluate("document.body.innerText")
        await tab.click("button[value=approve]")
        await tab.until("document.body.innerText.includes('Approved.')", "approved")
        polled = client.post("/v1/auth/device/token", {"device_code": started["device_code"]})
        assert polled.status == 200
    await tab.goto(f"{served.url}/me")
    await tab.until("document.body.innerText.includes('browser-cli')", "the new agent")
    await tab.click("button[value=sign-out]")
    await tab.heading("This browser is not signed in")
    await tab.goto(f"{served.url}/me")
    await tab.heading("This browser is not signed in")


async def test_consent_redirects_back_to_the_program(
    served: SandboxDaemon, tab: Tab, listener: tuple[str, type[_Callback]]
) -> None:
    redirect_uri, handler = listener
    await sign_in(served, tab)
    await tab.goto(authorize_url(served, redirect_uri))
    await tab.heading("Give a program access")
    await tab.click("button[value=approve]")
    await tab.heading("Back in the program")
    query = urllib.parse.parse_qs(urllib.parse.urlsplit(handler.seen[0]).query)
    assert query["state"] == ["s 1&2"]
    assert query["code"][0]


async def test_a_waiting_browser_goes_on_after_approval_in_the_terminal(
    served: SandboxDaemon, tab: Tab, listener: tuple[str, type[_Callback]]
) -> None:
    redirect_uri, handler = listener
    await tab.goto(authorize_url(served, redirect_uri))
    await tab.heading("A program asks for access")
    code = await tab.evaluate("document.querySelector('.code').innerText")
    served.cli("approve", code)
    await tab.heading("Back in the program")
    assert "code=" in handler.seen[0]


async def test_a_foreign_page_can_neither_post_nor_frame_nor_link_the_pages(
    served: SandboxDaemon, tab: Tab, listener: tuple[str, type[_Callback]]
) -> None:
    foreign, handler = listener
    foreign = foreign.replace("127.0.0.1", "localhost")  # another site than 127.0.0.1
    with Wire(served.url) as client:
        started = client.post("/v1/auth/device/start", {"client_id": "victim"}).json
    form = (
        f'<h1>evil</h1><form method=post action="{served.url}/device">'
        f'<input name=user_code value="{started["user_code"]}">'
        "<button name=act value=approve>x</button></form>"
        f'<iframe src="{served.url}/me"></iframe><a href="{served.url}/me">link</a>'
    )
    handler.page = form.encode()
    await sign_in(served, tab)
    await tab.goto(foreign)
    await tab.heading("evil")
    await tab.click("button")
    await tab.until("location.href.includes('/device')", "the answer to the form")
    await tab.until("document.body.innerText.includes('refused')", "a refusal")
    await tab.goto(foreign)
    await tab.heading("evil")
    await tab.click("a")
    await tab.until("document.body.innerText.includes('refused')", "a refusal")
    with served.owner() as owner:
        waiting = [login["client"] for login in owner.get("/v1/approvals").json["approvals"]]
    assert "victim" in waiting


async def test_pages_fit_a_narrow_window(served: SandboxDaemon, tab: Tab) -> None:
    await tab.call(
        "Emulation.setDeviceMetricsOverride",
        width=400, height=800, deviceScaleFactor=1, mobile=False,
    )  # fmt: skip
    with Wire(served.url) as client:
        client.post("/v1/auth/device/start", {"client_id": "a-client-with-a-very-long-name" * 4})
    await sign_in(served, tab)
    for path in ("/me", "/device", "/guide", "/docs"):
        await tab.goto(served.url + path)
        await tab.until(
            f"location.pathname === '{path}' && document.readyState === 'complete'", path
        )
        assert await tab.evaluate("document.documentElement.scrollWidth") <= 400, path


def authorize_url(served: SandboxDaemon, redirect_uri: str) -> str:
    with Wire(served.url) as client:
        registered = client.post(
            "/oauth/register", {"client_name": "Editor", "redirect_uris": [redirect_uri]}
        ).json
    query = {
        "response_type": "code",
        "client_id": registered["client_id"],
        "redirect_uri": redirect_uri,
        "state": "s 1&2",
        "code_challenge": CHALLENGE,
        "code_challenge_method": "S256",
        "scope": "memory:read memory:write",
    }
    return f"{served.url}/oauth/authorize?{urllib.parse.urlencode(query)}"
