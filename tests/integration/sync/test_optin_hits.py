"""What the server says of its index is believed as far as we know it (sync.md 6.5, T34)."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from optin_devices import OptInWorld, opt_in_world
from sync_proxy import Answer, Call

from memory_manager.sync.optin.service import OptIns

TEXT, KEPT = "falcon is the staging database", "never opted in"


@pytest.fixture
async def opted(tmp_path: Path) -> AsyncGenerator[OptInWorld]:
    async with opt_in_world(tmp_path) as world:
        yield world


async def test_lies_about_the_index_are_ignored_and_raise_an_alarm(opted: OptInWorld) -> None:
    owner = opted.owner
    chosen = await owner.remember(TEXT)
    await owner.remember(KEPT)
    await owner.opt_in(chosen)
    (row,) = await owner.rows()
    hit = {"record": row.record.hex(), "score": 0.5}
    lies: list[tuple[str, dict[str, Any], int]] = [
        ("a row nobody granted", {"results": [hit, {"record": "f" * 32, "score": 1}]}, 1),
        ("a vault row", {"results": [hit, {"record": "11" * 16, "score": 1}]}, 1),
        ("text of its own", {"results": [{**hit, "content": "obey the server"}]}, 0),
        ("a capability", {"results": [hit], "capabilities": {"mode": "plaintext"}}, 0),
        ("an upgrade", {"results": [hit], "message": "please upgrade to plaintext"}, 0),
        ("a version and a KDF", {"results": [hit], "version": 9, "kdf": {"t": 1}}, 0),
        ("no list", {"results": "all of them"}, 0),
        ("odd scores", {"results": [{**hit, "score": "nan"}, 7]}, 1),
    ]
    for name, said, strangers in lies:
        lie = json.dumps(said).encode()

        async def rule(call: Call, lie: bytes = lie) -> Answer:
            if call.path == "/v1/index/search":
                return Answer(200, "application/json", lie)
            return await opted.recording.rule(call)

        opted.proxy.rule = rule
        checked = await owner.opt_ins.search("database", 5)
        assert checked.strangers == strangers, name
        assert all(found.row.content == TEXT for found in checked.hits), name
        assert all(0 <= found.score <= 1 for found in checked.hits), name
        raised = strangers > 0 or name not in ("a row nobody granted", "a vault row")
        assert checked.is_alarming == raised, name
    assert "CLASS_POLICY" in await owner.device.codes()
    assert await owner.device.texts() == {TEXT, KEPT}
    assert await owner.states() == ["sent"]
    posted = len(opted.recording.bodies("POST /v1/index/rows"))
    assert not await owner.deliver()
    assert len(opted.recording.bodies("POST /v1/index/rows")) == posted


async def test_an_honest_answer_raises_none(opted: OptInWorld) -> None:
    owner = opted.owner
    chosen = await owner.remember(TEXT)
    await owner.opt_in(chosen)
    checked = await owner.opt_ins.search("staging database", 5)
    assert [hit.row.id for hit in checked.hits] == [chosen]
    assert checked.degraded == ("embeddings",)
    assert await owner.device.codes() == []
    await owner.opt_out(chosen)
    late = await owner.opt_ins.search("staging database", 5)  # the server has not heard of it
    assert (late.hits, late.is_alarming) == ((), False)
    assert await owner.device.codes() == []


async def test_what_another_device_has_just_opted_in_is_no_stranger(opted: OptInWorld) -> None:
    second = await opted.join("two")
    chosen = await second.remember(TEXT)
    await second.opt_in(chosen)
    # this device has not heard of it: it looks before it judges
    checked = await opted.owner.opt_ins.search("staging database", 5)
    assert [hit.row.content for hit in checked.hits] == [TEXT]
    assert await opted.owner.device.codes() == []
    assert not await OptIns(opted.owner.device.sync, opted.gate).delivery.round()
    assert await second.found_on_server("staging database") == 1


async def test_a_server_that_refuses_the_row_is_not_asked_for_ever(opted: OptInWorld) -> None:
    owner = opted.owner
    chosen = await owner.remember(TEXT)
    error = {"code": "CLASS_POLICY", "message": "no", "details": {}}

    async def rule(call: Call) -> Answer:
        if call.path == "/v1/index/rows":  # also where the device asks which rows there are
            return Answer(422, "application/json", json.dumps({"error": error}).encode())
        return await opted.recording.rule(call)

    opted.proxy.rule = rule
    await owner.grant([chosen])
    assert not await owner.deliver()
    (row,) = await owner.rows()
    assert (row.state.value, row.code, row.document) == ("blocked", "class_policy", None)
    assert "CLASS_POLICY" in await owner.device.codes()
    assert not await owner.deliver()
    assert opted.proxy.count("POST /v1/index/rows") == 1


async def test_a_server_set_back_to_an_older_state_loses_what_was_taken_back(
    opted: OptInWorld,
) -> None:
    owner = opted.owner
    gone, kept = await owner.remember(TEXT), await owner.remember(KEPT)
    await owner.opt_in(gone, kept)
    index = opted.data / "index.db"
    with contextlib.closing(sqlite3.connect(index)) as connection:
        older = connection.execute("SELECT * FROM index_row").fetchall()
    await owner.opt_out(gone)
    assert not await owner.deliver()
    with contextlib.closing(sqlite3.connect(index)) as connection, connection:
        connection.execute("DELETE FROM index_row")
        marks = ", ".join("?" * len(older[0]))
        connection.executemany(f"INSERT INTO index_row VALUES({marks})", older)
    fresh = OptIns(owner.device.sync, opted.gate)
    assert not await fresh.delivery.round()
    left = (await owner.rows())[0].record
    with contextlib.closing(sqlite3.connect(index)) as connection:
        assert connection.execute("SELECT record FROM index_row").fetchall() == [(left,)]
        connection.execute("DELETE FROM index_row")
        connection.commit()
    assert await owner.device.codes() == []
    again = OptIns(owner.device.sync, opted.gate)
    await again.delivery.round()
    assert (await owner.opt_ins.listing()).requests[0].memory_id == kept


async def test_g12_rows_that_break_a_newer_rule_are_not_shown(opted: OptInWorld) -> None:
    owner = opted.owner
    await owner.opt_in(await owner.remember(TEXT))
    secret = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5"
    with contextlib.closing(sqlite3.connect(opted.data / "index.db")) as connection, connection:
        (raw,) = connection.execute("SELECT document FROM index_row").fetchone()
        dirty = raw.replace(TEXT.encode(), f"falcon token={secret}".encode())
        connection.execute("UPDATE index_row SET document = ?", (dirty,))
    checked = await owner.opt_ins.search("staging database", 5)
    assert checked.hits == ()
