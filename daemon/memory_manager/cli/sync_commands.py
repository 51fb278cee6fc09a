"""``memlocket sync``: one memory on several machines, through a server that cannot read it."""

from __future__ import annotations

import argparse

from memory_manager.cli import prompts, sync_evidence, sync_joining, sync_setup, sync_text
from memory_manager.cli.arguments import (
    Commands,
    add_command,
    add_group,
    add_passphrase_fd,
)
from memory_manager.cli.context import Context
from memory_manager.cli.errors import EXIT_OK
from memory_manager.cli.output import entries, section
from memory_manager.client.memory_client import JsonObject
from memory_manager.client.sync_acts import SyncActs
from memory_manager.sync.engine.errors import NothingToConfirm
from memory_manager.sync.errors import SyncRefused


def register(commands: Commands, shared: argparse.ArgumentParser) -> None:
    actions = add_group(commands, shared, "sync", "share this memory with your other machines")
    add_command(
        actions, shared, "status", run_status, "how far sync got, and what stops it",
        "'verified up to row N' with six head words: two devices that show the same row and words\n"
        "have seen the same history.",
    )  # fmt: skip
    sync_setup.register(actions, shared)
    sync_joining.register(actions, shared)
    _register_devices(actions, shared)
    for name, act, summary in (
        ("pause", SyncActs.pause, "send and fetch nothing until resumed"),
        ("resume", SyncActs.resume, "go on after a pause"),
        ("now", SyncActs.now, "one round now, also while paused"),
        ("retry", SyncActs.retry, "try again after a stop"),
    ):
        command = add_command(actions, shared, name, run_simple, summary)
        command.set_defaults(act=act)
    confirm = add_command(
        actions, shared, "confirm", run_confirm, "agree to go on after a stop that asks you",
        "ROSTER_CHANGED: another device changed the device list. BREAKER: other devices deleted\n"
        "more than usual; deleted memories can be restored for 30 days. ROLLBACK: the server went\n"
        "back; this device gives it the missing rows again.",
    )  # fmt: skip
    confirm.add_argument("code", metavar="CODE", help="the code that status shows")
    add_passphrase_fd(confirm)
    jitter = add_command(
        actions, shared, "jitter", run_jitter, "blur for the server when this machine writes",
        "After a write, sending waits by chance up to so many seconds: the server and whoever\n"
        "watches the line see less well when you work. Without a number: what is set.",
    )  # fmt: skip
    jitter.add_argument(
        "seconds", metavar="SECONDS", nargs="?", type=float, help="0 (at once, the default) to 60"
    )
    sync_evidence.register(actions, shared)


def _register_devices(actions: Commands, shared: argparse.ArgumentParser) -> None:
    devices = add_command(actions, shared, "devices", run_devices, "who shares this memory")
    devices.add_argument(
        "--rename", nargs=2, metavar=("DEVICE", "NAME"), help="another name, on this machine"
    )
    revoke = add_command(
        actions, shared, "revoke", run_revoke, "shut a lost machine out",
        "From now on everything is written under a key it does not get, and what it still sends\n"
        "is refused. What it has read already cannot be unread.",
    )  # fmt: skip
    revoke.add_argument("device", metavar="DEVICE", help="its name, or the beginning of its id")
    revoke.add_argument("--yes", action="store_true", help="do not ask")
    add_passphrase_fd(revoke)
    rotate = add_command(
        actions, shared, "rotate", run_rotate, "write under a new key from now on",
        "Do this after a machine has left. Nothing is encrypted anew; older rows stay readable\n"
        "for whoever had their key.",
    )  # fmt: skip
    add_passphrase_fd(rotate)
    leave = add_command(
        actions, shared, "leave", run_leave, "stop sharing on this machine; memories stay here",
        "What this machine wrote stays with the others. Afterwards run 'memlocket sync rotate' on\n"
        "one of them. To share again, join as a new device.",
    )  # fmt: skip
    leave.add_argument("--yes", action="store_true", help="do not ask")
    leave.add_argument(
        "--delete-shared", action="store_true",
        help="the server forgets everything, for all machines; each keeps its memories",
    )  # fmt: skip
    leave.add_argument(
        "--anyway", action="store_true", help="although the server is gone and nobody is told"
    )
    add_passphrase_fd(leave)


def run_status(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        answer = SyncActs(client.connection).status()
    context.console.result(answer, sync_text.status(answer))
    return EXIT_OK


def run_simple(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        answer = arguments.act(SyncActs(client.connection))
    shown = _show(context, answer)
    if arguments.act not in (SyncActs.now, SyncActs.retry):
        return shown
    alarms = entries(section(answer, "sync"), "alarms")  # also while paused
    offline = any(alarm.get("code") == "OFFLINE" for alarm in alarms)
    return SyncRefused.exit_code if offline else shown


def _show(context: Context, answer: JsonObject) -> int:
    """The state after an act; a stop that waits for the owner has its exit code."""
    context.console.result(answer, sync_text.status(answer))
    stopped = section(answer, "sync").get("state") == "stopped"
    return SyncRefused.exit_code if stopped else EXIT_OK


def run_devices(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        acts = SyncActs(client.connection)
        if arguments.rename is not None:
            acts.call_device(*arguments.rename)
        answer = acts.devices()
        sync = section(acts.status(), "sync")
    context.console.result(answer, sync_text.devices(answer, sync))
    if answer.get("rotation_due"):
        context.console.note("A device has left and still has the key: memlocket sync rotate")
    return EXIT_OK


def run_revoke(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        acts = SyncActs(client.connection)
        target = sync_joining.device_called(acts, arguments.device)
        called = sync_text.device_name(target)
        if not arguments.yes:
            prompts.require_yes(f"Shut out {called}?", "Nobody can agree to that here.")
        device = str(target["device"])
        answer = sync_joining.revoke(client, context, device, arguments.passphrase_fd)
    context.console.result(answer, f"Revoked: {called}")
    context.console.note(
        "It gets nothing that is written from now on. What it has read cannot be unread: change\n"
        "passwords and tokens that stand in your memories."
    )
    return EXIT_OK


def run_rotate(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        acts = SyncActs(client.connection)
        answer = context.as_admin(client, acts.rotate, arguments.passphrase_fd)
    context.console.result(answer, f"New key in use: epoch {answer['epoch']}")
    return EXIT_OK


def run_leave(arguments: argparse.Namespace, context: Context) -> int:
    delete, anyway = arguments.delete_shared, arguments.anyway
    if not arguments.yes:
        where = "delete the server's copy for all machines" if delete else "on this machine"
        prompts.require_yes(
            f"Stop sharing ({where})? Memories stay here.", "Nobody can agree to that here."
        )
    with context.client() as client:
        acts = SyncActs(client.connection)
        answer = context.as_admin(
            client,
            lambda: acts.leave(delete_shared=delete, anyway=anyway),
            arguments.passphrase_fd,
        )
    context.console.result(answer, "This machine shares nothing any more; its memories are here.")
    if delete:
        context.console.note("On each of the others: memlocket sync leave")
    elif answer.get("server_told"):
        context.console.note("On one of the others: memlocket sync rotate")
    return EXIT_OK


def run_confirm(arguments: argparse.Namespace, context: Context) -> int:
    code = arguments.code.upper()
    with context.client() as client:
        acts = SyncActs(client.connection)
        sync = section(acts.status(), "sync")
        alarms = [each for each in entries(sync, "alarms") if each.get("code") == code]
        if not alarms and sync.get("state") != "off":
            raise NothingToConfirm
        for alarm in alarms:
            context.console.note("\n".join(sync_text.changes(alarm, sync)))
        answer = context.as_admin(client, lambda: acts.confirm(code, code), arguments.passphrase_fd)
    return _show(context, answer)


def run_jitter(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        acts = SyncActs(client.connection)
        seconds = arguments.seconds
        answer = acts.jitter() if seconds is None else acts.set_jitter(seconds)
    context.console.result(answer, sync_text.jitter(answer))
    return EXIT_OK
