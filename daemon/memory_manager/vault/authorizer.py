"""What a statement on an ordinary connection may not do (vault.md 6).

Everything that could write plaintext, change the key or weaken the settings is denied at prepare
time. Maintenance connections, opened only inside this package, have no authorizer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

_OK = 0
_DENY = 1
_PRAGMA = 19
_ATTACH = 24
_DETACH = 25
_FUNCTION = 31

_CIPHER_ALLOWED = frozenset({"cipher_integrity_check", "cipher_status"})
_PRAGMAS_NOT_SET = frozenset(
    {
        "temp_store",
        "temp_store_directory",
        "key",
        "rekey",
        "hexkey",
        "hexrekey",
        "textkey",
        "textrekey",
        "kdf_iter",
        "writable_schema",
        "journal_mode",
        "trusted_schema",
        "secure_delete",
        "cell_size_check",
        "mmap_size",
        # not in the contract's list: a read-only connection must not be able to free itself
        "query_only",
    }
)
_FUNCTIONS = frozenset(
    {"load_extension", "sqlcipher_export", "fts3_tokenizer", "readfile", "writefile"}
)

Authorizer = Callable[[int, str | None, str | None, str | None, str | None], int]


def authorize(
    action: int,
    first: str | None,
    second: str | None,
    _database: str | None,
    _trigger: str | None,
) -> int:
    """The callback for ``set_authorizer``: 0 allows, 1 denies."""
    if action in (_ATTACH, _DETACH):
        return _DENY
    if action == _PRAGMA:
        return _DENY if _pragma_denied((first or "").lower(), second) else _OK
    if action == _FUNCTION and (second or "").lower() in _FUNCTIONS:
        return _DENY
    return _OK


def _pragma_denied(name: str, value: str | None) -> bool:
    if name == "cipher_migrate":
        return True
    if value is None:
        return False
    if name.startswith("cipher_"):
        return name not in _CIPHER_ALLOWED
    return name in _PRAGMAS_NOT_SET


def install(connection: Connection) -> None:
    """The last step of opening an ordinary connection."""
    connection.set_authorizer(authorize)
