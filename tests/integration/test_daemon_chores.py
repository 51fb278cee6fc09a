"""What an open vault does for itself while the daemon runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory_manager.auth.agent_identity import AgentIdentity
from memory_manager.base.directories import directories
from memory_manager.base.private_files import ensure_private_directory
from memory_manager.service import daemon as daemons
from memory_manager.service.daemon import Daemon, DaemonSettings
from memory_manager.service.embedders import EmbeddingsMode
from memory_manager.vault.erasure import TRASH_SECONDS
from memory_manager.vault.key_file import create_key_file
from memory_manager.vault.rows import Attribution, ForgetMode, MemoryDraft
from memory_manager.vault.setup import create_vault
from memory_manager.vault.transaction import Transaction

OWNER = Attribution(AgentIdentity())
FORGOTTEN = 250


async def test_old_trash_goes_in_bounded_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemons, "FIRST_TIDY_SECONDS", 0.0)
    places = directories({"MEMLOCKET_HOME": str(tmp_path / "home")})
    ensure_private_directory(places.data)
    key_file = tmp_path / "vault.key"
    create_key_file(key_file)
    create_vault(places.vault, passphrase=None, insecure_key_file=key_file, with_recovery=False)
    daemon = Daemon(places, DaemonSettings(key_file, EmbeddingsMode.OFF))
    await daemon.start()

    def fill(transaction: Transaction) -> None:
        transaction.now_ms -= (TRASH_SECONDS + 60) * 1000
        for number in range(FORGOTTEN):
            draft = MemoryDraft(f"note {number}", "notes")
            row = daemon.memories.remember(transaction, draft, OWNER).row
            daemon.memories.forget(transaction, row.id, ForgetMode.SOFT_DELETE, OWNER)

    async def left() -> int:
        return await daemon.store().read(
            lambda c: int(c.execute("SELECT count(*) FROM record").fetchone()[0])
        )

    try:
        await daemon.store().write(fill)
        await daemon.do_chores()
        assert await left() == FORGOTTEN - 200
        await daemon.do_chores()
        assert await left() == 0
        await daemon.store().write(fill)
        await daemon.do_chores()
        assert await left() == FORGOTTEN, "once a day is enough"
    finally:
        await daemon.stop()
