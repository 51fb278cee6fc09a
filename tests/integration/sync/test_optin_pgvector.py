"""Vectors in PostgreSQL's own type: the same answers, nothing left, and no silence without."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging
import time
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import numpy as np
import pytest
from index_rows import NOW_MS, OTHER, VAULT, new_row
from index_user import Topics, index_server
from index_world import IndexWorld, document_of
from postgres_server import PostgresServer, database_of
from sync_server import ServerProcess

from memory_manager.base.path_filter import PathFilter
from memory_manager.security.envelope import VAULT_DEFAULT
from memory_manager.sync.server.index.postgres import PostgresIndex, open_postgres_index
from memory_manager.sync.server.index.search import Degraded, Query
from memory_manager.sync.server.index.service import Found, IndexService
from memory_manager.sync.server.index.sqlite import open_sqlite_index
from memory_manager.sync.server.index.storage import Comparing, IndexStorage, Matrix, Put
from memory_manager.sync.wire.index_document import OPTED_IN
from memory_manager.sync.wire.roster import Member

MODEL, DIMENSIONS, ROWS = "random/1", 48, 240
WORDS = "amber basin cedar delta ember fjord grove heron inlet jetty".split()


class RandomMeanings:
    """An embedder whose vectors depend on the text alone."""

    model: str | None = MODEL

    def pieces(self, text: str) -> Matrix:
        source = np.random.default_rng(list(text.encode()))
        count = int(source.integers(1, 4))
        found = source.normal(size=(count, DIMENSIONS)).astype(np.float32)
        found += np.float32(0.8)  # so that many are near each other
        units: Matrix = found / np.linalg.norm(found, axis=1, keepdims=True)
        return units

    async def query(self, text: str) -> Matrix:
        first: Matrix = self.pieces(text)[0]
        return first

    async def documents(self, texts: Sequence[str]) -> list[Matrix | None]:
        return [self.pieces(text) for text in texts]


def _service(storage: IndexStorage) -> IndexService:
    async def nobody(_vault: bytes, _device: bytes) -> Member | None:
        return None

    return IndexService(
        storage,
        server_key=bytes(32),
        find_member=nobody,
        clock_ms=lambda: NOW_MS,
        embedder=RandomMeanings(),
    )


async def _put_all(storage: IndexStorage, count: int = ROWS) -> None:
    """Rows of two vaults; some that the gate drops, in several buckets and paths."""
    for number in range(count):
        content = " ".join(WORDS[(number * step) % 10] for step in (1, 3, 7)) + f" n{number}"
        row = dataclasses.replace(
            new_row(number, vault=OTHER if number % 9 == 8 else VAULT, content=content),
            envelope=VAULT_DEFAULT if number % 11 == 10 else OPTED_IN,
            opted_in=number % 13 != 12,
            bucket="home" if number % 3 else "work",
            path=f"team/{number % 5}",
        )
        assert await storage.put(row, NOW_MS, count) is Put.STORED


QUERIES = [
    Query("amber heron", limit=300),
    Query("nothing like it", limit=300),
    Query("cedar", limit=7),
    Query("cedar", limit=300, bucket="home"),
    Query("delta fjord", limit=300, path=PathFilter("team/3"), threshold=0.2),
    Query("delta fjord", limit=20, newest_first=True),
    Query("*", limit=300),
]


async def _answers(storage: IndexStorage) -> list[Found]:
    service = _service(storage)
    return [await service.search(VAULT, query) for query in QUERIES]


def _assert_same(found: list[Found], expected: list[Found]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert [hit.row.record for hit, _ in one.hits] == [hit.row.record for hit, _ in other.hits]
        for field in ("score", "similarity"):
            scores = [getattr(hit, field) for hit, _ in one.hits]
            assert scores == pytest.approx([getattr(hit, field) for hit, _ in other.hits], abs=1e-5)
        assert (one.candidates, one.degraded) == (other.candidates, other.degraded)


async def _fill(storage: IndexStorage) -> None:
    while await _service(storage).fill():
        pass


async def test_all_three_storages_give_the_same_ranking(
    postgres_server: PostgresServer, pgvector_server: PostgresServer, tmp_path: Path
) -> None:
    with_it = await open_postgres_index(pgvector_server.new_database(pgvector=True))
    without = await open_postgres_index(postgres_server.new_database())
    storages: list[IndexStorage] = [await open_sqlite_index(tmp_path), without, with_it]
    found: list[list[Found]] = []
    for storage in storages:
        await _put_all(storage)
        half = await storage.without_vector(MODEL, ROWS // 2)
        assert len(half) == ROWS // 2
        assert (await _answers(storage))[0].degraded == (Degraded.EMBEDDINGS_BUILDING,)
        await _fill(storage)
        found.append(await _answers(storage))
        await storage.close()
    assert [storage.comparing is Comparing.DATABASE for storage in storages] == [0, 0, 1]
    meant, unknown, few, *_ = found[0]
    assert len(meant.hits) > 100
    assert len(unknown.hits) > 50  # by meaning alone
    assert (len(few.hits), few.candidates > 50) == (7, True)
    assert meant.degraded == ()
    for others in found[1:]:
        _assert_same(others, found[0])


def _tables(server: PostgresServer, url: str) -> tuple[int, int, int]:
    """How many rows, rows with their own vectors, and pieces there are."""
    text = server.sql(
        "SELECT count(*), count(pieces), (SELECT count(*) FROM memlocket_index.index_piece)"
        " FROM memlocket_index.index_row",
        database_of(url),
    )
    rows, own, pieces = map(int, text.split("|"))
    return rows, own, pieces


async def test_what_is_taken_back_or_replaced_is_in_no_table_and_another_vault_keeps_its_own(
    pgvector_server: PostgresServer,
) -> None:
    url = pgvector_server.new_database(pgvector=True)
    storage = await open_postgres_index(url)
    two = np.eye(2, dtype=np.float32)
    mine, theirs = new_row(1), new_row(1, vault=OTHER)
    for row in (mine, theirs):
        await storage.put(row, NOW_MS, 10)
        await storage.put_vector(row.vault, row.record, row.document, "m/1", two)
    assert _tables(pgvector_server, url) == (2, 0, 4)
    await storage.put(new_row(1, seq=2, content="eagle"), NOW_MS, 10)
    assert _tables(pgvector_server, url) == (2, 0, 2)
    await storage.put_vector(VAULT, mine.record, mine.document, "m/1", two)  # of the text before
    assert _tables(pgvector_server, url) == (2, 0, 2)
    newer = (await storage.documents(VAULT, [mine.record]))[mine.record]
    await storage.put_vector(VAULT, mine.record, newer, "m/1", two)
    await storage.put_vector(VAULT, mine.record, newer, "m/2", two[:1])
    assert _tables(pgvector_server, url) == (2, 0, 3)
    assert await storage.remove(VAULT, mine.record, mine.device)
    assert _tables(pgvector_server, url) == (1, 0, 2)
    await storage.delete_vault(OTHER)
    assert _tables(pgvector_server, url) == (0, 0, 0)
    await storage.close()


async def test_a_server_keeps_no_text_beside_vectors_and_a_full_vacuum_takes_them_from_the_files(
    pgvector_server: PostgresServer, tmp_path: Path
) -> None:
    """Through the routes: one row comes, is found by meaning, and is opted out again."""
    url = pgvector_server.new_database(pgvector=True)
    name = database_of(url)
    number = pgvector_server.sql(f"SELECT oid FROM pg_database WHERE datname = '{name}'")
    canary = "canary-quokka-7731"
    embedder = RandomMeanings()

    def files_hold(octets: bytes) -> bool:
        pgvector_server.sql("CHECKPOINT")
        for file in (pgvector_server.data / "base" / number).iterdir():
            with contextlib.suppress(FileNotFoundError):  # PostgreSQL's own may go meanwhile
                if octets in file.read_bytes():
                    return True
        return False

    async with index_server(tmp_path / "server", embedder, database_url=url) as user:
        world = IndexWorld(user.server.host.key.public, now=int(time.time()))
        await user.register(world)
        await user.login(world)
        body = world.offer(document_of(canary, f"canary/{canary}"))
        assert (await user.call("POST", "/v1/index/rows", body)).status == 201
        vector = embedder.pieces(canary)[0].astype("<f4").tobytes()
        assert files_hold(vector)
        assert files_hold(canary.encode())
        dump = pgvector_server.dump(name)
        assert canary.encode().hex().encode() in dump  # in the document, as the owner agreed
        copied = dump.split(b"COPY memlocket_index.index_piece", 1)[1].split(b"\\.", 1)[0]
        assert MODEL.encode() in copied
        assert canary.encode() not in copied
        assert canary.encode().hex().encode() not in copied
        record = body["grant"]["record"]
        assert await user.found(canary) == [record]
        assert (await user.call("DELETE", f"/v1/index/rows/{record}")).status == 204
        assert await user.found(canary) == []
        assert _tables(pgvector_server, url) == (0, 0, 0)
    for table in ("index_row", "index_piece"):
        pgvector_server.sql(f"VACUUM FULL memlocket_index.{table}", name)
    assert not files_hold(vector)
    assert not files_hold(canary.encode())


def test_the_table_of_vectors_has_no_place_for_the_vault_class(
    pgvector_server: PostgresServer,
) -> None:
    url = pgvector_server.new_database(pgvector=True)
    asyncio.run(_close(open_postgres_index(url)))
    checked = pgvector_server.sql(
        "SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE contype = 'c'"
        " AND conrelid = 'memlocket_index.index_piece'::regclass",
        database_of(url),
    )
    assert "get_byte(record, 0) >= 128" in checked


async def _close(opening: object) -> None:
    assert asyncio.iscoroutine(opening)
    await (await opening).close()


@contextlib.asynccontextmanager
async def _opened(url: str) -> AsyncGenerator[PostgresIndex]:
    storage = await open_postgres_index(url)
    yield storage
    await storage.close()


async def test_a_database_gets_the_extension_later_and_loses_it_again(
    pgvector_server: PostgresServer,
) -> None:
    """Vectors move, answers stay, also those of a server that was there before."""
    url = pgvector_server.new_database()
    name = database_of(url)
    async with _opened(url) as older:
        assert older.comparing is Comparing.NOT_CREATED
        await _put_all(older)
        await _fill(older)
        expected = await _answers(older)
        pgvector_server.sql("CREATE EXTENSION vector", name)
        assert older.comparing is Comparing.NOT_CREATED
        async with _opened(url) as newer:
            assert newer.comparing is Comparing.DATABASE
            rows, own, pieces = _tables(pgvector_server, url)
            assert (rows, own, pieces) == (ROWS, ROWS, 0)
            _assert_same(await _answers(newer), expected)
            assert await newer.settle(ROWS // 2) == ROWS // 2
            _assert_same(await _answers(newer), expected)
            await _fill(newer)
            rows, own, pieces = _tables(pgvector_server, url)
            assert (rows, own) == (ROWS, 0)
            assert pieces > ROWS
            for each in (older, newer):
                _assert_same(await _answers(each), expected)
                assert each.comparing is Comparing.DATABASE
            pgvector_server.sql("DROP EXTENSION vector CASCADE", name)
            lost = (await _answers(newer))[0]
            assert lost.degraded == (Degraded.EMBEDDINGS_BUILDING,)
            assert newer.comparing is Comparing.NOT_CREATED
    async with _opened(url) as again:
        assert len(await again.without_vector(MODEL, ROWS)) == ROWS
        await _fill(again)
        _assert_same(await _answers(again), expected)
        pgvector_server.sql("CREATE EXTENSION vector", name)
    async with _opened(url) as back:
        await _fill(back)
        assert _tables(pgvector_server, url) == (ROWS, 0, pieces)
        _assert_same(await _answers(back), expected)


async def test_servers_that_start_together_create_the_extension_once(
    pgvector_server: PostgresServer,
) -> None:
    """One that may, because its role is a superuser's."""
    url = pgvector_server.url(database_of(pgvector_server.new_database()), "postgres")
    storages = await asyncio.gather(*(open_postgres_index(url) for _ in range(8)))
    assert {storage.comparing for storage in storages} == {Comparing.DATABASE}
    row = new_row(1)
    await storages[0].put(row, NOW_MS, 10)
    one = np.ones((1, 4), np.float32) / 2
    await asyncio.gather(
        *(each.put_vector(VAULT, row.record, row.document, "m/1", one) for each in storages)
    )
    near = await storages[1].meanings(VAULT, "m/1", one[0], [row.record])
    assert near == pytest.approx({row.record: 1.0})
    assert _tables(pgvector_server, url) == (1, 0, 1)
    for storage in storages:
        await storage.close()


@pytest.mark.parametrize("expected", [*Comparing])
async def test_a_server_says_who_compares_vectors(
    request: pytest.FixtureRequest,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    expected: Comparing,
) -> None:
    """In its log at the start and in its metrics; never silently slower."""
    settings = {}
    if expected is not Comparing.SQLITE:
        settings["database_url"] = _database(request, expected)
    with caplog.at_level(logging.INFO):
        async with index_server(tmp_path / "server", Topics(), **settings) as user:
            metrics = user.server.host.metrics.text()
    said = [
        (record.levelname, record.__dict__["fields"])
        for record in caplog.records
        if record.msg == "index_vectors"
    ]
    if expected is Comparing.SQLITE:
        assert said == []
    elif expected is Comparing.DATABASE:
        assert said == [("INFO", {"backend": "pgvector", "reason": "database"})]
    else:
        assert said == [("WARNING", {"backend": "process", "reason": expected.value})]
    number = int(expected is Comparing.DATABASE)
    assert f"memlocket_server_index_vectors_in_database {number}\n" in metrics


def _database(request: pytest.FixtureRequest, expected: Comparing) -> str:
    kind = "postgres" if expected is Comparing.NO_EXTENSION else "pgvector"
    server: PostgresServer = request.getfixturevalue(f"{kind}_server")
    known = "SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'"
    if kind == "postgres" and server.sql(known) != "0":
        pytest.skip("the PostgreSQL of this machine has pgvector")
    return server.new_database(pgvector=expected is Comparing.DATABASE)


@pytest.mark.parametrize(
    ("expected", "shown"),
    [
        (Comparing.DATABASE, "by the database (pgvector)"),
        (Comparing.NOT_CREATED, "CREATE EXTENSION vector"),
        (Comparing.NO_EXTENSION, "this PostgreSQL has no pgvector"),
    ],
)
def test_the_operator_sees_who_compares_vectors(
    request: pytest.FixtureRequest, tmp_path: Path, expected: Comparing, shown: str
) -> None:
    url = _database(request, expected)
    environment = {"MEMLOCKET_SERVER_DATABASE_URL": url}
    with ServerProcess(tmp_path / "server", (), environment) as process:
        status = process.command("status", "--json")
        assert json.loads(status.stdout)["index"] == {"vectors": expected.value}
        assert shown in " ".join(process.command("status").stdout.split())
        events = [json.loads(line) for line in process.log().splitlines()]
    reasons = [event["reason"] for event in events if event["event"] == "index_vectors"]
    assert reasons == [expected.value]
