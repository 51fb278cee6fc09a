"""Vectors inside the vault: a tail of single rows, and segments of 4 096 slots written at once.

Truth for vectors lives here, as codes; the rows' text can always make it again. Forgetting
overwrites key, scale and codes in place and leaves no copy. Synchronous, on the caller's
connection and transaction. Contract: recall.md 6.1.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from memory_manager.recall.vector_codes import Codes, Floats

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

SEGMENT_SLOTS = 4096
DEAD_FLAG = 1
REPACK_DEAD_SHARE = 0.25
KEY = np.dtype([("rowid", "<i8"), ("piece", "<u2"), ("flags", "<u2")])

_SCALE_BYTES = 4


@dataclasses.dataclass(frozen=True, slots=True)
class StoredVectors:
    """Living vectors of one segment or of the tail."""

    rowids: npt.NDArray[np.int64]
    pieces: npt.NDArray[np.int64]
    scales: Floats
    codes: Codes


def add(
    connection: Connection, model_rowid: int, record_rowid: int, scales: Floats, codes: Codes
) -> None:
    """The vectors of a row, one per piece, in place of those it had for this model."""
    remove(connection, record_rowid, model_rowid)
    connection.executemany(
        "INSERT INTO vector_tail(record_rowid, piece, model_rowid, scale, code)"
        " VALUES(?, ?, ?, ?, ?)",
        [
            (record_rowid, piece, model_rowid, float(scale), code.tobytes())
            for piece, (scale, code) in enumerate(zip(scales, codes, strict=True))
        ],
    )


def remove(connection: Connection, record_rowid: int, model_rowid: int | None = None) -> bool:
    """Overwrite and unlink every vector of a row (of one model, or of all); tells if there was
    one.
    """
    condition, values = "record_rowid = ?", [record_rowid]
    if model_rowid is not None:
        condition, values = f"{condition} AND model_rowid = ?", [record_rowid, model_rowid]
    gone = connection.execute(f"DELETE FROM vector_tail WHERE {condition}", values).rowcount
    slots = connection.execute(
        "SELECT segment_id, slot, piece, dim FROM vector_slot JOIN vector_segment USING(segment_id)"
        f" JOIN embedding_model USING(model_rowid) WHERE {condition}",
        values,
    ).fetchall()
    for segment_id, slot, piece, dim in slots:
        _overwrite(connection, segment_id, slot, dim)
        connection.execute(
            "UPDATE vector_segment SET dead = dead + 1 WHERE segment_id = ?", (segment_id,)
        )
        connection.execute(
            "DELETE FROM vector_slot WHERE record_rowid = ? AND piece = ? AND segment_id = ?",
            (record_rowid, piece, segment_id),
        )
    return bool(gone or slots)


def _overwrite(connection: Any, segment_id: int, slot: int, dim: int) -> None:
    dead_key = np.zeros(1, KEY)
    dead_key["flags"] = DEAD_FLAG
    for column, width, content in (
        ("keys", KEY.itemsize, dead_key.tobytes()),
        ("scales", _SCALE_BYTES, bytes(_SCALE_BYTES)),
        ("codes", dim, bytes(dim)),
    ):
        blob = connection.open_blob("vector_segment", column, segment_id, False)
        try:
            blob.seek(slot * width)
            blob.write(content)
        finally:
            blob.close()


def pack_tail(
    connection: Connection, model_rowid: int, dim: int, *, least: int = SEGMENT_SLOTS
) -> int:
    """Move the tail into segments once it holds ``least`` vectors; returns how many were moved."""
    (count,) = connection.execute(
        "SELECT count(*) FROM vector_tail WHERE model_rowid = ?", (model_rowid,)
    ).fetchone()
    if not count or count < least:
        return 0
    rows = connection.execute(
        "SELECT record_rowid, piece, scale, code FROM vector_tail WHERE model_rowid = ?"
        " ORDER BY record_rowid, piece LIMIT ?",
        (model_rowid, SEGMENT_SLOTS),
    ).fetchall()
    stored = _from_rows([row for row in rows if len(row[3]) == dim], dim)
    write_segment(connection, model_rowid, stored)
    connection.executemany(
        "DELETE FROM vector_tail WHERE record_rowid = ? AND piece = ? AND model_rowid = ?",
        [(rowid, piece, model_rowid) for rowid, piece, _, _ in rows],
    )
    return len(rows)


def write_segment(connection: Connection, model_rowid: int, stored: StoredVectors) -> None:
    """One new segment with at most SEGMENT_SLOTS vectors, and where each of them stands."""
    keys = np.zeros(len(stored.rowids), KEY)
    keys["rowid"], keys["piece"] = stored.rowids, stored.pieces
    cursor = connection.execute(
        "INSERT INTO vector_segment(model_rowid, n, keys, scales, codes) VALUES(?, ?, ?, ?, ?)",
        (
            model_rowid,
            len(keys),
            keys.tobytes(),
            stored.scales.astype("<f4").tobytes(),
            stored.codes.tobytes(),
        ),
    )
    segment_id = cursor.lastrowid
    connection.executemany(
        "INSERT OR REPLACE INTO vector_slot(record_rowid, piece, segment_id, slot)"
        " VALUES(?, ?, ?, ?)",
        [
            (rowid, piece, segment_id, slot)
            for slot, (rowid, piece) in enumerate(
                zip(stored.rowids.tolist(), stored.pieces.tolist(), strict=True)
            )
        ],
    )


def repack_one(connection: Connection, model_rowid: int, dim: int) -> bool:
    """Write the living vectors of the emptiest segment anew; False when none is due."""
    found = connection.execute(
        "SELECT segment_id FROM vector_segment WHERE model_rowid = ? AND dead > ? * n"
        " ORDER BY dead DESC LIMIT 1",
        (model_rowid, REPACK_DEAD_SHARE),
    ).fetchone()
    if found is None:
        return False
    stored = read_segment(connection, found[0], dim)
    delete_segment(connection, found[0])
    if stored is not None and len(stored.rowids):
        write_segment(connection, model_rowid, stored)
    return True


def delete_segment(connection: Connection, segment_id: int) -> None:
    connection.execute("DELETE FROM vector_slot WHERE segment_id = ?", (segment_id,))
    connection.execute("DELETE FROM vector_segment WHERE segment_id = ?", (segment_id,))


def segment_ids(connection: Connection, model_rowid: int) -> list[int]:
    rows = connection.execute(
        "SELECT segment_id FROM vector_segment WHERE model_rowid = ? ORDER BY segment_id",
        (model_rowid,),
    )
    return [int(segment_id) for (segment_id,) in rows]


def read_segment(connection: Connection, segment_id: int, dim: int) -> StoredVectors | None:
    """The living vectors of a segment, or None when its parts do not fit together."""
    n, dead, raw_keys, raw_scales, raw_codes = connection.execute(
        "SELECT n, dead, keys, scales, codes FROM vector_segment WHERE segment_id = ?",
        (segment_id,),
    ).fetchone()
    if (len(raw_keys), len(raw_scales), len(raw_codes)) != (
        n * KEY.itemsize,
        n * _SCALE_BYTES,
        n * dim,
    ):
        return None
    keys = np.frombuffer(raw_keys, KEY)
    scales = np.frombuffer(raw_scales, "<f4").astype(np.float32, copy=False)
    codes = np.frombuffer(raw_codes, np.int8).reshape(n, dim)
    living = (keys["flags"] & DEAD_FLAG) == 0
    if int(n - np.count_nonzero(living)) != dead or not np.isfinite(scales).all():
        return None
    rowids, pieces = keys["rowid"].astype(np.int64), keys["piece"].astype(np.int64)
    if (rowids[living] <= 0).any() or repeated(rowids[living] << 16 | pieces[living]).size:
        return None
    if dead:
        rowids, pieces, scales, codes = (a[living] for a in (rowids, pieces, scales, codes))
    return StoredVectors(rowids, pieces, scales, codes)


def repeated(keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The keys that stand there more than once; most keys come in rising order already."""
    steps = np.diff(keys)
    if (steps > 0).all():
        return keys[:0]
    ordered = np.sort(keys)
    return np.unique(ordered[1:][ordered[1:] == ordered[:-1]])


def read_tail(connection: Connection, model_rowid: int, dim: int) -> StoredVectors:
    rows = connection.execute(
        "SELECT record_rowid, piece, scale, code FROM vector_tail WHERE model_rowid = ?",
        (model_rowid,),
    ).fetchall()
    return _from_rows([row for row in rows if len(row[3]) == dim], dim)


def read_all(
    connection: Connection, model_rowid: int, dim: int, damaged: list[int]
) -> Iterator[StoredVectors]:
    """Every living vector of a model, segment by segment, the tail last; bad ones are listed."""
    for segment_id in segment_ids(connection, model_rowid):
        stored = read_segment(connection, segment_id, dim)
        if stored is None:
            damaged.append(segment_id)
        else:
            yield stored
    yield read_tail(connection, model_rowid, dim)


def _from_rows(rows: list[Any], dim: int) -> StoredVectors:
    codes = np.frombuffer(b"".join(row[3] for row in rows), np.int8).reshape(len(rows), dim)
    return StoredVectors(
        np.array([row[0] for row in rows], np.int64),
        np.array([row[1] for row in rows], np.int64),
        np.array([row[2] for row in rows], np.float32),
        codes,
    )
