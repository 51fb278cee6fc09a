"""The generated tables of README.md. Run this file to write them anew."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

from memory_manager.api.errors import STATUS_OF_CODE, RequestError
from memory_manager.base.errors import MemlocketError
from memory_manager.cli.errors import EXIT_CODES, known_errors

README = Path(__file__).resolve().parent.parent.parent / "README.md"
_MORE_ERRORS = (
    "base.private_files",
    "cli.selftest",
    "client.errors",
    "recall.models.errors",
    "sync.engine.errors",
    "sync.errors",
    "sync.membership.errors",
    "sync.optin.errors",
    "sync.server.errors",
    "sync.server.refusals",
)


def exit_code_table() -> str:
    rows = [f"| {number} | {meaning} |" for number, meaning in EXIT_CODES.items()]
    return "\n".join(["| exit code | meaning |", "|---|---|", *rows])


def error_classes() -> dict[str, type[MemlocketError]]:
    for module in _MORE_ERRORS:
        importlib.import_module(f"memory_manager.{module}")
    return known_errors()


def error_code_table() -> str:
    rows: list[str] = []
    for code, kind in sorted(error_classes().items()):
        if issubclass(kind, RequestError):
            status: object = int(kind.status)
        else:
            status = STATUS_OF_CODE.get(code, "-")
        rows.append(f"| `{code}` | {status} | {kind.exit_code} | {kind.title} |")
    return "\n".join(["| code | HTTP | exit | meaning |", "|---|---|---|---|", *rows])


def with_tables(text: str) -> str:
    """README text with both tables as they should be."""
    for name, table in (("exit codes", exit_code_table()), ("error codes", error_code_table())):
        pattern = rf"(<!-- {name}: [^>]*-->\n).*?(<!-- end -->)"
        text = re.sub(
            pattern, lambda m, t=table: f"{m[1]}{t}\n{m[2]}", text, count=1, flags=re.DOTALL
        )
    return text


if __name__ == "__main__":
    README.write_text(with_tables(README.read_text()))
