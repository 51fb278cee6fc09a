"""Names of the vault's files (vault.md 2) and the first look at them."""

from __future__ import annotations

import dataclasses
from pathlib import Path

HEAD_BYTES = 16
PLAINTEXT_MAGIC = b"SQLite format 3\0"
REKEY_SUFFIX = ".rekey"
PREVIOUS_SUFFIX = ".prev"


@dataclasses.dataclass(frozen=True, slots=True)
class VaultPaths:
    """All files of the vault in ``directory``."""

    directory: Path

    @property
    def database(self) -> Path:
        return self.directory / "vault.db"

    @property
    def wal(self) -> Path:
        return self.directory / "vault.db-wal"

    @property
    def shm(self) -> Path:
        return self.directory / "vault.db-shm"

    @property
    def rekey_copy(self) -> Path:
        return self.directory / f"vault.db{REKEY_SUFFIX}"

    @property
    def slots(self) -> Path:
        return self.directory / "vault.slots"

    @property
    def slots_previous(self) -> Path:
        return self.directory / f"vault.slots{PREVIOUS_SUFFIX}"

    @property
    def device_key(self) -> Path:
        return self.directory / "device.key"

    @property
    def device_key_previous(self) -> Path:
        return self.directory / f"device.key{PREVIOUS_SUFFIX}"

    @property
    def anchor(self) -> Path:
        return self.directory / "anchor.bin"

    @property
    def anchor_previous(self) -> Path:
        return self.directory / f"anchor.bin{PREVIOUS_SUFFIX}"

    @property
    def images(self) -> Path:
        return self.directory / "images"

    @property
    def ballast(self) -> Path:
        return self.directory / "ballast.bin"

    @property
    def building(self) -> Path:
        """Where setup and restore build a whole vault before the final rename."""
        return self.directory.with_name(f"{self.directory.name}.new")


def read_head(database: Path) -> bytes:
    """The first 16 bytes of a database file, fewer when it is shorter."""
    with open(database, "rb") as stream:
        return stream.read(HEAD_BYTES)
