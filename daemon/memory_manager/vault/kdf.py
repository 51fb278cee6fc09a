"""Key derivation, labelled hashes and sealing (vault.md 3): pure functions over bytes.

Every key is a ``bytearray`` so that its owner can zero it; none is ever formatted into text.
"""

from __future__ import annotations

import hashlib
import hmac
import os

from nacl import bindings, exceptions

KEY_BYTES = 32
NONCE_BYTES = 24
TAG_BYTES = 16

_LUK_CONTEXT = b"mlkluk01"
_RECOVERY_CONTEXT = b"mlkrec01"

SecretBytes = bytes | bytearray
"""Accepted wherever a key is only read; keys we own are always ``bytearray``."""


class SealBroken(ValueError):
    """A sealed value does not open: wrong key, wrong context or changed bytes."""


def derive(key: SecretBytes, number: int, context: bytes) -> bytearray:
    """``KDF(key, number, context)``, 32 bytes; equal to libsodium's crypto_kdf_derive_from_key."""
    digest = hashlib.blake2b(
        digest_size=KEY_BYTES, key=key, salt=number.to_bytes(8, "little"), person=context
    )
    return bytearray(digest.digest())


def labelled_hash(message: SecretBytes, label: bytes) -> bytes:
    """``H(message, label)``: BLAKE2b-256 with the label as person."""
    return hashlib.blake2b(message, digest_size=32, person=label).digest()


def keyed_hash(key: SecretBytes, message: bytes, label: bytes) -> bytes:
    """A 32-byte MAC of ``message`` under ``key`` with the label as person."""
    return hashlib.blake2b(message, digest_size=32, key=key, person=label).digest()


def equal(left: bytes, right: bytes) -> bool:
    """Constant-time comparison."""
    return hmac.compare_digest(left, right)


def seal(key: SecretBytes, nonce: bytes, plaintext: SecretBytes, context: bytes) -> bytes:
    """XChaCha20-Poly1305: ciphertext and 16-byte tag."""
    return bindings.crypto_aead_xchacha20poly1305_ietf_encrypt(
        bytes(plaintext), context, nonce, bytes(key)
    )


def open_sealed(key: SecretBytes, nonce: bytes, sealed: bytes, context: bytes) -> bytearray:
    """Inverse of ``seal``; SealBroken when anything differs."""
    try:
        return bytearray(
            bindings.crypto_aead_xchacha20poly1305_ietf_decrypt(sealed, context, nonce, bytes(key))
        )
    except exceptions.CryptoError:
        raise SealBroken from None


def new_nonce() -> bytes:
    """24 random bytes."""
    return os.urandom(NONCE_BYTES)


def new_key() -> bytearray:
    """32 random bytes."""
    return bytearray(os.urandom(KEY_BYTES))


def wipe(*buffers: bytearray | None) -> None:
    """Overwrite buffers with zeros in place; None is skipped."""
    for buffer in buffers:
        if buffer is not None:
            buffer[:] = bytes(len(buffer))


class KeyMaterial:
    """The keys of one piece of work: zeroed when the block ends, however it ends."""

    def __init__(self, *buffers: bytearray | None) -> None:
        self._kept = list(buffers)

    def keep(self, buffer: bytearray) -> bytearray:
        """``buffer`` itself, zeroed with the others from now on."""
        self._kept.append(buffer)
        return buffer

    def __enter__(self) -> KeyMaterial:
        return self

    def __exit__(self, *_: object) -> None:
        self.wipe()

    def wipe(self) -> None:
        wipe(*self._kept)


def database_key(luk: SecretBytes) -> bytearray:
    """DBK, the raw SQLCipher key."""
    return derive(luk, 1, _LUK_CONTEXT)


def device_wrap_key(luk: SecretBytes) -> bytearray:
    """Wraps ``device.key``."""
    return derive(luk, 2, _LUK_CONTEXT)


def anchor_key(luk: SecretBytes) -> bytearray:
    """MAC key of ``anchor.bin``."""
    return derive(luk, 3, _LUK_CONTEXT)


def backup_wrap_key(luk: SecretBytes) -> bytearray:
    """Wraps the keys of backup files."""
    return derive(luk, 4, _LUK_CONTEXT)


def recovery_key(entropy: SecretBytes) -> bytearray:
    """KEK_rec."""
    return derive(entropy, 1, _RECOVERY_CONTEXT)


def paper_signing_seed(entropy: SecretBytes) -> bytearray:
    """Ed25519 seed of the paper device."""
    return derive(entropy, 2, _RECOVERY_CONTEXT)


def paper_box_secret(entropy: SecretBytes) -> bytearray:
    """X25519 secret of the paper device."""
    return derive(entropy, 3, _RECOVERY_CONTEXT)
