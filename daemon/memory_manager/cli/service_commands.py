"""Commands on the memory service as a process: up, stop, restart, status."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path

from memory_manager.cli import service_process, sync_text
from memory_manager.cli.arguments import Commands, add_command, add_start_options
from memory_manager.cli.context import Context
from memory_manager.cli.errors import EXIT_OK
from memory_manager.cli.output import counted, facts, local_time, section, size
from memory_manager.cli.service_process import Start, Stop
from memory_manager.client.discovery import DaemonAddress, find_daemon
from memory_manager.client.errors import DaemonNotRunning
from memory_manager.service.ports import check_port_is_free, check_port_number

_STOPPED = {
    Stop.NOT_RUNNING: "The memory service was not running.",
    Stop.STOPPED: "Stopped.",
    Stop.TERMINATED: "Stopped; it had to be told by a signal.",
    Stop.KILLED: "Killed; it did not react. Its vault recovers at the next start.",
}
_LOCK_REASONS = {
    "no_keyring": "no system keyring can open it",
    "keyring_locked": "the system keyring is locked",
    "reauth_required": "the passphrase is due again",
    "no_terminal": "it opens with the passphrase",
    "user": "you locked it",
    "idle": "nobody used it for a while",
    "suspend": "the machine was suspended",
}
_MAKE_A_VAULT = "memlocket stop && memlocket init && memlocket up"
_Section = Mapping[str, object]


def register(commands: Commands, shared: argparse.ArgumentParser) -> None:
    up = add_command(commands, shared, "up", run_up, "start the memory service in the background")
    add_start_options(up)
    add_command(commands, shared, "stop", run_stop, "stop the memory service")
    restart = add_command(commands, shared, "restart", run_restart, "stop, then start")
    add_start_options(restart)
    add_command(commands, shared, "status", run_status, "what runs, and how it is")


def run_up(arguments: argparse.Namespace, context: Context) -> int:
    if arguments.port is not None:
        check_port_number(arguments.port)
        if service_process.running_daemon(context.environ) is None:
            check_port_is_free(arguments.port)
    options: list[str] = []
    if arguments.port is not None:
        options += ["--port", str(arguments.port)]
    if arguments.insecure_key_file is not None:
        options += ["--insecure-key-file", str(arguments.insecure_key_file.absolute())]
    if arguments.no_embeddings:
        options.append("--no-embeddings")
    if arguments.auto_approve:
        options.append("--auto-approve")
    with context.console.waiting("Starting the memory service"):
        start, address = service_process.start_daemon(
            context.environ, context.directories.log, options
        )
    with context.client() as client:
        status = client.status()
    document = {"start": start.value, "pid": address.pid, "url": address.url, "status": status}
    word = "Running already" if start is Start.ALREADY_RUNNING else "Started"
    context.console.result(document, f"{word}: pid {address.pid}, {address.url or address.socket}")
    port = arguments.port
    if port is not None and not (address.url or "").endswith(f":{port}"):
        context.console.warn(f"it does not listen on port {port}: memlocket restart --port {port}")
    crash = section(section(status, "daemon"), "last_crash")
    if crash.get("unread"):
        context.console.warn(f"it crashed before this start: {_crash_line(crash)}")
    if arguments.auto_approve and not section(status, "approvals").get("auto_approve"):
        context.console.warn("it asks you for every login: memlocket restart --auto-approve")
    _note_vault(context, section(status, "vault"))
    return EXIT_OK


def _note_vault(context: Context, vault: _Section) -> None:
    state = vault.get("state")
    if state == "absent":
        context.console.note(f"There is no vault yet. Make one: {_MAKE_A_VAULT}")
    elif state == "locked":
        context.console.note(f"The vault is locked ({_reason(vault)}): memlocket unlock")
    elif state not in ("unlocked", "verifying"):
        context.console.note(f"The vault is {state}: memlocket doctor")


def run_stop(arguments: argparse.Namespace, context: Context) -> int:
    stop = service_process.stop_daemon(context.environ)
    context.console.result({"stop": stop.value}, _STOPPED[stop])
    return EXIT_OK


def run_restart(arguments: argparse.Namespace, context: Context) -> int:
    if arguments.port is not None:  # before anything is ended
        check_port_number(arguments.port)
        if not _is_own_port(arguments.port, context.environ):
            check_port_is_free(arguments.port)
    service_process.stop_daemon(context.environ)
    return run_up(arguments, context)


def _is_own_port(port: int, environ: Mapping[str, str]) -> bool:
    """Whether the service that is about to end holds the port, even one that hangs."""
    try:
        url = find_daemon(environ).url
    except DaemonNotRunning:
        return False
    return url is not None and url.endswith(f":{port}")


def run_status(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        status = client.status()
        address = client.connection.address
    context.console.result(status, status_text(status, address, context.directories.data))
    return EXIT_OK


def status_text(status: _Section, address: DaemonAddress, data_folder: Path) -> str:
    """The status as aligned lines: service, vault, memories, embeddings."""
    vault, embeddings = section(status, "vault"), section(status, "embeddings")
    service, counts = section(status, "daemon"), section(status, "counts")
    crash = section(service, "last_crash")
    return facts(
        [
            ("service", f"running, pid {address.pid}, version {address.version}"),
            (
                "safe mode",
                "yes: it crashed three times in a row" if service.get("safe_mode") else None,
            ),
            ("last crash", _crash_line(crash)),
            ("socket", address.socket),
            ("url", address.url or "off"),
            ("data folder", data_folder),
            ("vault", _vault_line(vault)),
            (
                "passphrase due",
                local_time(vault["reauth_due_at"]) if vault.get("reauth_due_at") else None,
            ),
            ("recovery words", vault.get("recovery")),
            ("memories", counts.get("memories")),
            ("sync", sync_text.line(section(status, "sync"))),
            ("this device", sync_text.this_device(section(status, "sync"))),
            ("conflicts", _conflicts_line(section(status, "sync"))),
            ("agents", counts.get("agents")),
            ("approvals", _approvals_line(section(status, "approvals"))),
            (
                "to destroy",
                f"{counts['awaiting_destruction']} wait for your word: memlocket destroy"
                if counts.get("awaiting_destruction")
                else None,
            ),
            ("sanitizer", _sanitizer_line(section(status, "sanitizer"))),
            ("embeddings", _embeddings_line(embeddings)),
            ("", f"{embeddings['remedy']}" if embeddings.get("remedy") else None),
        ]
    )


def _sanitizer_line(sanitizer: _Section) -> str | None:
    """Only while stored text is not all under the present rules."""
    if sanitizer.get("state") == "running":
        return (
            f"looks at stored text under rule set {sanitizer.get('ruleset')}: "
            f"{sanitizer.get('remaining')} records left"
        )
    if sanitizer.get("failed") or sanitizer.get("error"):
        return "some stored text could not be cleaned: memlocket doctor"
    return None


def _crash_line(crash: _Section) -> str | None:
    if not crash:
        return None
    news = ", not shown before: memlocket logs" if crash.get("unread") else ""
    return f"{local_time(crash.get('at'))}, {crash.get('error') or 'unknown'}{news}"


def _vault_line(vault: _Section) -> str:
    state = str(vault.get("state", "unknown"))
    if state == "absent":
        return f"none yet: {_MAKE_A_VAULT}"
    if state == "locked":
        return f"locked: {_reason(vault)}"
    source = str(vault.get("unlock_source") or "").replace("_", " ")
    line = f"{state}, by {source}" if state == "unlocked" and source else state
    return (
        f"{line}  (INSECURE: whoever reads the key file reads it)"
        if vault.get("insecure")
        else line
    )


def _conflicts_line(sync: _Section) -> str | None:
    count = sync.get("conflicts")
    if not isinstance(count, int) or not count:
        return None
    return f"{counted(count, 'memory', 'memories')} in conflict: memlocket conflicts"


def _approvals_line(approvals: _Section) -> str | None:
    waiting = approvals.get("waiting")
    parts = [f"{waiting} waiting: memlocket approvals"] if waiting else []
    if approvals.get("auto_approve"):
        parts.append("AUTO-APPROVE IS ON: every login gets access without you")
    return "; ".join(parts) or None


def _reason(vault: _Section) -> str:
    reason = str(vault.get("reason") or "locked")
    return _LOCK_REASONS.get(reason, reason)


def _embeddings_line(embeddings: _Section) -> str | None:
    if not embeddings:
        return None
    parts = [str(embeddings.get("state", "unknown"))]
    if embeddings.get("model_key"):
        parts.append(str(embeddings["model_key"]))
    covered = embeddings.get("covered")
    if isinstance(covered, int):
        queued = embeddings.get("queued")
        parts.append(
            f"{counted(covered, 'memory', 'memories')} covered"
            + (f", {queued} queued" if queued else "")
        )
    if embeddings.get("worker_rss_bytes"):
        parts.append(size(embeddings["worker_rss_bytes"]))
    if embeddings.get("last_error"):
        parts.append(f"last error {embeddings['last_error']}")
    return ", ".join(parts)
