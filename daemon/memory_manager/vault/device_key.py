"""``device.key``: this device's Ed25519 seed and X25519 secret, sealed under a key of the LUK.

Contract: vault.md 2, 3, 17. File: ``MLKD``, version 1, three zero bytes, device id 16, nonce 24,
sealed 64 + 16 bytes.
"""

from __future__ import annotations

import dataclasses
import os
from typing import ClassVar

from memory_manager.vault import kdf
from memory_manager.vault.anchor import Identity

FILE_BYTES = 128
_SECRET_BYTES = 64
_HEADER = b"MLKD\x01\0\0\0"
_AAD = b"mlk-devkey-v1\x01"
_ID_END = 24
_NONCE_END = _ID_END + kdf.NONCE_BYTES


class DeviceKeyDamaged(Exception):
    """The file is missing its form, belongs to another installation, or does not open."""


@dataclasses.dataclass(frozen=True, slots=True)
class DeviceKey:
    """The two secrets, one after the other, 64 bytes; wiped by the owner."""

    device: bytes
    secrets: bytearray = dataclasses.field(repr=False)
    SIGNING_SEED: ClassVar[slice] = slice(0, 32)
    BOX_SECRET: ClassVar[slice] = slice(32, 64)


def new_device_key() -> DeviceKey:
    """A fresh device: random id, random secrets."""
    return DeviceKey(os.urandom(16), bytearray(os.urandom(_SECRET_BYTES)))


def device_context(identity: Identity) -> bytes:
    """Associated data: the ids of vault, installation and device."""
    return _AAD + identity.vault + identity.install + identity.device


def encode(
    key: DeviceKey,
    vault: bytes,
    install: bytes,
    wrap_key: kdf.SecretBytes,
    nonce: bytes | None = None,
) -> bytes:
    """The bytes of ``device.key``."""
    nonce = nonce or kdf.new_nonce()
    context = device_context(Identity(vault, install, key.device))
    return _HEADER + key.device + nonce + kdf.seal(wrap_key, nonce, key.secrets, context)


def parse(data: bytes, vault: bytes, install: bytes, wrap_key: kdf.SecretBytes) -> DeviceKey:
    """Read ``device.key``; DeviceKeyDamaged when anything is wrong."""
    if len(data) != FILE_BYTES or not data.startswith(_HEADER):
        raise DeviceKeyDamaged
    device = data[len(_HEADER) : _ID_END]
    context = device_context(Identity(vault, install, device))
    try:
        opened = kdf.open_sealed(wrap_key, data[_ID_END:_NONCE_END], data[_NONCE_END:], context)
    except kdf.SealBroken:
        raise DeviceKeyDamaged from None
    return DeviceKey(device, opened)
