"""Stored text of an older rule set in a running daemon: by itself, and when the owner asks
(redaction.md 10).
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from made_up_token import token_of
from older_rules import older_rules
from sandbox_daemon import SandboxDaemon, wait_until

from memory_manager.auth.agent_identity import AgentIdentity
from memory_manager.base.directories import Directories, directories
from memory_manager.security.redact import RULESET_VERSION
from memory_manager.service.daemon import Daemon, DaemonSettings
from memory_manager.service.embedders import EmbeddingsMode
from memory_manager.vault.rows import Attribution, MemoryDraft
from memory_manager.vault.transaction import Transaction

OWNER = Attribution(AgentIdentity())
OLD_ROWS = 40


@contextlib.asynccontextmanager
async def running(places: Directories, key_file: Path) -> AsyncIterator[Daemon]:
    """The daemon without its doors, in this process."""
    daemon = Daemon(places, DaemonSettings(key_file, EmbeddingsMode.OFF))
    await daemon.start()
    try:
        yield daemon
    finally:
        await daemon.stop()


async def fill(daemon: Daemon) -> None:
    """A vault that an older program wrote: every second row holds a token."""

    def work(transaction: Transaction) -> None:
        for number in range(OLD_ROWS):
            secret = f" with {token_of(number)}" if number % 2 else ""
            draft = MemoryDraft(f"lighthouse note {number}{secret}", f"notes/{number}")
            daemon.memories.remember(transaction, draft, OWNER)

    with older_rules():
        await daemon.store().write(work)


@pytest.fixture
def sandbox(tmp_path: Path) -> SandboxDaemon:
    return SandboxDaemon(tmp_path / "home", ("--no-embeddings",)).init()


@pytest.fixture
async def older(sandbox: SandboxDaemon) -> SandboxDaemon:
    places = directories({"MEMLOCKET_HOME": str(sandbox.home)})
    async with running(places, sandbox.key_file) as daemon:
        await fill(daemon)
    return sandbox


async def test_after_an_upgrade_the_daemon_does_it_by_itself(sandbox: SandboxDaemon) -> None:
    places = directories({"MEMLOCKET_HOME": str(sandbox.home)})
    async with running(places, sandbox.key_file) as daemon:
        await fill(daemon)
        assert daemon.cleaning.status()["state"] == "waiting"
        await daemon.do_chores()
        while daemon.cleaning.status()["state"] == "running":
            await daemon.store().write(lambda _: None)  # others are served meanwhile
        status = daemon.cleaning.status()
        assert (status["state"], status["looked"], status["cleaned"]) == (
            "done", OLD_ROWS, OLD_ROWS // 2,
        )  # fmt: skip
        stored = await daemon.store().read(
            lambda c: c.execute("SELECT content, ruleset_version FROM record_version").fetchall()
        )
        assert not any(token_of(number) in str(stored) for number in range(OLD_ROWS))
        assert {rules for _, rules in stored} == {RULESET_VERSION}
    async with running(places, sandbox.key_file) as daemon:
        generation = daemon.store().generation()
        await daemon.do_chores()
        assert daemon.cleaning.status()["state"] == "done"
        assert daemon.store().generation() == generation, "done once: nothing is written again"


def test_the_owner_asks_for_it_and_sees_counts_by_rule(older: SandboxDaemon) -> None:
    with older.start():
        done = older.cli("doctor", "--rescan")
        assert done.stdout.splitlines() == [
            f"Rule set {RULESET_VERSION}: looked at {OLD_ROWS} records,"
            f" cleaned {OLD_ROWS // 2} records.",
            f"  github-token  {OLD_ROWS // 2}",
            "Backups and exports from before still hold what was taken out.",
        ]
        again = json.loads(older.cli("doctor", "--rescan", "--json").stdout)["sanitizer"]
        assert (again["state"], again["looked"], again["cleaned"]) == ("done", OLD_ROWS, 0)
        status = older.status()["sanitizer"]
        assert (status["ruleset"], status["failed"], status["error"]) == (RULESET_VERSION, 0, None)
        with older.owner() as owner:
            found = owner.search("lighthouse", limit=100)
        assert len(found) == OLD_ROWS
        assert not any(token_of(number) in str(found) for number in range(OLD_ROWS))
        checks = json.loads(older.cli("doctor", "--quick", "--json", check=False).stdout)
        (finding,) = [one for one in checks["findings"] if one["check"] == "sanitizer"]
        assert (finding["level"], finding["text"]) == (
            "ok",
            f"rule set {RULESET_VERSION}, stored text: done",
        )


def test_killed_on_the_way_it_ends_all_the_same(older: SandboxDaemon) -> None:
    older.start()
    with older.owner() as owner:
        assert owner.post("/v1/vault/rescan").status == 202
    older.kill()
    with older.start():
        done = json.loads(older.cli("doctor", "--rescan", "--json").stdout)["sanitizer"]
        assert (done["state"], done["looked"], done["remaining"]) == ("done", OLD_ROWS, 0)
        assert done["cleaned"] <= OLD_ROWS // 2
        with older.owner() as owner:
            found = owner.search("lighthouse", limit=100)
        assert len(found) == OLD_ROWS
        assert not any(token_of(number) in str(found) for number in range(OLD_ROWS))


def test_a_locked_vault_is_not_looked_at(older: SandboxDaemon) -> None:
    older.keyless = True
    with older.start():
        refused = older.cli("doctor", "--rescan", "--json", check=False)
        assert refused.returncode == 10
        assert json.loads(refused.stdout)["error"]["code"] == "vault_locked"
        assert older.status()["sanitizer"]["state"] == "waiting"


def test_locking_ends_it_and_unlocking_allows_it_again(older: SandboxDaemon) -> None:
    with older.start(), older.owner() as owner:
        assert owner.post("/v1/vault/rescan").status == 202
        assert owner.post("/v1/vault/lock", {"reason": "user"}).status == 200
        wait_until(
            lambda: older.status()["sanitizer"]["state"] == "waiting", 10, "the job has ended"
        )
