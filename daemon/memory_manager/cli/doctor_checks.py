"""What ``memlocket doctor`` looks at. Each check yields findings and never raises."""

from __future__ import annotations

import dataclasses
import enum
import os
import shutil
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import cast

from memory_manager.base.directories import Directories
from memory_manager.base.errors import MemlocketError
from memory_manager.base.private_files import UnsafeFile
from memory_manager.cli.errors import code_of
from memory_manager.cli.output import section, size
from memory_manager.client.memory_client import MemoryClient
from memory_manager.vault.errors import NoVault
from memory_manager.vault.paths import PLAINTEXT_MAGIC, read_head

SAMPLED_MEMORIES = 50
SCANNED_TEXTS = 3
SAMPLE_CHARACTERS = 60
MIN_SAMPLE_CHARACTERS = 16
LOW_DISK_BYTES = 256 * 1024 * 1024


class Level(enum.StrEnum):
    OK = "ok"
    NOTE = "note"
    PROBLEM = "problem"


@dataclasses.dataclass(frozen=True, slots=True)
class Finding:
    """One line of the report; ``hint`` is a command or a place to look."""

    check: str
    level: Level
    text: str
    hint: str | None = None

    def as_json(self) -> dict[str, object]:
        return dataclasses.asdict(self)


def check_versions() -> Iterator[Finding]:
    """Versions that decide behaviour."""
    import platform
    from importlib.metadata import version

    from sqlcipher3 import dbapi2

    connection = dbapi2.connect(":memory:")
    try:
        (cipher,) = connection.execute("PRAGMA cipher_version").fetchone()
    finally:
        connection.close()
    text = (
        f"memlocket {version('memlocket')}, Python {platform.python_version()}, "
        f"SQLCipher {cipher}, SQLite {dbapi2.sqlite_version}"
    )
    yield Finding("versions", Level.OK, text)


def check_permissions(places: Directories) -> Iterator[Finding]:
    """Every file and folder of ours belongs to us and is closed to others; no links."""
    bad = list(_open_to_others(places))
    for path, why in bad[:10]:
        fix = f"Run: chmod go-rwx '{path}'" if "open" in why else None
        yield Finding("permissions", Level.PROBLEM, f"{path} {why}.", fix)
    if len(bad) > 10:
        yield Finding("permissions", Level.PROBLEM, f"{len(bad) - 10} more of this kind.")
    if not bad:
        yield Finding("permissions", Level.OK, "all files and folders are private")


def _open_to_others(places: Directories) -> Iterator[tuple[Path, str]]:
    roots = {places.data, places.config, places.log, places.cache, places.runtime}
    seen: set[Path] = set()
    for root in sorted(roots):
        if not root.is_dir():
            continue
        for path, info in ((root, root.lstat()), *entries_below(root)):
            if path in seen:
                continue
            seen.add(path)
            if stat.S_ISLNK(info.st_mode):
                yield path, "is a link"
            elif info.st_uid != os.getuid():
                yield path, "belongs to another user"
            elif info.st_mode & 0o077:
                yield path, "is open to others"
            elif not _is_plain(info.st_mode, path, places):
                yield path, "is not a regular file"


def entries_below(folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Every file and folder below, links as such; what goes meanwhile is left out, since a running
    daemon puts each new file in place by renaming it.
    """
    for root, folders, files in os.walk(folder):
        for name in sorted((*folders, *files)):
            path = Path(root, name)
            try:
                info = path.lstat()
            except FileNotFoundError:
                continue
            yield path, info


def _is_plain(mode: int, path: Path, places: Directories) -> bool:
    if path.parent == places.vault and path.name != "images":
        return stat.S_ISREG(mode)
    return stat.S_ISREG(mode) or stat.S_ISDIR(mode) or stat.S_ISSOCK(mode)


def check_database_head(places: Directories) -> Iterator[Finding]:
    """The database file must not start like a plain SQLite file."""
    database = places.vault / "vault.db"
    try:
        head = read_head(database)
    except FileNotFoundError:
        yield Finding("vault file", Level.NOTE, "there is no vault yet", NoVault.default_hint)
        return
    except OSError as error:
        yield Finding("vault file", Level.PROBLEM, f"vault.db cannot be read: {error.strerror}.")
        return
    except UnsafeFile as error:
        yield Finding("vault file", Level.PROBLEM, error.message, error.hint)
        return
    if head == PLAINTEXT_MAGIC:
        yield Finding(
            "vault file", Level.PROBLEM, "vault.db is not encrypted.", "Restore a backup."
        )
    else:
        yield Finding("vault file", Level.OK, "encrypted")


def check_disk(places: Directories) -> Iterator[Finding]:
    """Room for the write-ahead log and a copy-rekey."""
    folder = places.data if places.data.exists() else places.data.parent
    try:
        free = shutil.disk_usage(folder).free
    except OSError:
        return
    text = f"{free // 1024 // 1024} MiB free"
    yield Finding("disk", Level.OK if free > LOW_DISK_BYTES else Level.PROBLEM, text)


def check_swap(
    swaps: Path = Path("/proc/swaps"), block_devices: Path = Path("/sys/block")
) -> Iterator[Finding]:
    """Texts of an open vault may be swapped out: the swap should be encrypted, or in memory."""
    try:
        lines = swaps.read_text(encoding="utf-8").splitlines()[1:]
    except OSError:  # not Linux, or no such file
        return
    names = [line.split()[0] for line in lines if line.strip()]
    plain = [name for name in names if not _is_safe_swap(Path(name), block_devices)]
    if plain:
        text = f"not known to be encrypted: {', '.join(plain)}"
        hint = "An open vault's texts can get there; encrypt the swap, or lock the vault."
        yield Finding("swap", Level.NOTE, text, hint)
    elif names:
        yield Finding("swap", Level.OK, "encrypted, or in memory")


def _is_safe_swap(device: Path, block_devices: Path) -> bool:
    name = device.resolve().name
    if name.startswith("zram"):
        return True
    try:
        return (block_devices / name / "dm" / "uuid").read_text().startswith("CRYPT-")
    except OSError:
        return False


def check_service(client: MemoryClient | None) -> Iterator[Finding]:
    """The running service, its vault and its embeddings, by its own status."""
    if client is None:
        yield Finding("service", Level.NOTE, "not running", "Run: memlocket up")
        return
    try:
        status = client.status()
    except MemlocketError as error:
        yield Finding("service", Level.PROBLEM, error.message, error.hint)
        return
    yield Finding("service", Level.OK, f"running, version {client.connection.address.version}")
    yield from _check_vault(section(status, "vault"))
    yield from check_recovery(section(status, "vault"), section(status, "sync"))
    yield from _check_reading(client, section(status, "vault"))
    yield from _check_embeddings(section(status, "embeddings"))
    yield from _check_sanitizer(section(status, "sanitizer"))


def _check_vault(vault: Mapping[str, object]) -> Iterator[Finding]:
    state = str(vault.get("state", "unknown"))
    if state == "unlocked":
        yield Finding("vault", Level.OK, "unlocked")
    elif state in ("locked", "verifying", "absent"):
        hint = NoVault.default_hint if state == "absent" else "Run: memlocket unlock"
        yield Finding("vault", Level.NOTE, state, hint)
    else:
        yield Finding("vault", Level.PROBLEM, state, _WAYS_OUT.get(state))
    if vault.get("insecure"):
        yield Finding("vault key", Level.NOTE, "opened by an insecure key file")


def check_recovery(vault: Mapping[str, object], sync: Mapping[str, object]) -> Iterator[Finding]:
    """Whether there are recovery words on paper, by the service's own status."""
    state = vault.get("recovery")
    if state not in ("none", "unconfirmed"):
        return
    hint = "Run: memlocket recovery new"
    if sync.get("state") not in (None, "off"):  # these words may recover the shared memory, too
        hint = (
            "If you have them on paper, type them once: memlocket sync words"
            if state == "unconfirmed"
            else "Run: memlocket recovery new && memlocket sync words"
        )
    yield Finding("recovery", Level.NOTE, f"recovery words: {state}", hint)


_WAYS_OUT = {
    "rolled_back": "If you put an old copy there yourself: memlocket doctor --accept-rollback",
    "needs_repair": "Restore a backup: memlocket restore-backup FILE --replace",
    "read_only": "Free some space; writing starts again by itself.",
}


def _check_reading(client: MemoryClient, vault: Mapping[str, object]) -> Iterator[Finding]:
    if vault.get("state") not in ("unlocked", "read_only", "rolled_back"):
        return
    try:
        answer = client.search({"query": "*", "limit": 1})
    except MemlocketError as error:
        yield Finding("reading", Level.PROBLEM, error.message, error.hint)
        return
    if isinstance(answer.get("results"), list):
        yield Finding("reading", Level.OK, "memories can be read")


def check_clients(client: MemoryClient | None, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Clients that speak HTTP know a fixed address and a key: both must still be right."""
    from memory_manager.cli.connect.status import all_problems

    url = client.connection.address.url if client is not None else None
    for problem in all_problems(environ, url):
        yield Finding("clients", Level.PROBLEM, problem.text, f"Run: {problem.way_out}")


def check_integrity(client: MemoryClient | None) -> Iterator[Finding]:
    """Every page of the open vault: page codes, structure, and memories that cannot be read."""
    if client is None:
        return
    try:
        report = client.check_vault()
    except MemlocketError as error:
        if code_of(error) not in ("vault_locked", "no_vault"):
            yield Finding("integrity", Level.PROBLEM, error.message, error.hint)
        return
    if report.get("ok"):
        yield Finding("integrity", Level.OK, "every page and table is whole")
        return
    damaged = len(cast("list[object]", report.get("pages") or []))
    text = f"{damaged} damaged pages, {report.get('lost_memories')} memories cannot be read"
    yield Finding("integrity", Level.PROBLEM, text, _WAYS_OUT["needs_repair"])


def check_plaintext(client: MemoryClient | None, places: Directories) -> Iterator[Finding]:
    """Texts of some memories must not stand in any file of ours, however disguised."""
    from memory_manager.vault.canary import scan

    if client is None:
        return
    try:
        listed = client.list_memories({"limit": SAMPLED_MEMORIES})
    except MemlocketError:
        return  # locked: nothing to compare with
    texts = [_sample(item) for item in cast("list[Mapping[str, object]]", listed.get("results"))]
    known = sorted({text for text in texts if len(text) >= MIN_SAMPLE_CHARACTERS}, key=len)
    if not known:
        return
    folders = {places.config, places.log, places.cache, places.runtime}
    if places.data.is_dir():  # model files are large and hold no memories
        folders |= {path for path in places.data.iterdir() if path.is_dir()} - {places.models}
    report = scan(sorted(folders), known[-SCANNED_TEXTS:])
    for hit in report.hits:
        yield Finding("plaintext", Level.PROBLEM, f"{hit.path} holds text of a memory.")
    if not report.hits:
        text = f"no memory text in {report.files} files ({size(report.size_bytes)})"
        yield Finding("plaintext", Level.OK, text)


def _sample(item: Mapping[str, object]) -> str:
    return str(item.get("content", "")).strip().split("\n")[0][:SAMPLE_CHARACTERS]


def _check_sanitizer(sanitizer: Mapping[str, object]) -> Iterator[Finding]:
    """Whether stored text was looked at under the present rules."""
    if not sanitizer:
        return
    failed, error = sanitizer.get("failed"), sanitizer.get("error")
    text = f"rule set {sanitizer.get('ruleset')}, stored text: {sanitizer.get('state')}"
    if failed or error:
        text = f"{text}; {failed} memories could not be cleaned{f': {error}' if error else ''}"
        yield Finding("sanitizer", Level.PROBLEM, text, "Run: memlocket doctor --rescan")
    else:
        yield Finding("sanitizer", Level.OK, text)


def _check_embeddings(embeddings: Mapping[str, object]) -> Iterator[Finding]:
    if not embeddings:
        return
    if embeddings.get("fulltext_error"):
        text = f"the index of words was not brought up to date: {embeddings['fulltext_error']}"
        yield Finding("word index", Level.PROBLEM, text, "Run: memlocket doctor --rebuild fulltext")
    state = str(embeddings.get("state", "unknown"))
    remedy = embeddings.get("remedy")
    healthy = state in ("ready", "stopped", "starting") and not remedy
    text = f"{state} {embeddings.get('model_key') or ''}".strip()
    yield Finding(
        "embeddings", Level.OK if healthy else Level.NOTE, text, str(remedy) if remedy else None
    )


def check_models(places: Directories) -> Iterator[Finding]:
    """Every prepared model by the hashes of its manifest."""
    from memory_manager.recall.models.installed import damaged_files, list_models
    from memory_manager.recall.models.sources import KNOWN_MODELS

    for model in list_models(places.models):
        bad = damaged_files(model)
        if bad:
            yield Finding(
                "model",
                Level.PROBLEM,
                f"{model.folder.name}: {', '.join(bad)} damaged.",
                f"Run: memlocket model prepare {model.manifest.id}"
                if model.manifest.id in KNOWN_MODELS
                else "Prepare it again from its folder: memlocket model prepare ./FOLDER",
            )
        else:
            yield Finding("model", Level.OK, f"{model.folder.name}: every file as prepared")
