"""What commands print: one JSON document with ``--json``, else text for people.

Results go to standard output, everything else to standard error. Nothing here knows a command.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any, TextIO, cast

from memory_manager.base.errors import MemlocketError
from memory_manager.cli.errors import code_of, exit_code_of, title_of

Advance = Callable[[int], object]
DEFAULT_COLUMNS = 100
MIN_COLUMN_WIDTH = 8
_BIDI_CONTROLS = frozenset({"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"})


class Console:
    """Standard output and error of one command."""

    def __init__(
        self, *, as_json: bool = False, out: TextIO | None = None, err: TextIO | None = None
    ) -> None:
        self.as_json = as_json
        self._out = out or sys.stdout
        self._err = err or sys.stderr

    def result(self, document: Mapping[str, object], text: str) -> None:
        """The outcome of a command: the document with ``--json``, else the text."""
        if self.as_json:
            print(self._json(document), file=self._out)
        elif text:
            print(_printable(text), file=self._out)

    def _json(self, document: Mapping[str, object]) -> str:
        # an encoding that lacks characters would spoil the document; escapes are JSON too
        encoding = (self._out.encoding or "utf-8").lower().replace("-", "")
        return json.dumps(document, ensure_ascii=encoding != "utf8", indent=2)

    def note(self, text: str) -> None:
        """A remark for people, broken at blanks on a terminal; silent with ``--json``."""
        if not self.as_json:
            self._remark(text)

    def warn(self, text: str) -> None:
        """Something the owner must know, also beside JSON."""
        self._remark(f"warning: {text}")

    def exactly(self, text: str) -> None:
        """Like ``note``, for what must be seen as it is: no line is broken."""
        if not self.as_json:
            print(_printable(text), file=self._err)

    def _remark(self, text: str) -> None:
        print(_wrapped(_printable(text), _room(self._err)), file=self._err)

    def error(self, error: MemlocketError) -> int:
        """Show an error with its way out; returns the exit code."""
        exit_code = exit_code_of(error)
        if self.as_json:
            details = {
                "code": code_of(error),
                "title": title_of(error),
                "message": error.message,
                "hint": error.hint,
                "exit_code": exit_code,
            }
            print(self._json({"error": details}), file=self._out)
            return exit_code
        title = title_of(error)
        repeats = title.lower() in error.message.lower()
        shown = error.message if repeats else f"{title}: {error.message}"
        self._remark(f"memlocket: {shown}")
        if error.hint:
            self._remark(f"  {error.hint}")
        return exit_code

    @contextlib.contextmanager
    def waiting(self, what: str) -> Generator[None]:
        """``what ...`` at once on a terminal, gone at the end; for waits of unknown length."""
        if self.as_json or not self._err.isatty():
            yield
            return
        line = f"{what} ..."
        print(line, end="", file=self._err, flush=True)
        try:
            yield
        finally:
            print(f"\r{' ' * len(line)}\r", end="", file=self._err, flush=True)

    @contextlib.contextmanager
    def progress(self, what: str, total: int | None, unit: str) -> Generator[Advance]:
        """A progress bar on standard error, only on a terminal and never with ``--json``."""
        with self._bar(desc=what, total=total, unit=f" {unit}") as advance:
            yield advance

    @contextlib.contextmanager
    def countdown(self, what: str, seconds: int) -> Generator[Advance]:
        """A bar of time that passes; shown like ``progress``."""
        looks = "{desc}: {n_fmt} of {total_fmt} s |{bar}|"
        with self._bar(desc=what, total=seconds, bar_format=looks) as advance:
            yield advance

    @contextlib.contextmanager
    def _bar(self, **looks: Any) -> Generator[Advance]:
        if self.as_json or not self._err.isatty():
            yield lambda count: None
            return
        from tqdm import tqdm

        with tqdm(file=self._err, leave=False, dynamic_ncols=True, **looks) as bar:
            yield bar.update


def progress_from(advance: Advance) -> Callable[[int, int], None]:
    """A callback that is told ``(done, total)``, as a step counter."""
    reached = 0

    def told(done: int, total: int) -> None:
        nonlocal reached
        advance(done - reached)
        reached = done

    return told


def _printable(text: str) -> str:
    """Without characters that could drive the terminal or show a line in another order; stored text
    may hold any.
    """
    return "".join("\ufffd" if _is_unsafe(character) else character for character in text)


def _is_unsafe(character: str) -> bool:
    if character in "\n\t":
        return False
    reorders = unicodedata.bidirectional(character) in _BIDI_CONTROLS
    return reorders or unicodedata.category(character) in ("Cc", "Cs")


def _wrapped(text: str, room: int | None) -> str:
    """Lines that are too long go on below, as far in as they began; no word is cut."""
    if room is None:
        return text
    lines: list[str] = []
    for line in text.split("\n"):
        indent = line[: len(line) - len(line.lstrip())]
        if _width(line) <= room or len(indent) + MIN_COLUMN_WIDTH > room:
            lines.append(line)
            continue
        lines += textwrap.wrap(
            line.strip(), room, initial_indent=indent, subsequent_indent=indent,
            break_long_words=False, break_on_hyphens=False,
        )  # fmt: skip
    return "\n".join(lines)


def _room(stream: TextIO) -> int | None:
    """Columns of the terminal behind a stream; None for anything else."""
    if not stream.isatty():
        return None
    try:
        return os.get_terminal_size(stream.fileno()).columns or None
    except (OSError, ValueError):
        return None


def facts(pairs: Iterable[tuple[str, object]]) -> str:
    """Aligned ``name  value`` lines; pairs whose value is None are left out."""
    shown = [(name, str(value)) for name, value in pairs if value is not None]
    width = max((len(name) for name, _ in shown), default=0)
    return "\n".join(hanging(f"{name.ljust(width)}  ", value) for name, value in shown)


def hanging(label: str, text: str) -> str:
    """``label`` and a text that goes on below itself where a terminal's line ends."""
    if not (sys.stdout.isatty() or sys.stderr.isatty()):
        return label + text
    indent = " " * len(label)
    room = max(columns(), len(label) + MIN_COLUMN_WIDTH)
    lines = [
        part
        for line in text.split("\n")
        for part in textwrap.wrap(
            line, room - len(label), break_long_words=False, break_on_hyphens=False
        )
        or [""]
    ]
    return label + f"\n{indent}".join(lines)


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Aligned columns; the last one is cut to the width of the terminal."""
    lines = [list(header), *(list(row) for row in rows)]
    widths = [max(_width(line[at]) for line in lines) for at in range(len(header) - 1)]
    room = columns()
    last = max(MIN_COLUMN_WIDTH, room - sum(widths) - 2 * len(widths))
    shown: list[str] = []
    for line in lines:
        cells = [
            cell + " " * (width - _width(cell)) for cell, width in zip(line, widths, strict=False)
        ]
        shown.append("  ".join([*cells, shortened(line[-1], last)]).rstrip())
    return "\n".join(shown)


def columns() -> int:
    """Width of the terminal; what is piped has room."""
    return shutil.get_terminal_size((DEFAULT_COLUMNS, 24)).columns


def shortened(text: str, columns: int) -> str:
    """The first line's worth of a text: blanks folded, cut with an ellipsis."""
    flat = " ".join(text.split())
    if _width(flat) <= columns:
        return flat
    kept, used = "", 0
    for character in flat:
        used += _width(character)
        if used > columns - 1:
            break
        kept += character
    return kept.rstrip() + "…"


def _width(text: str) -> int:
    """Terminal columns: East Asian wide characters take two."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )


def local_time(rfc3339: object, *, seconds: bool = False) -> str:
    """``2026-01-02 03:04`` in the local time zone; the value itself if it is no time."""
    try:
        moment = datetime.datetime.fromisoformat(str(rfc3339).replace("Z", "+00:00"))
    except ValueError:
        return str(rfc3339)
    return moment.astimezone().strftime("%Y-%m-%d %H:%M:%S" if seconds else "%Y-%m-%d %H:%M")


def size(bytes_count: object) -> str:
    """``12.3 MiB``; an empty text for something that is no number."""
    if not isinstance(bytes_count, (int, float)):
        return ""
    value = float(bytes_count)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"


def counted(count: int, noun: str, plural: str | None = None) -> str:
    """``1 memory``, ``2 memories``."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def section(document: Mapping[str, object], name: str) -> Mapping[str, object]:
    """The object under ``name`` in an answer; empty when there is none."""
    value = document.get(name)
    return cast("Mapping[str, object]", value) if isinstance(value, dict) else {}


def entries(document: Mapping[str, object], name: str) -> Sequence[Mapping[str, object]]:
    """The objects of the list under ``name`` in an answer; none when it is not there."""
    return cast("Sequence[Mapping[str, object]]", document.get(name) or [])
