"""Acts of the owner on keys and slots: passphrase, recovery words, keyring, rollback, new key.

Contract: vault.md 4.1, 4.2, 7, 9.3. All but ``add_passphrase`` and ``change_passphrase`` need a
passphrase entered in the last five minutes; those two bring their own proof.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from memory_manager.base.private_files import write_private
from memory_manager.vault import (
    argon,
    credential_slots,
    device_key,
    kdf,
    opening,
    recovery_words,
    rekey,
    slot_changes,
    slot_files,
    slots,
    state_rows,
)
from memory_manager.vault.anchor import Anchor, Identity, Progress
from memory_manager.vault.anchor_keeper import copy_name
from memory_manager.vault.connection import open_database
from memory_manager.vault.credential_slots import Passphrase, RecoveryWords
from memory_manager.vault.errors import (
    LockReason,
    PassphraseRequired,
    RekeyFailed,
    VaultLocked,
)
from memory_manager.vault.os_keyring import KeyringUnavailable, OsKeyring
from memory_manager.vault.passphrase import check_strength
from memory_manager.vault.paths import VaultPaths
from memory_manager.vault.slots import SlotFile, SlotType
from memory_manager.vault.state_rows import RecoveryState

if TYPE_CHECKING:
    from memory_manager.vault.gate import VaultGate
    from memory_manager.vault.opening import Inspection, VaultKeys
    from memory_manager.vault.session import VaultSession


def change_passphrase(gate: VaultGate, old: str, new: str) -> None:
    """Wrap LUK and GSK under the new passphrase. The database and its key stay as they are.

    Works on a locked vault too. WrongPassphrase, WeakPassphrase; a crash leaves old or new.
    """
    check_strength(new)
    with gate.transition() as session:
        opening.require_files(gate.paths)
        selected = slot_files.select(gate.paths)
        if selected.from_previous:
            raise RekeyFailed("A key change was interrupted; unlock first, then change it.")
        with gate.counted_attempt():
            luk, kek = Passphrase(old).open_with_key(selected.slot_file)
        with kdf.KeyMaterial(luk, kek) as keys:
            seed = keys.keep(slots.open_grant_key(selected.slot_file, kek) or kdf.new_key())
            parameters = credential_slots.parameters_of(selected.slot_file) or argon.START
            changed = credential_slots.put_passphrase(
                selected.slot_file, luk, new, parameters, seed
            )
        slot_files.rewrite(gate.paths, changed)
        if session is not None:
            session.keys.slot_file = changed
            gate.passphrase_seen(session)


def add_passphrase(gate: VaultGate, new: str) -> None:
    """Give an open vault its first passphrase; PassphraseRequired when it has one already."""
    with gate.transition() as session:
        if session is None:
            raise VaultLocked(LockReason.USER)
        if session.keys.slot_file.find(SlotType.PASSPHRASE) is not None:
            raise PassphraseRequired("This vault has a passphrase; change it instead.")
        slot_changes.replace_passphrase(gate.paths, session.keys, new)
        gate.passphrase_seen(session)


def issue_recovery_words(gate: VaultGate) -> tuple[str, ...]:
    """New words, a new slot; the old words stop working. Unconfirmed until ``confirm_recovery``."""
    with gate.owner_act() as session:
        keys = session.keys
        with kdf.KeyMaterial() as made:
            entropy = made.keep(recovery_words.new_entropy())
            words = recovery_words.words_of(entropy)
            changed = credential_slots.put_recovery(keys.slot_file, keys.luk, entropy)
        _store(gate, session, changed)
        _note_recovery(session, RecoveryState.UNCONFIRMED)
        return words


def take_recovery_words(gate: VaultGate, words: Sequence[str] | str, *, confirmed: bool) -> None:
    """Words that were made and shown elsewhere, instead of the old ones, which end only now."""
    with gate.owner_act() as session:
        keys = session.keys
        with kdf.KeyMaterial() as made:
            entropy = made.keep(recovery_words.entropy_of(words))
            changed = credential_slots.put_recovery(keys.slot_file, keys.luk, entropy)
        _store(gate, session, changed)
        _note_recovery(session, RecoveryState.CONFIRMED if confirmed else RecoveryState.UNCONFIRMED)


def confirm_recovery(gate: VaultGate) -> None:
    """The user has shown that the words are written down."""
    with gate.owner_act() as session:
        if session.keys.slot_file.find(SlotType.RECOVERY) is not None:
            _note_recovery(session, RecoveryState.CONFIRMED)


def enable_keyring(gate: VaultGate) -> None:
    """Let the OS keyring open the vault; VaultLocked(no_keyring) when there is no real one."""
    with gate.owner_act() as session:
        keyring, keys = gate.keyring, session.keys
        if keyring is None:
            raise VaultLocked(LockReason.NO_KEYRING, "There is no usable system keyring.")
        with kdf.KeyMaterial() as made:
            kek = made.keep(kdf.new_key())
            try:
                keyring.prove()
                keyring.write(credential_slots.keyring_item_name(keys.slot_file.salt), kek)
            except KeyringUnavailable as error:
                raise VaultLocked(error.reason, "The system keyring does not work.") from None
            changed = credential_slots.put_key(keys.slot_file, keys.luk, SlotType.OS_KEYRING, kek)
        _store(gate, session, changed)


def disable_keyring(gate: VaultGate) -> None:
    """Only a passphrase opens the vault from now on. The slot goes first, then the item."""
    with gate.owner_act() as session:
        slot_file = session.keys.slot_file
        if slot_file.find(SlotType.PASSPHRASE) is None:
            raise PassphraseRequired("The vault has no passphrase yet.")
        _store(gate, session, credential_slots.without(slot_file, SlotType.OS_KEYRING))
        if gate.keyring is not None:
            with contextlib.suppress(KeyringUnavailable):
                gate.keyring.delete(credential_slots.keyring_item_name(slot_file.salt))


def accept_rollback(gate: VaultGate) -> None:
    """Take the vault as it is: a new device id, a generation above every witness, a new anchor."""
    with gate.owner_act() as session:
        if not session.read_only:
            return
        found, last_auth = session.found, session.last_auth
        with gate.exclusive(session) as keys:
            _mint_device(gate.paths, keys, found, last_auth, gate.keyring)


def renew_device(gate: VaultGate) -> None:
    """A new device id with the same keys: the old one was used where it must not be used again.

    The vault closes and opens again meanwhile. Nothing for one that may not be written.
    """
    with gate.transition() as session:
        if session is None:
            raise VaultLocked(LockReason.USER)
        if session.read_only:
            return
        found, last_auth = session.found, session.last_auth
        with gate.exclusive(session) as keys:
            _mint_device(gate.paths, keys, found, last_auth, gate.keyring)


def check_recovery_words(gate: VaultGate, words: Sequence[str] | str) -> None:
    """WrongRecoveryWords unless these words open this vault.

    Whoever can give them has written them down: they count as confirmed from now on.
    """
    with gate.transition() as session:
        if session is None:
            raise VaultLocked(LockReason.USER)
        kdf.wipe(RecoveryWords(words).open(session.keys.slot_file))
        if session.recovery is RecoveryState.UNCONFIRMED and not session.read_only:
            _note_recovery(session, RecoveryState.CONFIRMED)


def _mint_device(
    paths: VaultPaths,
    keys: VaultKeys,
    found: Inspection,
    last_auth: int,
    keyring: OsKeyring | None,
) -> None:
    """The anchor is written last: until then the vault still counts as rolled back."""
    slot_file = keys.slot_file
    with kdf.KeyMaterial() as made:
        device = opening.read_device_key(paths, keys) or device_key.new_device_key()
        made.keep(device.secrets)
        wrap_key = made.keep(kdf.device_wrap_key(keys.luk))
        mac_key = made.keep(kdf.anchor_key(keys.luk))
        device = dataclasses.replace(device, device=os.urandom(slots.ID_BYTES))
        identity = Identity(slot_file.vault, slot_file.install, device.device)
        sealed = device_key.encode(device, slot_file.vault, slot_file.install, wrap_key)
        write_private(paths.device_key, sealed)
        progress = _take_identity(paths, keys, identity, found.witnessed.generation + 1)
        anchor = Anchor(identity, progress, last_auth)
        write_private(paths.anchor, anchor.encode(mac_key))
    if keyring is not None:
        with contextlib.suppress(KeyringUnavailable):
            keyring.write(copy_name(identity.install), anchor.keyring_copy())


def _take_identity(
    paths: VaultPaths, keys: VaultKeys, identity: Identity, generation: int
) -> Progress:
    """Write the identity into the database and raise its generation to at least that number."""
    connection = open_database(paths.database, keys.dbk, keys.slot_file.salt, maintenance=True)
    try:
        connection.execute("PRAGMA synchronous=FULL")
        connection.execute("BEGIN IMMEDIATE")
        state_rows.write_identity(connection, identity)
        state_rows.raise_generation(connection, generation)
        progress = state_rows.read_progress(connection)
        connection.execute("COMMIT")
        return progress
    finally:
        connection.close()


def change_database_key(
    gate: VaultGate,
    passphrase: str,
    *,
    words: Sequence[str] | str | None = None,
    key_file: Path | None = None,
    step: Callable[[str], None] = lambda _: None,
) -> tuple[str, ...] | None:
    """Copy-rekey: new LUK, salt and database key, wrapped again for every slot there is.

    With ``words`` the recovery words stay valid; without them new ones are issued and returned, if
    there was a recovery slot. A vault with a key file slot needs ``key_file``.
    """
    with gate.owner_act() as session:
        if session.read_only:
            raise RekeyFailed("Accept or repair the rolled back vault first.")
        old = session.keys.slot_file
        with gate.counted_attempt():
            luk, kek = Passphrase(passphrase).open_with_key(old)
        kdf.wipe(luk)
        with kdf.KeyMaterial(kek) as made:
            new_luk = made.keep(kdf.new_key())
            new, issued = slot_changes.slots_for_new_key(
                old, kek, new_luk, passphrase, words, key_file, gate.keyring
            )
            with gate.exclusive(session) as keys:
                change = rekey.KeyChange(old, keys.luk, new, new_luk)
                rekey.copy_rekey(gate.paths, change, step=step)
                kdf.wipe(keys.luk, keys.dbk)
                keys.slot_file = new
                keys.luk = bytearray(new_luk)
                keys.dbk = kdf.database_key(new_luk)
        if issued is not None:
            with gate.owner_act() as reopened:
                _note_recovery(reopened, RecoveryState.UNCONFIRMED)
        return issued


def _store(gate: VaultGate, session: VaultSession, changed: SlotFile) -> None:
    slot_files.rewrite(gate.paths, changed)
    session.keys.slot_file = changed
    gate.slots_changed(session)


def _note_recovery(session: VaultSession, state: RecoveryState) -> None:
    session.store.submit(
        lambda transaction: state_rows.write_recovery(transaction.connection, state)
    ).result()
    session.recovery = state
