"""The owner's settings that live with the data they govern: inside the vault, never in a file."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Final, TypeAlias

from memory_manager.base.errors import InvalidInput
from memory_manager.security.redact.contact import is_phone_region
from memory_manager.security.redact.sanitize import Personal
from memory_manager.vault import audit

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.rows import Attribution
    from memory_manager.vault.transaction import Transaction

SettingValue: TypeAlias = bool | str | None


@dataclasses.dataclass(frozen=True, slots=True)
class Flag:
    """One yes-or-no setting and what holds until the owner decides."""

    name: str
    default: bool = False

    def checked(self, value: object) -> bool:
        """The value as stored; InvalidInput for anything but true and false."""
        if not isinstance(value, bool):
            raise InvalidInput("This setting is on or off (in JSON: true or false).", field="value")
        return value


@dataclasses.dataclass(frozen=True, slots=True)
class Region:
    """A country by its two letters (ISO 3166-1), or none."""

    name: str
    default: None = None

    def checked(self, value: object) -> str | None:
        """Upper case, None for false, null and "off"; InvalidInput for an unknown country."""
        if value is None or value is False or value == "off":
            return None
        if not isinstance(value, str) or not is_phone_region(value.upper()):
            raise InvalidInput("This setting is a country's two letters, or off.", field="value")
        return value.upper()


AUTO_REDACT_PII: Final = Flag("auto_redact_pii")
"""Also redact contact data (e-mail, phone, address). Credentials are always redacted."""
REDACT_IDENTITY_NUMBERS: Final = Flag("redact_identity_numbers")
"""Also redact payment cards, IBANs, Brazilian CPF and CNPJ, Portuguese NIF, US SSN."""
PHONE_REGION: Final = Region("phone_region")
"""With ``auto_redact_pii``: telephone numbers as dialled in this country go too."""

SETTINGS: Final = {
    setting.name: setting for setting in (AUTO_REDACT_PII, REDACT_IDENTITY_NUMBERS, PHONE_REGION)
}
"""Every setting the vault knows, by name."""


def read_settings(connection: Connection) -> dict[str, SettingValue]:
    """Every setting by name, as stored or by default."""
    found = dict(connection.execute("SELECT name, value FROM setting").fetchall())
    return {
        name: json.loads(found[name]) if name in found else setting.default
        for name, setting in SETTINGS.items()
    }


def personal_data(connection: Connection) -> Personal:
    """What of the owner's own data is taken out of every write."""
    values = read_settings(connection)
    region = values[PHONE_REGION.name]
    return Personal(
        contact=values[AUTO_REDACT_PII.name] is True,
        identity_numbers=values[REDACT_IDENTITY_NUMBERS.name] is True,
        phone_region=region if isinstance(region, str) else None,
    )


def change_setting(transaction: Transaction, name: str, value: object, actor: Attribution) -> None:
    """Store the owner's decision, with an entry in the audit.

    InvalidInput for an unknown name or a value that the setting does not take.
    """
    setting = SETTINGS.get(name)
    if setting is None:
        known = ", ".join(sorted(SETTINGS))
        raise InvalidInput(f"There is no such setting; there are: {known}.", field="name")
    checked = setting.checked(value)
    transaction.connection.execute(
        "INSERT INTO setting(name, value) VALUES(?, ?)"
        " ON CONFLICT(name) DO UPDATE SET value = excluded.value",
        (name, json.dumps(checked)),
    )
    detail = {"name": name, "value": checked}
    audit.record(transaction, "setting.changed", None, actor, detail)
