"""What the server says of its index is believed as far as we know it (sync.md 6.5, T34)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from optin_devices import OptInWorld, opt_in_world
from sync_proxy import Answer, Call

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


async def test_a_server_that_refuses_the_row_is_not_asked_for_ever(opted: OptInWorld) -> None:
    owner = opted.owner
    chosen = await owner.remember(TEXT)
    error = {"code": "CLASS_POLICY", "message": "no", "details": {}}

    async def rule(call: Call) -> Answer:
        if call.path == "/v1/index/rows":
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
