"""The grant-signing key (GSK): there only while somebody has just typed the passphrase.

Contract: vault.md 3, sync.md 6. A keyring or a key file never opens it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from nacl.signing import SigningKey

from memory_manager.vault import kdf, slots
from memory_manager.vault.credential_slots import Passphrase
from memory_manager.vault.errors import LockReason, VaultLocked

if TYPE_CHECKING:
    from memory_manager.vault.gate import VaultGate


def grant_public_key(gate: VaultGate, passphrase: str) -> bytes | None:
    """The public half, 32 bytes; None for a vault that has no such key.

    Counts as a passphrase entry. WrongPassphrase, VaultLocked; takes Argon2id's time.
    """
    with gate.transition() as session:
        if session is None:
            raise VaultLocked(LockReason.USER)
        slot_file = session.keys.slot_file
        with gate.counted_attempt():
            luk, kek = Passphrase(passphrase).open_with_key(slot_file)
        with kdf.KeyMaterial(luk, kek) as held:
            gate.passphrase_seen(session)
            seed = slots.open_grant_key(slot_file, kek)
            return None if seed is None else bytes(SigningKey(bytes(held.keep(seed))).verify_key)
