"""What the ``memlocket`` program runs first: the stdio shim at once, anything else in ``main``.

Clients start the shim for every session, so it does not wait for the whole command line to load.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Run the command line of this process; returns its exit code."""
    words = sys.argv[1:]
    if words[:1] == ["mcp"]:
        from memory_manager.cli.mcp_shim import run_shim, shim_arguments

        if (asked := shim_arguments(words[1:])) is not None:
            return run_shim(asked)
    from memory_manager.cli.main import main as run_command

    return run_command()
