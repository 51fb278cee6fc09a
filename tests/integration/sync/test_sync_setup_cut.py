"""``kill -9`` of the memory service between the server's answer and its own commit, and on."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from sandbox_daemon import SandboxDaemon
from sync_proxy import Answer, Call, SyncProxy
from sync_server import registration_token

from memory_manager.sync.server.running import RunningServer

PASSPHRASE = "walnut orbit cactus lantern meadow pixel"


@pytest.mark.slow
@pytest.mark.timeout(300)
async def test_the_same_command_with_the_same_token_finishes_it(
    server: RunningServer, proxy: SyncProxy, tmp_path: Path
) -> None:
    token = await registration_token(server)
    with SandboxDaemon(tmp_path / "desk", ("--no-embeddings",)) as desk:
        await asyncio.to_thread(desk.init, PASSPHRASE)
        await asyncio.to_thread(desk.start)

        async def kill(call: Call) -> Answer | None:
            if call.path != "/v1/vaults":
                return None
            answer = await call.forward()
            assert answer.status == 201
            await asyncio.to_thread(desk.kill)
            return answer

        def set_up() -> tuple[int, str, str]:
            done = desk.cli(
                *("sync", "setup", proxy.url, "--name", "desk", "--without-recovery", "--json"),
                check=False,
                secrets={"--passphrase-fd": PASSPHRASE, "--token-fd": token},
            )
            return done.returncode, done.stdout, done.stderr

        proxy.rule = kill
        assert (await asyncio.to_thread(set_up))[0] != 0
        proxy.rule = None
        (made,) = await server.host.storage.heads()
        await asyncio.to_thread(desk.start)
        code, out, err = await asyncio.to_thread(set_up)
        assert code == 0, (out, err)
        assert json.loads(out)["vault"] == made.vault.hex()
        assert [known.vault for known in await server.host.storage.heads()] == [made.vault]
        again = await asyncio.to_thread(desk.cli, "sync", "now", "--json")
        assert json.loads(again.stdout)["sync"]["state"] == "ok"
