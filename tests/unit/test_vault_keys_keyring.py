"""T51, the part without a vault: only named backends count, and none can block us for long."""

from __future__ import annotations

import time

import keyring.backend
import pytest
from keyring.backends.chainer import ChainerBackend
from keyring.backends.fail import Keyring as FailKeyring
from keyring.backends.null import Keyring as NullKeyring
from vault_harness import ProcessKeyring, accepted, current_keyring

from memory_manager.vault.errors import LockReason
from memory_manager.vault.os_keyring import REAL_BACKENDS, KeyringUnavailable, find_keyring


class PlaintextKeyring(ProcessKeyring):
    """Stands for the plaintext file backends: any class that is not on the list."""


class Chain(ChainerBackend):
    """A chain under another name is not a chain we know."""


@pytest.fixture
def backend() -> ProcessKeyring:
    return ProcessKeyring()


@pytest.mark.parametrize("kind", [NullKeyring, FailKeyring, ProcessKeyring, PlaintextKeyring])
def test_unlisted_backends_count_as_no_keyring(kind: type[keyring.backend.KeyringBackend]) -> None:
    with current_keyring(kind()):
        assert find_keyring() is None


def test_a_subclass_of_an_accepted_backend_is_not_accepted() -> None:
    with current_keyring(PlaintextKeyring()):
        assert find_keyring(also_accept=[ProcessKeyring]) is None


def test_the_list_names_classes_that_exist() -> None:
    import importlib

    for name in REAL_BACKENDS:
        module, _, kind = name.rpartition(".")
        assert hasattr(importlib.import_module(module), kind), name


def test_of_a_chain_the_first_real_member_is_taken(backend: ProcessKeyring) -> None:
    chain = ChainerBackend()
    type(chain).backends = [PlaintextKeyring(), backend]  # type: ignore[assignment,misc]
    try:
        with current_keyring(chain):
            found = find_keyring(also_accept=[ProcessKeyring])
            assert find_keyring() is None
    finally:
        del type(chain).backends
    assert found is not None
    found.write("name", b"value")
    assert list(backend.items) == [("memlocket", "name")]


def test_items_round_trip_and_the_proof_leaves_nothing(backend: ProcessKeyring) -> None:
    store = accepted(backend)
    store.prove()
    assert backend.items == {}
    store.write("name", bytes(range(64)))
    assert store.read("name") == bytes(range(64))
    store.delete("name")
    store.delete("name")
    assert store.read("name") is None
    with pytest.raises(ValueError, match="64 bytes"):
        store.write("name", bytes(65))


def test_an_item_that_is_not_ours_reads_as_none(backend: ProcessKeyring) -> None:
    backend.set_password("memlocket", "name", "not hexadecimal")
    assert accepted(backend).read("name") is None


class Forgetful(ProcessKeyring):
    def set_password(self, service: str, username: str, password: str) -> None:
        pass


class Undeletable(ProcessKeyring):
    def delete_password(self, service: str, username: str) -> None:
        pass


class Falsifying(ProcessKeyring):
    def get_password(self, service: str, username: str) -> str | None:
        return "00" * 32


@pytest.mark.parametrize("kind", [Forgetful, Undeletable, Falsifying])
def test_the_proof_catches_backends_that_do_not_keep_their_word(kind) -> None:
    with pytest.raises(KeyringUnavailable) as refused:
        accepted(kind()).prove()
    assert refused.value.reason is LockReason.NO_KEYRING


def test_a_locked_keyring_says_so(backend: ProcessKeyring) -> None:
    store = accepted(backend)
    backend.locked = True
    with pytest.raises(KeyringUnavailable) as refused:
        store.read("name")
    assert refused.value.reason is LockReason.KEYRING_LOCKED
    assert refused.value.__cause__ is None


class Exploding(ProcessKeyring):
    def get_password(self, service: str, username: str) -> str | None:
        raise RuntimeError(f"secret of {username}")


def test_whatever_a_backend_raises_stays_inside() -> None:
    with pytest.raises(KeyringUnavailable) as refused:
        accepted(Exploding()).read("name")
    assert "secret" not in str(refused.value)


def test_a_hanging_keyring_gives_up_once_and_then_fails_at_once(backend: ProcessKeyring) -> None:
    store = accepted(backend, timeout_seconds=2.0)
    backend.release.clear()
    try:
        begin = time.monotonic()
        with pytest.raises(KeyringUnavailable) as refused:
            store.read("name")
        assert 2.0 <= time.monotonic() - begin < 15
        assert refused.value.reason is LockReason.KEYRING_LOCKED
        begin = time.monotonic()
        with pytest.raises(KeyringUnavailable):
            store.read("name")
        assert time.monotonic() - begin < 1.5, "it waited once more"
    finally:
        backend.release.set()
    deadline = time.monotonic() + 10
    while True:
        try:
            assert store.read("name") is None
            break
        except KeyringUnavailable:
            assert time.monotonic() < deadline
            time.sleep(0.01)
