"""A real Chromium without a window, spoken to over its debugging port."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import shutil
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp

NAMES = ("chromium", "chromium-browser", "google-chrome")
START_SECONDS = 30.0
LOAD_SECONDS = 20.0


def find_chromium() -> str | None:
    return next((found for name in NAMES if (found := shutil.which(name))), None)


class Tab:
    """One page. Navigation waits for the load that follows."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)

    async def call(self, method: str, **parameters: Any) -> Any:
        number = next(self._numbers)
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        while True:
            message = await self._socket.receive_json(timeout=LOAD_SECONDS)
            if message.get("id") == number:
                assert "error" not in message, (method, message["error"])
                return message["result"]

    async def goto(self, url: str) -> None:
        """A navigation as from the address bar."""
        await self.call("Page.navigate", url=url)

    async def evaluate(self, expression: str) -> Any:
        found = await self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        return found["result"].get("value")

    async def until(self, expression: str, what: str) -> Any:
        """Poll an expression until it is true."""
        deadline = time.monotonic() + LOAD_SECONDS
        while True:
            value = None
            with contextlib.suppress(AssertionError):  # a page that is just being replaced
                value = await self.evaluate(expression)
            if value:
                return value
            if time.monotonic() > deadline:
                text = await self.evaluate("location.href + '\\n' + document.body.innerText")
                raise AssertionError(f"never: {what}\n{text}")
            await asyncio.sleep(0.05)

    async def heading(self, text: str) -> None:
        """Wait for a page with this heading."""
        wanted = json.dumps(text)
        await self.until(
            f"document.readyState === 'complete' && document.querySelector('h1')?.innerText"
            f".includes({wanted})",
            f"heading {text}",
        )

    async def click(self, selector: str) -> None:
        await self.evaluate(f"document.querySelector({json.dumps(selector)}).click()")

    async def screenshot(self) -> bytes:
        """The whole page as PNG."""
        found = await self.call("Page.captureScreenshot", captureBeyondViewport=True)
        return base64.b64decode(found["data"])


@contextlib.asynccontextmanager
async def browser(profile: Path) -> AsyncIterator[Tab]:
    """A fresh profile with one tab."""
    program = find_chromium()
    assert program is not None
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-port=0")
    process = subprocess.Popen(  # noqa: ASYNC220 - nothing else runs on this loop
        [program, *options, f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        found = profile / "DevToolsActivePort"
        deadline = time.monotonic() + START_SECONDS
        while not (found.exists() and found.read_text().count("\n")):
            assert process.poll() is None, "the browser ended"
            assert time.monotonic() < deadline, "the browser does not start"
            await asyncio.sleep(0.05)
        port = int(found.read_text().splitlines()[0])
        async with aiohttp.ClientSession() as client:
            while True:
                async with client.get(f"http://127.0.0.1:{port}/json") as answer:
                    pages = [page for page in await answer.json() if page["type"] == "page"]
                if pages:
                    break
                assert time.monotonic() < deadline, "the browser opens no page"
                await asyncio.sleep(0.05)
            address = pages[0]["webSocketDebuggerUrl"]
            async with client.ws_connect(address, max_msg_size=0) as socket:
                tab = Tab(socket)
                await tab.call("Page.enable")
                yield tab
    finally:
        process.terminate()
        process.wait(20)
