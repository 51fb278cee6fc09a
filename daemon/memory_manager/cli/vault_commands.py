"""Commands about the vault itself: setup, unlocking, passphrase, backup, key file, words."""

from __future__ import annotations

import argparse
import contextlib
from collections.abc import Generator, Mapping, Sequence
from pathlib import Path

from memory_manager.base.private_files import ensure_private_directory
from memory_manager.cli import prompts
from memory_manager.cli.arguments import Commands, add_command, add_group, add_passphrase_fd
from memory_manager.cli.context import Context
from memory_manager.cli.errors import EXIT_OK, FileProblem, NotConfirmed, NoTerminal, Usage
from memory_manager.cli.output import counted, progress_from
from memory_manager.cli.recovery_dialogue import confirm_on_terminal, make_words, write_words
from memory_manager.cli.sync_joining import note_if_shared
from memory_manager.vault.errors import AlreadyRunning, PassphraseRequired, VaultExists

_NEW_WORDS_HINT = "Run it again for other new words: memlocket recovery new"
_KEY_FILE_WARNING = "whoever reads this key file reads the vault: for tests and sandboxes only"


def register(commands: Commands, shared: argparse.ArgumentParser) -> None:
    init = add_command(
        commands, shared, "init", run_init, "make the encrypted vault",
        "Asks for a passphrase and shows 24 recovery words once. Without a terminal give the\n"
        "passphrase with --passphrase-fd, or use a key file for a sandbox.",
    )  # fmt: skip
    init.add_argument("--insecure-key-file", type=Path, metavar="PATH", help="sandboxes only")
    add_passphrase_fd(init)
    init.add_argument(
        "--recovery-fd", type=int, metavar="N", help="write the recovery words to descriptor N"
    )
    init.add_argument("--no-recovery", action="store_true", help="make no recovery words")
    init.add_argument("--no-keyring", action="store_true", help="keep no key in the system keyring")

    unlock = add_command(commands, shared, "unlock", run_unlock, "open the vault")
    add_passphrase_fd(unlock)
    add_passphrase_fd(unlock, "--new-passphrase-fd")
    unlock.add_argument(
        "--recovery", action="store_true", help="with the 24 words; sets a new passphrase"
    )
    add_command(commands, shared, "lock", run_lock, "lock the vault now")

    passphrase = add_command(
        commands, shared, "passphrase", run_passphrase, "change the passphrase"
    )
    passphrase.add_argument(
        "--add", action="store_true", help="the vault has none yet (made with a key file)"
    )
    add_passphrase_fd(passphrase)
    add_passphrase_fd(passphrase, "--new-passphrase-fd")

    backup = add_command(commands, shared, "backup", run_backup, "write an encrypted backup")
    backup.add_argument("target", metavar="PATH", type=Path, help="the file to write")
    add_passphrase_fd(backup)

    restore = add_command(
        commands, shared, "restore-backup", run_restore_backup, "make a vault from a backup",
        "Needs the passphrase or the recovery words of the vault that was backed up. It becomes a\n"
        "new device. A present vault is left alone; with --replace it is put aside, whole.",
    )  # fmt: skip
    restore.add_argument("source", metavar="PATH", type=Path, help="what 'backup' wrote")
    restore.add_argument("--recovery", action="store_true", help="open it with the 24 words")
    restore.add_argument("--replace", action="store_true", help="put the present vault aside")
    restore.add_argument("--no-keyring", action="store_true", help="keep no key in the keyring")
    add_passphrase_fd(restore)
    add_passphrase_fd(restore, "--new-passphrase-fd")
    add_passphrase_fd(restore, "--current-passphrase-fd")

    keyfile = add_group(commands, shared, "keyfile", "key files for tests and sandboxes")
    new = add_command(
        keyfile, shared, "new", run_keyfile_new, "make a new key file, never replaced"
    )
    new.add_argument("path", metavar="PATH", type=Path, help="the file to make")

    recovery = add_group(commands, shared, "recovery", "recovery words")
    words = add_command(
        recovery, shared, "new", run_recovery_new, "make new recovery words; the old ones end"
    )
    add_passphrase_fd(words)
    words.add_argument("--recovery-fd", type=int, metavar="N", help="write them to descriptor N")


def run_init(arguments: argparse.Namespace, context: Context) -> int:
    from memory_manager.vault import setup
    from memory_manager.vault.os_keyring import find_keyring

    key_file: Path | None = arguments.insecure_key_file
    folder = context.directories.vault
    setup.check_free(folder)
    if key_file is None and arguments.passphrase_fd is None and not prompts.has_terminal():
        raise NoTerminal(hint="Give --passphrase-fd N, or --insecure-key-file PATH for a sandbox.")
    with_words, show = _recovery_choice(arguments)
    ensure_private_directory(context.directories.data)
    with (
        _says_when_cancelled(context),
        _no_service_beside(context, "memlocket stop && memlocket init && memlocket up"),
    ):
        passphrase = _init_passphrase(arguments, context)
        keyring = None if arguments.no_keyring or passphrase is None else find_keyring()
        made = setup.create_vault(
            folder,
            passphrase=passphrase,
            insecure_key_file=key_file,
            keyring=keyring,
            with_recovery=with_words,
            confirm_words=confirm_on_terminal if show else None,
        )
    if made.recovery_words is not None and arguments.recovery_fd is not None:
        write_words(made.recovery_words, arguments.recovery_fd)
    document: dict[str, object] = {
        "vault": str(folder),
        "recovery": str(made.recovery),
        "keyring": made.keyring,
        "insecure_key_file": key_file is not None,
    }
    context.console.result(document, f"Vault ready: {folder}")
    if key_file is not None:
        context.console.note(f"warning: {_KEY_FILE_WARNING}")
        context.console.note(f"Next: memlocket up --insecure-key-file {key_file}")
    else:
        if made.keyring:
            context.console.note("The system keyring opens it from now on.")
        later = () if str(made.recovery) != "none" else ("memlocket recovery new",)
        _note_next(context, made.keyring, later)
    return EXIT_OK


def _note_next(context: Context, in_keyring: bool, later: Sequence[str] = ()) -> None:
    """What to type now, in this order: a vault without a keyring opens with its passphrase."""
    steps = ("memlocket up", *(() if in_keyring else ("memlocket unlock",)), *later)
    context.console.note(f"Next: {' && '.join(steps)}")


@contextlib.contextmanager
def _says_when_cancelled(context: Context) -> Generator[None]:
    """Ctrl-C during the setup: nobody should wonder whether there is half a vault now."""
    from memory_manager.vault.setup import vault_exists

    try:
        yield
    except KeyboardInterrupt:
        if not vault_exists(context.directories.vault):
            context.console.note("\nCancelled; no vault was made.")
            raise KeyboardInterrupt from None
        raise


@contextlib.contextmanager
def _no_service_beside(context: Context, way_out: str) -> Generator[None]:
    """Inside: no other process uses the vault's folder; AlreadyRunning with ``way_out`` if one
    does.
    """
    from memory_manager.service.instance_lock import InstanceLock

    lock = InstanceLock(context.directories.data)
    try:
        lock.acquire()
    except AlreadyRunning as error:
        raise AlreadyRunning(error.message, hint=f"Run: {way_out}") from None
    try:
        yield
    finally:
        lock.release()


def _recovery_choice(arguments: argparse.Namespace) -> tuple[bool, bool]:
    """Whether to make words, and whether to show them; never to anything but a terminal."""
    if arguments.no_recovery:
        return False, False
    if arguments.recovery_fd is not None:
        return True, False
    asks = arguments.passphrase_fd is None and arguments.insecure_key_file is None
    return asks, asks


def _init_passphrase(arguments: argparse.Namespace, context: Context) -> str | None:
    if arguments.passphrase_fd is not None:
        return prompts.read_descriptor(arguments.passphrase_fd)
    if arguments.insecure_key_file is not None:
        return None
    from memory_manager.vault.passphrase import generate_passphrase

    context.console.note(
        "Choose a passphrase; it opens the vault and guards export, backup and access.\n"
        f"Six random words are a good one, for example:  {generate_passphrase()}"
    )
    return prompts.ask_new_passphrase()


def run_unlock(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        context.refuse_without_vault(client)
        if arguments.recovery:
            words = prompts.ask_secret("The 24 recovery words", arguments.passphrase_fd)
            new = prompts.ask_new_passphrase(arguments.new_passphrase_fd)
            answer = client.unlock_with_recovery_words(words, new)
            note_if_shared(context, client, "This memory is shared: memlocket sync grant-key")
        else:
            answer = client.unlock(prompts.ask_secret("Passphrase", arguments.passphrase_fd))
    context.console.result(answer, f"Vault {_state(answer)}.")
    return EXIT_OK


def run_lock(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        answer = client.lock()
    context.console.result(answer, f"Vault {_state(answer)}.")
    return EXIT_OK


def _state(answer: Mapping[str, object]) -> str:
    vault = answer.get("vault")
    return str(vault.get("state") if isinstance(vault, dict) else answer.get("state") or "ready")


def run_passphrase(arguments: argparse.Namespace, context: Context) -> int:
    if arguments.add and arguments.passphrase_fd is not None:
        raise Usage("--add means that there is no present passphrase to read.")
    with context.client() as client:
        context.refuse_without_vault(client)
        old = None
        if not arguments.add:
            old = prompts.ask_secret("Present passphrase", arguments.passphrase_fd)
        new = prompts.ask_new_passphrase(arguments.new_passphrase_fd)
        answer = client.change_passphrase(old, new)
    context.console.result(answer, "Passphrase set.")
    return EXIT_OK


def run_backup(arguments: argparse.Namespace, context: Context) -> int:
    target = str(arguments.target.absolute())
    with context.client() as client, context.console.progress("backup", None, "step"):
        answer = context.as_admin(client, lambda: client.backup(target), arguments.passphrase_fd)
    context.console.result(answer, f"Backup written: {target}")
    context.console.note("It opens with your passphrase or recovery words, on any machine.")
    return EXIT_OK


def run_restore_backup(arguments: argparse.Namespace, context: Context) -> int:
    from memory_manager.vault.os_keyring import find_keyring
    from memory_manager.vault.restore import restore_backup
    from memory_manager.vault.setup import check_free, vault_exists

    source, folder = arguments.source.absolute(), context.directories.vault
    if not source.is_file():
        raise FileProblem(f"There is no backup at {source}.")
    if not arguments.replace:
        try:
            check_free(folder)
        except VaultExists as error:
            hint = "--replace puts the present vault aside and keeps it."
            raise VaultExists(error.message, hint=hint) from None
    ensure_private_directory(context.directories.data)
    with _no_service_beside(context, "memlocket stop, then the same command again"):
        words = passphrase = new = current = None
        if arguments.recovery:
            words = prompts.ask_secret("The 24 recovery words", arguments.passphrase_fd)
            new = prompts.ask_new_passphrase(arguments.new_passphrase_fd)
        else:
            passphrase = prompts.ask_secret("Passphrase of the backup", arguments.passphrase_fd)
        if arguments.replace and vault_exists(folder):
            current = _current_passphrase(arguments, context)
        with contextlib.ExitStack() as shown:
            advance = shown.enter_context(context.console.progress("restore", None, "bytes"))

            def confirm(words: Sequence[str]) -> bool:
                shown.close()  # the bar goes before somebody is asked
                return confirm_on_terminal(words)

            made = restore_backup(
                source,
                folder,
                passphrase=passphrase,
                words=words,
                new_passphrase=new,
                current_passphrase=current,
                replace=arguments.replace,
                keyring=None if arguments.no_keyring else find_keyring(),
                with_recovery=words is not None or prompts.has_terminal(),
                confirm_words=confirm if prompts.has_terminal() else None,
                progress=progress_from(advance),
            )
    replaced = None if made.replaced is None else str(made.replaced)
    context.console.result(
        {
            "vault": str(folder),
            "memories": made.memories,
            "recovery": str(made.recovery),
            "keyring": made.keyring,
            "replaced": replaced,
        },
        f"Vault restored: {counted(made.memories, 'memory', 'memories')}",
    )
    if replaced is not None:
        context.console.note(f"The vault that was here before is at {replaced}")
    _note_next(context, made.keyring)
    return EXIT_OK


def _current_passphrase(arguments: argparse.Namespace, context: Context) -> str | None:
    """That of the vault to be put aside; one without a passphrase, or a damaged one, needs none."""
    if arguments.current_passphrase_fd is None and not prompts.has_terminal():
        from memory_manager.vault.restore import check_may_replace

        try:
            check_may_replace(context.directories.vault, None)
        except PassphraseRequired:
            raise NoTerminal(
                "There is no terminal to ask for the passphrase of the present vault.",
                hint="Give it on a file descriptor: --current-passphrase-fd 4 4<file",
            ) from None
        return None
    return prompts.ask_secret("Passphrase of the present vault", arguments.current_passphrase_fd)


def run_keyfile_new(arguments: argparse.Namespace, context: Context) -> int:
    from memory_manager.vault.key_file import create_key_file

    path = arguments.path.absolute()
    create_key_file(path)
    context.console.result({"path": str(path)}, f"Key file written: {path}")
    context.console.note(f"warning: {_KEY_FILE_WARNING}")
    return EXIT_OK


def run_recovery_new(arguments: argparse.Namespace, context: Context) -> int:
    if arguments.recovery_fd is None and not prompts.has_terminal():
        raise NoTerminal(hint="Give --recovery-fd N: the words are written there, once.")
    with context.client() as client:
        context.as_admin(client, client.require_owner_for_words, arguments.passphrase_fd)
        words = make_words()
        confirmed = arguments.recovery_fd is None
        if arguments.recovery_fd is not None:
            write_words(words, arguments.recovery_fd)
        elif not confirm_on_terminal(words):
            raise NotConfirmed("A word was wrong; the old words stay valid.", hint=_NEW_WORDS_HINT)
        client.take_recovery_words(" ".join(words), confirmed=confirmed)
        note_if_shared(
            context,
            client,
            "To recover the shared memory by them: memlocket sync words",
        )
    state = "confirmed" if confirmed else "unconfirmed"
    context.console.result({"recovery": state}, f"New recovery words: {state}.")
    return EXIT_OK
