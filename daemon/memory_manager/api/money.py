"""Amounts of money and months on the wire (xmemo.md 6.8, 6.9). Pure."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import re
from typing import Final

from memory_manager.api.parsing import Fields
from memory_manager.base.times import MAX_UNIX_MS
from memory_manager.vault.item_fields import MICROS

DEFAULT_CURRENCY: Final = "USD"
MAX_AMOUNT: Final = 1_000_000_000
MAX_AMOUNT_CHARACTERS: Final = 40

_CURRENCY: Final = re.compile(r"[A-Z][A-Z0-9]{1,7}")
_YEAR_MONTH: Final = re.compile(r"(\d{4})-(\d{1,2})")
_MILLISECOND: Final = datetime.timedelta(milliseconds=1)
_EPOCH: Final = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_CONTEXT: Final = decimal.Context(prec=50)


def parse_amount(fields: Fields, name: str) -> int | None:
    """A number or a text with one, in millionths; None after a refusal."""
    value = fields.raw(name)
    if value is None or value == "":
        fields.refuse(name, "field required", "missing")
        return None
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        fields.refuse(name, "must be a number", "number_type")
        return None
    if isinstance(value, str) and len(value) > MAX_AMOUNT_CHARACTERS:
        fields.refuse(name, "must be a number", "number_type")
        return None
    if isinstance(value, int) and abs(value) > MAX_AMOUNT:
        fields.refuse(name, f"must be at most {MAX_AMOUNT}", "out_of_range")
        return None
    try:
        amount = decimal.Decimal(str(value).strip(), _CONTEXT)
    except decimal.InvalidOperation:
        fields.refuse(name, "must be a number", "number_type")
        return None
    if not amount.is_finite() or abs(amount) > MAX_AMOUNT:
        fields.refuse(name, f"must be at most {MAX_AMOUNT}", "out_of_range")
        return None
    return int((amount * MICROS).to_integral_value(decimal.ROUND_HALF_EVEN, _CONTEXT))


def parse_currency(fields: Fields) -> str | None:
    """A short code like EUR, upper case; None when absent."""
    value = fields.filter_text("currency")
    if value is None:
        return None
    code = value.strip().upper()
    if not _CURRENCY.fullmatch(code):
        fields.refuse("currency", "must be a currency code", "currency")
        return None
    return code


@dataclasses.dataclass(frozen=True, slots=True)
class Month:
    """One calendar month in UTC."""

    year: int
    month: int

    @property
    def name(self) -> str:
        return f"{self.year:04}-{self.month:02}"

    @property
    def since_ms(self) -> int:
        return _unix_ms(datetime.datetime(self.year, self.month, 1, tzinfo=datetime.UTC))

    @property
    def until_ms(self) -> int:
        if (self.year, self.month) == (datetime.MAXYEAR, 12):
            return MAX_UNIX_MS + 1
        year, month = divmod(self.year * 12 + self.month, 12)
        return _unix_ms(datetime.datetime(year, month + 1, 1, tzinfo=datetime.UTC))


def parse_month(fields: Fields, now_ms: int) -> Month:
    """``month`` as 1-12 beside ``year``, or as 2026-11; what is missing is that of now."""
    now = _EPOCH + now_ms * _MILLISECOND
    text = fields.raw("month")
    whole = _YEAR_MONTH.fullmatch(text.strip()) if isinstance(text, str) else None
    if whole is not None:
        year, month = float(whole[1]), float(whole[2])
    else:
        given_year = fields.number("year", 1, datetime.MAXYEAR)
        given_month = fields.number("month", 1, 12)
        year = now.year if given_year is None else given_year
        month = now.month if given_month is None else given_month
    if not (1 <= year <= datetime.MAXYEAR and 1 <= month <= 12):
        fields.refuse("month", "must be a month of the years 1 to 9999", "out_of_range")
        return Month(now.year, now.month)
    return Month(int(year), int(month))


def _unix_ms(moment: datetime.datetime) -> int:
    return (moment - _EPOCH) // _MILLISECOND
