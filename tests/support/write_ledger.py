"""What the daemon acknowledged, kept outside the daemon: the oracle of the crash tests.

Every operation on a memory carries its number in content, path and metadata, so that a half-written
row cannot look whole. A memory has at most one operation in flight.
"""

from __future__ import annotations

import dataclasses
import hashlib
import threading
from collections.abc import Iterable, Mapping
from typing import Any

FOLDER = "crash/ledger"


@dataclasses.dataclass(frozen=True, slots=True)
class Version:
    """One state a memory may be in; ``number`` tells all its fields."""

    number: int
    deleted: bool = False

    @property
    def content(self) -> str:
        proof = hashlib.sha256(f"crash:{self.number}".encode()).hexdigest()
        padding = f"{proof} " * (self.number % 40)
        return f"Write {self.number} of the crash test, unique word {self.word}. {padding}end"

    @property
    def word(self) -> str:
        """Letters only: digits inside a word split it into parts that other words share."""
        digest = hashlib.sha256(f"word:{self.number}".encode()).digest()
        return "".join(chr(ord("a") + byte % 26) for byte in digest[:14])

    @property
    def path(self) -> str:
        return f"{FOLDER}/{self.number}"

    def body(self) -> dict[str, Any]:
        return {
            "content": self.content,
            "path": self.path,
            "metadata": {"number": self.number, "proof": self.word},
        }

    def is_whole(self, row: Mapping[str, Any]) -> bool:
        metadata = row["metadata"]
        return (
            row["content"] == self.content
            and row["path"] == self.path
            and metadata.get("number") == self.number
            and metadata.get("proof") == self.word
        )


@dataclasses.dataclass(slots=True)
class Tracked:
    """One acknowledged memory: what it must be, and what it may have become meanwhile."""

    id: str
    acknowledged: Version
    in_flight: Version | None = None

    def allows(self, row: Mapping[str, Any] | None) -> Version | None:
        """The state that the daemon's answer shows, if it is an allowed one."""
        for version in (self.acknowledged, self.in_flight):
            if version is None:
                continue
            if row is None and version.deleted:
                return version
            if row is not None and not version.deleted and version.is_whole(row):
                return version
        return None


class Ledger:
    """Thread-safe. Writers call ``begin_*`` before and ``acknowledge_*`` after each request."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._next = 0
        self.memories: dict[str, Tracked] = {}
        self.unanswered: dict[int, str] = {}  # number of a remember -> its idempotency key
        self.acknowledged = 0

    def next_version(self) -> Version:
        with self._lock:
            self._next += 1
            return Version(self._next)

    def begin_remember(self, version: Version, key: str) -> None:
        with self._lock:
            self.unanswered[version.number] = key

    def acknowledge_remember(self, version: Version, memory_id: str) -> None:
        with self._lock:
            assert memory_id not in self.memories, "one id for two writes"
            del self.unanswered[version.number]
            self.memories[memory_id] = Tracked(memory_id, version)
            self.acknowledged += 1

    def begin_change(self, memory_id: str, version: Version) -> None:
        with self._lock:
            self.memories[memory_id].in_flight = version

    def acknowledge_change(self, memory_id: str) -> None:
        with self._lock:
            tracked = self.memories[memory_id]
            assert tracked.in_flight is not None
            tracked.acknowledged, tracked.in_flight = tracked.in_flight, None
            self.acknowledged += 1

    def verify(self, rows: Iterable[Mapping[str, Any]]) -> list[str]:
        """Faults of the daemon's full listing of FOLDER; empty when all is well.

        What turned out to have happened becomes the new acknowledged state.
        """
        faults: list[str] = []
        by_id: dict[str, Mapping[str, Any]] = {}
        for row in rows:
            if row["id"] in by_id:
                faults.append(f"{row['id']} is listed twice")
            by_id[row["id"]] = row
        for tracked in self.memories.values():
            found = tracked.allows(by_id.pop(tracked.id, None))
            if found is None:
                faults.append(f"{tracked.id}: acknowledged write {tracked.acknowledged} is lost")
                continue
            tracked.acknowledged, tracked.in_flight = found, None
        for row in by_id.values():  # rows of remembers whose answer never came
            number = row["metadata"].get("number")
            if number not in self.unanswered:
                faults.append(f"{row['id']}: a row that nobody wrote, or written twice: {number}")
            elif not Version(number).is_whole(row):
                faults.append(f"{row['id']}: half of write {number}")
            else:
                del self.unanswered[number]
                self.memories[row["id"]] = Tracked(row["id"], Version(number))
        return faults
