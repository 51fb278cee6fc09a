"""What the running service takes: memory, indexes, its start, and a client's context.

Contract: recall.md 12, 13.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from memory_manager.cli import process_figures
from memory_manager.cli.output import section, size
from memory_manager.client.memory_client import MemoryClient

Numbers = Mapping[str, int | None]


@dataclasses.dataclass(frozen=True, slots=True)
class Footprint:
    """Sizes in bytes, times in milliseconds since the process began; None where unknown.

    ``stored_bytes``: words and vectors in the vault file. ``tools_list``: the answer of
    ``tools/list`` by profile.
    """

    daemon_rss_bytes: int | None
    worker_rss_bytes: int | None
    pieces: int | None
    index_bytes: int | None
    stored_bytes: Numbers
    start: Numbers
    tools_list: Mapping[str, Numbers]

    def facts(self) -> list[tuple[str, object]]:
        stored = self.stored_bytes
        return [
            ("pieces", self.pieces or None),
            ("daemon memory", size(self.daemon_rss_bytes) or None),
            ("worker memory", size(self.worker_rss_bytes) or None),
            ("index", f"{size(self.index_bytes)} of vectors in memory" if self.pieces else None),
            (
                "in the vault",
                f"{size(stored.get('words')) or '?'} for words, "
                f"{size(stored.get('vectors')) or '?'} for meaning",
            ),
            ("start", _start(self.start)),
            *(
                (f"tools/list {name}", f"{entry.get('tools')} tools, {entry.get('bytes')} bytes")
                for name, entry in self.tools_list.items()
            ),
        ]


def _start(start: Numbers) -> str | None:
    """In seconds; a vault that waited for its owner says nothing about the service."""
    doors, words, vectors = (start.get(name) for name in ("doors_ms", "words_ms", "vectors_ms"))
    if words is None:
        return None if doors is None else f"open after {doors / 1000:.2f} s, with a locked vault"
    said = f"first answer after {words / 1000:.2f} s"
    return said if vectors is None else f"{said}, vectors there after {vectors / 1000:.2f} s"


def read_footprint(client: MemoryClient) -> Footprint:
    """Asks the service; nothing is written."""
    pid = client.connection.peer_pid() or client.connection.address.pid
    worker_rss = section(client.status(), "embeddings").get("worker_rss_bytes")
    found = client.footprint()
    index = section(found, "index")
    tools = section(found, "tools_list")
    return Footprint(
        daemon_rss_bytes=process_figures.rss_bytes(pid),
        worker_rss_bytes=worker_rss if isinstance(worker_rss, int) else None,
        pieces=_number(index, "vectors"),
        index_bytes=_number(index, "bytes"),
        stored_bytes=_numbers(section(index, "stored_bytes")),
        start=_numbers(section(found, "start")),
        tools_list={name: _numbers(section(tools, name)) for name in tools},
    )


def _number(document: Mapping[str, object], name: str) -> int | None:
    value = document.get(name)
    return value if isinstance(value, int) else None


def _numbers(document: Mapping[str, object]) -> Numbers:
    """Only numbers pass: the report holds no text of anybody."""
    return {name: v for name, v in document.items() if isinstance(v, int | None)}
