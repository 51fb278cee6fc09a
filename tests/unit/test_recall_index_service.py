"""Both legs over a real encrypted vault: freshness, forgetting, models that come and go
(recall.md 6, 10, 11).
"""

from __future__ import annotations

from pathlib import Path

from hash_embedder import HashEmbedder
from recall_vault import recall_vault
from small_vault import writer

from memory_manager.recall.requests import Degraded
from memory_manager.vault.rows import ForgetMode, MemoryChange


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


def _derived_tables(vault: object) -> bytes:
    """All bytes of the word and vector tables."""
    from small_vault import SmallVault, connect

    assert isinstance(vault, SmallVault)
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
