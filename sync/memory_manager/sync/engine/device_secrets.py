"""This device's own keys, taken from the open vault; wiped when it locks."""

from __future__ import annotations

import dataclasses

from nacl.public import PrivateKey
from nacl.signing import SigningKey

from memory_manager.vault import kdf, opening
from memory_manager.vault.device_key import DeviceKey
from memory_manager.vault.errors import LockReason, VaultLocked
from memory_manager.vault.session import VaultSession


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceSecrets:
    """The device id and, for as long as the vault is open, its two secret keys."""

    key: DeviceKey

    @property
    def device(self) -> bytes:
        return self.key.device

    def signing_key(self) -> SigningKey:
        """Ed25519: checkpoints, logins, roster entries. Not to be kept. VaultLocked once wiped."""
        return SigningKey(self._secret(DeviceKey.SIGNING_SEED))

    def box_key(self) -> PrivateKey:
        """X25519: opens sealed epoch keys and enrolment packages. Not to be kept."""
        return PrivateKey(self._secret(DeviceKey.BOX_SECRET))

    def _secret(self, part: slice) -> bytes:
        found = bytes(self.key.secrets[part])
        if not any(found):  # what a zeroed key signs would stand in the log for good
            raise VaultLocked(LockReason.USER)
        return found

    def wipe(self) -> None:
        kdf.wipe(self.key.secrets)


def device_secrets(session: VaultSession) -> DeviceSecrets | None:
    """The keys in ``device.key``, read anew; None where that file is missing or damaged.

    Called on the thread of a vault transition, as a ``VaultListener`` is.
    """
    key = opening.read_device_key(session.paths, session.keys)
    return None if key is None else DeviceSecrets(key)
