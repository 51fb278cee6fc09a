"""The backup file: a plain tar of a manifest, a reduced slot file, the database and images.

Contract: vault.md 10. Everything in it is either public (salts, parameters, sizes) or encrypted.
The database has a key of its own; the manifest is bound to that key's wrapping, so nothing in it
can be changed unseen.
"""

from __future__ import annotations

import dataclasses
import hashlib
import io
import json
import os
import re
import tarfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

from memory_manager.vault import kdf, slots
from memory_manager.vault.errors import BackupRefused, SlotDamaged
from memory_manager.vault.slots import SlotFile

MANIFEST = "manifest.json"
SLOT_FILE = "vault.slots"
DATABASE = "vault.db"
_IMAGE = re.compile(r"images/[A-Za-z0-9_-][A-Za-z0-9._-]{0,200}")
_FORMAT = "memlocket-backup"
_VERSION = 1
_LABEL = b"mlk-backup-v1"
_MAX_MANIFEST_BYTES = 16 * 1024 * 1024
_CHUNK_BYTES = 1024 * 1024

Progress = Callable[[int, int], None]
"""Bytes done, bytes in all."""


@dataclasses.dataclass(frozen=True, slots=True)
class Manifest:
    """What a bundle says of itself. ``files`` maps member names to size and hex SHA-256."""

    vault: bytes
    install: bytes
    created_at_ms: int
    generation: int
    salt: bytes
    files: Mapping[str, tuple[int, str]]
    nonce: bytes = b""
    sealed_key: bytes = b""

    def _public(self) -> dict[str, Any]:
        return {
            "format": _FORMAT,
            "v": _VERSION,
            "vault": self.vault.hex(),
            "install": self.install.hex(),
            "created_at_ms": self.created_at_ms,
            "generation": self.generation,
            "salt": self.salt.hex(),
            "files": {name: list(entry) for name, entry in self.files.items()},
        }

    def context(self) -> bytes:
        """Associated data of the wrapped key: a hash over everything else."""
        return _LABEL + kdf.labelled_hash(_canonical(self._public()), _LABEL)

    def encode(self) -> bytes:
        body = self._public()
        body["key"] = {"nonce": self.nonce.hex(), "ct": self.sealed_key.hex()}
        return _canonical(body)


def seal_manifest(
    manifest: Manifest, backup_key: kdf.SecretBytes, wrap_key: kdf.SecretBytes
) -> Manifest:
    """The manifest with the database's key wrapped into it."""
    nonce = kdf.new_nonce()
    sealed = kdf.seal(wrap_key, nonce, backup_key, manifest.context())
    return dataclasses.replace(manifest, nonce=nonce, sealed_key=sealed)


def open_backup_key(manifest: Manifest, wrap_key: kdf.SecretBytes) -> bytearray:
    """The database's key; BackupRefused when key or manifest were changed."""
    try:
        return kdf.open_sealed(wrap_key, manifest.nonce, manifest.sealed_key, manifest.context())
    except kdf.SealBroken:
        raise BackupRefused from None


def parse_manifest(data: bytes) -> Manifest:
    """Read a manifest; BackupRefused for anything but the exact form."""
    try:
        body = json.loads(data)
        manifest = Manifest(
            vault=bytes.fromhex(body["vault"]),
            install=bytes.fromhex(body["install"]),
            created_at_ms=int(body["created_at_ms"]),
            generation=int(body["generation"]),
            salt=bytes.fromhex(body["salt"]),
            files={name: (int(size), str(sha)) for name, (size, sha) in body["files"].items()},
            nonce=bytes.fromhex(body["key"]["nonce"]),
            sealed_key=bytes.fromhex(body["key"]["ct"]),
        )
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        raise BackupRefused from None
    if manifest.encode() != data:
        raise BackupRefused
    return manifest


def file_entry(path: Path) -> tuple[int, str]:
    """Size and hex SHA-256 of a file."""
    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as stream:
        for chunk in iter(lambda: stream.read(_CHUNK_BYTES), b""):
            digest.update(chunk)
            size += len(chunk)
    return size, digest.hexdigest()


def write_bundle(
    descriptor: int,
    manifest: Manifest,
    slot_file: bytes,
    files: Mapping[str, Path],
    progress: Progress | None,
) -> None:
    """Write the tar to an open descriptor, durable, and leave the descriptor open."""
    total = sum(size for size, _ in manifest.files.values())
    done = 0
    with (
        os.fdopen(os.dup(descriptor), "wb") as stream,
        tarfile.open(fileobj=stream, mode="w|", format=tarfile.USTAR_FORMAT) as archive,
    ):
        _add(archive, MANIFEST, io.BytesIO(manifest.encode()), len(manifest.encode()))
        _add(archive, SLOT_FILE, io.BytesIO(slot_file), len(slot_file))
        for name, path in files.items():
            size, _ = manifest.files[name]
            with open(path, "rb") as source:
                _add(archive, name, source, size)
            done += size
            if progress is not None:
                progress(done, total)
    os.fsync(descriptor)


def _add(archive: tarfile.TarFile, name: str, source: IO[bytes], size: int) -> None:
    member = tarfile.TarInfo(name)
    member.size = size
    member.mode = 0o600
    archive.addfile(member, source)


@dataclasses.dataclass(frozen=True, slots=True)
class Bundle:
    """A bundle's small parts; ``extract`` gets the large ones."""

    path: Path
    manifest: Manifest
    slot_file: SlotFile


def read_bundle(path: Path) -> Bundle:
    """Read manifest and slot file; BackupRefused for anything that is not one of ours."""
    try:
        with tarfile.open(path, mode="r:") as archive:
            members = {member.name: member for member in _members(archive)}
            manifest = parse_manifest(_small(archive, members, MANIFEST, _MAX_MANIFEST_BYTES))
            slot_data = _small(archive, members, SLOT_FILE, slots.MAX_SLOT_FILE_BYTES)
            slot_file = slots.parse(slot_data)
    except FileNotFoundError:
        raise BackupRefused(f"There is no backup at {path}.") from None
    except (tarfile.TarError, SlotDamaged, OSError, EOFError):
        raise BackupRefused from None
    expected = {MANIFEST, *manifest.files}
    size_and_hash = (len(slot_data), hashlib.sha256(slot_data).hexdigest())
    if (
        members.keys() != expected
        or DATABASE not in expected
        or manifest.files.get(SLOT_FILE) != size_and_hash
        or slot_file.vault != manifest.vault
        or slot_file.install != manifest.install
    ):
        raise BackupRefused
    return Bundle(path, manifest, slot_file)


def extract(
    bundle: Bundle, place: Callable[[str], Path | None], progress: Progress | None = None
) -> None:
    """Copy the members for which ``place`` names a path; BackupRefused when a hash differs.

    ``place`` is asked for the database and the images, with names that hold no path tricks; with
    None the member is only checked.
    """
    total = sum(size for size, _ in bundle.manifest.files.values())
    done = 0
    try:
        with tarfile.open(bundle.path, mode="r:") as archive:
            for member in _members(archive):
                if member.name in (MANIFEST, SLOT_FILE):
                    continue
                source = archive.extractfile(member)
                if source is None:
                    raise BackupRefused
                found = _copy(source, place(member.name))
                if found != bundle.manifest.files.get(member.name):
                    raise BackupRefused
                done += found[0]
                if progress is not None:
                    progress(done, total)
    except (tarfile.TarError, EOFError):
        raise BackupRefused from None


def _copy(source: IO[bytes], target: Path | None) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = None if target is None else os.open(target, flags, 0o600)
    try:
        for chunk in iter(lambda: source.read(_CHUNK_BYTES), b""):
            digest.update(chunk)
            size += len(chunk)
            if descriptor is not None:
                view = memoryview(chunk)
                while view:
                    view = view[os.write(descriptor, view) :]
        if descriptor is not None:
            os.fsync(descriptor)
    finally:
        if descriptor is not None:
            os.close(descriptor)
    return size, digest.hexdigest()


def _members(archive: tarfile.TarFile) -> Iterator[tarfile.TarInfo]:
    """Members of the expected names and kind, each once; nothing else is tolerated."""
    seen: set[str] = set()
    for member in archive:
        known = member.name in (MANIFEST, SLOT_FILE, DATABASE) or _IMAGE.fullmatch(member.name)
        if not known or not member.isreg() or member.name in seen:
            raise BackupRefused
        seen.add(member.name)
        yield member


def _small(
    archive: tarfile.TarFile, members: Mapping[str, tarfile.TarInfo], name: str, limit: int
) -> bytes:
    member = members.get(name)
    if member is None or member.size > limit:
        raise BackupRefused
    source = archive.extractfile(member)
    if source is None:
        raise BackupRefused
    return source.read()


def _canonical(body: object) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode("ascii")
