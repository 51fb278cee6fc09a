"""What people and scripts see: aligned text, plain JSON, no control characters, bars on request."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import re
import termios
import unicodedata
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from memory_manager.base.errors import NotFound
from memory_manager.cli import bench_questions, bench_run, memory_text
from memory_manager.cli.bench_run import Question
from memory_manager.cli.log_command import short_line
from memory_manager.cli.output import Console, counted, facts, shortened, size, table
from memory_manager.vault.errors import NoVault


def console(*, as_json: bool = False) -> tuple[Console, io.StringIO, io.StringIO]:
    out, err = io.StringIO(), io.StringIO()
    return Console(as_json=as_json, out=out, err=err), out, err


def test_json_goes_alone_to_standard_output() -> None:
    shown, out, err = console(as_json=True)
    shown.note("a remark")
    shown.result({"a": "ä"}, "text")
    assert json.loads(out.getvalue()) == {"a": "ä"}
    assert err.getvalue() == ""


def test_error_shows_title_message_and_hint() -> None:
    shown, out, err = console()
    assert shown.error(NotFound("No such memory.", hint="Look at: memlocket list")) == 4
    assert err.getvalue() == "memlocket: Not found: No such memory.\n  Look at: memlocket list\n"
    assert out.getvalue() == ""


def test_error_as_json_carries_code_and_exit_code() -> None:
    shown, out, err = console(as_json=True)
    assert shown.error(NotFound()) == 4
    error = json.loads(out.getvalue())["error"]
    assert (error["code"], error["exit_code"]) == ("not_found", 4)
    assert err.getvalue() == ""


def test_progress_is_silent_where_nobody_looks() -> None:
    shown, out, err = console()
    with shown.progress("work", 3, "steps") as advance:
        advance(3)
    assert out.getvalue() + err.getvalue() == ""


def on_terminal(columns: int, act: Callable[[Console], object]) -> str:
    """What a terminal of this width is sent."""
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, columns))
    with open(slave, "w", encoding="utf-8") as err:
        act(Console(out=io.StringIO(), err=err))
    said = b""
    with contextlib.suppress(OSError):  # all was read, and the other side is closed
        while part := os.read(master, 65_536):
            said += part
    os.close(master)
    return said.decode().replace("\r\n", "\n")


REMARK = "The first word and others.\n  " + "memories are kept " * 8 + "/a/path/" + "x" * 60


def test_remarks_are_broken_at_blanks_on_a_terminal_only() -> None:
    said = on_terminal(40, lambda console: console.warn(REMARK)).rstrip("\n")
    lines = said.split("\n")
    assert said.split() == f"warning: {REMARK}".split()
    assert [line for line in lines if len(line) > 40] == ["  /a/path/" + "x" * 60]
    assert all(line.startswith("  ") for line in lines[1:])
    error = NotFound("No such memory at all.", hint="Look at " + "here " * 12)
    assert max(map(len, on_terminal(40, lambda console: console.error(error)).split("\n"))) <= 40
    document = json.dumps({"content": "word " * 30})
    assert on_terminal(40, lambda console: console.exactly(document)) == document + "\n"
    shown, _, err = console()
    shown.warn(REMARK)
    assert err.getvalue() == f"warning: {REMARK}\n"


@given(st.text(max_size=200))
def test_no_control_character_reaches_a_terminal(text: str) -> None:
    shown, out, _ = console()
    shown.result({}, text)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]", out.getvalue())


def test_no_text_turns_its_line_around() -> None:
    shown, out, _ = console()
    shown.result({}, "שלום \u202edestroy nothing\u202c \u2066x\u2069")
    assert out.getvalue() == "שלום \ufffddestroy nothing\ufffd \ufffdx\ufffd\n"


@given(st.text(max_size=80), st.integers(2, 40))
def test_shortened_text_fits(text: str, columns: int) -> None:
    cut = shortened(text, columns)
    assert "\n" not in cut
    assert sum(not unicodedata.combining(character) for character in cut) <= columns
    if len(" ".join(text.split())) * 2 <= columns:
        assert cut == " ".join(text.split())


def test_table_counts_wide_characters_twice() -> None:
    shown = table(("PATH", "TEXT"), [("表", "x"), ("ab", "y")]).splitlines()
    assert shown == ["PATH  TEXT", "表    x", "ab    y"]


def test_facts_leave_out_what_is_unknown() -> None:
    assert facts([("a", 1), ("bbb", None), ("cc", 0)]) == "a   1\ncc  0"


def test_sizes_and_counts_read_well() -> None:
    assert [size(n) for n in (0, 1023, 2048, 5 * 2**20, 3 * 2**30, None)] == [
        "0 B", "1023 B", "2.0 KiB", "5.0 MiB", "3.0 GiB", "",
    ]  # fmt: skip
    assert counted(1, "memory", "memories") == "1 memory"
    assert counted(2, "memory", "memories") == "2 memories"


def test_redaction_note_names_rules_only() -> None:
    assert memory_text.redaction_note({"redactions": []}) is None
    assert memory_text.redaction_note({}) is None
    for found in (
        ["github_token"],
        [{"rule": "github_token", "count": 2}],
        {"types": ["github_token"]},
    ):
        note = memory_text.redaction_note({"redactions": found})
        assert note == "a secret was taken out before storing: github_token"


def test_log_lines_are_short_and_foreign_lines_stay() -> None:
    line = (
        '{"time":"2026-11-30T06:32:00.000Z","level":"WARNING","event":"x","logger":"l","code":"c"}'
    )
    assert re.fullmatch(r"2026-1\d-\d\d \d\d:\d\d:\d\d  WARNING  x  code=c", short_line(line))
    assert short_line("not json") == "not json"
    assert short_line("[1]") == "[1]"


def test_bench_questions_are_the_rarest_words_and_repeatable() -> None:
    rows = [
        {
            "id": str(n),
            "content": f"common words everywhere kestrel{chr(97 + n)} falcon{chr(97 + n)} owl",
        }
        for n in range(20)
    ]
    first = bench_questions.make_questions(rows, 10, seed=7)
    assert first == bench_questions.make_questions(rows, 10, seed=7)
    assert len(first) == 10
    for question in first[::2]:
        (memory_id,) = question.ids
        assert f"kestrel{chr(97 + int(memory_id))}" in question.text
    assert bench_questions.make_questions([{"id": "1", "content": "a b"}], 5, seed=0) == []


def test_quality_by_hand() -> None:
    questions = [Question("a", frozenset({"1"})), Question("b", frozenset({"2", "3"}))]
    quality = bench_run._quality(questions, [["9", "1"], ["2", "8", "7", "6", "5", "3"]])
    assert quality.hit == (0.5, 1.0, 1.0)
    assert quality.recall == (0.25, 0.75, 1.0)
    assert quality.mrr == 0.75
    assert 0.7 < quality.ndcg10 < 0.8


def test_advice_needs_enough_questions_and_a_real_difference() -> None:
    good = bench_run.Quality((0.5, 0.60, 0.7), (0.5, 0.6, 0.7), 0.5, 0.5)
    bad = bench_run.Quality((0.5, 0.58, 0.7), (0.5, 0.6, 0.7), 0.5, 0.5)
    assert bench_run._advice({"words (BM25)": good, "both": bad}, 300) is not None
    assert bench_run._advice({"words (BM25)": good, "both": bad}, 100) is None
    assert bench_run._advice({"words (BM25)": bad, "both": good}, 300) is None
    assert bench_run._advice({"words (BM25)": good}, 300) is None


def test_a_title_that_the_message_repeats_is_left_out() -> None:
    shown, _, err = console()
    shown.error(NoVault())
    assert err.getvalue().startswith("memlocket: There is no vault yet.\n")
