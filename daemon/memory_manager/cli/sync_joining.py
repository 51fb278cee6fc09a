"""How a machine comes to share the memory of others: join, approve, recover, and their kin.

Words, tokens and enrolment strings are asked for or read from descriptors; none is an argument.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import cast

from memory_manager.base.errors import MemlocketError
from memory_manager.cli import prompts, sync_text
from memory_manager.cli.arguments import Commands, add_command, add_passphrase_fd
from memory_manager.cli.context import Context
from memory_manager.cli.errors import EXIT_OK, NotConfirmed, Usage
from memory_manager.cli.output import entries, section
from memory_manager.cli.sync_waiting import ended_by_ctrl_c, show_invitation, wait_for_welcome
from memory_manager.client.memory_client import JsonObject, MemoryClient
from memory_manager.client.sync_acts import SyncActs
from memory_manager.sync.membership.calling import id_called


def register(actions: Commands, shared: argparse.ArgumentParser) -> None:
    """The ways in, below ``memlocket sync``."""
    _register_join(actions, shared)
    _register_recover(actions, shared)


def add_server(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("server", metavar="URL", help="e.g. https://sync.example.org:8443")
    parser.add_argument("--ca-file", type=Path, metavar="PATH", help="of a certificate of your own")
    parser.add_argument("--proxy", metavar="URL", help="no other proxy is ever used")
    parser.add_argument("--name", help="what the others call it (default: host name)")
    add_passphrase_fd(parser)


def _register_join(actions: Commands, shared: argparse.ArgumentParser) -> None:
    join = add_command(
        actions, shared, "join", run_join, "let this machine share the memory of another",
        "Shows a string and a QR picture; read it on a machine that has the memory with\n"
        "'memlocket sync approve'. The string is a secret for ten minutes. What this machine\n"
        "remembers already is kept and shared too. Of all this the server sees the machine's name.",
    )  # fmt: skip
    add_server(join)
    join.add_argument("--invitation-fd", type=int, metavar="N", help="write the string there")
    join.add_argument("--no-qr", action="store_true", help="show no QR picture")
    approve = add_command(
        actions, shared, "approve", run_approve, "let a new machine in",
        "Asks for the string that 'memlocket sync join' shows there, or reads it from standard\n"
        "input; it is never an argument, where other programs could see it.",
    )  # fmt: skip
    approve.add_argument("--invitation-fd", type=int, metavar="N", help="read the string there")
    approve.add_argument("--yes", action="store_true", help="do not ask whether the name is right")
    add_passphrase_fd(approve)


def _register_recover(actions: Commands, shared: argparse.ArgumentParser) -> None:
    recover = add_command(
        actions, shared, "recover", run_recover, "get the shared memory back with recovery words",
        "On a new machine with a vault of its own. Needs the vault id and the words of your\n"
        "recovery sheet. With a row number and its six head words from the sheet, a server that\n"
        "was set back is found out; with the words alone it is not.",
    )  # fmt: skip
    add_server(recover)
    recover.add_argument("--vault", required=True, metavar="ID", help="from the recovery sheet")
    recover.add_argument("--words-fd", type=int, metavar="N", help="read the words from there")
    recover.add_argument(
        "--server-key", metavar="KEY", help="refuse another server: its six words, or hex"
    )
    recover.add_argument(
        "--head", nargs=7, metavar=("ROW", *("WORD",) * 6), help="row and head words on the sheet"
    )
    recover.add_argument(
        "--revoke", action="append", default=[], metavar="DEVICE", help="shut this one out, too"
    )
    renew = add_command(
        actions, shared, "renew", run_renew, "go on as a new device after lost state",
        "For a vault that was rolled back or restored on this machine: its old log is closed, and\n"
        "no position in it is ever used twice.",
    )  # fmt: skip
    add_passphrase_fd(renew)
    grant = add_command(
        actions, shared, "grant-key", run_grant_key, "tell the others of a new passphrase's key",
        "After 'memlocket unlock --recovery' or a first passphrase: this device signs what you\n"
        "opt in with another key then, which the others and the server have to know.",
    )  # fmt: skip
    add_passphrase_fd(grant)
    words = add_command(
        actions, shared, "words", run_words, "make this vault's words recover the shared memory",
        "After 'memlocket recovery new', and where setup was done without words. Earlier words\n"
        "are revoked.",
    )  # fmt: skip
    words.add_argument("--words-fd", type=int, metavar="N", help="read the words from there")
    add_passphrase_fd(words)


def server_request(arguments: argparse.Namespace, passphrase: str | None) -> dict[str, object]:
    ca_file: Path | None = arguments.ca_file
    return {
        "server": arguments.server,
        "name": arguments.name,
        "ca_file": None if ca_file is None else str(ca_file.absolute()),
        "proxy": arguments.proxy,
        "server_key": getattr(arguments, "server_key", None),
        "passphrase": passphrase,
    }


def owner_passphrase(client: MemoryClient, context: Context, descriptor: int | None) -> str | None:
    """That of a vault that has one: it also opens the key that signs grants."""
    context.refuse_without_vault(client)
    vault = section(client.status(), "vault")
    slots = cast("list[object]", vault.get("slots") or [])
    if "passphrase" not in slots and descriptor is None:
        return None
    return prompts.ask_secret("Passphrase", descriptor)


def run_join(arguments: argparse.Namespace, context: Context) -> int:
    if context.console.as_json and arguments.invitation_fd is None:
        raise Usage("--json needs --invitation-fd N: the string must not stand in the result.")
    with context.client() as client:
        passphrase = owner_passphrase(client, context, arguments.passphrase_fd)
        acts = SyncActs(client.connection)
        asked = acts.join(server_request(arguments, passphrase))
        with ended_by_ctrl_c(acts):
            show_invitation(context, str(asked["invitation"]), arguments)
            answer = wait_for_welcome(context, acts, cast("int", asked["expires_in_seconds"]))
    context.console.result(answer, sync_text.member("This machine shares the memory now.", answer))
    context.console.note("Compare the head words on both machines: memlocket sync status")
    return EXIT_OK


def run_approve(arguments: argparse.Namespace, context: Context) -> int:
    text = _invitation(arguments.invitation_fd)
    with context.client() as client:
        acts = SyncActs(client.connection)
        offer = acts.look_at_offer(text)
        context.console.note(f"Asks to join: {offer['name']}  (device {str(offer['device'])[:8]})")
        handle = str(offer["offer"])
        if not arguments.yes:
            try:
                prompts.require_yes(
                    "Let it in? It will read everything.",
                    "Nobody can say whether the name is right.",
                )
            except NotConfirmed:
                acts.decline(handle)
                raise NotConfirmed(
                    "Not let in; nothing was added, and the string is used up.",
                    hint="If that was a mistake, make a new one there: memlocket sync join",
                ) from None
        answer = context.as_admin(client, lambda: acts.let_in(handle), arguments.passphrase_fd)
    context.console.result(answer, f"Let in: {answer['name']}")
    return EXIT_OK


def _invitation(descriptor: int | None) -> str:
    if descriptor is not None:
        return prompts.read_descriptor(descriptor)
    if not sys.stdin.isatty():
        return prompts.read_descriptor(sys.stdin.fileno())
    return prompts.ask_secret(
        "The string shown on the new machine (mlk1:...)", option="--invitation-fd"
    )


def revoke(
    client: MemoryClient, context: Context, device: str, passphrase_fd: int | None
) -> JsonObject:
    acts = SyncActs(client.connection)
    return context.as_admin(client, lambda: acts.revoke(device), passphrase_fd)


def device_called(acts: SyncActs, typed: str) -> JsonObject:
    """The active device with this name or beginning of an id, before anybody is asked for secrets;
    NotFound, InvalidInput.
    """
    listed = entries(acts.devices(), "devices")
    active = {str(each["device"]): each for each in listed if each.get("active")}
    names = {device: cast("str | None", each.get("name")) for device, each in active.items()}
    return active[id_called(names, typed)]


def run_recover(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        passphrase = owner_passphrase(client, context, arguments.passphrase_fd)
        words = prompts.ask_words("The 24 words of the recovery sheet", arguments.words_fd)
        request = {
            **server_request(arguments, passphrase),
            "vault": arguments.vault,
            "recovery_words": words,
            **_noted_head(arguments.head),
        }
        answer = SyncActs(client.connection).recover(request)
        revoked = [revoke(client, context, device, None)["device"] for device in arguments.revoke]
    context.console.result(
        {**answer, "revoked": revoked}, sync_text.member("The shared memory is back.", answer)
    )
    if arguments.head is None:
        context.console.note(
            "Without head words nobody can tell whether the server has all rows: an older state\n"
            "looks the same. Compare with what you remember writing."
        )
    context.console.note("Shut out machines that are lost: memlocket sync devices, then revoke")
    return EXIT_OK


def _noted_head(typed: list[str] | None) -> dict[str, object]:
    if typed is None:
        return {}
    row, *words = typed
    if not row.isdigit():
        raise Usage("--head takes the row number first, then its six words.")
    return {"head_n": int(row), "head_words": " ".join(words)}


def run_renew(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        passphrase = owner_passphrase(client, context, arguments.passphrase_fd)
        answer = SyncActs(client.connection).renew(passphrase)
    context.console.result(answer, sync_text.member("Sync goes on under a new id.", answer))
    return EXIT_OK


def run_grant_key(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        passphrase = prompts.ask_secret("Passphrase", arguments.passphrase_fd)
        answer = SyncActs(client.connection).announce_grant_key(passphrase)
    said = "The others know the new key." if answer.get("changed") else "They know it already."
    context.console.result(answer, said)
    return EXIT_OK


def note_if_shared(context: Context, client: MemoryClient, text: str) -> None:
    """A remark that only those need who share their memory."""
    try:
        sync = section(SyncActs(client.connection).status(), "sync")
    except MemlocketError:
        return
    if sync.get("state") != "off":
        context.console.note(text)


def run_words(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        words = prompts.ask_words("The 24 recovery words of this vault", arguments.words_fd)
        acts = SyncActs(client.connection)
        answer = context.as_admin(
            client, lambda: acts.replace_words(words), arguments.passphrase_fd
        )
    done = "These words recover the shared memory now; earlier ones do not."
    said = done if answer.get("changed") else "These words recover it already."
    context.console.result(answer, said)
    return EXIT_OK
