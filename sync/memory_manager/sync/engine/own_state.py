"""What the engine remembers in the vault beside the ledger: the server's last words, options.

A few heads that the server signed are kept to prove equivocation with (sync.md 4.4).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from memory_manager.sync.engine.connection import ServerConnection
from memory_manager.sync.ledger import state
from memory_manager.sync.wire.framing import Signed
from memory_manager.sync.wire.log import ServerHead

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction

KEPT_HEADS: Final = 16
_HEADS: Final = "sync_heads"
_OPTIONS: Final = "sync_options"
_EXPECTED: Final = "sync_expected_head"
_REWRAPPING: Final = "sync_rewrapping"
_WORDS: Final = "sync_words"
_KEPT_WORDS: Final = 16
MAX_JITTER_SECONDS: Final = 60.0


@dataclasses.dataclass(frozen=True, slots=True)
class Options:
    """The owner's words about the connection; ``jitter_seconds`` 0-60 blurs the time of writing."""

    ca_file: str | None = None
    proxy: str | None = None
    jitter_seconds: float = 0.0


@dataclasses.dataclass(frozen=True, slots=True)
class Rewrapping:
    """How far older rows were wrapped anew for ``epoch``: up to the row of that number here."""

    epoch: int
    after: int
    done: bool


def read_options(connection: Connection) -> Options:
    text = _get(connection, _OPTIONS)
    return Options() if text is None else Options(**json.loads(text))


def write_options(transaction: Transaction, options: Options) -> None:
    _set(transaction, _OPTIONS, json.dumps(dataclasses.asdict(options)))


def reach_by(transaction: Transaction, way: ServerConnection) -> None:
    """The address of the server and the owner's words about it, from now on; its key stays."""
    state.set_server(transaction, way.url)
    before = read_options(transaction.connection)
    after = dataclasses.replace(before, ca_file=way.ca_file, proxy=way.proxy)
    write_options(transaction, after)


def heads(connection: Connection) -> tuple[Signed[ServerHead], ...]:
    """The kept heads, oldest first. All of them were verified and lie on our log."""
    text = _get(connection, _HEADS)
    if text is None:
        return ()
    return tuple(
        Signed(ServerHead(n, bytes.fromhex(g)), bytes.fromhex(signature))
        for n, g, signature in json.loads(text)
    )


def keep_heads(transaction: Transaction, verified: Sequence[Signed[ServerHead]]) -> None:
    """Keep these, which lie on our log, and the newest of those before; one for each position."""
    known = {head.value.n: head for head in heads(transaction.connection)}
    known.update({head.value.n: head for head in verified})
    newest = [known[n] for n in sorted(known)[-KEPT_HEADS:]]
    listed = [(head.value.n, head.value.g.hex(), head.signature.hex()) for head in newest]
    _set(transaction, _HEADS, json.dumps(listed))


def expect(transaction: Transaction, head: ServerHead) -> None:
    """Somebody whom the owner trusts has seen this head: the log must come to it (sync.md 7.2)."""
    _set(transaction, _EXPECTED, json.dumps([head.n, head.g.hex()]))


def expected(connection: Connection) -> ServerHead | None:
    """What another device, or the owner's sheet, said of the log when this device joined."""
    text = _get(connection, _EXPECTED)
    if text is None:
        return None
    n, g = json.loads(text)
    return ServerHead(n, bytes.fromhex(g))


def rewrapping(connection: Connection) -> Rewrapping | None:
    text = _get(connection, _REWRAPPING)
    return None if text is None else Rewrapping(**json.loads(text))


def write_rewrapping(transaction: Transaction, at: Rewrapping) -> None:
    _set(transaction, _REWRAPPING, json.dumps(dataclasses.asdict(at)))


def note_words(transaction: Transaction, commitment: bytes, member: bytes) -> None:
    """Recovery words were given here: which member of the list they are, if they get there.

    ``commitment`` is what tells from the vault's slot whether they are its present ones. Noted
    before anybody is asked, so that an act that is cut off leaves no words that nobody knows.
    """
    known = words(transaction.connection)
    known.pop(commitment, None)
    newest = [*known.items(), (commitment, member)][-_KEPT_WORDS:]
    _set(transaction, _WORDS, json.dumps({slot.hex(): of.hex() for slot, of in newest}))


def words(connection: Connection) -> dict[bytes, bytes]:
    """Member ids by the commitment of the words, as noted."""
    text = _get(connection, _WORDS)
    found: dict[str, str] = {} if text is None else json.loads(text)
    return {bytes.fromhex(slot): bytes.fromhex(of) for slot, of in found.items()}


def forget(transaction: Transaction) -> None:
    """Nothing of a server is remembered any more."""
    transaction.connection.execute(
        "DELETE FROM vault_state WHERE key IN (?, ?, ?, ?, ?)",
        (_HEADS, _OPTIONS, _EXPECTED, _REWRAPPING, _WORDS),
    )


def _get(connection: Connection, key: str) -> str | None:
    row = connection.execute("SELECT value FROM vault_state WHERE key = ?", (key,)).fetchone()
    return None if row is None else str(row[0])


def _set(transaction: Transaction, key: str, value: str) -> None:
    transaction.connection.execute(
        "INSERT INTO vault_state(key, value) VALUES(?, ?)"
        " ON CONFLICT(key) DO UPDATE SET value = excluded.value",
        (key, value),
    )
