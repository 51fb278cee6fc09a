"""Found memories packed into an agent's context under a hard budget. Pure. Contract: recall.md
10.

One block per memory, ``n. [type] path: [day] writer: content``, one blank line between blocks and
none inside, so that a client may split on blank lines. Content cannot look like a block or a
speaker.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable

from memory_manager.recall.requests import ContextPack, Hit, SearchResult
from memory_manager.recall.text_rules import writer_name
from memory_manager.security.shown_text import (
    block_tokens,
    cut_to_tokens,
    one_line,
    plain_content,
)
from memory_manager.vault.rows import MemoryRow


def pack(
    found: SearchResult,
    *,
    max_items: int,
    max_tokens: int,
    older: dict[int, int] | None = None,
) -> ContextPack:
    """Greedy by rank: a block that does not fit is skipped and the next one tried.

    ``older`` maps a rowid to how many older near-duplicates it stands for. The best block is cut
    at a sentence border when it alone is too long. The estimate of ``text`` never exceeds
    ``max_tokens``.
    """
    blocks: list[str] = []
    hits: list[Hit] = []
    used = 0
    for hit in found.hits:
        if len(hits) >= max_items:
            break
        also = (older or {}).get(hit.row.rowid, 0)
        text = block(len(hits) + 1, hit.row, also)
        cost = block_tokens(text)
        if used + cost > max_tokens:
            if hits:
                continue
            text = cut_to_tokens(text, max_tokens)
            cost = block_tokens(text)
            if not text or cost > max_tokens:
                continue
        blocks.append(text)
        hits.append(hit)
        used += cost
    return ContextPack(tuple(hits), "\n\n".join(blocks), used, found.candidates, found.degraded)


def block(number: int, row: MemoryRow, also_older: int = 0) -> str:
    """One memory as one paragraph; lines of the content stay lines."""
    day = datetime.datetime.fromtimestamp(row.created_at_ms / 1000, tz=datetime.UTC).date()
    writer = writer_name(row)
    said = f"[{day.isoformat()}] {one_line(writer)}: " if writer else f"[{day.isoformat()}] "
    also = f" (also: {also_older} older)" if also_older else ""
    label = f"{number}. [{row.memory_type.value}] {one_line(row.path)}: "
    return f"{label}{said}{plain_content(row.content)}{also}"


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
