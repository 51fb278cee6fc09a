"""Sizes, labels and the labelled hashes of MLK1 (sync.md 2). Integers are big-endian unsigned."""

from __future__ import annotations

import hashlib
from typing import Final

from mnemonic import Mnemonic

from memory_manager.vault.kdf import SecretBytes, derive, labelled_hash

ID_BYTES: Final = 16
HASH_BYTES: Final = 32
DOT_BYTES: Final = 24
SIGNATURE_BYTES: Final = 64
ZERO_HASH: Final = bytes(HASH_BYTES)
MAX_POSITION: Final = (1 << 63) - 1
"""Of a log, as databases count: what is larger on the wire is no position."""

KEY_ID: Final = b"mlk-kid-v1"
CEK_COMMITMENT: Final = b"mlk-cekc-v1"
PARENTS: Final = b"mlk-parents-v1"
RECORD: Final = b"mlk-rec-v1"
CEK_WRAP: Final = b"mlk-cek-v1"
PREVIOUS_KEY: Final = b"mlk-vrkprev-v1"
ENTRY: Final = b"mlk-log-v1"
GLOBAL_HEAD: Final = b"mlk-glog-v1"
CHECKPOINT: Final = b"mlk-cp-v1"
SERVER_HEAD: Final = b"mlk-sth-v1"
ROSTER: Final = b"mlk-roster-v1"
VAULT_ID: Final = b"mlk-vault-v1"
SEALED_KEY: Final = b"mlk-vrk-v1"
LOGIN: Final = b"mlk-auth-v1"
NEW_KEYS: Final = b"mlk-nkeys-v1"
POSSESSION: Final = b"mlk-pop-v1"
ENROLMENT: Final = b"mlk-enrol-v1"
GRANT: Final = b"mlk-grant-v1"
INDEX_TOKEN: Final = b"mlk-idx-v1"
HEAD_WORDS: Final = b"mlk-words-v1"
SERVER_WORDS: Final = b"mlk-srvfp-v1"

_VRK_CONTEXT: Final = b"mlkvrk01"
_WORD_BITS: Final = 11
_WORDS: Final = 6


def short_hash(message: SecretBytes, label: bytes) -> bytes:
    """``H128(message, label)``: BLAKE2b-128."""
    return hashlib.blake2b(message, digest_size=ID_BYTES, person=label).digest()


def plain_hash(message: bytes) -> bytes:
    """``H(message)``: BLAKE2b-256 without a label."""
    return hashlib.blake2b(message, digest_size=HASH_BYTES).digest()


def wrapping_key(vrk: SecretBytes) -> bytearray:
    """RWK_e, which wraps the content keys of an epoch."""
    return derive(vrk, 1, _VRK_CONTEXT)


def blinding_key(vrk: SecretBytes) -> bytearray:
    """IBK_e, for ``index_token``: fixed by the format's vectors, nothing is blinded so far."""
    return derive(vrk, 2, _VRK_CONTEXT)


def export_key(vrk: SecretBytes) -> bytearray:
    """For files of an epoch: fixed by the format's vectors, no file is written under it so far."""
    return derive(vrk, 3, _VRK_CONTEXT)


def previous_epoch_key(vrk: SecretBytes) -> bytearray:
    """Wraps VRK_(e-1) under VRK_e."""
    return derive(vrk, 4, _VRK_CONTEXT)


def key_id(rwk: SecretBytes) -> bytes:
    """``kid``: 16 bytes that name a wrapping key without telling it."""
    return short_hash(rwk, KEY_ID)


def index_token(ibk: SecretBytes, field: str, value: str) -> bytes:
    """16 bytes that equal values of one field share inside an epoch (sync.md 11): fixed by the
    format's vectors, no row carries any so far.
    """
    message = field.encode() + b"\x00" + value.encode()
    return hashlib.blake2b(message, digest_size=ID_BYTES, key=ibk, person=INDEX_TOKEN).digest()


def word_indices(digest: bytes) -> tuple[int, ...]:
    """The first 66 bits as six numbers below 2 048."""
    bits = int.from_bytes(digest, "big") >> (len(digest) * 8 - _WORDS * _WORD_BITS)
    mask = (1 << _WORD_BITS) - 1
    return tuple(bits >> _WORD_BITS * (_WORDS - 1 - i) & mask for i in range(_WORDS))


def words(digest: bytes) -> tuple[str, ...]:
    """Six BIP39 English words a person can compare."""
    wordlist = Mnemonic("english").wordlist
    return tuple(wordlist[index] for index in word_indices(digest))


def server_words(server_key: bytes) -> tuple[str, ...]:
    """The server's public key in words, shown where it is pinned."""
    return words(labelled_hash(server_key, SERVER_WORDS))
