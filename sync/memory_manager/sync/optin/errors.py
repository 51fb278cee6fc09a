"""Why a row was not opted in, or not sent; nothing here holds its text."""

from __future__ import annotations

from collections.abc import Sequence

from memory_manager.base.errors import MemlocketError, Outcome


class OptInBlocked(MemlocketError):
    """Something in the very bytes the owner approved looks like a secret; they are not sent."""

    code = "opt_in_blocked"
    title = "Not opted in"
    outcome = Outcome.ASK_USER
    exit_code = 2
    default_message = "A memory holds something that must not leave; nothing of it was sent."
    default_hint = "Change the memory, then ask again."

    def __init__(self, rules: Sequence[str] = ()) -> None:
        shown = f" ({', '.join(rules)})" if rules else ""
        super().__init__(f"A memory holds something that must not leave{shown}; it was not sent.")
        self.rules = tuple(rules)


class OptInChanged(MemlocketError):
    """What was shown to the owner is not what there is now."""

    code = "opt_in_changed"
    title = "Changed since it was shown"
    outcome = Outcome.ASK_USER
    exit_code = 2
    default_message = "A memory of this list changed since it was shown; nothing was approved."
    default_hint = "Look at the list again: memlocket opt-in list"


class OptInCountWrong(MemlocketError):
    """Above 50 rows the owner types how many there are."""

    code = "opt_in_count"
    title = "Type the number"
    outcome = Outcome.ASK_USER
    exit_code = 2
    default_message = "So many memories are opted in only if you type how many there are."


class GrantBroken(MemlocketError):
    """A grant does not cover what it should; nothing was sent."""

    code = "opt_in_grant"
    title = "Grant does not hold"
    outcome = Outcome.ASK_USER
    default_message = "The grant of an opted-in memory does not hold (any more); it was not sent."
    default_hint = "Approve the memory again: memlocket opt-in list"


class NoGrantKey(MemlocketError):
    """This vault has no passphrase, or its devices do not know the key that signs grants."""

    code = "opt_in_no_key"
    title = "No key for grants"
    outcome = Outcome.ASK_USER
    exit_code = 11
    default_message = "Memories are opted in with the vault's passphrase, and this vault has none."
    default_hint = "Give the vault a passphrase: memlocket change-passphrase"
