"""Approval is an admin act: the passphrase must be fresh (vault.md 4.2, xmemo.md 9)."""

from __future__ import annotations

import asyncio
import os
import re
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web
from vault_harness import PASSPHRASE, FakeClocks, VaultHome

from memory_manager.api.application import build_application
from memory_manager.api.login_approval import approve_login
from memory_manager.api.pages.owner import SESSIONS
from memory_manager.auth.logins import LoginKind, Poll
from memory_manager.auth.scopes import MEMORY_SCOPES
from memory_manager.auth.tokens import new_token, token_digest
from memory_manager.base.directories import directories
from memory_manager.service.daemon import Daemon, DaemonSettings
from memory_manager.service.embedders import EmbeddingsMode
from memory_manager.vault.errors import PassphraseRequired, VaultLocked


async def test_five_minutes_after_the_passphrase_an_approval_asks_again(tmp_path: Path) -> None:
    home, clocks = VaultHome(tmp_path).create(with_recovery=False), FakeClocks()
    places = directories({"MEMLOCKET_HOME": str(tmp_path / "home")})
    daemon = Daemon(places, DaemonSettings(embeddings=EmbeddingsMode.OFF))
    daemon.lifecycle = home.lifecycle(wall_clock=clocks.wall, clock=clocks.monotonic)
    desk = daemon.logins.desk
    login, secret = desk.start(LoginKind.DEVICE, "cli", MEMORY_SCOPES)
    try:
        await asyncio.to_thread(daemon.lifecycle.start, None, False)
        with pytest.raises(VaultLocked):
            await approve_login(daemon, login.user_code)
        await asyncio.to_thread(daemon.lifecycle.unlock_with_passphrase, PASSPHRASE)
        clocks.advance(301)
        with pytest.raises(PassphraseRequired):
            await approve_login(daemon, login.user_code)
        assert desk.poll(secret)[0] is Poll.PENDING
        await asyncio.to_thread(daemon.lifecycle.unlock_with_passphrase, PASSPHRASE)
        assert await approve_login(daemon, login.user_code) is login
        answer, claimed = desk.poll(secret)
        assert answer is Poll.CLAIMED
        assert claimed is not None
        credential, _ = await daemon.logins.issue_key(claimed)
        assert credential.name == "cli"
    finally:
        await asyncio.to_thread(daemon.lifecycle.close)


async def test_giving_and_taking_access_asks_again_after_five_minutes(tmp_path: Path) -> None:
    home, clocks = VaultHome(tmp_path).create(with_recovery=False), FakeClocks()
    places = directories({"MEMLOCKET_HOME": str(tmp_path / "home")})
    daemon = Daemon(places, DaemonSettings(embeddings=EmbeddingsMode.OFF))
    daemon.lifecycle = home.lifecycle(wall_clock=clocks.wall, clock=clocks.monotonic)
    token = new_token(os.urandom(32))
    app = build_application(daemon, token_digest(token), lambda: runner.addresses[0][1])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"

    async def post(http: ClientSession, path: str, body: dict[str, Any]) -> tuple[int, Any]:
        async with http.post(f"{url}/v1{path}", json=body) as answer:
            return answer.status, (await answer.json()).get("error")

    try:
        await asyncio.to_thread(daemon.lifecycle.start, None, False)
        await asyncio.to_thread(daemon.lifecycle.unlock_with_passphrase, PASSPHRASE)
        async with ClientSession(headers={"Authorization": f"Bearer {token}"}) as http:
            assert await post(http, "/agents", {"name": "first"}) == (201, None)
            clocks.advance(301)
            for path, body in (
                ("/agents", {"name": "second"}),
                ("/agents/first/revoke", {}),
                ("/destructions", {"all": True}),
            ):
                status, error = await post(http, path, body)
                assert (status, error["code"]) == (403, "passphrase_required"), path
            code = app[SESSIONS].new_code()
            async with http.get(f"{url}/open", params={"code": code}) as opened:
                cookie = {name: morsel.value for name, morsel in opened.cookies.items()}
            async with http.get(f"{url}/me", cookies=cookie) as shown:
                csrf = re.findall(r'name="csrf" value="([0-9a-f]+)"', await shown.text())[0]
            form = {"csrf": csrf, "act": "revoke", "id": "first"}
            async with http.post(f"{url}/me", data=form, cookies=cookie) as page:
                assert "five minutes" in await page.text()
            async with http.get(f"{url}/v1/agents") as answer:
                (kept,) = (await answer.json())["agents"]
            assert (kept["name"], kept["revoked_at"]) == ("first", None)
            await asyncio.to_thread(daemon.lifecycle.unlock_with_passphrase, PASSPHRASE)
            assert await post(http, "/agents/first/revoke", {}) == (200, None)
    finally:
        await runner.cleanup()
        await asyncio.to_thread(daemon.lifecycle.close)
