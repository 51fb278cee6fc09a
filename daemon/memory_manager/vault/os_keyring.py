"""The operating system's key store: named real backends only, each call with a deadline.

Contract: vault.md 4.2. A backend that is not on the list (null, fail, plaintext files) counts as no
keyring at all; there is no fallback.
"""

from __future__ import annotations

import contextlib
import hmac
import queue
import secrets
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TypeVar

from memory_manager.vault.errors import LockReason

if TYPE_CHECKING:
    from keyring.backend import KeyringBackend

Result = TypeVar("Result")

REAL_BACKENDS = frozenset(
    {
        "keyring.backends.macOS.Keyring",
        "keyring.backends.Windows.WinVaultKeyring",
        "keyring.backends.SecretService.Keyring",
        "keyring.backends.kwallet.DBusKeyring",
        "keyring.backends.kwallet.DBusKeyringKWallet4",
    }
)
"""Full class names; a subclass or a class of the same name elsewhere does not count."""

CALL_SECONDS = 10.0
_SERVICE = "memlocket"
_CHAINER = "keyring.backends.chainer.ChainerBackend"
_MAX_PAYLOAD_BYTES = 64


class KeyringUnavailable(Exception):
    """No usable key store now; ``reason`` is NO_KEYRING or KEYRING_LOCKED."""

    def __init__(self, reason: LockReason) -> None:
        self.reason = reason
        super().__init__(reason.value)


def find_keyring(
    *,
    also_accept: Iterable[type[KeyringBackend]] = (),
    timeout_seconds: float = CALL_SECONDS,
) -> OsKeyring | None:
    """The user's keyring if its backend is a real one; None otherwise, also when looking hangs.

    A chain of backends gives its first real member. ``also_accept`` names further classes exactly;
    it is for tests and has no counterpart in any setting.
    """
    accepted = REAL_BACKENDS | {_name(kind) for kind in also_accept}
    calls = _DeadlineCalls(timeout_seconds)
    try:
        backend = calls.run(lambda: _first_real(accepted))
    except KeyringUnavailable:
        return None
    return None if backend is None else OsKeyring(backend, calls)


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _first_real(accepted: frozenset[str]) -> KeyringBackend | None:
    import keyring

    found = keyring.get_keyring()
    candidates: Iterable[KeyringBackend] = (found,)
    if _name(type(found)) == _CHAINER:
        candidates = getattr(found, "backends", ())
    return next((item for item in candidates if _name(type(item)) in accepted), None)


class OsKeyring:
    """Small binary items in the user's key store, by name. Every call ends within the deadline.

    Raises KeyringUnavailable(KEYRING_LOCKED) when the store is locked, broken or does not answer.
    """

    def __init__(self, backend: KeyringBackend, calls: _DeadlineCalls) -> None:
        self._backend = backend
        self._calls = calls

    def prove(self) -> None:
        """Write, read and delete a random value; KeyringUnavailable unless all three work."""
        name = f"proof-{secrets.token_hex(8)}"
        value = secrets.token_bytes(32)
        try:
            self.write(name, value)
            if not hmac.compare_digest(self.read(name) or b"", value):
                raise KeyringUnavailable(LockReason.NO_KEYRING)
        finally:
            with contextlib.suppress(KeyringUnavailable):
                self.delete(name)
        if self.read(name) is not None:
            raise KeyringUnavailable(LockReason.NO_KEYRING)

    def read(self, name: str) -> bytes | None:
        """The item, None when there is none or it is not one of ours."""
        text = self._calls.run(lambda: self._backend.get_password(_SERVICE, name))
        if text is None:
            return None
        try:
            return bytes.fromhex(text)
        except ValueError:
            return None

    def write(self, name: str, value: bytes | bytearray) -> None:
        """Store at most 64 bytes."""
        if len(value) > _MAX_PAYLOAD_BYTES:
            raise ValueError("a keyring item has at most 64 bytes")

        def store() -> None:
            self._backend.set_password(_SERVICE, name, value.hex())

        self._calls.run(store)

    def delete(self, name: str) -> None:
        """Remove an item; a missing one is fine."""
        from keyring.errors import PasswordDeleteError

        def remove() -> None:
            with contextlib.suppress(PasswordDeleteError):
                self._backend.delete_password(_SERVICE, name)

        self._calls.run(remove)


class _DeadlineCalls:
    """Runs calls in threads of their own and gives up on them after the deadline.

    A call that hangs cannot be stopped; while one hangs, further calls fail at once instead of
    piling up threads.
    """

    def __init__(self, timeout_seconds: float) -> None:
        self._timeout_seconds = timeout_seconds
        self._hanging: threading.Thread | None = None
        self._lock = threading.Lock()

    def run(self, call: Callable[[], Result]) -> Result:
        answers: queue.SimpleQueue[tuple[Result | None, Exception | None]] = queue.SimpleQueue()

        def work() -> None:
            try:
                answers.put((call(), None))
            except Exception as error:  # backends raise what their D-Bus or OS layer raises
                answers.put((None, error))

        with self._lock:
            if self._hanging is not None and self._hanging.is_alive():
                raise KeyringUnavailable(LockReason.KEYRING_LOCKED)
            thread = threading.Thread(target=work, name="os-keyring", daemon=True)
            thread.start()
            try:
                result, error = answers.get(timeout=self._timeout_seconds)
            except queue.Empty:
                self._hanging = thread
                raise KeyringUnavailable(LockReason.KEYRING_LOCKED) from None
        if error is not None:
            raise KeyringUnavailable(_reason_of(error)) from None
        return result  # type: ignore[return-value]  # no error: this is the call's own result


def _reason_of(error: Exception) -> LockReason:
    from keyring.errors import NoKeyringError

    no_backend = isinstance(error, NoKeyringError | NotImplementedError)
    return LockReason.NO_KEYRING if no_backend else LockReason.KEYRING_LOCKED
