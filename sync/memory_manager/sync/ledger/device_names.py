"""What the owner calls each device: kept inside the vault, and told the others in sealed marks.

A name is a label: devices are told apart by their ids. Others can name only who is or was a member
by the roster here: a mark that comes before the entry of a new device is followed by one after it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, cast

from memory_manager.sync.ledger import roster_log
from memory_manager.sync.wire.canonical import hex_bytes
from memory_manager.sync.wire.enrolment import printable_name
from memory_manager.sync.wire.labels import ID_BYTES

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction

_SETTING: Final = "sync_device_names"
_MEMBER: Final = "names"
_MAX_TOLD: Final = 64
_MAX_LEARNT: Final = 256


def read(connection: Connection) -> dict[bytes, str]:
    """Names by device id."""
    found = connection.execute("SELECT value FROM setting WHERE name = ?", (_SETTING,)).fetchone()
    stored: dict[str, str] = {} if found is None else json.loads(found[0])
    return {bytes.fromhex(device): name for device, name in stored.items()}


def put(transaction: Transaction, names: Mapping[bytes, str]) -> None:
    """Add or change names; the others stay."""
    _store(transaction, {**read(transaction.connection), **names})


def expect(transaction: Transaction, device: bytes, name: str) -> None:
    """Name a device that is about to be added; no other stays that is on no roster."""
    members = frozenset(roster_log.everybody(transaction.connection))
    known = read(transaction.connection)
    kept = {each: called for each, called in known.items() if each in members}
    _store(transaction, {**kept, device: name})


def _store(transaction: Transaction, names: Mapping[bytes, str]) -> None:
    value = json.dumps({device.hex(): printable_name(name) for device, name in names.items()})
    transaction.connection.execute(
        "INSERT INTO setting(name, value) VALUES(?, ?)"
        " ON CONFLICT(name) DO UPDATE SET value = excluded.value",
        (_SETTING, value),
    )


def forget(transaction: Transaction) -> None:
    """Remove all names."""
    transaction.connection.execute("DELETE FROM setting WHERE name = ?", (_SETTING,))


def told(connection: Connection, own: bytes) -> dict[str, Any]:
    """What a mark of this device says of names: its own first, then those of the newest members."""
    known = read(connection)
    newest = [device for device in reversed(roster_log.everybody(connection)) if device != own]
    order = [device for device in (own, *newest) if device in known][:_MAX_TOLD]
    return {_MEMBER: {device.hex(): known[device] for device in order}} if order else {}


def learn(transaction: Transaction, author: bytes, fields: Mapping[str, Any]) -> None:
    """Take names out of another device's mark: its own, and those of devices without one here.

    What is no name, or that of nobody on the roster, is passed over: a label never stops a row.
    """
    said: Any = fields.get(_MEMBER)
    if not isinstance(said, dict):
        return
    known = read(transaction.connection)
    called: dict[bytes, str] = {}
    for text, name in list(cast("dict[str, object]", said).items())[:_MAX_TOLD]:
        try:
            device = hex_bytes(text, ID_BYTES)
        except ValueError:
            continue
        if isinstance(name, str) and (device == author or device not in known):
            called[device] = printable_name(name)
    if all(known.get(device) == name for device, name in called.items()):
        return
    members = frozenset(roster_log.everybody(transaction.connection))
    room = _MAX_LEARNT - len(members & known.keys())
    new = [device for device in called if device in members and device not in known][: max(room, 0)]
    found = {device: called[device] for device in (*new, *(called.keys() & known.keys()))}
    if found:
        put(transaction, found)
