"""``memlocket doctor``: checks, one real round trip in a temporary home, rebuilds, a bundle."""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import stat
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from memory_manager.base.errors import MemlocketError
from memory_manager.base.private_files import write_private
from memory_manager.cli import doctor_checks as checks
from memory_manager.cli.arguments import Commands, add_command, add_passphrase_fd
from memory_manager.cli.context import Context
from memory_manager.cli.doctor_checks import Finding, Level, entries_below
from memory_manager.cli.errors import EXIT_OK, ChecksFailed, FileProblem, NotConfirmed
from memory_manager.cli.log_command import LOG_NAME
from memory_manager.cli.output import hanging, section
from memory_manager.cli.rescan import rescan
from memory_manager.client.errors import DaemonNotRunning
from memory_manager.client.memory_client import MemoryClient

BUNDLED_LOG_BYTES = 512 * 1024
_MARKS = {Level.OK: "ok     ", Level.NOTE: "note   ", Level.PROBLEM: "PROBLEM"}


def register(commands: Commands, shared: argparse.ArgumentParser) -> None:
    parser = add_command(
        commands, shared, "doctor", run, "check everything, with one real round trip",
        "The round trip runs in a temporary home: your own vault is only read.",
    )  # fmt: skip
    parser.add_argument(
        "--quick", action="store_true", help="without reading every page and without the round trip"
    )
    parser.add_argument(
        "--bundle", type=Path, metavar="ZIP", help="write a report without any memory in it"
    )
    parser.add_argument("--replace", action="store_true", help="the bundle may replace a file")
    parser.add_argument(
        "--rebuild", choices=("fulltext", "vectors", "all"), help="compute the indexes again"
    )
    parser.add_argument(
        "--rescan",
        action="store_true",
        help="take out of all stored text what the present rules find in it, in every version",
    )
    parser.add_argument(
        "--accept-rollback",
        action="store_true",
        help="trust this older copy of the vault; needs the passphrase",
    )
    add_passphrase_fd(parser)


def run(arguments: argparse.Namespace, context: Context) -> int:
    if arguments.rebuild:
        return _rebuild(arguments.rebuild, context)
    if arguments.rescan:
        return rescan(context)
    if arguments.accept_rollback:
        return _accept_rollback(arguments, context)
    bundle: Path | None = arguments.bundle
    if bundle is not None and not arguments.replace and os.path.lexists(bundle):
        raise NotConfirmed(f"{bundle} exists already.", hint="--replace writes it anew.")
    findings: list[Finding] = []
    status: Mapping[str, object] | None = None
    with contextlib.ExitStack() as opened:
        client = _client(context, opened)
        for finding in _findings(arguments, context, client):
            findings.append(finding)
            context.console.note(_line(finding))
        if client is not None:
            with contextlib.suppress(MemlocketError):
                status = client.status()
    problems = [finding for finding in findings if finding.level is Level.PROBLEM]
    document: dict[str, object] = {
        "problems": len(problems),
        "findings": [finding.as_json() for finding in findings],
    }
    if bundle is not None:
        _write_bundle(bundle, context, document, status)
        document["bundle"] = str(bundle.absolute())
        context.console.note(f"Report written: {bundle}")
    context.console.result(document, "" if problems else "Everything in order.")
    if problems and not context.console.as_json:
        raise ChecksFailed(f"{len(problems)} of {len(findings)} checks did not pass.")
    return ChecksFailed.exit_code if problems else EXIT_OK


def _client(context: Context, opened: contextlib.ExitStack) -> MemoryClient | None:
    try:
        return opened.enter_context(context.client())
    except DaemonNotRunning:
        return None


def _findings(
    arguments: argparse.Namespace, context: Context, client: MemoryClient | None
) -> Iterator[Finding]:
    places = context.directories
    yield from checks.check_versions()
    yield from checks.check_permissions(places)
    yield from checks.check_database_head(places)
    yield from checks.check_disk(places)
    yield from checks.check_swap()
    yield from checks.check_service(client)
    yield from checks.check_clients(client, context.environ)
    if not arguments.quick:
        yield from checks.check_integrity(client)
        yield from checks.check_plaintext(client, places)
    yield from checks.check_models(places)
    if not arguments.quick:
        yield _round_trip(context)


def _round_trip(context: Context) -> Finding:
    from memory_manager.cli.selftest import SelfTestFailed, round_trip

    try:
        seconds = round_trip(context.environ)
    except SelfTestFailed as error:
        return Finding("round trip", Level.PROBLEM, error.message, error.hint)
    return Finding(
        "round trip",
        Level.OK,
        f"remembered, recalled and left no plain text in a temporary home, {seconds:.1f} s",
    )


def _line(finding: Finding) -> str:
    line = hanging(f"{_MARKS[finding.level]}  {finding.check:<12}  ", finding.text)
    return f"{line}\n{hanging(' ' * 23, finding.hint)}" if finding.hint else line


def _rebuild(what: str, context: Context) -> int:
    with context.client() as client:
        answer = client.rebuild(what)
    context.console.result(answer, f"Rebuilt: {what}")
    return EXIT_OK


def _accept_rollback(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        answer = context.as_admin(client, client.accept_rollback, arguments.passphrase_fd)
    context.console.result(answer, "This copy of the vault is trusted from now on.")
    return EXIT_OK


def _write_bundle(
    target: Path,
    context: Context,
    document: Mapping[str, object],
    status: Mapping[str, object] | None,
) -> None:
    """Findings, status, sizes of our files and the end of the log, which holds no memory text."""
    places = context.directories
    home = str(places.home or places.data)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as bundle:
        parts: dict[str, object] = {"findings.json": document, "status.json": _safe(status or {})}
        parts["files.json"] = _sizes(places.data)
        for name, part in parts.items():
            text = json.dumps(part, ensure_ascii=False, indent=2)
            bundle.writestr(name, text.replace(home, "<home>").replace(str(Path.home()), "~"))
        with contextlib.suppress(OSError):
            bundle.writestr(LOG_NAME, (places.log / LOG_NAME).read_bytes()[-BUNDLED_LOG_BYTES:])
    try:
        write_private(target.absolute(), buffer.getvalue())
    except OSError as error:
        raise FileProblem(f"{target} cannot be written: {error.strerror}.") from None


def _safe(status: Mapping[str, object]) -> Mapping[str, object]:
    """Without the sync server's address: it may name its owner."""
    sync = section(status, "sync")
    return {**status, "sync": {**sync, "server": "<server>"}} if sync.get("server") else status


def _sizes(folder: Path) -> dict[str, int]:
    return {
        str(path.relative_to(folder)): info.st_size
        for path, info in sorted(entries_below(folder))
        if stat.S_ISREG(info.st_mode)
    }
