"""``memlocket doctor --rescan``: stored text comes under the present rules while one looks on."""

from __future__ import annotations

import time
from collections.abc import Mapping

from memory_manager.cli.context import Context
from memory_manager.cli.errors import EXIT_OK, ChecksFailed
from memory_manager.cli.output import counted, progress_from, section
from memory_manager.client.memory_client import MemoryClient

POLL_SECONDS = 0.2


def rescan(context: Context) -> int:
    """Begin, wait for the end, say what was found: counts by rule, never a text."""
    with context.client() as client:
        found = _until_done(context, client, section(client.rescan(), "sanitizer"))
    failed = _number(found, "failed")
    context.console.result({"sanitizer": dict(found)}, _report(found))
    if found.get("state") == "done" and not failed:
        return EXIT_OK
    if not context.console.as_json:
        raise ChecksFailed(_trouble(found, failed))
    return ChecksFailed.exit_code


def _until_done(
    context: Context, client: MemoryClient, found: Mapping[str, object]
) -> Mapping[str, object]:
    total = _number(found, "looked") + _number(found, "remaining")
    with context.console.progress("rescan", total, "records") as advance:
        told = progress_from(advance)
        while found.get("state") == "running":
            time.sleep(POLL_SECONDS)
            found = section(client.status(), "sanitizer")
            told(_number(found, "looked"), total)
    return found


def _report(found: Mapping[str, object]) -> str:
    looked, cleaned = _number(found, "looked"), _number(found, "cleaned")
    lines = [
        f"Rule set {found.get('ruleset')}: looked at {counted(looked, 'record')}, "
        f"cleaned {counted(cleaned, 'record')}."
    ]
    lines += [f"  {rule}  {count}" for rule, count in section(found, "by_rule").items()]
    if cleaned:
        lines.append("Backups and exports from before still hold what was taken out.")
    return "\n".join(lines)


def _trouble(found: Mapping[str, object], failed: int) -> str:
    if failed:
        return f"{counted(failed, 'record')} could not be cleaned and stay withheld where shown."
    if found.get("state") == "waiting" and not found.get("error"):
        return "The vault was locked before the end; the rest follows when it is open again."
    return f"It ended early: {found.get('error')}."


def _number(found: Mapping[str, object], name: str) -> int:
    value = found.get(name)
    return value if isinstance(value, int) else 0
