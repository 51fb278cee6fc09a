"""Showing the 24 recovery words once, on a terminal only, and asking for three of them."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from memory_manager.cli.prompts import ask_line

COLUMNS = 4
TRIES_A_WORD = 3
_CLEAR = "\x1b[2J\x1b[3J\x1b[H"  # screen and scrollback, cursor home


def make_words() -> tuple[str, ...]:
    """24 new words. They are worth nothing until the memory service is told of them, and until
    then the old ones are the good ones.
    """
    from memory_manager.vault import recovery_words
    from memory_manager.vault.kdf import KeyMaterial

    with KeyMaterial() as made:
        return recovery_words.words_of(made.keep(recovery_words.new_entropy()))


def confirm_on_terminal(words: Sequence[str]) -> bool:
    """Show the words, take them off the screen, ask for three; False if one stays wrong."""
    from memory_manager.vault.recovery_words import positions_to_confirm

    print(
        "\nThese are your recovery words. They are the only way back after a lost passphrase.\n"
        "Write them on paper; they are shown once.\n",
        file=sys.stderr,
    )
    print(_grid(words), file=sys.stderr)
    ask_line("\nPress Enter when you have written them down. ")
    if os.environ.get("TERM", "dumb") != "dumb":
        print(_CLEAR, end="", file=sys.stderr)
    for position in positions_to_confirm():
        if not _is_known(position + 1, words[position]):
            return False
    return True


def _is_known(number: int, word: str) -> bool:
    """Ask for one word; a slip of the fingers must not throw the whole setup away."""
    for left in reversed(range(TRIES_A_WORD)):
        if ask_line(f"Word {number}: ").lower() == word:
            return True
        if left:
            tries = "one more try" if left == 1 else f"{left} more tries"
            print(f"That is not word {number}; {tries}.", file=sys.stderr)
    return False


def _grid(words: Sequence[str]) -> str:
    rows = -(-len(words) // COLUMNS)
    lines: list[str] = []
    for row in range(rows):
        cells = [f"{at + 1:>2} {words[at]:<10}" for at in range(row, len(words), rows)]
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines)


def write_words(words: Sequence[str], descriptor: int) -> None:
    """One line with all words, to a descriptor that the caller opened for them."""
    with os.fdopen(os.dup(descriptor), "w", encoding="ascii") as stream:
        stream.write(" ".join(words) + "\n")
