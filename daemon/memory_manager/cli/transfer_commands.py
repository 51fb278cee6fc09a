"""``memlocket import`` and ``memlocket export``. The daemon sanitizes what comes in, as always."""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from memory_manager.base.errors import MemlocketError
from memory_manager.cli.arguments import Commands, add_command, add_passphrase_fd
from memory_manager.cli.context import Context
from memory_manager.cli.errors import EXIT_OK, FileProblem, NotConfirmed, RecordsRefused
from memory_manager.cli.output import counted
from memory_manager.client.errors import OddAnswer

if TYPE_CHECKING:
    from memory_manager.capture.folders import PassedOver
    from memory_manager.capture.records import MemoryRecord
    from memory_manager.capture.sources import SourceItem
    from memory_manager.client.memory_client import MemoryClient

MAX_BATCH_RECORDS = 256
MAX_BATCH_BYTES = 768 * 1024  # well below the body limit of one request
MAX_SHOWN_PROBLEMS = 20
MAX_SHOWN_NAMES = 5
_OUTCOMES = ("created", "updated", "deduplicated", "unchanged")
_FORMATS = ("jsonl", "markdown", "text")
_EXPORT_WARNING = (
    "this holds your memories as plain text, unencrypted: texts, tags, times, who wrote them"
)


def register(commands: Commands, shared: argparse.ArgumentParser) -> None:
    importer = add_command(
        commands, shared, "import", run_import, "store memories from files",
        "JSON Lines (our own exports, or objects with a text in 'content', 'text' or 'memory'),\n"
        "Markdown with front matter, plain text, and folders of these; what a folder holds beside\n"
        "them is named and passed over. What is stored already is left as it is, so an import can\n"
        "be repeated.",
    )  # fmt: skip
    importer.add_argument(
        "sources", metavar="PATH", nargs="+", type=Path, help="a file, or a folder of files"
    )
    importer.add_argument("--format", choices=_FORMATS, help="default: by the file name")
    importer.add_argument(
        "--split",
        choices=("paragraph", "line", "file"),
        default="paragraph",
        help="plain text: one memory per ... (default: paragraph)",
    )
    importer.add_argument("--bucket", help="put everything into this bucket")
    importer.add_argument("--dry-run", action="store_true", help="read and count, store nothing")
    export = add_command(
        commands, shared, "export", run_export, "write memories as plain text; needs the passphrase"
    )
    export.add_argument(
        "target", metavar="PATH", help="a file (JSON Lines) or a new folder; - for standard output"
    )
    export.add_argument(
        "--format", choices=("jsonl", "markdown"), default="jsonl", help="default: jsonl"
    )
    export.add_argument("--include-deleted", action="store_true", help="forgotten memories too")
    export.add_argument(
        "--short-marks",
        action="store_true",
        help="write [REDACTED] without its rule, which other secret scanners take for a finding",
    )
    add_passphrase_fd(export)


# -- import


@dataclasses.dataclass(slots=True)
class _Tally:
    """What became of the records so far."""

    outcomes: Counter[str] = dataclasses.field(default_factory=Counter[str])
    read: int = 0
    redacted: int = 0
    problems: list[tuple[str, str]] = dataclasses.field(default_factory=list[tuple[str, str]])
    passed_over: list[tuple[str, str]] = dataclasses.field(default_factory=list[tuple[str, str]])
    compared: bool = True
    """Whether the service said what is known already; a dry run may do without it."""

    @property
    def known(self) -> int:
        return self.outcomes["deduplicated"] + self.outcomes["unchanged"]

    def as_json(self, *, dry_run: bool) -> dict[str, object]:
        return {
            "dry_run": dry_run,
            "read": self.read,
            **{name: self.outcomes[name] for name in _OUTCOMES},
            "redacted": self.redacted,
            "refused": len(self.problems),
            "problems": [{"place": place, "message": text} for place, text in self.problems],
            "passed_over": [{"place": place, "reason": text} for place, text in self.passed_over],
            "compared": self.compared,
        }


def run_import(arguments: argparse.Namespace, context: Context) -> int:
    for source in arguments.sources:
        if not source.exists():
            raise FileProblem(f"There is no {source}.")
    tally = _Tally()
    with context.console.progress("import", None, "memories") as advance:
        with contextlib.ExitStack() as opened:
            client = _client(arguments, context, opened, tally)
            for batch in _batches(_records(arguments, tally)):
                tally.read += len(batch)
                if client is not None:
                    _send(client, batch, tally, dry_run=arguments.dry_run)
                advance(len(batch))
    _report_import(arguments, context, tally)
    if tally.problems:
        if context.console.as_json:
            return RecordsRefused.exit_code  # the document names them already
        verb = "would not" if arguments.dry_run else "could not"
        raise RecordsRefused(f"{counted(len(tally.problems), 'record')} {verb} be imported.")
    return EXIT_OK


def _client(
    arguments: argparse.Namespace,
    context: Context,
    opened: contextlib.ExitStack,
    tally: _Tally,
) -> MemoryClient | None:
    """The service; a dry run does without one that is not there or cannot write now."""
    try:
        client = opened.enter_context(context.client())
        if arguments.dry_run and not client.import_records([], dry_run=True).get("dry_run"):
            raise OddAnswer("The running memory service knows no dry run.")
    except MemlocketError as error:
        if not arguments.dry_run:
            raise
        context.console.note(f"Not compared with what is stored: {error.message}")
        tally.compared = False
        return None
    return client


def _report_import(arguments: argparse.Namespace, context: Context, tally: _Tally) -> None:
    console = context.console
    verb = "Would import" if arguments.dry_run else "Imported"
    new = tally.outcomes["created"] if tally.compared else tally.read
    text = f"{verb} {counted(new, 'memory', 'memories')}"
    text += f", {tally.outcomes['updated']} updated" if tally.outcomes["updated"] else ""
    text += f", {tally.known} known already" if tally.known else ""
    text += "; nothing was stored." if arguments.dry_run else ""
    console.result(tally.as_json(dry_run=arguments.dry_run), text)
    if tally.redacted:
        taken = "would be" if arguments.dry_run else "was"
        console.note(f"In {tally.redacted} of them a secret {taken} taken out before storing.")
    _note_passed_over(context, tally)
    for place, message in tally.problems[:MAX_SHOWN_PROBLEMS]:
        console.note(f"  {place}: {message}")
    if len(tally.problems) > MAX_SHOWN_PROBLEMS:
        console.note(f"  and {len(tally.problems) - MAX_SHOWN_PROBLEMS} more; all with --json")


def _note_passed_over(context: Context, tally: _Tally) -> None:
    """One line for each reason, with the first few names."""
    names: dict[str, list[str]] = {}
    for place, reason in tally.passed_over:
        names.setdefault(reason, []).append(place)
    for reason, places in names.items():
        shown = ", ".join(places[:MAX_SHOWN_NAMES])
        more = f" and {len(places) - MAX_SHOWN_NAMES} more" if places[MAX_SHOWN_NAMES:] else ""
        context.console.note(f"Passed over {len(places)} ({reason}): {shown}{more}")


def _records(arguments: argparse.Namespace, tally: _Tally) -> Iterator[MemoryRecord]:
    from memory_manager.capture.folders import PassedOver
    from memory_manager.capture.sources import Problem

    for source in arguments.sources:
        try:
            for item in _read(source, arguments):
                if isinstance(item, Problem):
                    tally.problems.append((item.place, item.message))
                    continue
                if isinstance(item, PassedOver):
                    tally.passed_over.append((item.place, item.reason.value))
                    continue
                yield (
                    dataclasses.replace(item, bucket=arguments.bucket) if arguments.bucket else item
                )
        except OSError as error:
            raise FileProblem(f"{source} cannot be read: {error.strerror}.") from None


def _read(source: Path, arguments: argparse.Namespace) -> Iterator[SourceItem | PassedOver]:
    from memory_manager.capture import folders, jsonl, markdown, plain_text
    from memory_manager.capture.sources import SourceFormat, detect_format

    if source.is_dir():
        only = SourceFormat(arguments.format) if arguments.format else None
        return folders.read_folder(source, plain_text.Split(arguments.split), only)
    chosen = SourceFormat(arguments.format) if arguments.format else detect_format(source)
    if chosen is SourceFormat.JSONL:
        return jsonl.read_jsonl(source)
    if chosen is SourceFormat.MARKDOWN:
        return markdown.read_markdown(source)
    return plain_text.read_text(source, plain_text.Split(arguments.split))


def _batches(records: Iterator[MemoryRecord]) -> Iterator[list[MemoryRecord]]:
    """Batches below both limits; one record alone may be larger than the byte limit."""
    from memory_manager.capture.jsonl import record_line

    batch: list[MemoryRecord] = []
    size_bytes = 0
    for record in records:
        line_bytes = len(record_line(record)) + 1
        if batch and (len(batch) == MAX_BATCH_RECORDS or size_bytes + line_bytes > MAX_BATCH_BYTES):
            yield batch
            batch, size_bytes = [], 0
        batch.append(record)
        size_bytes += line_bytes
    if batch:
        yield batch


def _send(
    client: MemoryClient, batch: Sequence[MemoryRecord], tally: _Tally, *, dry_run: bool
) -> None:
    from memory_manager.capture.records import record_as_json

    answer = client.import_records([record_as_json(record) for record in batch], dry_run=dry_run)
    results = cast("Sequence[Mapping[str, object]]", answer.get("results") or [])
    for record, result in zip(batch, results, strict=True):
        error = result.get("error")
        if isinstance(error, dict):
            message = str(cast("Mapping[str, object]", error).get("message", "refused"))
            tally.problems.append((record.id or record.path, message))
            continue
        tally.outcomes[str(result.get("status"))] += 1
        tally.redacted += bool(result.get("redactions"))


# -- export


def run_export(arguments: argparse.Namespace, context: Context) -> int:
    to_stdout = arguments.target == "-"
    if to_stdout and arguments.format == "markdown":
        raise FileProblem("Markdown is written as a folder: name one instead of -.")
    with context.client() as client:
        lines = context.as_admin(
            client,
            lambda: _started(
                client.export_lines(
                    include_deleted=arguments.include_deleted, short_marks=arguments.short_marks
                )
            ),
            arguments.passphrase_fd,
        )
        with context.console.progress("export", None, "memories") as advance:
            counted_lines = _counting(lines, advance)
            if to_stdout:
                count = _write_stdout(counted_lines)
            else:
                count = _write_target(Path(arguments.target), arguments.format, counted_lines)
    if to_stdout:
        return EXIT_OK
    context.console.result(
        {"count": count, "path": str(Path(arguments.target).absolute())},
        f"Exported {counted(count, 'memory', 'memories')} to {arguments.target}",
    )
    context.console.warn(_EXPORT_WARNING)
    return EXIT_OK


def _started(lines: Iterator[bytes]) -> Iterator[bytes]:
    """The same lines, with the first one fetched already: a refusal shows up now."""
    first = next(lines, None)

    def again() -> Iterator[bytes]:
        if first is not None:
            yield first
            yield from lines

    return again()


def _counting(lines: Iterator[bytes], advance: object) -> Iterator[bytes]:
    for line in lines:
        if callable(advance):
            advance(1)
        yield line


def _write_stdout(lines: Iterator[bytes]) -> int:
    from memory_manager.capture.jsonl import write_jsonl

    count = write_jsonl(lines, sys.stdout.buffer)
    sys.stdout.buffer.flush()
    return count


def _write_target(target: Path, chosen: str, lines: Iterator[bytes]) -> int:
    from memory_manager.base.private_files import private_writer
    from memory_manager.capture.jsonl import parse_line, write_jsonl
    from memory_manager.capture.markdown import write_markdown

    if target.exists() and (chosen == "jsonl" or not target.is_dir() or any(target.iterdir())):
        raise NotConfirmed(f"{target} exists already; nothing was written.")
    try:
        if chosen == "markdown":
            return write_markdown((parse_line(line, "imported") for line in lines), target)
        with private_writer(target.absolute()) as stream:
            return write_jsonl(lines, stream)
    except OSError as error:
        raise FileProblem(f"{target} cannot be written: {error.strerror}.") from None
