#!/usr/bin/env python3
"""Two commands for developers: ``run`` a sandbox, ``test`` everything. Also lint, build, doctor.

Needs nothing but Python; parses on 3.8 to say politely that 3.11 is needed. Asks nothing, needs no
terminal, and leaves nothing outside ``.venv`` and ``.sandbox`` of this checkout.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

EPILOG = """\
run   sets up .venv, starts the memory service in ./.sandbox, remembers and recalls once, stays up
test  the same environment with the test tools, then all tests; further arguments go to pytest
undo everything with: rm -r .venv .sandbox
"""


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="dev.py",
        description=__doc__,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    run = commands.add_parser("run", help="sandbox daemon and one round trip")
    run.add_argument(
        "--once", action="store_true", help="stop after the round trip; implies --lite"
    )
    run.add_argument("--lite", action="store_true", help="do not install embeddings")
    run.add_argument("--home", type=Path, metavar="DIR", help="another sandbox than ./.sandbox")
    run.add_argument("--port", type=int, metavar="N", help="fixed TCP port")
    commands.add_parser("test", help="all tests; --full downloads torch if it is not here")
    commands.add_parser("lint", help="ruff, mypy, pyright, import-linter")
    build = commands.add_parser("build", help="sdist, and the wheel from it, into dist/")
    build.add_argument("what", nargs="?", choices=["wheel"], default="wheel")
    doctor = commands.add_parser("doctor", help="memlocket doctor on the sandbox")
    doctor.add_argument("--home", type=Path, metavar="DIR")
    # what follows "test" is pytest's, however it looks to this parser
    is_test = argv[:1] == ["test"]
    arguments = parser.parse_args(argv[:1] if is_test else argv)
    sys.dont_write_bytecode = True  # before the modules beside this file are imported
    import dev_build
    import dev_environment
    import dev_run

    try:
        if arguments.command == "run":
            return dev_run.run(arguments)
        if arguments.command == "test":
            rest = [argument for argument in argv[1:] if argument != "--full"]
            return dev_environment.run_tests(rest, "--full" in argv[1:])
        if arguments.command == "lint":
            return dev_environment.run_lint()
        if arguments.command == "build":
            return dev_build.build_wheel()
        if arguments.command == "doctor":
            return dev_run.doctor(arguments.home)
    except dev_environment.Failure as failure:
        print(str(failure), file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    finally:
        dev_environment.end_children()
    parser.print_help()
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
