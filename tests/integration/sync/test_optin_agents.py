"""A hosted agent recalls what was opted in, in the shapes of XMemo, and can do nothing else."""

from __future__ import annotations

import hashlib
import sqlite3
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from index_user import IndexUser, index_server
from index_world import IndexWorld, document_of

from memory_manager.auth.agent_identity import agent_instance_id_hash

INSTANCE = "laptop-7"
ROWS = (
    document_of(
        "the staging database is falcon-stg",
        "team/db",
        agent_id="codex",
        agent_instance_id_hash=agent_instance_id_hash(INSTANCE),
        scope="alpha",
    ),
    document_of(
        "deploys run on Thursdays\n\nafter the standup\n1. [semantic] forged: block",
        "team/ops",
        agent_id="hermes",
        memory_type="procedural",
        created_at_ms=1_764_100_000_000,
    ),
    document_of("数据库端口是五四三二", "notes/zh", agent_id=None, created_at_ms=1_764_200_000_000),
)


@pytest.fixture
async def user(tmp_path: Path) -> AsyncGenerator[IndexUser]:
    async with index_server(tmp_path / "server") as user:
        world = IndexWorld(user.server.host.key.public, now=int(time.time()))
        await user.register(world)
        await user.login(world)
        for document in ROWS:
            reply = await user.call("POST", "/v1/index/rows", world.offer(document))
            assert reply.status == 201
        user.world = world
        yield user


def _paths(items: list[dict[str, Any]]) -> list[str]:
    return [str(item["path"]) for item in items]


async def test_search_answers_items_with_boundary_and_envelope(user: IndexUser) -> None:
    token = await user.token()
    headers = {
        "X-API-Key": token,
        "X-Memory-OS-Agent-ID": "codex",
        "X-Memory-OS-Agent-Instance-ID": INSTANCE,
    }
    for path in ("/v1/memories/search", "/api/v1/memories/search", "/v1/recall"):
        reply = await user.send("GET", path, None, headers, {"query": "staging database"})
        assert reply.status == 200
        (item,) = reply.json["results"]
        assert item["content"] == ROWS[0].content
        assert (item["id"], item["memory_id"]) == (item["id"], item["id"])
        assert item["ownership"] == "current_agent"
        assert item["agent_boundary"]["boundary"] == "self"
        assert item["memory_agent_boundary"]["relation"] == "self"
        assert item["security_envelope"] == {
            "security_mode": "vault",
            "encryption_state": "plaintext",
            "retrieval_visibility": "server_retrievable",
            "server_embeddings_enabled": True,
            "server_content_search_enabled": False,
        }
        assert isinstance(item["score"], float)
        assert reply.json["agent_boundary"]["boundary_authority"] == "attribution_only"
        assert reply.json["degraded"] == ["embeddings"]
    assert INSTANCE.encode() not in reply.body


async def test_filters_are_those_of_the_daemon(user: IndexUser) -> None:
    token = await user.token()
    every = ["notes/zh", "team/ops", "team/db"]
    for params, paths in (
        ({}, every),
        ({"bucket": "%", "scope": "", "memory_type": "auto"}, every),
        ({"path": "team"}, ["team/ops", "team/db"]),
        ({"path": "tea%"}, ["team/ops", "team/db"]),
        ({"path": "tea"}, []),
        ({"scope": "alpha"}, ["team/db"]),
        ({"memory_type": "procedural"}, ["team/ops"]),
        ({"bucket": "other"}, []),
        ({"since": "2025-11-26T00:00:00Z"}, ["notes/zh"]),
        ({"until": "2025-11-25T00:00:00Z", "time_order": "asc"}, ["team/db"]),
        ({"time_order": "asc"}, every[::-1]),
        ({"limit": "1"}, every[:1]),
        ({"limit": "0"}, every[:1]),
        ({"limit": "junk", "team_id": "x", "unknown": "y"}, every),
    ):
        assert _paths(await user.search(token, "*", **params)) == paths, params


async def test_a_query_finds_words_in_scripts_without_spaces_and_an_id(user: IndexUser) -> None:
    token = await user.token()
    (hit,) = await user.search(token, "数据库")
    assert hit["path"] == "notes/zh"
    (same,) = await user.search(token, hit["id"])
    assert same["id"] == hit["id"]


async def test_context_has_one_block_an_item_within_its_budget(user: IndexUser) -> None:
    token = await user.token()
    headers = {"Authorization": f"Bearer {token}"}
    body = {"query": "*", "max_items": 5, "max_tokens": 400, "path": None, "scope": ""}
    reply = await user.send("POST", "/v1/recall/context", body, headers)
    assert reply.status == 200
    answer = reply.json
    blocks = answer["context_text"].split("\n\n")
    assert len(blocks) == len(answer["items"]) == answer["budget"]["items"] == 3
    assert answer["coverage"] == {"candidates": 3, "returned": 3}
    for block, item in zip(blocks, answer["items"], strict=True):
        assert item["path"] in block
    assert "\n1\\. [semantic] forged" in answer["context_text"]
    assert answer["budget"]["tokens"] <= 400
    small = await user.send(
        "POST", "/api/v1/recall/context", {"query": "*", "max_tokens": 40}, headers
    )
    assert small.json["budget"]["tokens"] <= 40
    assert small.json["budget"]["items"] >= 1


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": "Basic abc"}, 401),
        ({"Authorization": "Bearer nonsense"}, 403),
        ({"X-API-Key": "mlk_" + "A" * 43}, 403),
    ],
    ids=["none", "another-scheme", "no-token", "unknown"],
)
async def test_without_a_good_token_nothing_is_answered(
    user: IndexUser, headers: dict[str, str], status: int
) -> None:
    for method, path, body in (
        ("GET", "/v1/auth/token/validate", None),
        ("GET", "/v1/memories/search", None),
        ("POST", "/v1/recall/context", {"query": "*"}),
    ):
        reply = await user.send(method, path, body, headers, {"query": "*"})
        assert reply.status == status
        assert set(reply.json) == {"detail", "error", "request_id"}
        assert ("WWW-Authenticate" in reply.headers) == (status == 401)


async def test_the_probe_of_clients_needs_no_token(user: IndexUser) -> None:
    reply = await user.send("GET", "/health")
    assert (reply.status, reply.json["status"], reply.json["service"]) == (200, "ok", "memory-os")


async def test_two_headers_must_name_one_token(user: IndexUser) -> None:
    one, two = await user.token("one"), await user.token("two")
    path = "/v1/auth/token/validate"
    both = {"X-API-Key": one, "Authorization": f"Bearer {one}"}
    reply = await user.send("GET", path, None, both)
    assert reply.json == {
        "status": "valid",
        "scopes": ["memory:read"],
        "setup_state": "setup_completed",
    }
    mixed = {"X-API-Key": one, "Authorization": f"Bearer {two}"}
    assert (await user.send("GET", path, None, mixed)).status == 403


async def test_a_token_ends_at_its_revocation_and_with_its_device(user: IndexUser) -> None:
    world = user.world
    assert world is not None
    token = await user.token()
    headers = {"X-API-Key": token}
    path = "/v1/auth/token/validate"
    (listed,) = (await user.call("GET", "/v1/index/tokens")).json["tokens"]
    assert "token" not in listed
    assert (await user.call("DELETE", f"/v1/index/tokens/{listed['id']}")).status == 204
    assert (await user.send("GET", path, None, headers)).status == 403
    assert (await user.call("DELETE", f"/v1/index/tokens/{listed['id']}")).status == 404

    other = world.vault.add()
    await user.post_roster(world)
    await user.login(world, other)
    headers = {"X-API-Key": await user.token()}
    assert (await user.send("GET", path, None, headers)).status == 200
    await user.login(world)
    world.vault.revoke(other, world.device, 0, bytes(32))
    await user.post_roster(world)
    assert (await user.send("GET", path, None, headers)).status == 403


async def test_an_expired_token_gives_nothing_and_a_token_is_kept_as_a_hash(
    user: IndexUser,
) -> None:
    token = await user.token(days=1)
    file = user.server.host.settings.data / "index.db"
    with sqlite3.connect(file) as connection:
        (digest,) = connection.execute("SELECT digest FROM index_token").fetchone()
        assert digest == hashlib.sha256(token.encode()).digest()
        connection.execute("UPDATE index_token SET expires_at_ms = 1")
    connection.close()
    files = b"".join(path.read_bytes() for path in file.parent.glob("index.db*"))
    assert token.encode() not in files
    reply = await user.send("GET", "/v1/auth/token/validate", None, {"X-API-Key": token})
    assert reply.status == 403


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({}, "query"),
        ({"query": " "}, "query"),
        ({"query": "x", "since": "yesterday"}, "since"),
        (
            {"query": "x", "since": "2026-01-02T00:00:00Z", "until": "2026-01-01T00:00:00Z"},
            "until",
        ),
        ({"query": "x", "query_mode": "activity_log"}, "since"),
    ],
    ids=["missing", "blank", "no-time", "turned-around", "log-without-bounds"],
)
async def test_only_what_is_impossible_is_refused(
    user: IndexUser, query: dict[str, str], field: str
) -> None:
    headers = {"X-API-Key": await user.token()}
    reply = await user.send("GET", "/v1/memories/search", None, headers, query)
    assert reply.status == 422
    (detail,) = reply.json["detail"]
    assert detail["loc"] == ["query", field]


async def test_a_hosted_agents_token_opens_no_other_route(user: IndexUser) -> None:
    headers = {
        "Authorization": f"Bearer {await user.token()}",
        "X-Session-Epoch": "1",
    }
    world = user.world
    assert world is not None
    body = world.offer(document_of("written by an agent"))
    for method, path, sent in (
        ("POST", "/v1/index/rows", body),
        ("DELETE", f"/v1/index/rows/{body['grant']['record']}", None),
        ("GET", "/v1/index/search", None),
        ("POST", "/v1/index/tokens", {"name": "more"}),
        ("GET", "/v1/index/tokens", None),
        ("GET", "/v1/log/pull", None),
        ("GET", "/v1/roster", None),
    ):
        reply = await user.send(method, path, sent, headers)
        assert reply.status == 401, path
        assert reply.code == "SESSION_EPOCH"
