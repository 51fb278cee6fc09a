"""The owner's settings that live with the data they govern: inside the vault, never in a file."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Final

from memory_manager.base.errors import InvalidInput
from memory_manager.vault import audit

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.rows import Attribution
    from memory_manager.vault.transaction import Transaction


@dataclasses.dataclass(frozen=True, slots=True)
class Flag:
    """One yes-or-no setting and what holds until the owner decides."""

    name: str
    default: bool


AUTO_REDACT_PII: Final = Flag("auto_redact_pii", default=False)
"""Also redact contact data (e-mail, phone, address). Credentials are always redacted."""

FLAGS: Final = {flag.name: flag for flag in (AUTO_REDACT_PII,)}
"""Every setting the vault knows, by name."""


def get_flag(connection: Connection, flag: Flag) -> bool:
    """The stored value, or the default."""
    found = connection.execute("SELECT value FROM setting WHERE name = ?", (flag.name,)).fetchone()
    return flag.default if found is None else json.loads(found[0]) is True


def set_flag(transaction: Transaction, flag: Flag, value: bool) -> None:
    """Store the owner's decision."""
    transaction.connection.execute(
        "INSERT INTO setting(name, value) VALUES(?, ?)"
        " ON CONFLICT(name) DO UPDATE SET value = excluded.value",
        (flag.name, json.dumps(value)),
    )


def change_flag(transaction: Transaction, flag: Flag, value: bool, actor: Attribution) -> None:
    """``set_flag`` with an entry in the audit."""
    set_flag(transaction, flag, value)
    audit.record(transaction, "setting.changed", None, actor, {"name": flag.name, "value": value})


def flag_by_name(name: str) -> Flag:
    """The setting a person named; InvalidInput when there is none."""
    try:
        return FLAGS[name]
    except KeyError:
        raise InvalidInput("There is no such setting.", field="name") from None
