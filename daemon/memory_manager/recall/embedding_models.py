"""Which embedding models a vault holds vectors of, and which rows still wait for one.

A model key names a vector space; two keys never meet in one index. Synchronous, on the caller's
connection. Contract: recall.md 3.4.
"""

from __future__ import annotations

import dataclasses
import enum
from typing import TYPE_CHECKING

from memory_manager.recall.vector_segments import REPACK_DEAD_SHARE, delete_segment
from memory_manager.vault.filters import RowFilter

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection


class ModelState(enum.StrEnum):
    BUILDING = "building"
    ACTIVE = "active"
    RETIRED = "retired"


@dataclasses.dataclass(frozen=True, slots=True)
class StoredModel:
    rowid: int
    key: str
    dim: int
    state: ModelState


def stored_models(connection: Connection) -> list[StoredModel]:
    rows = connection.execute(
        "SELECT model_rowid, model_key, dim, state FROM embedding_model ORDER BY model_rowid"
    )
    return [StoredModel(rowid, key, dim, ModelState(state)) for rowid, key, dim, state in rows]


def active_model(connection: Connection) -> StoredModel | None:
    found = [m for m in stored_models(connection) if m.state is ModelState.ACTIVE]
    return found[0] if found else None


def enter(
    connection: Connection, key: str, dim: int, manifest: str | None, now_ms: int
) -> StoredModel:
    """Make ``key`` the model that new vectors are made with; rows without one are queued.

    A known active model stays active. Any other one is ``building`` until the queue is empty.
    """
    models = stored_models(connection)
    others = [m for m in models if m.key != key and m.state is ModelState.BUILDING]
    known = [m for m in models if m.key == key and m.state is not ModelState.RETIRED]
    if known and not others:
        return known[0]
    for other in others:
        connection.execute(
            "UPDATE embedding_model SET state = 'retired' WHERE model_rowid = ?", (other.rowid,)
        )
    # What waits now waits for the other model: the queue is made anew for this one.
    connection.execute("DELETE FROM embedding_queue")
    if known:
        queue_missing(connection, known[0].rowid)
        return known[0]
    connection.execute(
        "INSERT INTO embedding_model(model_key, dim, manifest, state, created_at)"
        " VALUES(?, ?, ?, 'building', ?)"
        " ON CONFLICT(model_key) DO UPDATE SET state = 'building', manifest = excluded.manifest",
        (key, dim, manifest, now_ms),
    )
    (rowid,) = connection.execute(
        "SELECT model_rowid FROM embedding_model WHERE model_key = ?", (key,)
    ).fetchone()
    queue_missing(connection, rowid)
    return StoredModel(rowid, key, dim, ModelState.BUILDING)


def activate(connection: Connection, model_rowid: int) -> None:
    """Coverage is complete: this model answers from now on, all others are retired."""
    connection.execute(
        "UPDATE embedding_model SET state = 'retired' WHERE model_rowid <> ?", (model_rowid,)
    )
    connection.execute(
        "UPDATE embedding_model SET state = 'active' WHERE model_rowid = ?", (model_rowid,)
    )


def drop_some_retired(connection: Connection, model_rowid: int) -> bool:
    """Delete one segment, or the tail, of a retired model; False when nothing is left.

    ``model_rowid`` is the model in use, which is never touched.
    """
    for model in stored_models(connection):
        if model.state is not ModelState.RETIRED or model.rowid == model_rowid:
            continue
        segment = connection.execute(
            "SELECT segment_id FROM vector_segment WHERE model_rowid = ? LIMIT 1", (model.rowid,)
        ).fetchone()
        if segment is not None:
            delete_segment(connection, segment[0])
        else:
            connection.execute("DELETE FROM vector_tail WHERE model_rowid = ?", (model.rowid,))
            connection.execute("DELETE FROM near_pair WHERE model_rowid = ?", (model.rowid,))
            connection.execute("DELETE FROM unembeddable WHERE model_rowid = ?", (model.rowid,))
            connection.execute("DELETE FROM embedding_model WHERE model_rowid = ?", (model.rowid,))
        return True
    return False


def tidying_due(connection: Connection, model_rowid: int) -> bool:
    """Whether vectors of a retired model are left, or a segment of this one is mostly dead."""
    return (
        connection.execute(
            "SELECT 1 FROM embedding_model WHERE state = 'retired' AND model_rowid <> ?"
            " UNION ALL"
            " SELECT 1 FROM vector_segment WHERE model_rowid = ? AND dead > ? * n LIMIT 1",
            (model_rowid, model_rowid, REPACK_DEAD_SHARE),
        ).fetchone()
        is not None
    )


def queue_missing(connection: Connection, model_rowid: int) -> int:
    """Queue every recallable row without a vector of this model: newest and last recalled first."""
    # At time 0 nothing has expired: a row with an expiry still wants its vector until then.
    condition, values = RowFilter().condition(0, "r")
    return connection.execute(
        "INSERT OR IGNORE INTO embedding_queue(record_rowid, queued_at)"
        " SELECT r.rowid, max(r.created_at_ms, ifnull(u.last_used_at_ms, 0))"
        " FROM record r LEFT JOIN record_use u ON u.record_rowid = r.rowid"
        f" WHERE {condition}"
        " AND NOT EXISTS(SELECT 1 FROM vector_tail t"
        "  WHERE t.record_rowid = r.rowid AND t.model_rowid = ?)"
        " AND NOT EXISTS(SELECT 1 FROM vector_slot s JOIN vector_segment USING(segment_id)"
        "  WHERE s.record_rowid = r.rowid AND vector_segment.model_rowid = ?)"
        " AND NOT EXISTS(SELECT 1 FROM unembeddable e"
        "  WHERE e.record_rowid = r.rowid AND e.model_rowid = ?)",
        [*values, model_rowid, model_rowid, model_rowid],
    ).rowcount


def queue_row(connection: Connection, record_rowid: int, now_ms: int) -> None:
    connection.execute(
        "INSERT INTO embedding_queue(record_rowid, queued_at) VALUES(?, ?)"
        " ON CONFLICT(record_rowid) DO UPDATE SET queued_at = excluded.queued_at, attempts = 0",
        (record_rowid, now_ms),
    )


def unqueue_row(connection: Connection, record_rowid: int) -> bool:
    return bool(
        connection.execute(
            "DELETE FROM embedding_queue WHERE record_rowid = ?", (record_rowid,)
        ).rowcount
    )


def queued(connection: Connection) -> int:
    (count,) = connection.execute("SELECT count(*) FROM embedding_queue").fetchone()
    return int(count)
