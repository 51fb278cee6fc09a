"""Found memories packed into an agent's context under a hard budget. Pure. Contract: recall.md
10.

One block per memory, ``n. [type] path: [day] writer: content``, one blank line between blocks and
none inside, so that a client may split on blank lines. Content cannot look like a block or a
speaker.
"""

from __future__ import annotations

from collections.abc import Iterable

from memory_manager.recall.requests import ContextPack, Hit, SearchResult
from memory_manager.recall.text_rules import writer_name
from memory_manager.security import shown_text
from memory_manager.vault.rows import MemoryRow


def pack(
    found: SearchResult,
    *,
    max_items: int,
    max_tokens: int,
    older: dict[int, int] | None = None,
) -> ContextPack:
    """As ``shown_text.pack`` does it; ``older`` maps a rowid to how many older near-duplicates it
    stands for.
    """

    def shown(number: int, hit: Hit) -> str:
        return block(number, hit.row, (older or {}).get(hit.row.rowid, 0))

    hits, text, tokens = shown_text.pack(
        found.hits, shown, max_items=max_items, max_tokens=max_tokens
    )
    return ContextPack(tuple(hits), text, tokens, found.candidates, found.degraded)


def block(number: int, row: MemoryRow, also_older: int = 0) -> str:
    """One memory as one paragraph."""
    also = f" (also: {also_older} older)" if also_older else ""
    text = shown_text.memory_block(
        number, row.memory_type.value, row.path, row.created_at_ms, writer_name(row), row.content
    )
    return text + also


def without_older(
    hits: Iterable[Hit], newest_of: dict[int, int]
) -> tuple[list[Hit], dict[int, int]]:
    """Keep only the newest hit of each link group, at the place of the group's best hit.

    ``newest_of`` maps a rowid to the name of its group. Returns the hits and, by rowid, how many
    older ones each stands for.
    """
    kept: list[Hit] = []
    place: dict[int, int] = {}
    older: dict[int, int] = {}
    for hit in hits:
        group = newest_of.get(hit.row.rowid)
        if group is None or group not in place:
            if group is not None:
                place[group] = len(kept)
            kept.append(hit)
            continue
        held = kept[place[group]]
        newer, count = held, older.pop(held.row.rowid, 0) + 1
        if (hit.row.updated_at_ms, hit.row.rowid) > (held.row.updated_at_ms, held.row.rowid):
            newer = hit
            kept[place[group]] = hit
        older[newer.row.rowid] = count
    return kept, older
