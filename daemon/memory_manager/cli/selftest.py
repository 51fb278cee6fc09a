"""``memlocket --selftest``: a real daemon on a temporary home remembers and recalls one sentence.

It proves an installation, frozen builds included, without touching the user's own files.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path

from memory_manager.auth.agent_identity import AGENT_HEADER, INSTANCE_HEADER
from memory_manager.base.errors import MemlocketError
from memory_manager.cli.context import Context
from memory_manager.cli.errors import EXIT_OK
from memory_manager.cli.temporary_daemon import temporary_daemon
from memory_manager.client.memory_client import connect_as_owner

SENTENCE = "Memlocket keeps one encrypted memory for all agents."


class SelfTestFailed(MemlocketError):
    """The round trip in a temporary home did not work; the message says where it stopped."""

    code = "selftest_failed"
    title = "Self-test failed"


def run_selftest(context: Context) -> int:
    """Exit 0 and one line, or a sentence about the step that failed."""
    seconds = round_trip(context.environ)
    context.console.result(
        {"selftest": "ok", "seconds": round(seconds, 2)}, f"Self-test passed in {seconds:.1f} s."
    )
    return EXIT_OK


def round_trip(environ: Mapping[str, str]) -> float:
    """Seconds it took; SelfTestFailed otherwise. Nothing is left behind."""
    from memory_manager.vault.canary import new_canary

    began = time.monotonic()
    try:
        with temporary_daemon(environ, "selftest") as daemon:
            sentence = f"{SENTENCE} {new_canary()}"
            _remember_and_recall(daemon.environ, sentence)
            _look_for_plaintext(daemon.home, sentence)
            daemon.stop()
            _look_for_plaintext(daemon.home, sentence)
    except SelfTestFailed:
        raise
    except MemlocketError as error:
        raise SelfTestFailed(error.message, hint=error.hint) from error
    return time.monotonic() - began


def _remember_and_recall(environ: Mapping[str, str], sentence: str) -> None:
    labels = {AGENT_HEADER: "memlocket-selftest", INSTANCE_HEADER: "selftest"}
    with connect_as_owner(environ, headers=labels) as client:
        written = client.remember({"content": sentence, "path": "memlocket/selftest"})
        found = client.recall_context({"query": "encrypted memory for agents", "max_items": 3})
    items = found.get("items")
    known = items if isinstance(items, list) else []
    if not any(
        isinstance(item, dict)
        and item.get("id") == written.get("id")
        and item.get("content") == sentence
        for item in known
    ):
        raise SelfTestFailed("What was remembered did not come back.")


def _look_for_plaintext(home: Path, sentence: str) -> None:
    from memory_manager.vault.canary import scan

    if scan([home], [sentence]).hits:
        raise SelfTestFailed("Text of a memory stands in a file of the memory service.")
