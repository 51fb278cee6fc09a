"""``memlocket sync setup``: the first device of a shared memory.

The server is asked before the owner is; old recovery words end when the shared memory is there.
"""

from __future__ import annotations

import argparse
import dataclasses

from memory_manager.base.errors import MemlocketError
from memory_manager.cli import prompts, sync_text
from memory_manager.cli.arguments import Commands, add_command
from memory_manager.cli.context import Context
from memory_manager.cli.errors import EXIT_OK, NotConfirmed, NoTerminal, code_of
from memory_manager.cli.output import section
from memory_manager.cli.recovery_dialogue import confirm_on_terminal, make_words, write_words
from memory_manager.cli.sync_joining import add_server, owner_passphrase, server_request
from memory_manager.client.memory_client import JsonObject
from memory_manager.client.sync_acts import SyncActs
from memory_manager.sync.membership.errors import SyncAlreadyOn

TOKEN_TRIES = 3
_NO_REGISTRATION = "sync_registration_refused"


@dataclasses.dataclass(frozen=True, slots=True)
class _Words:
    """What recovers the shared memory; ``new`` ones become the vault's with it."""

    text: str | None = dataclasses.field(repr=False)
    new: bool = False
    confirmed: bool = False

    def as_request(self) -> dict[str, object]:
        return {
            "recovery_words": self.text,
            "without_recovery": self.text is None,
            "new_words": self.new,
            "words_confirmed": self.confirmed,
        }


def register(actions: Commands, shared: argparse.ArgumentParser) -> None:
    setup = add_command(
        actions, shared, "setup", run_setup, "make this the first device of a shared memory",
        "Needs a registration token, unless the server lets everybody in. The recovery words of\n"
        "this vault become those of the shared memory: with them, the server's address and the\n"
        "vault id a new machine gets everything back when all devices are lost. The server stores\n"
        "ciphertext; it learns when you write, how many rows and their padded sizes.",
    )  # fmt: skip
    add_server(setup)
    setup.add_argument(
        "--server-key", metavar="KEY", help="refuse another server: its six words, or hex"
    )
    setup.add_argument("--token-fd", type=int, metavar="N", help="registration token")
    setup.add_argument("--words-fd", type=int, metavar="N", help="the present recovery words")
    setup.add_argument("--recovery-fd", type=int, metavar="N", help="make new words, write them")
    setup.add_argument(
        "--without-recovery", action="store_true",
        help="no words recover the shared memory; once every device is lost, it is lost",
    )  # fmt: skip


def run_setup(arguments: argparse.Namespace, context: Context) -> int:
    with context.client() as client:
        acts = SyncActs(client.connection)
        context.refuse_without_vault(client)
        if section(acts.status(), "sync").get("state") != "off":
            raise SyncAlreadyOn
        _refuse_without_words(arguments)
        token = None if arguments.token_fd is None else prompts.read_descriptor(arguments.token_fd)
        seen = acts.look_at_server(server_request(arguments, None))
        context.console.note(f"The server's six words: {sync_text.server_words(seen)}")
        passphrase = owner_passphrase(client, context, arguments.passphrase_fd)
        if passphrase is not None:
            client.unlock(passphrase)
        words = _words(arguments, context)
        request = {**server_request(arguments, passphrase), **words.as_request()}
        answer = _with_token(acts, request, token)
    context.console.result(answer, sync_text.member("This memory is shared now.", answer))
    context.console.note(sync_text.sheet(answer, with_words=words.text is not None))
    url = answer.get("server")
    context.console.note(f"Next, on your other machine: memlocket sync join {url}")
    return EXIT_OK


def _refuse_without_words(arguments: argparse.Namespace) -> None:
    given = (arguments.words_fd, arguments.recovery_fd)
    if arguments.without_recovery or any(each is not None for each in given):
        return
    if not prompts.has_terminal():
        raise NoTerminal(
            "There is no terminal to ask for the recovery words.",
            hint="Give --words-fd N, or --recovery-fd N for new ones, or --without-recovery.",
        )


def _words(arguments: argparse.Namespace, context: Context) -> _Words:
    """The present words, or new ones that the owner has shown to have; nothing is changed yet."""
    if arguments.without_recovery:
        return _Words(None)
    if arguments.words_fd is not None:
        return _Words(prompts.read_words(arguments.words_fd))
    if arguments.recovery_fd is not None:
        made = make_words()
        write_words(made, arguments.recovery_fd)
        return _Words(" ".join(made), new=True)
    context.console.note(
        "The 24 recovery words of this vault will also recover the shared memory.\n"
        "Without them at hand you get NEW words, and the old ones end."
    )
    if prompts.decides(
        "Do you have the present words at hand?",
        "Answer y or n. The words themselves belong to the next prompt, which does not show them.",
    ):
        return _Words(prompts.ask_words("The 24 recovery words", None))
    made = make_words()
    if not confirm_on_terminal(made):
        raise NotConfirmed(
            "A word was wrong; nothing is shared yet, and the old words stay valid.",
            hint="Run it again for other new words.",
        )
    return _Words(" ".join(made), new=True, confirmed=True)


def _with_token(acts: SyncActs, request: dict[str, object], token: str | None) -> JsonObject:
    """Without a token first, where none is given: some servers let everybody in."""
    for left in reversed(range(TOKEN_TRIES + 1)):
        try:
            return acts.set_up({**request, "registration_token": token})
        except MemlocketError as error:
            asks = code_of(error) == _NO_REGISTRATION and left > 0
            if not asks or not (token is None or prompts.has_terminal()):
                raise
            if token is not None:
                prompts.say(error.message)
        token = prompts.ask_secret("Registration token of the server", option="--token-fd")
    raise AssertionError("the last try ends before this")
