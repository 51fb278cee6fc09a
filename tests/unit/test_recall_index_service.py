"""Both legs over a real encrypted vault: freshness, forgetting, models that come and go
(recall.md 6, 10, 11).
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hash_embedder import HashEmbedder
from recall_vault import recall_vault
from small_vault import SmallVault, connect, writer

from memory_manager.base.times import now_ms
from memory_manager.recall import embedding_queue, meaning, text_rules, vector_segments
from memory_manager.recall.rebuild import What
from memory_manager.recall.requests import Degraded, SearchRequest, TimeOrder
from memory_manager.vault.errors import VaultLocked
from memory_manager.vault.filters import RowFilter
from memory_manager.vault.rows import ForgetMode, MemoryChange, MemoryDraft


async def test_words_answer_without_a_model_and_say_so(tmp_path: Path) -> None:
    async with recall_vault(tmp_path) as vault:
        vault.remember("The staging database listens on port 5433")
        found = await vault.search("which port has the staging database")
        assert [hit.row.content for hit in found.hits] == [
            "The staging database listens on port 5433"
        ]
        assert found.degraded == (Degraded.EMBEDDINGS,)


async def test_vectors_follow_a_write_and_find_what_words_do_not(tmp_path: Path) -> None:
    embedder = HashEmbedder(synonyms={"automobile": "car", "vehicle": "car"})
    async with recall_vault(tmp_path, embedder) as vault:
        vault.remember("My automobile needs new tyres")
        vault.remember("The dentist appointment moved")
        await vault.vectors_ready(2)
        found = await vault.search("vehicle")
        assert found.hits[0].row.content == "My automobile needs new tyres"
        assert found.meaning_only
        assert found.degraded == ()


async def test_an_update_leaves_the_old_text_in_neither_leg(tmp_path: Path) -> None:
    async with recall_vault(tmp_path, HashEmbedder()) as vault:
        row = vault.remember("The gateway is marmalade")
        await vault.vectors_ready(1)
        change = MemoryChange(content="The gateway is granite")
        vault.vault.write(lambda tx: vault.vault.memories.update(tx, row.id, change, writer()))
        found = await vault.search("marmalade")
        assert all(hit.cosine is None for hit in found.hits)
        assert b"marmalade" not in _derived_tables(vault.vault)
        await vault.vectors_ready(1)
        assert (await vault.contents("granite"))[0] == "The gateway is granite"


async def test_a_forgotten_row_is_gone_from_every_derived_table(tmp_path: Path) -> None:
    embedder = HashEmbedder()
    async with recall_vault(tmp_path, embedder) as vault:
        row = vault.remember("zanzibarword kept secretly")
        vault.remember("something else entirely")
        await vault.vectors_ready(2)
        vault.vault.write(
            lambda tx: vault.vault.memories.forget(tx, row.id, ForgetMode.SOFT_DELETE, writer())
        )
        assert row.content not in await vault.contents("zanzibarword kept")
        assert b"zanzibar" not in _derived_tables(vault.vault)
        assert vault.vault.read(
            lambda c: c.execute("SELECT count(*) FROM vector_tail").fetchone()
        ) == (1,)


async def test_vectors_survive_a_restart_and_are_not_made_again(tmp_path: Path) -> None:
    async with recall_vault(tmp_path, HashEmbedder()) as vault:
        for number in range(5):
            vault.remember(f"note number {number} about lighthouses")
        await vault.vectors_ready(5)
    again = HashEmbedder()
    async with recall_vault(tmp_path, again) as vault:
        await vault.vectors_ready(5)
        found = await vault.search("lighthouses", limit=5)
        assert len(found.hits) == 5
        assert all(hit.cosine is not None for hit in found.hits)
        assert again.embedded == []


def _derived_tables(vault: SmallVault) -> bytes:
    """All bytes of the word and vector tables."""
    connection = connect(vault.path, maintenance=True)
    try:
        found = bytearray()
        for (table,) in connection.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND (name LIKE 'memory_fts%'"
            " OR name LIKE 'memory_tri%' OR name LIKE 'vector_%' OR name = 'fts_source')"
        ).fetchall():
            if table in ("memory_fts", "memory_tri", "memory_vocab"):
                continue
            for row in connection.execute(f'SELECT * FROM "{table}"'):
                for value in row:
                    found += value if isinstance(value, bytes) else str(value).encode()
        return bytes(found)
    finally:
        connection.close()


async def test_a_change_of_model_never_mixes_vectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedding_queue, "POLL_SECONDS", 0.02)
    old = HashEmbedder(key="old/1/none/64", synonyms={"automobile": "car"})
    async with recall_vault(tmp_path, old) as vault:
        for number in range(70):
            vault.remember(f"automobile number {number}")
        await vault.vectors_ready(70)
    old_again = HashEmbedder(key="old/1/none/64", synonyms={"automobile": "car"})
    new = HashEmbedder(key="new/1/none/32", dim=32, siblings={old.key or "": old_again})
    new.down = True
    async with recall_vault(tmp_path, new) as vault:
        await vault.until(lambda: vault.recall.status()["building"])
        await vault.until(lambda: vault.recall.status()["answering_model_key"] == old.key)
        found = await vault.search("car")
        assert len(found.hits) == 10
        assert found.degraded == ()
        assert old_again.queries == ["car"]
        new.down = False
        await vault.vectors_ready(70)
        await vault.search("car")
        assert new.queries == ["car"]
        await vault.until(lambda: _models(vault.vault) == [("new/1/none/32", "active")])
        assert vault.vault.read(_vector_dims) == {32}


async def test_a_new_model_answers_while_it_grows_when_the_old_one_is_gone(tmp_path: Path) -> None:
    async with recall_vault(tmp_path, HashEmbedder(key="old/1/none/64")) as vault:
        vault.remember("the first note")
        await vault.vectors_ready(1)
    new = HashEmbedder(key="new/1/none/32", dim=32)
    new.refused = {"never"}
    new.down = True
    async with recall_vault(tmp_path, new) as vault:
        await vault.until(lambda: vault.recall.status()["answering_model_key"] == new.key)
        found = await vault.search("first note")
        assert [hit.row.content for hit in found.hits] == ["the first note"]
        assert found.degraded


async def test_a_model_that_appears_later_is_taken_up_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(meaning, "POLL_SECONDS", 0.02)
    embedder = HashEmbedder(key=None)
    async with recall_vault(tmp_path, embedder) as vault:
        vault.remember("written before any model was there")
        assert (await vault.search("written")).degraded == (Degraded.EMBEDDINGS,)
        embedder.key = "late/1/none/64"
        await vault.vectors_ready(1)
        assert (await vault.search("written")).degraded == ()


async def test_a_text_the_model_dies_on_is_skipped_and_the_queue_goes_on(tmp_path: Path) -> None:
    embedder = HashEmbedder()
    embedder.refused = {"poison"}
    async with recall_vault(tmp_path, embedder) as vault:
        vault.remember("a good note")
        vault.remember("the poison note")
        vault.remember("another good note")
        await vault.vectors_ready(2)
        assert "the poison note" in await vault.contents("poison")
        assert vault.vault.read(
            lambda c: c.execute("SELECT count(*) FROM unembeddable").fetchone()
        ) == (1,)


async def test_unusable_vectors_are_not_stored(tmp_path: Path) -> None:
    embedder = HashEmbedder()
    embedder.broken = True
    async with recall_vault(tmp_path, embedder) as vault:
        vault.remember("a note for a broken model")
        await vault.until(lambda: len(embedder.embedded) == 2)
        await vault.until(lambda: vault.recall.status()["queued"] == 0)
        assert vault.vault.read(
            lambda c: c.execute("SELECT count(*) FROM vector_tail").fetchone()
        ) == (0,)
        assert await vault.contents("broken model") == ["a note for a broken model"]


async def test_one_digit_apart_both_stay_and_the_newer_comes_first(tmp_path: Path) -> None:
    embedder = HashEmbedder(synonyms={"49222": "22"})
    async with recall_vault(tmp_path, embedder) as vault:
        vault.remember("the ssh port of the gateway is 22")
        vault.remember("the ssh port of the gateway is 49222")
        await vault.vectors_ready(2)
        assert await vault.contents("ssh port of the gateway") == [
            "the ssh port of the gateway is 49222",
            "the ssh port of the gateway is 22",
        ]
        await vault.until(lambda: vault.vault.read(_near_pairs) == [(2, 1)])
        packed = await vault.recall.context(
            SearchRequest("ssh port of the gateway"), max_items=5, max_tokens=500
        )
        assert [hit.row.content for hit in packed.hits] == ["the ssh port of the gateway is 49222"]
        assert "(also: 1 older)" in packed.text


async def test_without_vectors_the_newer_of_two_equal_hits_comes_first(tmp_path: Path) -> None:
    async with recall_vault(tmp_path) as vault:
        vault.remember("backup disk is sdb")
        vault.remember("backup disk is sdc")
        assert await vault.contents("which is the backup disk") == [
            "backup disk is sdc",
            "backup disk is sdb",
        ]


@pytest.mark.parametrize(
    "block",
    [
        bytes(range(40)),
        # SQLite reads sizes from it that no machine has
        bytes.fromhex(
            "a3d811736110e5781bcccea696762e6116c6e9c92d99bf358c2e0718822ce47ca8c74107e66cb0e4"
        ),
    ],
    ids=["torn", "endless"],
)
async def test_damaged_full_text_leaves_meaning_and_is_rebuilt(
    tmp_path: Path, block: bytes
) -> None:
    async with recall_vault(tmp_path, HashEmbedder()) as vault:
        for number in range(20):
            vault.remember(f"harbour note {number}")
        await vault.vectors_ready(20)
        vault.vault.write(
            lambda tx: tx.connection.execute(
                "UPDATE memory_fts_data SET block = ? WHERE id > 9", (block,)
            )
        )
    async with recall_vault(tmp_path, HashEmbedder()) as vault:
        await vault.vectors_ready(20)
        found = await vault.search("harbour note")
        assert Degraded.FULLTEXT in found.degraded
        assert found.hits
        done = await vault.recall.rebuild(What.FULLTEXT)
        assert done == {"fulltext": 20}
        await vault.vectors_ready(20)
        found = await vault.search("harbour", explain=True)
        assert found.degraded == ()
        assert found.hits[0].explanation is not None
        assert found.hits[0].explanation["legs"] == ["words", "meaning"]


async def test_damaged_segments_are_made_again_from_the_rows(tmp_path: Path) -> None:
    async with recall_vault(tmp_path, HashEmbedder()) as vault:
        for number in range(12):
            vault.remember(f"orchard note {number}")
        await vault.vectors_ready(12)
        vault.vault.write(lambda tx: vector_segments.pack_tail(tx.connection, 1, 64, least=1))
        vault.vault.write(lambda tx: tx.connection.execute("UPDATE vector_segment SET n = n - 1"))
    embedder = HashEmbedder()
    async with recall_vault(tmp_path, embedder) as vault:
        await vault.vectors_ready(12)
        assert len(embedder.embedded) == 12


async def test_vectors_are_rebuilt_on_demand(tmp_path: Path) -> None:
    embedder = HashEmbedder()
    async with recall_vault(tmp_path, embedder) as vault:
        for number in range(3):
            vault.remember(f"meadow {number}")
        await vault.vectors_ready(3)
        assert await vault.recall.rebuild(What.VECTORS) == {"vectors_queued": 3}
        await vault.vectors_ready(3)
        assert len(embedder.embedded) == 6


async def test_closing_wipes_vectors_and_stops_the_worker(tmp_path: Path) -> None:
    embedder = HashEmbedder()
    async with recall_vault(tmp_path, embedder) as vault:
        vault.remember("a note about glaciers")
        await vault.vectors_ready(1)
        stops = embedder.stops
        await vault.recall.close()
        assert embedder.stops == stops + 1
        assert vault.recall.status()["covered"] == 0
        with pytest.raises(VaultLocked):
            await vault.search("glaciers")


async def test_an_id_a_key_or_a_path_as_query_puts_that_row_first(tmp_path: Path) -> None:
    async with recall_vault(tmp_path, HashEmbedder()) as vault:
        wanted = vault.remember("nothing alike", path="team/rota", semantic_key="rota:current")
        for number in range(5):
            vault.remember(f"team rota rota current {number}", path="other")
        await vault.vectors_ready(6)
        for query in (wanted.id, "rota:current", "team/rota"):
            assert (await vault.search(query)).hits[0].row.id == wanted.id


async def test_what_another_scope_holds_is_seen_nowhere(tmp_path: Path) -> None:
    async with recall_vault(tmp_path, HashEmbedder()) as vault:
        vault.remember("tulip plan of project one", scope="one")
        vault.remember("tulip plan of project two", scope="two")
        await vault.vectors_ready(2)
        one = RowFilter(scope="one")
        assert await vault.contents("tulip plan", one) == ["tulip plan of project one"]
        assert await vault.contents("*", one) == ["tulip plan of project one"]
        packed = await vault.recall.context(
            SearchRequest("tulip plan", one), max_items=5, max_tokens=500
        )
        assert packed.candidates == 1
        assert "two" not in packed.text


async def test_explain_says_why_a_row_was_found_and_why_not(tmp_path: Path) -> None:
    async with recall_vault(tmp_path) as vault:
        row = vault.remember("the kettle is descaled in march")
        for number in range(3):
            vault.remember(f"unrelated {number}")
        found = await vault.recall.explain(row.id, "when is the kettle descaled")
        assert found is not None
        assert (found["found"], found["rank"]) == (True, 1)
        assert found["terms"] == ["kettle", "descaled"]
        missed = await vault.recall.explain(row.id, "submarine")
        assert missed is not None
        assert (missed["found"], missed["reason"]) == (False, "no_shared_word")
        assert await vault.recall.explain("01a00000-0000-7000-8000-000000000000", "x") is None


async def test_a_listing_and_a_feed_are_ordered_by_time(tmp_path: Path) -> None:
    async with recall_vault(tmp_path) as vault:
        for number in (2, 1, 3):
            vault.remember(f"entry {number}", created_at_ms=1_700_000_000_000 + number)
        assert await vault.contents("*") == ["entry 3", "entry 2", "entry 1"]
        assert await vault.contents("", time_order=TimeOrder.OLDEST_FIRST) == [
            "entry 1",
            "entry 2",
            "entry 3",
        ]
        feed = await vault.contents("anything", activity_log=True, limit=2)
        assert feed == ["entry 3", "entry 2"]
        found = await vault.contents("entry", time_order=TimeOrder.OLDEST_FIRST)
        assert found == ["entry 1", "entry 2", "entry 3"]


async def test_an_expired_row_is_found_by_neither_leg(tmp_path: Path) -> None:
    async with recall_vault(tmp_path, HashEmbedder()) as vault:
        row = vault.remember("parking permit zone B", expires_at_ms=now_ms() + 3_600_000)
        vault.remember("parking permit zone C")
        await vault.vectors_ready(2)
        assert len(await vault.contents("parking permit")) == 2
        change = MemoryChange(expires_at_ms=now_ms() + 1)
        vault.vault.write(lambda tx: vault.vault.memories.update(tx, row.id, change, writer()))
        await vault.vectors_ready(2)
        limit = now_ms() + 1
        await vault.until(lambda: now_ms() > limit)
        assert await vault.contents("parking permit") == ["parking permit zone C"]


async def test_a_guess_at_the_answer_pulls_the_query_towards_it(tmp_path: Path) -> None:
    embedder = HashEmbedder()
    async with recall_vault(tmp_path, embedder) as vault:
        vault.remember("alpha beta gamma")
        vault.remember("delta epsilon zeta")
        await vault.vectors_ready(2)
        plain = await vault.search("omega")
        guided = await vault.search("omega", hypothetical_answer="delta epsilon zeta")
        assert guided.hits[0].row.content == "delta epsilon zeta"
        by_content = {hit.row.content: hit.cosine for hit in plain.hits}
        assert guided.hits[0].cosine is not None
        assert guided.hits[0].cosine > (by_content["delta epsilon zeta"] or 0.0) + 0.2


async def test_readers_a_writer_and_the_queue_go_on_together(tmp_path: Path) -> None:
    async with recall_vault(tmp_path, HashEmbedder()) as vault:
        memories, store = vault.vault.memories, vault.vault.store

        async def write(start: int) -> None:
            for number in range(start, start + 25):
                draft = MemoryDraft(f"ferry timetable number {number}", "notes")
                outcome = await store.write(lambda tx, d=draft: memories.remember(tx, d, writer()))
                if number % 5 == 0:
                    row = outcome.row
                    await store.write(
                        lambda tx, i=row.id: memories.forget(
                            tx, i, ForgetMode.SOFT_DELETE, writer()
                        )
                    )

        async def read() -> None:
            for number in range(15):
                found = await vault.search(f"ferry timetable {number}", limit=5)
                assert len({hit.row.id for hit in found.hits}) == len(found.hits)

        async with asyncio.TaskGroup() as group:
            for start in (0, 25, 50, 75):
                group.create_task(write(start))
            for _ in range(8):
                group.create_task(read())
        await vault.vectors_ready(80)
        found = await vault.search("ferry timetable", limit=100)
        assert len(found.hits) == 80
        assert all(hit.cosine is not None for hit in found.hits)


async def test_a_count_that_went_wrong_is_mended_when_the_queue_is_empty(tmp_path: Path) -> None:
    async with recall_vault(tmp_path, HashEmbedder()) as vault:
        vault.remember("The gateway is granite")
        await vault.vectors_ready(1)
        vault.recall._meaning.queue.changed(3)
        await asyncio.sleep(0)
        assert vault.recall.status()["queued"] == 3
        await vault.vectors_ready(1)


def _models(vault: SmallVault) -> list[tuple[str, str]]:
    return vault.read(
        lambda c: c.execute("SELECT model_key, state FROM embedding_model").fetchall()
    )


def _vector_dims(connection: Any) -> set[int]:
    return {n for (n,) in connection.execute("SELECT length(code) FROM vector_tail")}


def _near_pairs(connection: Any) -> list[tuple[int, int]]:
    return connection.execute("SELECT newer_rowid, older_rowid FROM near_pair").fetchall()


async def test_an_unexpected_error_in_the_background_is_shown_and_ends_nothing(
    tmp_path: Path,
) -> None:
    async with recall_vault(tmp_path) as vault:
        vault.remember("The gateway is granite")
    async with recall_vault(tmp_path, HashEmbedder()) as vault:
        await vault.vectors_ready(1)
        assert vault.recall.status()["fulltext_error"] is None

        def rename(old: str, new: str) -> None:
            vault.vault.write(
                lambda tx: tx.connection.execute(f"ALTER TABLE {old} RENAME TO {new}")
            )

        rename("fts_source", "elsewhere")
        await vault.recall.open(vault.vault.store)
        await vault.until(lambda: vault.recall.status()["fulltext_error"] == "internal_error")
        rename("elsewhere", "fts_source")
        await vault.vectors_ready(1)  # the meaning leg went on
        assert Degraded.FULLTEXT in (await vault.search("granite")).degraded


async def test_explaining_long_memories_does_not_cut_their_texts_into_words_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filler = "of the tower above the bay " * 40
    async with recall_vault(tmp_path) as vault:
        for number in range(40):
            vault.remember(f"{filler} {number}", f"towers/north{number}")
        vault.remember(f"{filler} the lantern parseHTTPResponse", "towers/west")
        vault.remember(f"{filler} keepers", "towers/south")
        cut = text_rules.words

        def counting(text: str) -> Any:
            assert len(text) < 100, "a memory's text was cut into words again"
            return cut(text)

        monkeypatch.setattr(text_rules, "words", counting)
        found = await vault.search("lanterns keeper south http", limit=30, explain=True)
    terms = {hit.row.path: (hit.explanation or {})["terms"] for hit in found.hits}
    assert terms["towers/south"] == ["keeper", "south"]
    assert terms["towers/west"] == ["lanterns", "http"]
