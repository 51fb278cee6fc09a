"""Foreign files: Markdown notes with front matter, plain text, and what is left alone."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from memory_manager.capture.errors import UnknownFormat
from memory_manager.capture.folders import PassedOver, Reason, read_folder
from memory_manager.capture.markdown import read_markdown, split_front_matter
from memory_manager.capture.plain_text import Split, read_text
from memory_manager.capture.records import MemoryRecord
from memory_manager.capture.sources import MAX_FILE_BYTES, Problem, SourceFormat, detect_format


def records(items: object) -> list[MemoryRecord]:
    assert not isinstance(items, list)
    return [item for item in items if isinstance(item, MemoryRecord)]  # type: ignore[attr-defined]


def test_front_matter_of_a_note_becomes_fields_and_metadata(tmp_path: Path) -> None:
    note = tmp_path / "deploy.md"
    note.write_text(
        "---\n"
        "title: How we deploy: the short way\n"
        "tags: [ops, 'on call']\n"
        "aliases:\n  - shipping\n  - release day\n"
        "created: 2026-03-01\n"
        "memory_type: procedural\n"
        "importance: 0.7\n"
        "# a comment\n"
        "nested:\n    key: value\n"
        "---\n\n# Deploy\n\nRun the thing.\n"
    )
    (found,) = records(read_markdown(note))
    assert found.content == "# Deploy\n\nRun the thing."
    assert found.metadata["tags"] == ["ops", "on call"]
    assert found.metadata["title"] == "How we deploy: the short way"
    assert found.metadata["aliases"] == ["shipping", "release day"]
    assert found.memory_type == "procedural"
    assert found.importance == 0.7
    assert found.created_at_ms == 1_772_323_200_000
    assert found.source == "deploy.md"
    assert found.path == "imported/deploy"


def test_note_without_front_matter_takes_the_time_of_its_file(tmp_path: Path) -> None:
    note = tmp_path / "n.md"
    note.write_text("just text\n")
    os.utime(note, (1_700_000_000, 1_700_000_000))
    (found,) = records(read_markdown(note))
    assert found.created_at_ms == 1_700_000_000_000
    assert found.content == "just text"


@pytest.mark.parametrize(
    "text", ["--- \nnot closed", "text\n---\na: b\n---\n", "", "---", "---\r\na: 1\r\n---\r\nx"]
)
def test_odd_front_matter_never_loses_the_text(text: str) -> None:
    fields, body = split_front_matter(text)
    assert fields == {"a": 1} if "\r" in text else fields == {}
    assert body == ("x" if "\r" in text else text)


def test_folder_walk_names_links_hidden_and_foreign_files(tmp_path: Path) -> None:
    folder = tmp_path / "vault"
    (folder / "sub").mkdir(parents=True)
    (folder / ".obsidian").mkdir()
    (folder / "a.md").write_text("a")
    (folder / "sub" / "b.md").write_text("b")
    (folder / ".obsidian" / "c.md").write_text("c")
    (folder / "d.png").write_bytes(b"\x89PNG")
    outside = tmp_path / "outside.md"
    outside.write_text("outside")
    (folder / "link.md").symlink_to(outside)
    (folder / "loop").symlink_to(folder)
    os.mkfifo(folder / "pipe.md")
    (folder / "sub" / "c.TXT").write_text("c\n\nd")
    (folder / "e.jsonl").write_text('{"text":"e"}\n{"text":"f","path":"own"}\n')
    found = list(read_folder(folder))
    assert [(item.path, item.content) for item in found if isinstance(item, MemoryRecord)] == [
        ("vault/a", "a"),
        ("vault/e", "e"),
        ("own", "f"),
        ("vault/sub/b", "b"),
        ("vault/sub/c", "c"),
        ("vault/sub/c", "d"),
    ]
    assert [item for item in found if isinstance(item, PassedOver)] == [
        PassedOver(".obsidian", Reason.HIDDEN),
        PassedOver("d.png", Reason.UNKNOWN_FORMAT),
        PassedOver("link.md", Reason.LINK),
        PassedOver("loop", Reason.LINK),
        PassedOver("pipe.md", Reason.SPECIAL),
    ]


def test_a_folder_read_for_one_format_names_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text("a")
    (folder / "b.txt").write_text("b")
    (folder / "c.bin").write_text("c")
    monkeypatch.chdir(folder)
    text, *others = sorted(read_folder(Path(), only=SourceFormat.TEXT), key=repr)
    assert isinstance(text, MemoryRecord)
    assert text.path == "notes/b"
    assert others == [
        PassedOver("a.md", Reason.OTHER_FORMAT),
        PassedOver("c.bin", Reason.UNKNOWN_FORMAT),
    ]


def test_file_that_is_no_text_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "x.md").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "big.md").write_bytes(b"a" * (MAX_FILE_BYTES + 1))
    assert all(isinstance(item, Problem) for item in read_folder(tmp_path))


@pytest.mark.parametrize(
    ("split", "wanted"),
    [
        (Split.PARAGRAPH, ["one\ntwo", "three"]),
        (Split.LINE, ["one", "two", "three"]),
        (Split.FILE, ["one\ntwo\n \n\nthree"]),
    ],
)
def test_plain_text_is_split_as_asked(tmp_path: Path, split: Split, wanted: list[str]) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("one\ntwo\n \n\nthree\n")
    assert [record.content for record in records(read_text(path, split))] == wanted


def test_overlong_paragraph_is_a_problem_not_a_cut(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("short\n\n" + "x" * 100_001)
    first, second = read_text(path)
    assert isinstance(first, MemoryRecord)
    assert isinstance(second, Problem)


def test_format_follows_the_name() -> None:
    assert detect_format(Path("x.JSONL")) is SourceFormat.JSONL
    assert detect_format(Path("x.md")) is SourceFormat.MARKDOWN
    assert detect_format(Path("x.txt")) is SourceFormat.TEXT
    with pytest.raises(UnknownFormat):
        detect_format(Path("x.docx"))
