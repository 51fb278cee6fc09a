"""A real server with opted-in rows: what it takes, keeps apart, finds, refuses and gives back."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from index_user import IndexUser, Topics, index_server
from index_world import IndexWorld, document_of, offer_of
from leak_scan import scan_folders

from memory_manager.sync.wire.envelope import Dot
from memory_manager.sync.wire.index_document import IndexDocument

FALCON = document_of("the staging database is falcon-stg", "team/db", scope="alpha")
LUNCH = document_of("lunch is at noon on Fridays", "team/habits", agent_id=None)


def _world(user: IndexUser) -> IndexWorld:
    return IndexWorld(user.server.host.key.public, now=int(time.time()))


@pytest.fixture
async def user(tmp_path: Path) -> AsyncGenerator[IndexUser]:
    async with index_server(tmp_path / "server") as user:
        yield user


@pytest.fixture
async def world(user: IndexUser) -> IndexWorld:
    world = _world(user)
    await user.register(world)
    await user.login(world)
    return world


async def _store(user: IndexUser, world: IndexWorld, document: IndexDocument) -> str:
    body = world.offer(document)
    reply = await user.call("POST", "/v1/index/rows", body)
    assert reply.status == 201, reply.body
    return str(body["grant"]["record"])


async def _audit(user: IndexUser, world: IndexWorld) -> list[tuple[str, str]]:
    """What the audit of the server's own file says, newest first."""
    path = user.server.host.settings.data / "index.db"
    with sqlite3.connect(f"file:{path}?mode=ro", uri=True) as connection:
        rows = connection.execute(
            "SELECT action, code FROM index_audit WHERE vault = ? ORDER BY number DESC",
            (world.vault.vault,),
        ).fetchall()
    connection.close()
    return rows


async def test_an_opted_in_row_is_found_by_its_words_and_says_that_meaning_is_missing(
    user: IndexUser, world: IndexWorld
) -> None:
    record = await _store(user, world, FALCON)
    await _store(user, world, LUNCH)
    assert await user.found("which database is staging?") == [record]
    reply = await user.call("GET", "/v1/index/search", None, q="database")
    assert reply.json["degraded"] == ["embeddings"]
    assert "content" not in reply.json["results"][0]
    assert await user.found("nothing of the kind") == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"expires": 1}, "expired"),
        ({"sha256": b"\x01" * 32}, "other_bytes"),
        ({"server": b"\x06" * 32}, "other_server"),
        ({"vault": b"\x07" * 16}, "other_vault"),
        ({"fields": ("content",)}, "other_fields"),
        ({"dot": Dot(b"\x01" * 16, 1)}, "other_device"),
    ],
    ids=["expired", "hash", "server-key", "vault", "fields", "dot"],
)
async def test_a_refused_grant_stores_nothing_and_leaves_an_audit_row(
    user: IndexUser, world: IndexWorld, change: dict[str, Any], reason: str
) -> None:
    reply = await user.call("POST", "/v1/index/rows", world.offer(FALCON, **change))
    assert (reply.status, reply.code, reply.reason) == (422, "GRANT", reason)
    assert await user.found("*") == []
    assert (await _audit(user, world))[0] == ("row.refused", reason)


async def test_one_signature_or_a_foreign_grant_key_is_not_enough(
    user: IndexUser, world: IndexWorld
) -> None:
    other = world.vault.add()
    await user.post_roster(world)
    grant, raw = world.grant(FALCON), FALCON.encode()
    for signed, reason in (
        (world.sign(grant, owner=world.device.signing), "owner_signature"),
        (world.sign(grant, device=world.device.grant), "device_signature"),
        (world.sign(grant, owner=other.grant), "owner_signature"),
    ):
        reply = await user.call("POST", "/v1/index/rows", offer_of(signed, raw))
        assert (reply.status, reply.reason) == (422, reason)
        assert (await _audit(user, world))[0] == ("row.refused", reason)


async def test_a_grant_counts_once_and_for_one_revision(user: IndexUser, world: IndexWorld) -> None:
    grant = world.grant(FALCON)
    body = offer_of(world.sign(grant), FALCON.encode())
    assert (await user.call("POST", "/v1/index/rows", body)).status == 201
    repeated = await user.call("POST", "/v1/index/rows", body)
    assert (repeated.status, repeated.json) == (200, {"stored": False})
    newer = document_of("the staging database is eagle-stg", "team/db")
    reused = await user.call(
        "POST", "/v1/index/rows", {**body, "document": newer.encode().decode()}
    )
    assert reused.reason == "other_bytes"
    nonce_again = world.offer(newer, record=grant.record, nonce=grant.nonce)
    assert (await user.call("POST", "/v1/index/rows", nonce_again)).reason == "used_before"
    older = world.offer(newer, record=grant.record, dot=grant.dot)
    assert (await user.call("POST", "/v1/index/rows", older)).reason == "other_revision"
    assert (
        await user.call("POST", "/v1/index/rows", world.offer(newer, record=grant.record))
    ).status == 201
    assert await user.found("eagle-stg") == [grant.record.hex()]
    assert await user.found("falcon") == []
    codes = [code for action, code in await _audit(user, world) if action == "row.refused"]
    assert codes == ["other_revision", "used_before", "other_bytes"]


async def test_a_grant_of_a_row_taken_back_does_not_bring_it_again(
    user: IndexUser, world: IndexWorld
) -> None:
    body = world.offer(FALCON)
    await user.call("POST", "/v1/index/rows", body)
    await user.call("DELETE", f"/v1/index/rows/{body['grant']['record']}")
    again = await user.call("POST", "/v1/index/rows", body)
    assert (again.status, again.reason) == (422, "used_before")


async def test_a_row_of_the_vault_class_is_refused_everywhere_with_an_audit_row(
    user: IndexUser, world: IndexWorld
) -> None:
    for method, path, body in (
        ("POST", "/v1/index/rows", world.offer(FALCON, record=b"\x11" * 16)),
        ("DELETE", f"/v1/index/rows/{'11' * 16}", None),
    ):
        reply = await user.call(method, path, body)
        assert (reply.status, reply.code) == (422, "CLASS_POLICY")
        assert (await _audit(user, world))[0] == ("row.refused", "class_policy")


async def test_the_table_itself_has_no_place_for_a_vault_row(
    user: IndexUser, world: IndexWorld
) -> None:
    await _store(user, world, FALCON)
    path = user.server.host.settings.data / "index.db"
    with sqlite3.connect(path) as connection:
        for record in (b"\x11" * 16, b"\x7f" + b"\xff" * 15, b"\x91" * 15):
            with pytest.raises(sqlite3.IntegrityError):
                connection.execute("UPDATE index_row SET record = ?", (record,))
    connection.close()


async def test_credentials_are_refused_by_the_server_too(
    user: IndexUser, world: IndexWorld
) -> None:
    secret = "ghp_" + "aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1vW3xY5"
    reply = await user.call("POST", "/v1/index/rows", world.offer(document_of(f"token={secret}")))
    assert (reply.status, reply.reason) == (422, "credential")
    assert (await _audit(user, world))[0] == ("row.refused", "credential")


async def test_taking_back_leaves_nothing_in_any_file_of_the_server(
    user: IndexUser, world: IndexWorld, tmp_path: Path
) -> None:
    canaries = {"content": "canary-quokka-7731", "path": "canary/path-9917"}
    body = world.offer(document_of(canaries["content"], canaries["path"]))
    assert (await user.call("POST", "/v1/index/rows", body)).status == 201
    there = {leak.canary for leak in scan_folders([tmp_path], canaries)}
    assert there == {"content", "path"}
    removed = await user.call("DELETE", f"/v1/index/rows/{body['grant']['record']}")
    assert removed.status == 204
    assert scan_folders([tmp_path], canaries) == []
    again = await user.call("DELETE", f"/v1/index/rows/{body['grant']['record']}")
    assert again.status == 204  # a repeated request is no failure


async def test_another_vault_sees_and_removes_nothing(user: IndexUser, world: IndexWorld) -> None:
    record = await _store(user, world, FALCON)
    token = await user.token()
    other = IndexWorld(user.server.host.key.public, now=world.now)
    other.source.seed(99)
    other.__post_init__()
    await user.register(other)
    await user.login(other)
    assert await user.found("*") == []
    assert (await user.call("DELETE", f"/v1/index/rows/{record}")).status == 204
    assert await user.search(await user.token(), "*") == []
    assert [hit["id"] for hit in await user.search(token, "*")] == [record]
    listed = await user.call("GET", "/v1/index/tokens")
    assert [entry["name"] for entry in listed.json["tokens"]] == ["hosted"]
    assert len(listed.json["tokens"]) == 1


async def test_deleting_the_vault_empties_every_table_of_the_index(
    user: IndexUser, world: IndexWorld
) -> None:
    await _store(user, world, FALCON)
    await user.token()
    for mount in user.server.host.mounts:
        await mount.delete_vault(world.vault.vault)
    path = user.server.host.settings.data / "index.db"
    with sqlite3.connect(path) as connection:
        for table in ("index_row", "grant_used", "index_token", "index_audit"):
            assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)
    connection.close()


async def test_the_gate_stands_in_front_of_every_answer(user: IndexUser, world: IndexWorld) -> None:
    """Rows that got past the door some other way are still not recalled, counted or listed."""
    record = await _store(user, world, FALCON)
    token = await user.token()
    path = user.server.host.settings.data / "index.db"
    for column, value in (
        ("security_envelope", '{"security_mode":"vault"}'),
        ("security_envelope", "no json"),
        ("opted_in", 0),
    ):
        with sqlite3.connect(path) as connection:
            (before,) = connection.execute(f"SELECT {column} FROM index_row").fetchone()
            connection.execute(f"UPDATE index_row SET {column} = ?", (value,))
        connection.close()
        for query in ("database", "*", record):
            assert await user.found(query) == []
            assert await user.search(token, query) == []
        headers = {"X-API-Key": token}
        reply = await user.send("POST", "/v1/recall/context", {"query": "database"}, headers)
        assert reply.json["items"] == []
        assert reply.json["context_text"] == ""
        assert reply.json["coverage"] == {"candidates": 0, "returned": 0}
        with sqlite3.connect(path) as connection:
            connection.execute(f"UPDATE index_row SET {column} = ?", (before,))
        connection.close()
    assert await user.found("database") == [record]


async def test_rows_are_found_by_meaning_where_the_server_has_an_embedder(tmp_path: Path) -> None:
    embedder = Topics()
    async with index_server(tmp_path / "server", embedder) as user:
        world = _world(user)
        await user.register(world)
        await user.login(world)
        record = await _store(user, world, document_of("the automobile stands in bay 4"))
        await _store(user, world, LUNCH)
        reply = await user.call("GET", "/v1/index/search", None, q="where is my car")
        assert [hit["record"] for hit in reply.json["results"]] == [record]
        assert reply.json["degraded"] == []
        embedder.down = True
        late = await _store(user, world, document_of("a meal costs nine"))
        reply = await user.call("GET", "/v1/index/search", None, q="where is my car")
        assert (reply.json["results"], reply.json["degraded"]) == ([], ["embeddings"])
        embedder.down = False
        reply = await user.call("GET", "/v1/index/search", None, q="meal")
        assert reply.json["degraded"] == ["embeddings_building"]
        assert late in [hit["record"] for hit in reply.json["results"]]
