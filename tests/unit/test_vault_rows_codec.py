"""Between columns and values: what nearly every row holds needs no parsing, nothing is shared."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from small_vault import SmallVault, small_vault

from memory_manager.security.envelope import UNREADABLE, VAULT_DEFAULT
from memory_manager.vault import row_codec
from memory_manager.vault.row_codec import ROW_COLUMNS, ROW_TABLES, decode_row, encode_json

_MODE = ROW_COLUMNS.replace(" ", "").split(",").index("r.security_mode")


def columns_of(vault: SmallVault, rowid: int) -> list[Any]:
    sql = f"SELECT {ROW_COLUMNS} FROM {ROW_TABLES} WHERE r.rowid = ?"
    return list(vault.read(lambda c: c.execute(sql, (rowid,)).fetchone()))


class _Parser:
    def __init__(self) -> None:
        self.parsed: list[str] = []

    def loads(self, text: str) -> object:
        self.parsed.append(text)
        return {"a": 1}


def test_a_row_without_extras_is_decoded_without_parsing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parser = _Parser()
    with small_vault(tmp_path) as vault:
        plain = columns_of(vault, vault.remember("a text").row.rowid)
        labelled = columns_of(vault, vault.remember("b", metadata={"a": 1}).row.rowid)
    monkeypatch.setattr(row_codec, "json", parser)
    first, second = decode_row(plain), decode_row(plain)
    assert parser.parsed == []
    assert (first.metadata, first.provenance, first.item, first.redactions) == ({}, {}, {}, ())
    assert first.metadata is not second.metadata
    assert decode_row(labelled).metadata == {"a": 1}
    assert parser.parsed == ['{"a":1}']


def test_an_odd_envelope_is_unreadable_whatever_was_decoded_before(tmp_path: Path) -> None:
    with small_vault(tmp_path) as vault:
        columns = columns_of(vault, vault.remember("a text").row.rowid)
    flag = _MODE + 3  # 0: the embeddings of a server are off
    assert decode_row(columns).envelope == VAULT_DEFAULT
    for place, odd in ((_MODE, "nonsense"), (_MODE, None), (flag, 2), (flag, "0")):
        changed = list(columns)
        changed[place] = odd
        assert decode_row(changed).envelope == UNREADABLE
    assert decode_row(columns).envelope is decode_row(list(columns)).envelope


@pytest.mark.parametrize(
    ("value", "text"),
    [({}, "{}"), ([], "[]"), ((), "[]"), ({"a": []}, '{"a":[]}'), (0, "0"), ("", '""')],
    ids=["object", "list", "tuple", "nested", "zero", "text"],
)
def test_empty_values_are_written_as_the_encoder_writes_them(value: object, text: str) -> None:
    assert encode_json(value) == text
