"""Each leg alone and the sizes of the indexes, as ``memlocket bench`` asks them (recall.md 12)."""

from __future__ import annotations

import time
from pathlib import Path

from hash_embedder import HashEmbedder
from recall_vault import recall_vault

from memory_manager.recall.footprint import stored_bytes
from memory_manager.recall.requests import Leg

BY_MEANING, BY_WORDS = "My automobile needs new tyres", "A vehicle register stands on the shelf"


async def test_one_leg_alone_answers_and_the_other_does_no_work(tmp_path: Path) -> None:
    embedder = HashEmbedder(synonyms={"automobile": "car", "lorry": "car"})
    async with recall_vault(tmp_path, embedder) as vault:
        vault.remember(BY_MEANING)
        vault.remember(BY_WORDS)
        await vault.vectors_ready(2)
        words = await vault.search("vehicle", leg=Leg.WORDS, explain=True)
        assert [hit.row.content for hit in words.hits] == [BY_WORDS]
        assert words.hits[0].cosine is None
        assert words.degraded == ()
        assert embedder.queries == []
        assert (await vault.contents("lorry", leg=Leg.MEANING))[0] == BY_MEANING
        meaning = await vault.search("vehicle", leg=Leg.MEANING, explain=True)
        assert meaning.hits[0].row.content == BY_WORDS
        assert meaning.meaning_only
        assert all((hit.explanation or {})["lexical"] is None for hit in meaning.hits)
        assert embedder.queries == ["lorry", "vehicle"]


async def test_without_a_model_the_leg_of_meaning_is_empty_and_says_so(tmp_path: Path) -> None:
    async with recall_vault(tmp_path) as vault:
        vault.remember(BY_WORDS)
        found = await vault.search("vehicle", leg=Leg.MEANING)
        assert found.hits == ()
        assert found.degraded


async def test_stored_bytes_follow_what_the_indexes_hold(tmp_path: Path) -> None:
    began = time.monotonic()
    async with recall_vault(tmp_path, HashEmbedder()) as vault:
        empty = vault.vault.read(stored_bytes)
        assert empty["vectors"] == 0
        for number in range(40):
            vault.remember(f"lighthouse number {number} was painted by hand")
        await vault.vectors_ready(40)
        full = vault.vault.read(stored_bytes)
        size = vault.recall.index_size()
        assert size["vectors"] == 40
        assert full["vectors"] >= 40 * 64  # a byte for each dimension
        assert full["words"] > empty["words"] + 40 * len("lighthouse number")
        assert size["bytes"] >= full["vectors"]
        assert began <= (vault.recall.vectors_loaded or 0) <= time.monotonic()
