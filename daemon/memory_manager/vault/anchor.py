"""The freshness record outside the database: layout, MAC, keyring copy and the check at unlock.

Contract: vault.md 9.2, 9.3. SQLCipher cannot tell an old page or file from the current one,
this can. Pure: the files are written by ``anchor_keeper``.
"""

from __future__ import annotations

import dataclasses
import enum
import struct
from typing import Final

from memory_manager.vault import kdf
from memory_manager.vault.errors import AnchorDamaged

ANCHOR_BYTES = 220
COPY_BYTES = 64
ZERO_HASH = bytes(32)
_LABEL = b"mlk-anchor-v1"
_BODY = struct.Struct(">4sB3x16s16s16sQQ32sQ32sI32sQ")
_COPY = struct.Struct(">QQQI4x32s")
_MAGIC = b"MLKA"
_VERSION = 1


@dataclasses.dataclass(frozen=True, slots=True)
class Progress:
    """The four numbers that only grow."""

    generation: int
    own_seq: int = 0
    n: int = 0
    min_epoch: int = 0

    def not_after(self, other: Progress) -> bool:
        """Whether every number is at most the other's."""
        return (
            self.generation <= other.generation
            and self.own_seq <= other.own_seq
            and self.n <= other.n
            and self.min_epoch <= other.min_epoch
        )


@dataclasses.dataclass(frozen=True, slots=True)
class SyncMark:
    """How far sync got, with the hashes that prove it; all zero while sync is off."""

    own_seq: int = 0
    own_head: bytes = ZERO_HASH
    n: int = 0
    global_head: bytes = ZERO_HASH
    min_epoch: int = 0
    roster_hash: bytes = ZERO_HASH

    def progress(self, generation: int) -> Progress:
        return Progress(generation, self.own_seq, self.n, self.min_epoch)


NO_SYNC: Final = SyncMark()


@dataclasses.dataclass(frozen=True, slots=True)
class Identity:
    """The ids that anchor, slot file, device key and database must share; 16 bytes each."""

    vault: bytes
    install: bytes
    device: bytes


@dataclasses.dataclass(frozen=True, slots=True)
class Anchor:
    """The whole record. Hashes are zero while the vault has no server."""

    identity: Identity
    progress: Progress
    last_auth: int  # unix seconds of the last passphrase entry
    own_head: bytes = ZERO_HASH
    global_head: bytes = ZERO_HASH
    roster_hash: bytes = ZERO_HASH

    def at(self, generation: int, mark: SyncMark) -> Anchor:
        """The record of a database that has reached this."""
        return dataclasses.replace(
            self,
            progress=mark.progress(generation),
            own_head=mark.own_head,
            global_head=mark.global_head,
            roster_hash=mark.roster_hash,
        )

    def body(self) -> bytes:
        """The 188 bytes under the MAC."""
        return _BODY.pack(
            _MAGIC,
            _VERSION,
            self.identity.vault,
            self.identity.install,
            self.identity.device,
            self.progress.generation,
            self.progress.own_seq,
            self.own_head,
            self.progress.n,
            self.global_head,
            self.progress.min_epoch,
            self.roster_hash,
            self.last_auth,
        )

    def encode(self, mac_key: kdf.SecretBytes) -> bytes:
        """The 220 bytes of ``anchor.bin``."""
        body = self.body()
        return body + kdf.keyed_hash(mac_key, body, _LABEL)

    def keyring_copy(self) -> bytes:
        """The 64 bytes kept in the OS keyring."""
        progress = self.progress
        return _COPY.pack(
            progress.generation,
            progress.own_seq,
            progress.n,
            progress.min_epoch,
            kdf.labelled_hash(self.body(), _LABEL),
        )


def parse_anchor(data: bytes, mac_key: kdf.SecretBytes) -> Anchor:
    """Read ``anchor.bin``; AnchorDamaged unless length, MAC, magic and version are right."""
    if len(data) != ANCHOR_BYTES:
        raise AnchorDamaged
    body, mac = data[: _BODY.size], data[_BODY.size :]
    if not kdf.equal(kdf.keyed_hash(mac_key, body, _LABEL), mac):
        raise AnchorDamaged
    magic, version, vault, install, device, generation, seq, head, n, g, epoch, roster, auth = (
        _BODY.unpack(body)
    )
    if magic != _MAGIC or version != _VERSION or body[5:8] != bytes(3):
        raise AnchorDamaged
    return Anchor(
        identity=Identity(vault, install, device),
        progress=Progress(generation, seq, n, epoch),
        last_auth=auth,
        own_head=head,
        global_head=g,
        roster_hash=roster,
    )


@dataclasses.dataclass(frozen=True, slots=True)
class KeyringCopy:
    """What the keyring remembers of an anchor."""

    progress: Progress
    anchor_hash: bytes

    def names(self, anchor: Anchor) -> bool:
        """Whether this is the copy of exactly this anchor."""
        return kdf.equal(self.anchor_hash, kdf.labelled_hash(anchor.body(), _LABEL))


def parse_keyring_copy(data: bytes) -> KeyringCopy | None:
    """Read the keyring item; None when its length is wrong."""
    if len(data) != COPY_BYTES:
        return None
    generation, seq, n, epoch, anchor_hash = _COPY.unpack(data)
    return KeyringCopy(Progress(generation, seq, n, epoch), anchor_hash)


class Freshness(enum.StrEnum):
    """The outcome of the check at unlock; every value but FRESH stops writes."""

    FRESH = "fresh"
    DATABASE_ROLLED_BACK = "database_rolled_back"
    ANCHOR_ROLLED_BACK = "anchor_rolled_back"
    ANCHOR_DAMAGED = "anchor_damaged"
    WRONG_IDENTITY = "wrong_identity"


def check_freshness(
    anchor_file: bytes | None,
    mac_key: kdf.SecretBytes,
    copy: KeyringCopy | None,
    database: Progress,
    identity: Identity,
) -> tuple[Freshness, Anchor | None]:
    """Compare keyring copy <= anchor <= database and the ids (vault.md 9.3).

    A missing anchor with a keyring copy is a rolled back one; without a copy it is a damaged one,
    since setup never leaves a vault without it and deleting it must not switch the check off.
    """
    if anchor_file is None:
        missing = Freshness.ANCHOR_DAMAGED if copy is None else Freshness.ANCHOR_ROLLED_BACK
        return missing, None
    try:
        anchor = parse_anchor(anchor_file, mac_key)
    except AnchorDamaged:
        return Freshness.ANCHOR_DAMAGED, None
    if anchor.identity != identity:
        return Freshness.WRONG_IDENTITY, anchor
    if copy is not None and not copy.progress.not_after(anchor.progress):
        return Freshness.ANCHOR_ROLLED_BACK, anchor
    if not anchor.progress.not_after(database):
        return Freshness.DATABASE_ROLLED_BACK, anchor
    return Freshness.FRESH, anchor
