"""The four ways to a LUK, and changes to the slots that keep it (vault.md 4).

Every change returns a new ``SlotFile`` value with ``gen`` one higher; writing it is the caller's.
"""

from __future__ import annotations

import dataclasses
import enum
import os
from collections.abc import Sequence
from typing import Protocol

from memory_manager.vault import argon, kdf, recovery_words, slots
from memory_manager.vault.argon import ArgonParameters
from memory_manager.vault.errors import (
    KeyFileRefused,
    LockReason,
    SlotDamaged,
    VaultLocked,
    WrongPassphrase,
    WrongRecoveryWords,
)
from memory_manager.vault.os_keyring import KeyringUnavailable, OsKeyring
from memory_manager.vault.slots import Slot, SlotFile, SlotType


class UnlockSource(enum.StrEnum):
    """What opened the vault, as ``status`` names it."""

    PASSPHRASE = "passphrase"  # noqa: S105 - a source, not a passphrase
    OS_KEYRING = "os_keyring"
    RECOVERY = "recovery"
    INSECURE_KEY_FILE = "insecure_key_file"


class Credential(Protocol):
    """Something that opens a slot. ``open`` may be asked twice: for the old and the new file."""

    @property
    def source(self) -> UnlockSource: ...

    def open(self, slot_file: SlotFile) -> bytearray:
        """The LUK; WrongPassphrase, SlotDamaged, KdfParametersRefused or VaultLocked."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class Passphrase:
    """The passphrase as typed."""

    text: str = dataclasses.field(repr=False)
    source = UnlockSource.PASSPHRASE

    def key(self, slot: Slot) -> bytearray:
        """KEK_pw for this slot; takes Argon2id's time."""
        argon.check_parameters(ArgonParameters(slot.t, slot.m_kib), slot.p)
        return argon.passphrase_key(self.text, slot.salt, ArgonParameters(slot.t, slot.m_kib))

    def open(self, slot_file: SlotFile) -> bytearray:
        luk, kek = self.open_with_key(slot_file)
        kdf.wipe(kek)
        return luk

    def open_with_key(self, slot_file: SlotFile) -> tuple[bytearray, bytearray]:
        """LUK and KEK_pw; the caller wipes both."""
        slot = slot_file.find(SlotType.PASSPHRASE)
        if slot is None:
            raise WrongPassphrase("This vault has no passphrase.")
        kek = self.key(slot)
        try:
            return slots.open_slot(slot_file, slot, kek), kek
        except BaseException:
            kdf.wipe(kek)
            raise


@dataclasses.dataclass(frozen=True, slots=True)
class RecoveryWords:
    """The 24 words as typed."""

    words: Sequence[str] | str = dataclasses.field(repr=False)
    source = UnlockSource.RECOVERY

    def open(self, slot_file: SlotFile) -> bytearray:
        slot = slot_file.find(SlotType.RECOVERY)
        entropy = recovery_words.entropy_of(self.words)
        kek = kdf.recovery_key(entropy)
        try:
            if slot is None:
                raise WrongRecoveryWords("This vault has no recovery words.")
            return slots.open_slot(slot_file, slot, kek)
        except WrongPassphrase as error:
            raise WrongRecoveryWords(error.message) from None
        finally:
            kdf.wipe(entropy, kek)


@dataclasses.dataclass(frozen=True, slots=True)
class KeyringItem:
    """The item in the user's keyring that belongs to a slot file."""

    keyring: OsKeyring
    source = UnlockSource.OS_KEYRING

    def open(self, slot_file: SlotFile) -> bytearray:
        slot = slot_file.find(SlotType.OS_KEYRING)
        if slot is None:
            raise VaultLocked(LockReason.NO_KEYRING)
        try:
            item = self.keyring.read(keyring_item_name(slot_file.salt))
        except KeyringUnavailable as error:
            raise VaultLocked(error.reason) from None
        if item is None or len(item) != kdf.KEY_BYTES:
            raise VaultLocked(LockReason.NO_KEYRING)
        kek = bytearray(item)
        try:
            return slots.open_slot(slot_file, slot, kek)
        except WrongPassphrase:
            raise SlotDamaged("The system keyring holds another key than the vault.") from None
        finally:
            kdf.wipe(kek)


@dataclasses.dataclass(frozen=True, slots=True)
class KeyFile:
    """The 32 bytes of an insecure key file."""

    kek: bytearray = dataclasses.field(repr=False)
    source = UnlockSource.INSECURE_KEY_FILE

    def open(self, slot_file: SlotFile) -> bytearray:
        slot = slot_file.find(SlotType.INSECURE_FILE)
        if slot is None:
            raise KeyFileRefused("This vault does not open with a key file.")
        try:
            return slots.open_slot(slot_file, slot, self.kek)
        except WrongPassphrase:
            raise KeyFileRefused("The key file belongs to another vault.") from None


def keyring_item_name(salt: bytes) -> str:
    """Name of the unlock item. The database's salt is in it, so that during copy-rekey the old and
    the new key stand side by side and a crash strands neither."""
    return f"unlock-{salt.hex()}"


def put_passphrase(
    slot_file: SlotFile,
    luk: kdf.SecretBytes,
    passphrase: str,
    parameters: ArgonParameters,
    grant_seed: kdf.SecretBytes,
) -> SlotFile:
    """Set or replace the passphrase slot, with the GSK sealed again beside it."""
    salt = os.urandom(slots.SALT_BYTES)
    kek = argon.passphrase_key(passphrase, salt, parameters)
    try:
        slot = slots.make_slot(
            slot_file.vault,
            slot_file.install,
            no=_number_for(slot_file, SlotType.PASSPHRASE),
            slot_type=SlotType.PASSPHRASE,
            kek=kek,
            luk=luk,
            salt=salt,
            t=parameters.t,
            m_kib=parameters.m_kib,
            p=1,
        )
        grant = slots.wrap_grant_key(slot_file.vault, slot_file.install, kek, grant_seed)
    finally:
        kdf.wipe(kek)
    return dataclasses.replace(_with(slot_file, slot), gsk=grant)


def put_key(
    slot_file: SlotFile, luk: kdf.SecretBytes, slot_type: SlotType, kek: kdf.SecretBytes
) -> SlotFile:
    """Set or replace the slot of a type whose KEK is already 32 good bytes."""
    slot = slots.make_slot(
        slot_file.vault,
        slot_file.install,
        no=_number_for(slot_file, slot_type),
        slot_type=slot_type,
        kek=kek,
        luk=luk,
    )
    return _with(slot_file, slot)


def recovery_commitment(entropy: kdf.SecretBytes) -> bytes:
    """What a recovery slot shows of its words: the same in every slot of the same words."""
    kek = kdf.recovery_key(entropy)
    try:
        return slots.key_commitment(kek)
    finally:
        kdf.wipe(kek)


def put_recovery(slot_file: SlotFile, luk: kdf.SecretBytes, entropy: kdf.SecretBytes) -> SlotFile:
    """Set or replace the recovery slot."""
    kek = kdf.recovery_key(entropy)
    try:
        return put_key(slot_file, luk, SlotType.RECOVERY, kek)
    finally:
        kdf.wipe(kek)


def without(slot_file: SlotFile, *removed: SlotType) -> SlotFile:
    """The same file without these slots; the GSK goes with the passphrase slot."""
    kept = tuple(slot for slot in slot_file.slots if slot.type not in removed)
    gsk = None if SlotType.PASSPHRASE in removed else slot_file.gsk
    return dataclasses.replace(slot_file, gen=slot_file.gen + 1, slots=kept, gsk=gsk)


def parameters_of(slot_file: SlotFile) -> ArgonParameters | None:
    """What the present passphrase slot uses, if it is within the limits."""
    slot = slot_file.find(SlotType.PASSPHRASE)
    if slot is None:
        return None
    parameters = ArgonParameters(slot.t, slot.m_kib)
    argon.check_parameters(parameters, slot.p)
    return parameters


def _number_for(slot_file: SlotFile, slot_type: SlotType) -> int:
    present = slot_file.find(slot_type)
    if present is not None:
        return present.no
    return max((slot.no for slot in slot_file.slots), default=-1) + 1


def _with(slot_file: SlotFile, slot: Slot) -> SlotFile:
    others = [other for other in slot_file.slots if other.no != slot.no]
    ordered = tuple(sorted([*others, slot], key=lambda entry: entry.no))
    return dataclasses.replace(slot_file, gen=slot_file.gen + 1, slots=ordered)
