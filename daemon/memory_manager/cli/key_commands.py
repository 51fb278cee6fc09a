"""Rare acts on the keys of the vault: another database key, the system keyring on or off."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import cast

from memory_manager.cli import prompts
from memory_manager.cli.arguments import Commands, add_command, add_group, add_passphrase_fd
from memory_manager.cli.context import Context
from memory_manager.cli.errors import EXIT_OK, NoTerminal
from memory_manager.cli.recovery_dialogue import confirm_on_terminal, write_words
from memory_manager.client.memory_client import MemoryClient


def register(commands: Commands, shared: argparse.ArgumentParser) -> None:
    rekey = add_command(
        commands, shared, "rekey", run_rekey, "encrypt the vault with a new key",
        "For a suspected leak of the vault's files together with the passphrase: the vault is\n"
        "copied under a new key, checked, and put in place as the last step. The recovery words\n"
        "are made anew unless you give the present ones with --keep-recovery.",
    )  # fmt: skip
    add_passphrase_fd(rekey)
    rekey.add_argument("--keep-recovery", action="store_true", help="asks for the present 24 words")
    rekey.add_argument("--words-fd", type=int, metavar="N", help="read them from descriptor N")
    rekey.add_argument(
        "--recovery-fd", type=int, metavar="N", help="write new words to descriptor N"
    )
    rekey.add_argument(
        "--insecure-key-file", type=Path, metavar="PATH", help="if a key file opens this vault"
    )

    keyring = add_group(commands, shared, "keyring", "the system keyring as a key of the vault")
    for name, enabled, summary in (
        ("on", True, "let the system keyring open the vault"),
        ("off", False, "only the passphrase opens the vault"),
    ):
        command = add_command(keyring, shared, name, run_keyring, summary)
        command.set_defaults(enabled=enabled)
        add_passphrase_fd(command)


def run_rekey(arguments: argparse.Namespace, context: Context) -> int:
    keeps_words = arguments.keep_recovery or arguments.words_fd is not None
    has_place_for_words = arguments.recovery_fd is not None or prompts.has_terminal()
    key_file: Path | None = arguments.insecure_key_file
    with context.client() as client:
        if not (keeps_words or has_place_for_words or _recovery(client) == "none"):
            raise NoTerminal(hint="Give --recovery-fd N for the new words, or --words-fd N.")
        passphrase = prompts.ask_secret("Passphrase", arguments.passphrase_fd)
        words = prompts.ask_secret("The 24 words", arguments.words_fd) if keeps_words else None
        client.unlock(passphrase)
        with context.console.progress("rekey", None, "step"):
            answer = client.change_database_key(
                passphrase, words, None if key_file is None else str(key_file.absolute())
            )
        issued = [str(word) for word in cast("list[object]", answer.get("recovery_words") or [])]
        confirmed = False
        if issued and arguments.recovery_fd is not None:
            write_words(issued, arguments.recovery_fd)
        elif issued and (confirmed := confirm_on_terminal(issued)):
            client.confirm_recovery_words()
    document = {"rekeyed": True, "new_recovery_words": bool(issued), "confirmed": confirmed}
    context.console.result(document, "The vault has a new key.")
    if issued and not confirmed and arguments.recovery_fd is None:
        context.console.note("A word was wrong. New words: memlocket recovery new")
    return EXIT_OK


def _recovery(client: MemoryClient) -> object:
    vault = client.status().get("vault")
    return vault.get("recovery") if isinstance(vault, dict) else None


def run_keyring(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        answer = context.as_admin(
            client, lambda: client.use_keyring(arguments.enabled), arguments.passphrase_fd
        )
    opener = "The system keyring" if arguments.enabled else "Only your passphrase"
    context.console.result(answer, f"{opener} opens the vault from now on.")
    return EXIT_OK
