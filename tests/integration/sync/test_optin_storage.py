"""Both storages of the index keep the same promises: SQLite in its file, PostgreSQL in a schema."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import asyncpg
import numpy as np
import pytest
from index_rows import DEVICE, NOW_MS, OTHER, VAULT, new_row
from index_user import Topics, index_server
from index_world import IndexWorld, document_of
from postgres_server import PostgresServer
from sync_server import World, create_vault

from memory_manager.base.errors import MemlocketError
from memory_manager.sync.server.index.postgres import open_postgres_index
from memory_manager.sync.server.index.sqlite import open_sqlite_index
from memory_manager.sync.server.index.storage import (
    MAX_TOKENS,
    AgentToken,
    Comparing,
    IndexStorage,
    NewRow,
    Put,
)
from memory_manager.sync.server.index.vectors import word_set
from memory_manager.sync.server.refusals import StorageMismatch, StorageUnavailable
from memory_manager.sync.wire.framing import unpack_page
from memory_manager.sync.wire.index_document import OPTED_IN


@pytest.fixture(params=["sqlite", "postgres", "pgvector"])
async def index(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncGenerator[tuple[IndexStorage, str]]:
    if request.param == "sqlite":
        storage: IndexStorage = await open_sqlite_index(tmp_path)
        place = str(tmp_path / "index.db")
    else:
        server: PostgresServer = request.getfixturevalue(f"{request.param}_server")
        place = server.new_database(pgvector=request.param == "pgvector")
        storage = await open_postgres_index(place)
    assert (storage.comparing is Comparing.DATABASE) == (request.param == "pgvector")
    yield storage, place
    await storage.close()


@pytest.mark.parametrize(
    ("spoil", "refusal"),
    [
        pytest.param(lambda path: path.write_bytes(bytes(8192)), StorageUnavailable, id="damaged"),
        pytest.param(lambda path: _set_version(path, 99), StorageMismatch, id="newer"),
    ],
)
async def test_a_file_that_is_not_ours_to_use_is_refused_as_such(
    tmp_path: Path, spoil: Callable[[Path], object], refusal: type[MemlocketError]
) -> None:
    await (await open_sqlite_index(tmp_path)).close()
    spoil(tmp_path / "index.db")
    with pytest.raises(refusal):
        await open_sqlite_index(tmp_path)


def _set_version(path: Path, number: int) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"PRAGMA user_version = {number}")


async def test_a_schema_of_a_newer_program_is_refused_as_such(
    postgres_server: PostgresServer,
) -> None:
    database = postgres_server.new_database()
    for _ in range(2):  # made, then found
        await (await open_postgres_index(database)).close()
    newer = "INSERT INTO memlocket_index.version(number) VALUES(99)"
    postgres_server.sql(newer, urlsplit(database).path[1:])
    with pytest.raises(StorageMismatch):
        await open_postgres_index(database)


async def test_rows_are_stored_replaced_and_removed(index: tuple[IndexStorage, str]) -> None:
    storage, _ = index
    row = new_row(1)
    assert await storage.put(row, NOW_MS, 10) is Put.STORED
    assert await storage.put(row, NOW_MS, 10) is Put.UNCHANGED
    newer = new_row(1, seq=2, content="eagle")
    assert await storage.put(newer, NOW_MS, 10) is Put.STORED
    assert await storage.put(new_row(1, seq=1), NOW_MS, 10) is Put.NONCE_USED
    assert await storage.documents(VAULT, [row.record]) == {row.record: newer.document}
    assert await storage.records(VAULT) == [row.record]
    assert await storage.records(OTHER) == []
    (candidate,) = await storage.candidates(VAULT)
    assert candidate.envelope == OPTED_IN
    assert (candidate.bucket, candidate.scope, candidate.path) == ("work", None, "team/db")
    assert candidate.words.tolist() == word_set("eagle").tolist()
    assert await storage.remove(VAULT, row.record, DEVICE)
    assert not await storage.remove(VAULT, row.record, DEVICE)
    assert await storage.candidates(VAULT) == []
    codes = [(entry.action, entry.code) for entry in await storage.audit(VAULT, 10)]
    assert codes == [
        ("row.removed", "absent"),
        ("row.removed", "ok"),
        ("row.stored", "replaced"),
        ("row.stored", "new"),
    ]


async def test_a_nonce_counts_once_until_its_grant_has_expired(
    index: tuple[IndexStorage, str],
) -> None:
    storage, _ = index
    row = new_row(1)
    await storage.put(row, NOW_MS, 10)
    await storage.remove(VAULT, row.record, DEVICE)
    assert await storage.put(row, NOW_MS, 10) is Put.NONCE_USED
    assert await storage.put(new_row(1, vault=OTHER), NOW_MS, 10) is Put.STORED
    assert await storage.put(row, row.expires * 1000, 10) is Put.STORED


async def test_an_older_revision_and_other_bytes_of_a_dot_are_refused(
    index: tuple[IndexStorage, str],
) -> None:
    storage, _ = index
    await storage.put(new_row(1, seq=5), NOW_MS, 10)
    assert await storage.put(new_row(1, seq=4), NOW_MS, 10) is Put.OTHER_REVISION
    changed = new_row(1, seq=5, content="other")
    fresh = NewRow(**{**_members(changed), "nonce": b"\x77" * 16, "grant": b"another"})
    assert await storage.put(fresh, NOW_MS, 10) is Put.OTHER_REVISION


def _members(row: NewRow) -> dict[str, object]:
    return {name: getattr(row, name) for name in NewRow.__slots__}


async def test_a_vault_has_no_more_rows_and_tokens_than_allowed(
    index: tuple[IndexStorage, str],
) -> None:
    storage, _ = index
    assert await storage.put(new_row(1), NOW_MS, 1) is Put.STORED
    assert await storage.put(new_row(2), NOW_MS, 1) is Put.FULL
    assert await storage.put(new_row(1, seq=2, content="new"), NOW_MS, 1) is Put.STORED
    assert len(await storage.records(VAULT)) == 1
    for number in range(MAX_TOKENS):
        assert await storage.issue(_token(number), number.to_bytes(32, "big"))
    assert not await storage.issue(_token(MAX_TOKENS), b"\xff" * 32)
    assert len(await storage.tokens(VAULT, NOW_MS)) == MAX_TOKENS


def _token(number: int, vault: bytes = VAULT) -> AgentToken:
    return AgentToken(f"t{number}", vault, "hosted", DEVICE, NOW_MS, NOW_MS + 1_000)


async def test_tokens_end_by_time_and_by_revocation(index: tuple[IndexStorage, str]) -> None:
    storage, _ = index
    await storage.issue(_token(1), b"\x01" * 32)
    found = await storage.token_of(b"\x01" * 32, NOW_MS)
    assert found == _token(1)
    used = await storage.token_of(b"\x01" * 32, NOW_MS + 1)
    assert used is not None
    assert used.last_used_at_ms == NOW_MS
    assert await storage.token_of(b"\x02" * 32, NOW_MS) is None
    assert await storage.token_of(b"\x01" * 32, NOW_MS + 1_000) is None
    assert not await storage.revoke(OTHER, "t1", DEVICE)
    assert await storage.revoke(VAULT, "t1", DEVICE)
    assert await storage.token_of(b"\x01" * 32, NOW_MS) is None


async def test_vectors_are_of_one_model_and_of_the_present_text(
    index: tuple[IndexStorage, str],
) -> None:
    storage, _ = index
    row = new_row(1)
    await storage.put(row, NOW_MS, 10)
    assert await storage.without_vector("m/1", 5) == [(VAULT, row.record, row.document)]
    pieces = np.array([[0.6, 0.8], [1.0, 0.0]], np.float32)
    await storage.put_vector(VAULT, row.record, b"an older text", "m/1", pieces)
    query = np.array([0.6, 0.8], np.float32)

    async def near(model: str, vault: bytes = VAULT) -> dict[bytes, float]:
        return await storage.meanings(vault, model, query, [row.record, b"\x80" * 16])

    assert await near("m/1") == {}
    await storage.put_vector(VAULT, row.record, row.document, "m/1", pieces)
    assert await near("m/1") == pytest.approx({row.record: 1.0})
    assert await near("m/2") == {}
    assert await near("m/1", OTHER) == {}
    assert await storage.meanings(VAULT, "m/1", query, []) == {}
    assert await storage.without_vector("m/1", 5) == []
    assert len(await storage.without_vector("m/2", 5)) == 1
    await storage.put_vector(VAULT, row.record, row.document, "m/2", pieces[1:])
    assert await near("m/2") == pytest.approx({row.record: 0.6})
    assert await near("m/1") == {}
    changed = new_row(1, seq=2, content="eagle")
    assert await storage.put(changed, NOW_MS, 10) is Put.STORED
    assert await near("m/2") == {}
    assert await storage.settle(5) == 0


async def test_vectors_of_another_length_or_direction_are_near_nothing_and_are_kept(
    index: tuple[IndexStorage, str],
) -> None:
    storage, _ = index
    odd = [np.zeros((1, 1)), -np.eye(2), np.zeros((1, 2)), np.ones((2, 3))]
    rows = [new_row(number) for number in range(len(odd))]
    for row, pieces in zip(rows, odd, strict=True):
        await storage.put(row, NOW_MS, 10)
        await storage.put_vector(VAULT, row.record, row.document, "m/1", pieces.astype(np.float32))
    records = [row.record for row in rows]
    query = np.array([0.0, 1.0], np.float32)
    found = await storage.meanings(VAULT, "m/1", query, records)
    assert found == dict.fromkeys(records, 0.0)
    assert await storage.without_vector("m/1", 5) == []


async def test_a_deleted_vault_leaves_no_row_in_any_table_and_others_keep_theirs(
    index: tuple[IndexStorage, str],
) -> None:
    storage, _ = index
    for vault in (VAULT, OTHER):
        await storage.put(new_row(1, vault=vault), NOW_MS, 10)
        await storage.issue(_token(vault[0], vault), vault * 2)
    await storage.delete_vault(VAULT)
    assert await storage.candidates(VAULT) == []
    assert await storage.audit(VAULT, 10) == []
    assert await storage.tokens(VAULT, NOW_MS) == []
    assert await storage.put(new_row(1), NOW_MS, 10) is Put.STORED  # its nonce is forgotten, too
    assert len(await storage.records(OTHER)) == 1
    assert await storage.token_of(OTHER * 2, NOW_MS) is not None


async def test_the_tables_have_no_place_for_the_vault_class(
    index: tuple[IndexStorage, str],
) -> None:
    storage, place = index
    await storage.put(new_row(1), NOW_MS, 10)
    for record in (b"\x7f" + b"\xff" * 15, b"\x00" * 16, b"\x80" * 15):
        if place.startswith("postgresql:"):
            line = await asyncpg.connect(place)
            with pytest.raises(asyncpg.CheckViolationError):
                await line.execute("UPDATE memlocket_index.index_row SET record = $1", record)
            await line.close()
        else:
            with contextlib.closing(sqlite3.connect(place)) as connection:
                with pytest.raises(sqlite3.IntegrityError):
                    connection.execute("UPDATE index_row SET record = ?", (record,))


async def test_a_server_on_postgresql_recalls_what_was_opted_in_and_forgets_it(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    database = postgres_server.new_database()
    async with index_server(tmp_path / "server", database_url=database) as user:
        world = IndexWorld(user.server.host.key.public, now=int(time.time()))
        await user.register(world)
        await user.login(world)
        body = world.offer(document_of("the staging database is falcon-stg"))
        assert (await user.call("POST", "/v1/index/rows", body)).status == 201
        refused = await user.call(
            "POST", "/v1/index/rows", world.offer(document_of("x"), record=b"\x11" * 16)
        )
        assert (refused.status, refused.code) == (422, "CLASS_POLICY")
        token = await user.token()
        (hit,) = await user.search(token, "staging database")
        assert hit["id"] == body["grant"]["record"]
        assert (await user.call("DELETE", f"/v1/index/rows/{hit['id']}")).status == 204
        assert await user.search(token, "*") == []
    audit = postgres_server.sql(
        "SELECT code FROM memlocket_index.index_audit WHERE action = 'row.refused'",
        urlsplit(database).path[1:],
    )
    assert audit == "class_policy"


async def test_a_full_vacuum_takes_what_was_removed_out_of_the_tables_of_postgresql(
    postgres_server: PostgresServer,
) -> None:
    """As README tells whoever runs one; the write-ahead log is PostgreSQL's own."""
    database, canary = postgres_server.new_database(), b"canary-quokka-7731"
    name = urlsplit(database).path[1:]
    number = postgres_server.sql(f"SELECT oid FROM pg_database WHERE datname = '{name}'")

    def tables_hold_it() -> bool:
        postgres_server.sql("CHECKPOINT")
        for file in (postgres_server.data / "base" / number).iterdir():
            with contextlib.suppress(FileNotFoundError):  # PostgreSQL's own may go meanwhile
                if canary in file.read_bytes():
                    return True
        return False

    storage = await open_postgres_index(database)
    row = new_row(1, content=canary.decode())
    assert await storage.put(row, NOW_MS, 10) is Put.STORED
    assert tables_hold_it()
    assert await storage.remove(VAULT, row.record, DEVICE)
    postgres_server.sql("VACUUM FULL memlocket_index.index_row", name)
    assert not tables_hold_it()
    await storage.close()


@pytest.mark.parametrize("kind", ["sqlite", "postgres", "pgvector"])
async def test_a_vault_that_its_owner_deletes_is_in_no_table_of_the_server(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    """T36: log, roster, wraps, sessions and index go at once; another vault's session got none of
    it before, and keeps its own.
    """
    database: PostgresServer | None = None
    settings: dict[str, Any] = {}
    if kind != "sqlite":
        database = request.getfixturevalue(f"{kind}_server")
        settings["database_url"] = database.new_database(pgvector=kind == "pgvector")
    async with (
        index_server(tmp_path / "server", Topics(), **settings) as user,
        aiohttp.ClientSession() as http,
    ):
        ours = await create_vault(http, user.server.url, "", seed=1)
        theirs = await create_vault(http, user.server.url, "", seed=2)
        world = IndexWorld(user.server.host.key.public, now=int(time.time()))
        world.vault = ours.founded
        body = world.offer(document_of("the staging database is falcon-stg"))
        record = body["grant"]["record"]
        call = ours.caller.call
        assert (await ours.caller.push(ours.rows(3))).status == 200
        row = ours.device.own[0]
        wraps = [{"body_hash": row.entry.body_hash.hex(), "wrap": row.row.wrap.hex()}]
        assert (await call("POST", "/v1/wrap/push", document={"wraps": wraps})).status == 200
        assert (await call("POST", "/v1/index/rows", document=body)).status == 201
        assert (await call("POST", "/v1/index/tokens", document={"name": "bot"})).status == 201
        if database is not None and kind == "pgvector":
            name = urlsplit(settings["database_url"]).path[1:]
            assert database.sql("SELECT model FROM memlocket_index.index_piece", name) == "topics/1"
        await _sees_nothing(theirs, record)
        assert (await theirs.caller.push(theirs.rows(2))).status == 200
        end = await ours.caller.signed(2)
        assert (await call("DELETE", "/v1/vaults/self", document=end)).status == 204
        assert (await call("GET", "/v1/log/pull")).status == 401
        held = await theirs.caller.call("GET", "/v1/log/pull?after=0")
        assert len(unpack_page(held.body).rows) == 2
    if database is not None:
        everything = database.dump(urlsplit(settings["database_url"]).path[1:])
    else:
        everything = b"".join(map(_dumped, sorted((tmp_path / "server").glob("*.db"))))
    everything = everything.lower()
    assert theirs.founded.vault.hex().encode() in everything
    for ids in (ours.founded.vault, ours.caller.keys.id, row.entry.body_hash):
        assert ids.hex().encode() not in everything
    assert b"falcon-stg" not in everything


async def _sees_nothing(stranger: World, record: str) -> None:
    """Every route that answers with something, asked by another vault, with our ids in it."""
    call = stranger.caller.call
    assert unpack_page((await call("GET", "/v1/log/pull?after=0")).body).rows == ()
    assert (await call("GET", "/v1/wrap/pull?after=0")).json["wraps"] == []
    assert len((await call("GET", "/v1/roster?after=-1")).json["entries"]) == 1
    assert (await call("GET", "/v1/notify?after=0&wait=0")).json == {"n": 0}
    assert (await call("GET", "/v1/index/search?q=*")).json["results"] == []
    assert (await call("GET", "/v1/index/tokens")).json["tokens"] == []
    unknown = [await call("DELETE", f"/v1/index/rows/{each}") for each in (record, "f" * 32)]
    assert [(said.status, said.body) for said in unknown] == [(204, b"")] * 2


def _dumped(path: Path) -> bytes:
    """Every row of a database as text, octets as hex."""
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return "\n".join(connection.iterdump()).encode()
