"""What only the owner decides: logins that wait, memories to destroy, settings, the own page."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from typing import Final, cast

from memory_manager.cli.agent_commands import access_of, revoke_command
from memory_manager.cli.arguments import Commands, add_command, add_passphrase_fd
from memory_manager.cli.context import Context
from memory_manager.cli.errors import EXIT_OK, Usage
from memory_manager.cli.output import counted, entries, local_time, section, table

_ON: Final = {"on": True, "off": False}
_EXCERPT_CHARACTERS: Final = 60
_Entry = Mapping[str, object]


def register(commands: Commands, shared: argparse.ArgumentParser) -> None:
    add_command(commands, shared, "approvals", run_approvals, "list logins that wait for you")
    approve = add_command(
        commands, shared, "approve", run_approve, "give a waiting login access",
        "Only approve a login that you started yourself, and whose code you see in the program\n"
        "or in its browser page.",
    )  # fmt: skip
    approve.add_argument("code", metavar="CODE", help="as the program shows it, e.g. BCDF-GHJK")
    add_passphrase_fd(approve)
    deny = add_command(commands, shared, "deny", run_deny, "refuse a waiting login")
    deny.add_argument("code", metavar="CODE", help="as 'memlocket approvals' shows it")
    for name in ("open", "dashboard"):
        page = add_command(
            commands, shared, name, run_open, "open your own page in the browser, signed in",
            "The address works once, for a minute, on this machine.",
        )  # fmt: skip
        page.add_argument("--print", action="store_true", help="only print the address")
    destroy = add_command(
        commands, shared, "destroy", run_destroy, "forget for good what an agent asked to destroy",
        "Without ids it lists what waits. Destroyed memories cannot be restored; older backups\n"
        "still hold them.",
    )  # fmt: skip
    destroy.add_argument("ids", metavar="ID", nargs="*", help="ids of waiting memories")
    destroy.add_argument("--all", action="store_true", help="everything that waits")
    add_passphrase_fd(destroy)
    settings = add_command(
        commands, shared, "settings", run_settings, "show settings, or change one",
        "auto_redact_pii: also take e-mail addresses, phone numbers and postal addresses out of\n"
        "what is remembered. Secrets are always taken out.\n"
        "phone_region: a country's two letters; with auto_redact_pii, telephone numbers as\n"
        "dialled there go too.\n"
        "redact_identity_numbers: also take out numbers of payment cards, IBANs, Brazilian\n"
        "CPF and CNPJ, Portuguese NIF and US social security numbers.",
    )  # fmt: skip
    settings.add_argument("name", metavar="NAME", nargs="?", help="the setting to show or change")
    settings.add_argument("value", metavar="VALUE", nargs="?", help="on, off or a country")


def run_approvals(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        answer = client.approvals()
    waiting = entries(answer, "approvals")
    if answer.get("auto_approve"):
        context.console.warn("auto-approve is on: every login gets access without you")
    if not waiting:
        context.console.result(answer, "No login waits for you.")
        return EXIT_OK
    rows = [
        (
            str(login.get("user_code", "")),
            access_of(login),
            f"{login.get('age_seconds')} s ago",
            str(login.get("client", "")),
        )
        for login in waiting
    ]
    lines = [table(("CODE", "WANTS", "ASKED", "CLIENT"), rows)]
    # whole, on lines of their own: where an answer goes decides whether to trust the login
    lines += [
        f"{login.get('user_code')} answers to:\n  {login['redirect_uri']}"
        for login in waiting
        if login.get("redirect_uri")
    ]
    context.console.result(answer, "\n".join(lines))
    context.console.note("Give access: memlocket approve CODE    refuse it: memlocket deny CODE")
    return EXIT_OK


def run_approve(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        answer = context.as_admin(
            client,
            lambda: client.decide_login(arguments.code, approve=True),
            arguments.passphrase_fd,
        )
    scopes = " ".join(str(scope) for scope in cast("Sequence[object]", answer.get("scopes") or []))
    context.console.result(answer, f"Approved: {answer.get('client')} ({scopes})")
    revoke = revoke_command(str(answer.get("client", "")))
    context.console.note(f"It fetches its token by itself. Take it back: {revoke}")
    return EXIT_OK


def run_deny(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        answer = client.decide_login(arguments.code, approve=False)
    context.console.result(answer, f"Denied: {answer.get('client')}")
    return EXIT_OK


def run_open(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        answer = client.sign_in_code()
    address = str(answer.get("url", ""))
    opened = False
    if not arguments.print and not context.console.as_json:
        import webbrowser

        try:
            opened = webbrowser.open(address)
        except (OSError, webbrowser.Error):
            opened = False
    if opened:
        context.console.note("Your page opens in the browser.")
        return EXIT_OK
    context.console.result(answer, address)
    context.console.note("The address works once, within a minute, in a browser of this user.")
    return EXIT_OK


def run_destroy(arguments: argparse.Namespace, context: Context) -> int:
    ids: list[str] = arguments.ids
    if ids and arguments.all:
        raise Usage("Name the ids, or give --all, not both.")
    with context.client() as client:
        if not ids and not arguments.all:
            return _list_destructions(client.destructions(), context)
        answer = context.as_admin(
            client, lambda: client.destroy(ids, every=arguments.all), arguments.passphrase_fd
        )
    count = cast("int", answer.get("count") or 0)
    context.console.result(answer, f"Destroyed: {counted(count, 'memory', 'memories')}")
    missed = len(ids) - count
    if ids and missed:
        context.console.warn(f"{missed} of the ids did not wait to be destroyed")
    return EXIT_OK


def _list_destructions(answer: _Entry, context: Context) -> int:
    waiting = entries(answer, "memories")
    if not waiting:
        context.console.result(answer, "Nothing waits to be destroyed.")
        return EXIT_OK
    rows = [
        (
            str(memory.get("id", "")),
            local_time(memory.get("requested_at")),
            str(memory.get("deleted_by") or "-"),
            str(memory.get("path", "")),
            " ".join(str(memory.get("content", "")).split())[:_EXCERPT_CHARACTERS],
        )
        for memory in waiting
    ]
    context.console.result(answer, table(("ID", "ASKED", "BY", "PATH", "TEXT"), rows))
    context.console.note(
        "For good: memlocket destroy ID, or --all    keep one: memlocket restore ID"
    )
    return EXIT_OK


def run_settings(arguments: argparse.Namespace, context: Context) -> int:
    name: str | None = arguments.name
    value: str | None = arguments.value
    with context.client() as client:
        if name is None or value is None:
            answer = client.settings()
        else:
            answer = client.change_setting(name, _ON.get(value, value))
    values = section(answer, "settings")
    if name is not None and name not in values:
        raise Usage(f"There is no such setting; there are: {', '.join(sorted(values))}.")
    if name is not None and value is None:
        context.console.result({"settings": {name: values[name]}}, _shown(values[name]))
        return EXIT_OK
    rows = [(name, _shown(value)) for name, value in sorted(values.items())]
    context.console.result(answer, table(("SETTING", "VALUE"), rows))
    if name == "phone_region" and values[name] and not values.get("auto_redact_pii"):
        context.console.note(
            "It has no effect until contact data is taken out:\n"
            "memlocket settings auto_redact_pii on"
        )
    return EXIT_OK


def _shown(value: object) -> str:
    return value if isinstance(value, str) else "on" if value else "off"
