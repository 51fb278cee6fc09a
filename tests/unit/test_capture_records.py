"""Archive records: lossless through JSON Lines and Markdown, strict about what is no record."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from memory_manager.auth.agent_identity import AgentIdentity, agent_instance_id_hash
from memory_manager.base.identifiers import new_memory_id
from memory_manager.capture.errors import InvalidRecord
from memory_manager.capture.fields import Writer
from memory_manager.capture.folders import read_folder
from memory_manager.capture.jsonl import parse_line, read_jsonl, record_line, write_jsonl
from memory_manager.capture.markdown import markdown_text, read_markdown, write_markdown
from memory_manager.capture.records import (
    STORED_ACTIONS,
    MemoryRecord,
    RecordVersion,
    parse_record,
    record_as_json,
)
from memory_manager.capture.sources import Problem
from memory_manager.vault.rows import MemoryType, RecordKind, RowStatus

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
some_text = text.filter(lambda value: bool(value.strip()))
ratio = st.none() | st.floats(0, 1)
moment = st.integers(0, 4_000_000_000_000)
scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | text
document = st.dictionaries(text, scalars | st.lists(scalars, max_size=3), max_size=4)
writers = st.builds(
    Writer,
    st.builds(
        AgentIdentity,
        st.none() | some_text,
        st.none()
        | some_text.filter(lambda v: not v.strip().lower().startswith("sha256:")).map(
            agent_instance_id_hash
        ),
    ),
    st.none() | text,
)
common: dict[str, Any] = {
    "bucket": some_text,
    "scope": st.none() | text,
    "importance": ratio,
    "confidence": ratio,
    "source": st.none() | text,
    "metadata": document,
    "provenance": document,
    "semantic_key": st.none() | text,
    "expires_at_ms": st.none() | moment,
    "item": document,
    "writer": writers,
}
versions = st.builds(
    RecordVersion,
    action=st.sampled_from(STORED_ACTIONS),
    content=st.none() | text,
    path=some_text,
    memory_type=st.sampled_from(MemoryType),
    written_at_ms=moment,
    status=st.sampled_from(RowStatus),
    reason=st.none() | text,
    **common,
)
records = st.builds(
    MemoryRecord,
    content=some_text,
    path=some_text,
    id=st.none() | st.builds(new_memory_id),
    kind=st.sampled_from(RecordKind),
    memory_type=st.none() | st.sampled_from(MemoryType),
    status=st.sampled_from([RowStatus.ACTIVE, RowStatus.REDACTED]),
    created_at_ms=st.none() | moment,
    updated_at_ms=st.none() | moment,
    versions=st.lists(versions, max_size=3).map(tuple),
    **common,
)
quick = settings(
    max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@quick
@given(records)
def test_a_record_survives_a_json_line(record: MemoryRecord) -> None:
    line = record_line(record)
    assert b"\n" not in line
    assert parse_line(line, "elsewhere") == record


@quick
@given(records)
def test_a_record_survives_a_markdown_file(tmp_path: Path, record: MemoryRecord) -> None:
    path = tmp_path / "one.md"
    path.write_bytes(markdown_text(record).encode())
    (found,) = read_markdown(path)
    assert found == record


def test_a_folder_of_markdown_is_read_back_whole(tmp_path: Path) -> None:
    wanted = [
        MemoryRecord(content=f"text {n}\n---\nmore\n", path=path, id=new_memory_id())
        for n, path in enumerate(
            ["a/b/c", "a/b", "a/b", "../../etc/passwd", "/", "ü/长", "x" * 300]
        )
    ]
    folder = tmp_path / "out"
    assert write_markdown(wanted, folder) == len(wanted)
    inside = [path for path in tmp_path.rglob("*") if path != folder]
    assert all(folder in path.parents for path in inside)
    assert all(path.stat().st_mode & 0o077 == 0 for path in inside)
    found = sorted(
        (item for item in read_folder(folder) if isinstance(item, MemoryRecord)),
        key=lambda record: str(record.id),
    )
    assert found == sorted(wanted, key=lambda record: str(record.id))


@pytest.mark.parametrize(
    "line",
    [
        b'{"content":"x","metadata":{"n":NaN}}',
        b'{"content":"x","metadata":{"n":1e999}}',
        b'{"content":"x","versions":[{"action":"unchanged","written_at":"2026-01-01T00:00:00Z",'
        b'"memory_type":"semantic","path":"p","content":"x"}]}',
    ],
)
def test_what_the_vault_cannot_hold_is_refused_line_by_line(line: bytes) -> None:
    with pytest.raises(InvalidRecord):
        parse_line(line, "imported")


def test_front_matter_that_is_no_number_stays_text(tmp_path: Path) -> None:
    path = tmp_path / "note.md"
    path.write_text("---\nratio: NaN\nsize: 1e999\n---\ntext")
    (found,) = read_markdown(path)
    assert isinstance(found, MemoryRecord)
    assert found.metadata == {"ratio": "NaN", "size": "1e999"}


def test_json_lines_go_on_after_a_bad_one(tmp_path: Path) -> None:
    path = tmp_path / "notes.jsonl"
    path.write_bytes(
        b'\xef\xbb\xbf{"content":"one"}\n\nnot json\n{"text":"two","tags":["a","b"]}\n'
        b'[1]\n{"path":"x"}\n'
    )
    found = list(read_jsonl(path))
    places = [item.place for item in found if isinstance(item, Problem)]
    assert places == ["notes.jsonl:3", "notes.jsonl:5", "notes.jsonl:6"]
    kept = [item for item in found if isinstance(item, MemoryRecord)]
    assert [record.content for record in kept] == ["one", "two"]
    assert kept[0].path == "imported/notes"
    assert kept[1].metadata == {"tags": ["a", "b"]}


def test_lines_are_written_with_their_ends(tmp_path: Path) -> None:
    with (tmp_path / "x").open("wb") as stream:
        assert write_jsonl([b"{}", b"{}"], stream) == 2
    assert (tmp_path / "x").read_bytes() == b"{}\n{}\n"


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"content": None}, "content"),
        ({"content": "  "}, "content"),
        ({"content": 3}, "content"),
        ({"importance": 2}, "importance"),
        ({"importance": True}, "importance"),
        ({"confidence": float("nan")}, "confidence"),
        ({"memory_type": "secret"}, "memory_type"),
        ({"status": "gone"}, "status"),
        ({"created_at": "yesterday"}, "created_at"),
        ({"created_at": "2026-01-01T00:00:00"}, "created_at"),
        ({"metadata": []}, "metadata"),
        ({"tags": [1]}, "tags"),
        ({"schema": 2}, "schema"),
        ({"kind": "todo"}, "kind"),
        ({"item": []}, "item"),
        ({"memlocket": "session"}, "memlocket"),
        ({"versions": {}}, "versions"),
        ({"versions": [3]}, "versions[0]"),
        ({"versions": [{"action": "made"}]}, "versions[0].action"),
        ({"writer": {"agent_instance": "sha256:12"}}, "writer.agent_instance"),
        ({"path": "\ud800"}, "path"),
    ],
)
def test_what_is_no_record_is_refused_by_field(changed: dict[str, Any], field: str) -> None:
    whole = record_as_json(MemoryRecord(content="a canary 4711", path="p"))
    with pytest.raises(InvalidRecord) as caught:
        parse_record({**whole, **changed})
    assert caught.value.field == field
    assert "4711" not in str(caught.value)


def test_a_forgotten_record_without_history_is_refused() -> None:
    with pytest.raises(InvalidRecord):
        parse_record({"content": "x", "status": "deleted"})


def test_deep_json_is_no_crash() -> None:
    with pytest.raises(InvalidRecord):
        parse_line(b'{"content":' + b"[" * 200_000, "x")


def test_foreign_ids_are_not_reused() -> None:
    assert parse_record({"content": "x", "id": "mem_17"}).id is None
    own = new_memory_id()
    assert parse_record({"content": "x", "id": own}).id == own


def test_foreign_objects_may_use_our_names_for_something_else() -> None:
    found = parse_record({"content": "x", "kind": "todo", "item": [1]})
    assert (found.kind, found.item) == (RecordKind.MEMORY, {})


def test_json_form_is_plain_json() -> None:
    record = MemoryRecord(content="x", path="p", memory_type=MemoryType.SEMANTIC)
    assert json.loads(record_line(record))["memory_type"] == "semantic"
