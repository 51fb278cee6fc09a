"""What the owner calls each device: kept inside the vault, never on the server.

A name is a label: devices are told apart by their ids.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from memory_manager.base.errors import InvalidInput, NotFound
from memory_manager.sync.membership.letters import printable_name
from memory_manager.sync.wire.roster import Member, Roster

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction

_SETTING: Final = "sync_device_names"
_MIN_ID_DIGITS: Final = 4


def read(connection: Connection) -> dict[bytes, str]:
    """Names by device id."""
    found = connection.execute("SELECT value FROM setting WHERE name = ?", (_SETTING,)).fetchone()
    stored: dict[str, str] = {} if found is None else json.loads(found[0])
    return {bytes.fromhex(device): name for device, name in stored.items()}


def put(transaction: Transaction, names: Mapping[bytes, str]) -> None:
    """Add or change names; the others stay."""
    merged = {**read(transaction.connection), **names}
    value = json.dumps({device.hex(): printable_name(name) for device, name in merged.items()})
    transaction.connection.execute(
        "INSERT INTO setting(name, value) VALUES(?, ?)"
        " ON CONFLICT(name) DO UPDATE SET value = excluded.value",
        (_SETTING, value),
    )


def forget(transaction: Transaction) -> None:
    """Remove all names."""
    transaction.connection.execute("DELETE FROM setting WHERE name = ?", (_SETTING,))


def member_called(roster: Roster, names: Mapping[bytes, str], typed: str) -> Member:
    """The active member with this name, or whose id begins with these digits.

    NotFound for none, InvalidInput for several.
    """
    wanted = typed.strip()
    found = [
        member
        for member in roster.active()
        if names.get(member.id) == wanted
        or (len(wanted) >= _MIN_ID_DIGITS and member.id.hex().startswith(wanted.lower()))
    ]
    if not found:
        raise NotFound("No active device has this name or id.", hint="See: memlocket sync devices")
    if len(found) > 1:
        raise InvalidInput(
            "Several devices fit; type more of the id.", field="device",
            hint="See: memlocket sync devices",
        )  # fmt: skip
    return found[0]
