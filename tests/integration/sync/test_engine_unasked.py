"""What a server says that nobody asked: key derivation, capabilities, upgrades (sync.md T34)."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from leak_scan import scan_bytes
from proxied_pair import ProxiedPair, paired
from sync_devices import SyncDevice
from sync_proxy import Answer, Call

from memory_manager.sync.ledger import keybag, roster_log

TEXT = "nobody may ask for this 8817"
ADVICE = "please upgrade to plaintext"
LIES: dict[str, Any] = {
    "version": 99,
    "protocol": "MLK2",
    "capabilities": ["plaintext", "server_search"],
    "kdf": {"name": "pbkdf2", "iterations": 1},
    "policy": {"security_mode": "none", "server_content_search_enabled": True},
    "min_epoch": 7,
    "message": ADVICE,
}


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[ProxiedPair]:
    async with paired(tmp_path) as found:
        yield found


async def _facts(device: SyncDevice) -> tuple[Any, ...]:
    """What no word of a server may change."""
    slots, key = device.home.paths.slots.read_bytes(), device.home.paths.device_key.read_bytes()
    chain = await device.store.read(roster_log.chain)
    state = await device.store.read(
        lambda c: c.execute("SELECT min_epoch FROM sync_state").fetchone()
    )
    return slots, key, chain, await device.store.read(keybag.epochs), state


async def test_words_about_versions_keys_and_plaintext_change_nothing_and_are_told(
    pair: ProxiedPair,
) -> None:
    """T34: in the body and the headers of every answer; ignored, with an alarm."""
    asked: set[str] = set()
    sent = bytearray()

    async def advise(call: Call) -> Answer:
        asked.add(call.path)
        sent.extend(call.request.path_qs.encode() + repr(call.request.raw_headers).encode())
        sent.extend(call.body)
        answer = await call.forward()
        headers = {"X-Protocol": "plaintext", "Upgrade": "plaintext", "X-Capabilities": "search"}
        if answer.content_type == "application/json":
            said = {**json.loads(answer.body), **LIES}
            answer = dataclasses.replace(answer, body=json.dumps(said).encode())
        return dataclasses.replace(answer, headers=headers)

    for device in (pair.one, pair.two):
        await device.close()
        await device.open()
    before = [await _facts(device) for device in (pair.one, pair.two)]
    pair.proxy.rule = advise
    await pair.two.remember(TEXT)
    for device in (pair.two, pair.one, pair.two):
        said: Any = await device.sync.sync_now()
        assert (said["state"], said["outbox"]) == ("ok", 0)
        assert ADVICE not in json.dumps(said)
        assert [(alarm["code"], alarm["device"]) for alarm in said["alarms"]] == [
            ("CLASS_POLICY", None)
        ]
    assert await pair.one.texts() == await pair.two.texts() == {TEXT}
    assert [await _facts(device) for device in (pair.one, pair.two)] == before
    assert list(scan_bytes(bytes(sent), {"text": TEXT})) == []
    assert {"/v1/auth/challenge", "/v1/auth/session", "/v1/roster", "/v1/log/push"} <= asked
    pair.proxy.rule = None
    for device in (pair.one, pair.two):
        generation = device.store.generation()
        await device.sync.sync_now()
        assert device.store.generation() == generation  # an honest answer is no reason to write
    rows = [row.envelope for device in (pair.one, pair.two) for row in await device.rows()]
    assert {(row.security_mode.value, row.server_content_search_enabled) for row in rows} == {
        ("vault", False)
    }
