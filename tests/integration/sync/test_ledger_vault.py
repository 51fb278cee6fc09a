"""A whole vault with sync on: its anchor, a rollback, a backup brought back, sync turned off."""

from __future__ import annotations

import dataclasses
import random
import shutil
from pathlib import Path
from typing import Any

import pytest
from ledger_world import BatchServer, turning_on
from small_vault import writer
from sync_world import Founded, Keys, new_keys
from vault_harness import PASSPHRASE, ProcessKeyring, VaultHome, accepted

from memory_manager.sync.ledger import founding, incoming, outbox, roster_log, seeding, state
from memory_manager.sync.ledger.journal import SyncJournal
from memory_manager.sync.wire.log import sign_checkpoint
from memory_manager.vault import argon, kdf, state_rows
from memory_manager.vault.anchor import Anchor, parse_anchor
from memory_manager.vault.lifecycle import VaultLifecycle
from memory_manager.vault.memories import Memories
from memory_manager.vault.restore import restore_backup
from memory_manager.vault.rows import MemoryDraft
from memory_manager.vault.status import VaultState


class Synced:
    """A vault home that belongs to a synced vault."""

    def __init__(self, root: Path, keyring: Any) -> None:
        self.home = VaultHome(root, keyring).create(with_recovery=False)
        source = random.Random(3)
        self.founded = Founded(source)
        self.server = BatchServer(self.founded.vault, source)
        self.journal = SyncJournal()
        self.memories = Memories(journal=self.journal)
        self.keys = new_keys(source)

    def join(self, lifecycle: VaultLifecycle) -> Keys:
        """Put the device that this database names into the roster."""
        device = lifecycle.store.read_now(state_rows.read_identity).device
        self.keys = dataclasses.replace(new_keys(self.founded.source), id=device)
        self.founded.amend("add", self.founded.first, device=self.keys.public())
        return self.keys

    def turn_on(self, lifecycle: VaultLifecycle) -> None:
        self.join(lifecycle)
        work = turning_on(self.founded, self.server, self.journal)
        lifecycle.store.submit(work).result()

    def remember(self, lifecycle: VaultLifecycle, text: str) -> None:
        draft = MemoryDraft(text, "notes")
        lifecycle.store.submit(lambda tx: self.memories.remember(tx, draft, writer())).result()

    def push(self, lifecycle: VaultLifecycle) -> int:
        batch = lifecycle.store.submit(
            lambda tx: outbox.next_batch(tx, lambda c: sign_checkpoint(self.keys.signing, c))
        ).result()
        if batch is None:
            return 0
        head = self.server.take(batch)
        return lifecycle.store.submit(lambda tx: incoming.acknowledge(tx, head)).result()

    def anchor(self) -> Anchor:
        keys = self.home.keys()
        try:
            return parse_anchor(self.home.paths.anchor.read_bytes(), kdf.anchor_key(keys.luk))
        finally:
            keys.wipe()


@pytest.fixture
def synced(tmp_path: Path) -> Synced:
    return Synced(tmp_path / "data", None)


@pytest.fixture(params=["keyring", "passphrase only"])
def witnessed(request: pytest.FixtureRequest, tmp_path: Path, backend: ProcessKeyring) -> Synced:
    return Synced(tmp_path / "data", accepted(backend) if request.param == "keyring" else None)


def test_the_anchor_names_the_logs_before_a_push(synced: Synced) -> None:
    with synced.home.opened() as lifecycle:
        synced.turn_on(lifecycle)
        synced.remember(lifecycle, "one")
        synced.remember(lifecycle, "two")
        synced.push(lifecycle)
        synced.remember(lifecycle, "three")
        lifecycle.write_anchor()
        found = lifecycle.store.read_now(state.require)
        anchor = synced.anchor()
        assert (anchor.progress.own_seq, anchor.own_head) == (3, found.own_head)
        assert (anchor.progress.n, anchor.global_head) == (2, found.g)
        assert anchor.roster_hash == synced.founded.roster.head
        assert anchor.progress.min_epoch == 1
    with synced.home.opened() as lifecycle:
        assert lifecycle.state is VaultState.UNLOCKED
        synced.remember(lifecycle, "four")
        assert synced.push(lifecycle) == 2


@pytest.mark.parametrize("table", ["entry", "sync_state"])
def test_a_database_of_an_earlier_log_is_rolled_back(synced: Synced, table: str) -> None:
    """The generation alone could have been matched; the log's heads can not."""
    with synced.home.opened() as lifecycle:
        synced.turn_on(lifecycle)
        synced.remember(lifecycle, "one")
        synced.push(lifecycle)
    copy = synced.home.save("earlier")
    with synced.home.opened() as lifecycle:
        synced.remember(lifecycle, "two")
        synced.push(lifecycle)
    synced.home.put_back(copy, "vault.db")
    keys = synced.home.keys()
    from memory_manager.vault.connection import open_database

    connection = open_database(synced.home.paths.database, keys.dbk, keys.slot_file.salt)
    connection.execute("UPDATE vault_state SET value = 10000 WHERE key = 'generation'")
    if table == "sync_state":  # whoever edits the numbers does not have the entries
        connection.execute("UPDATE sync_state SET own_seq = 2, n = 2")
    connection.close()
    lifecycle = synced.home.lifecycle()
    try:
        lifecycle.unlock_with_passphrase(PASSPHRASE)
        assert lifecycle.state is VaultState.ROLLED_BACK
        lifecycle.accept_rollback()
        assert lifecycle.state is VaultState.UNLOCKED
        assert lifecycle.store.read_now(state.must_enrol_again)
        synced.journal.look_again()
        synced.remember(lifecycle, "after")
        assert synced.push(lifecycle) == 0
    finally:
        lifecycle.close()


def test_a_backup_brought_back_enrols_as_a_new_device(synced: Synced, tmp_path: Path) -> None:
    backup = tmp_path / "backup.mlk"
    with synced.home.opened() as lifecycle:
        synced.turn_on(lifecycle)
        synced.remember(lifecycle, "shared")
        synced.push(lifecycle)
        synced.remember(lifecycle, "only in the backup")
        lifecycle.backup(backup)
    shutil.rmtree(synced.home.directory)
    restore_backup(
        backup,
        synced.home.directory,
        passphrase=PASSPHRASE,
        with_recovery=False,
        parameters=argon.FLOOR,
    )
    old = synced.keys.id
    home = VaultHome(synced.home.root)
    with home.opened() as lifecycle:
        assert lifecycle.state is VaultState.UNLOCKED
        assert lifecycle.store.read_now(state.must_enrol_again)
        synced.journal.look_again()
        synced.remember(lifecycle, "before enrolling")
        assert synced.push(lifecycle) == 0
        new = synced.join(lifecycle)
        chain = tuple(synced.founded.chain)
        lifecycle.store.submit(
            lambda tx: founding.enrol_again(tx, synced.journal, chain=chain, keys={})
        ).result()
        while lifecycle.store.submit(lambda tx: seeding.seal_some(tx, synced.journal)).result():
            pass
        assert synced.push(lifecycle) == 2
        found = lifecycle.store.read_now(state.require)
        assert (found.device, found.own_seq, found.n) == (new.id, 2, 3)
    assert [row.entry.device for row in synced.server.rows] == [old, new.id, new.id]
    with home.opened() as lifecycle:
        assert lifecycle.state is VaultState.UNLOCKED


def test_turning_sync_off_is_no_rollback(witnessed: Synced) -> None:
    synced = witnessed
    with synced.home.opened() as lifecycle:
        synced.turn_on(lifecycle)
        synced.remember(lifecycle, "one")
        synced.push(lifecycle)
        lifecycle.write_anchor()
        lifecycle.store.submit(
            lambda tx: founding.turn_off(tx, synced.journal, lifecycle.forget_sync)
        ).result()
        assert synced.anchor().progress.own_seq == 0
        synced.remember(lifecycle, "two")
    with synced.home.opened() as lifecycle:
        assert lifecycle.state is VaultState.UNLOCKED
        assert lifecycle.store.read_now(roster_log.load) is None


def test_an_anchor_lowered_for_nothing_is_raised_again(synced: Synced) -> None:
    with synced.home.opened() as lifecycle:
        synced.turn_on(lifecycle)
        synced.remember(lifecycle, "one")

        def fails(tx: Any) -> None:
            founding.turn_off(tx, synced.journal, lifecycle.forget_sync)
            raise LookupError

        with pytest.raises(LookupError):
            lifecycle.store.submit(fails).result()
        synced.remember(lifecycle, "two")
        lifecycle.write_anchor()
        assert synced.anchor().progress.own_seq == 2
    with synced.home.opened() as lifecycle:
        assert lifecycle.state is VaultState.UNLOCKED


def test_a_new_database_key_takes_the_log_along(synced: Synced) -> None:
    with synced.home.opened() as lifecycle:
        synced.turn_on(lifecycle)
        synced.remember(lifecycle, "one")
        lifecycle.rekey(PASSPHRASE)
        synced.remember(lifecycle, "two")
        assert synced.push(lifecycle) == 2
    with synced.home.opened() as lifecycle:
        assert lifecycle.state is VaultState.UNLOCKED
