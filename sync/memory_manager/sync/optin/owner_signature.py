"""The owner's signature: the grant key, open only while a passphrase has just been typed.

Contract: vault.md 3, sync.md 6.3. A keyring, a key file and an open vault do not open it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from typing import TYPE_CHECKING

from nacl.signing import SigningKey

from memory_manager.sync.optin.errors import NoGrantKey
from memory_manager.vault import kdf, slots
from memory_manager.vault.credential_slots import Passphrase
from memory_manager.vault.errors import LockReason, VaultLocked
from memory_manager.vault.slots import SlotType

if TYPE_CHECKING:
    from memory_manager.vault.gate import VaultGate


@contextlib.contextmanager
def owner_key(gate: VaultGate, passphrase: str) -> Generator[SigningKey]:
    """The grant-signing key for the length of the block; takes Argon2id's time, not on the loop.

    WrongPassphrase costs a growing delay; VaultLocked; NoGrantKey for a vault without a passphrase.
    """
    with gate.transition() as session:
        if session is None:
            raise VaultLocked(LockReason.USER)
        slot_file = session.keys.slot_file
        if slot_file.find(SlotType.PASSPHRASE) is None:
            raise NoGrantKey
        with gate.counted_attempt():
            luk, kek = Passphrase(passphrase).open_with_key(slot_file)
        with kdf.KeyMaterial(luk, kek) as held:
            gate.passphrase_seen(session)
            seed = slots.open_grant_key(slot_file, kek)
            if seed is None:
                raise NoGrantKey
            key = SigningKey(bytes(held.keep(seed)))
    yield key
