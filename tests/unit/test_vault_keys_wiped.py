"""Key material is zero after an act of the owner that failed, wherever it failed."""

from __future__ import annotations

import errno
import functools
import inspect
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from vault_harness import (
    OTHER_PASSPHRASE,
    PASSPHRASE,
    ProcessKeyring,
    VaultHome,
    accepted,
)

from memory_manager.vault import (
    argon,
    credential_slots,
    device_key,
    kdf,
    key_file,
    recovery_words,
    restore,
    setup,
    slot_changes,
    slot_files,
)
from memory_manager.vault.lifecycle import VaultLifecycle
from memory_manager.vault.process_memory import give_back_freed_memory, keep_out_of_swap


class Stop(Exception):
    """Ends an act in its middle."""


def stop(*_: object, **__: object) -> Any:
    raise Stop


class Watched:
    """Every key buffer that the real functions made while ``on``."""

    def __init__(self) -> None:
        self.buffers: list[bytearray] = []
        self.on = False

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def noting(*args: Any, **more: Any) -> Any:
            made = function(*args, **more)
            if self.on and isinstance(made, bytearray):
                self.buffers.append(made)
            return made

        return noting


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    found = Watched()
    for module, name in (
        (kdf, "new_key"),
        (kdf, "derive"),
        (kdf, "open_sealed"),
        (argon, "passphrase_key"),
        (recovery_words, "new_entropy"),
        (recovery_words, "entropy_of"),
        (key_file, "read_key_file"),
        (setup, "read_key_file"),
        (restore, "read_key_file"),
        (slot_changes, "read_key_file"),
    ):
        monkeypatch.setattr(module, name, found.around(getattr(module, name)))
    assert "derive(" in inspect.getsource(kdf.database_key)
    return found


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vault with passphrase, words and a key file, and a backup of it beside it."""
    root = tmp_path_factory.mktemp("wiped") / "data"
    root.mkdir(mode=0o700)
    key_file.create_key_file(root / "vault.key")
    home = VaultHome(root).create(insecure_key_file=root / "vault.key")
    with home.opened() as lifecycle:
        lifecycle.backup(root / "saved.backup")
    return root


@pytest.fixture
def home(made: Path, tmp_path: Path) -> VaultHome:
    shutil.copytree(made, tmp_path / "data")
    return VaultHome(tmp_path / "data")


Act = Callable[[VaultHome, pytest.MonkeyPatch, Watched], None]


def within(act: Callable[[VaultLifecycle], object]) -> Act:
    """The act on an unlocked vault; only what is made during the act counts."""

    def run(home: VaultHome, _: pytest.MonkeyPatch, watched: Watched) -> None:
        with home.opened() as lifecycle:
            watched.on = True
            try:
                act(lifecycle)
            finally:
                watched.on = False

    return run


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, "no space")


def change_on_a_full_disk(home: VaultHome, patch: pytest.MonkeyPatch, watched: Watched) -> None:
    patch.setattr(slot_files, "write_private", full_disk)
    watched.on = True
    home.lifecycle().change_passphrase(PASSPHRASE, OTHER_PASSPHRASE)


def seal_fails(act: Callable[[VaultLifecycle], object]) -> Act:
    def run(home: VaultHome, patch: pytest.MonkeyPatch, watched: Watched) -> None:
        with home.opened() as lifecycle:
            patch.setattr(credential_slots.slots, "make_slot", stop)
            watched.on = True
            try:
                act(lifecycle)
            finally:
                watched.on = False
                patch.undo()

    return run


def broken_keyring(home: VaultHome, _: pytest.MonkeyPatch, watched: Watched) -> None:
    class Forgetful(ProcessKeyring):
        def set_password(self, service: str, username: str, password: str) -> None:
            pass

    home.keyring = accepted(Forgetful())
    within(lambda lifecycle: lifecycle.enable_keyring())(home, _, watched)


def setup_refused(home: VaultHome, _: pytest.MonkeyPatch, watched: Watched) -> None:
    watched.on = True
    VaultHome(home.root / "new").create(
        confirm_words=lambda _: False, insecure_key_file=home.root / "vault.key"
    )


def setup_breaks(home: VaultHome, _: pytest.MonkeyPatch, watched: Watched) -> None:
    watched.on = True
    VaultHome(home.root / "new").create(migrate=stop)


def restored(home: VaultHome, **options: Any) -> None:
    given: dict[str, Any] = {"passphrase": PASSPHRASE, "parameters": argon.FLOOR}
    target = home.root / "elsewhere" / "vault"
    restore.restore_backup(home.root / "saved.backup", target, **(given | options))


def restore_refused(home: VaultHome, _: pytest.MonkeyPatch, watched: Watched) -> None:
    watched.on = True
    restored(home, confirm_words=lambda _: False)


def restore_breaks(home: VaultHome, patch: pytest.MonkeyPatch, watched: Watched) -> None:
    patch.setattr(device_key, "encode", stop)
    watched.on = True
    restored(home, insecure_key_file=home.root / "vault.key")


ACTS: dict[str, Act] = {
    "rekey without the key file": within(lambda lifecycle: lifecycle.rekey(PASSPHRASE)),
    "rekey with wrong words": within(
        lambda lifecycle: lifecycle.rekey(PASSPHRASE, recovery_words="abandon " * 23 + "art")
    ),
    "passphrase on a full disk": change_on_a_full_disk,
    "new words": seal_fails(lambda lifecycle: lifecycle.new_recovery_words()),
    "change": seal_fails(
        lambda lifecycle: lifecycle.change_passphrase(PASSPHRASE, OTHER_PASSPHRASE)
    ),
    "keyring": broken_keyring,
    "setup refused": setup_refused,
    "setup breaks": setup_breaks,
    "restore refused": restore_refused,
    "restore breaks": restore_breaks,
}


@pytest.mark.parametrize("name", list(ACTS))
def test_a_failed_act_leaves_no_key_behind(
    home: VaultHome, monkeypatch: pytest.MonkeyPatch, watched: Watched, name: str
) -> None:
    with pytest.raises(Exception):  # noqa: B017, PT011 - each fails in its own way
        ACTS[name](home, monkeypatch, watched)
    assert watched.buffers, "the act made no keys: nothing was watched"
    left = [buffer for buffer in watched.buffers if any(buffer)]
    assert left == []


def locked_kib() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmLck:"):
            return int(line.split()[1])
    pytest.skip("needs Linux: reads /proc")


def test_the_pages_of_an_open_vaults_keys_stay_out_of_swap() -> None:
    buffer = bytearray(1 << 16)
    before = locked_kib()
    if not keep_out_of_swap(buffer):
        pytest.skip("may not lock memory: raise `ulimit -l`, or run as root")
    assert locked_kib() >= before + 64
    buffer.extend(b"it can still grow")


def test_memory_that_was_freed_goes_back_to_the_system() -> None:
    def resident_kib() -> int:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        return pages * 4

    blocks = [bytes(2_000) for _ in range(30_000)]
    last = blocks.pop()  # keeps the end of the heap in use, so that free() alone returns nothing
    full = resident_kib()
    blocks.clear()
    give_back_freed_memory()
    assert resident_kib() < full - 20_000
    assert len(last) == 2_000
