"""Whole new slot files: a passphrase without the old one, and all slots for a new database key."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path

from memory_manager.vault import (
    argon,
    credential_slots,
    kdf,
    recovery_words,
    slot_files,
    slots,
)
from memory_manager.vault.credential_slots import RecoveryWords
from memory_manager.vault.errors import KdfParametersRefused, RekeyFailed
from memory_manager.vault.key_file import read_key_file
from memory_manager.vault.opening import VaultKeys
from memory_manager.vault.os_keyring import KeyringUnavailable, OsKeyring
from memory_manager.vault.passphrase import check_strength
from memory_manager.vault.paths import VaultPaths
from memory_manager.vault.slots import SlotFile, SlotType


def replace_passphrase(paths: VaultPaths, keys: VaultKeys, new: str) -> None:
    """Set a passphrase without the old one: a new GSK goes with it. Rewrites the slot file."""
    check_strength(new)
    try:
        parameters = credential_slots.parameters_of(keys.slot_file)
    except KdfParametersRefused:
        parameters = None
    with kdf.KeyMaterial() as made:
        changed = credential_slots.put_passphrase(
            keys.slot_file,
            keys.luk,
            new,
            parameters or argon.calibrate(),
            made.keep(kdf.new_key()),
        )
    slot_files.rewrite(paths, changed)
    keys.slot_file = changed


def slots_for_new_key(
    old: SlotFile,
    kek: bytearray,
    new_luk: bytearray,
    passphrase: str,
    words: Sequence[str] | str | None,
    key_file: Path | None,
    keyring: OsKeyring | None,
) -> tuple[SlotFile, tuple[str, ...] | None]:
    """The new slot file of a rekey, and newly issued words if any."""
    with kdf.KeyMaterial() as made:
        new = SlotFile(
            vault=old.vault,
            install=old.install,
            gen=old.gen,
            salt=os.urandom(slots.SALT_BYTES),
            commit=slots.database_commitment(made.keep(kdf.database_key(new_luk))),
            slots=(),
            gsk=None,
        )
        seed = made.keep(slots.open_grant_key(old, kek) or kdf.new_key())
        parameters = credential_slots.parameters_of(old) or argon.START
        new = credential_slots.put_passphrase(new, new_luk, passphrase, parameters, seed)
        issued: tuple[str, ...] | None = None
        if old.find(SlotType.RECOVERY) is not None:
            if words is not None:
                made.keep(RecoveryWords(words).open(old))  # they must be the present ones
                entropy = made.keep(recovery_words.entropy_of(words))
            else:
                entropy = made.keep(recovery_words.new_entropy())
                issued = recovery_words.words_of(entropy)
            new = credential_slots.put_recovery(new, new_luk, entropy)
        if old.find(SlotType.INSECURE_FILE) is not None:
            if key_file is None:
                raise RekeyFailed("Name the key file too: this vault opens with one.")
            file_key = made.keep(read_key_file(key_file))
            new = credential_slots.put_key(new, new_luk, SlotType.INSECURE_FILE, file_key)
        if old.find(SlotType.OS_KEYRING) is not None and keyring is not None:
            keyring_kek = made.keep(kdf.new_key())
            with contextlib.suppress(KeyringUnavailable):  # without it the passphrase opens
                keyring.write(credential_slots.keyring_item_name(new.salt), keyring_kek)
                new = credential_slots.put_key(new, new_luk, SlotType.OS_KEYRING, keyring_kek)
        return dataclasses.replace(new, gen=old.gen + 1), issued
