"""Approval is an admin act: the passphrase must be fresh (vault.md 4.2, xmemo.md 9)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from vault_harness import PASSPHRASE, FakeClocks, VaultHome

from memory_manager.api.login_approval import approve_login
from memory_manager.auth.logins import LoginKind, Poll
from memory_manager.auth.scopes import MEMORY_SCOPES
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
