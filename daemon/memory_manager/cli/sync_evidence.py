"""``memlocket sync evidence``: proofs that a server lied, written down, and checked by anybody."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import cast

from memory_manager.cli import sync_text
from memory_manager.cli.arguments import Commands, add_command
from memory_manager.cli.context import Context
from memory_manager.cli.errors import EXIT_OK, FileProblem
from memory_manager.client.memory_client import JsonObject
from memory_manager.client.sync_acts import SyncActs
from memory_manager.sync.errors import SyncRefused


def register(actions: Commands, shared: argparse.ArgumentParser) -> None:
    evidence = add_command(
        actions, shared, "evidence", run_evidence, "proofs that the server showed two histories",
        "A proof holds for the server key in it: compare the six words that --check shows with\n"
        "those of the server. --check ends with 16 unless every proof in the file holds.",
    )  # fmt: skip
    place = evidence.add_mutually_exclusive_group()
    place.add_argument("file", metavar="FILE", nargs="?", type=Path, help="write them here")
    place.add_argument(
        "--check", metavar="FILE", type=Path, help="look at an exported file; asks no service"
    )


def run_evidence(arguments: argparse.Namespace, context: Context) -> int:
    if arguments.check is not None:
        return _check(_proofs_in(arguments.check), context)
    with context.client() as client:
        answer = SyncActs(client.connection).evidence()
    proofs = cast("list[object]", answer.get("evidence") or [])
    if arguments.file is not None:
        try:
            arguments.file.write_text(json.dumps(proofs, indent=2) + "\n")
        except OSError as error:
            raise FileProblem(f"Writing failed: {error.strerror}.") from None
    text = "No proof of two histories is kept." if not proofs else json.dumps(proofs, indent=2)
    context.console.result(answer, text if arguments.file is None else "")
    return EXIT_OK


def _proofs_in(file: Path) -> list[JsonObject]:
    """As ``sync evidence FILE`` writes them, or ``--json`` prints them."""
    try:
        found = json.loads(file.read_bytes())
    except OSError as error:
        raise FileProblem(f"{file} cannot be read: {error.strerror}.") from None
    except (ValueError, RecursionError):
        raise FileProblem(f"{file} holds no JSON.") from None
    if isinstance(found, dict) and "evidence" in found:
        found = found["evidence"]
    return cast("list[JsonObject]", found if isinstance(found, list) else [found])


def _check(proofs: list[JsonObject], context: Context) -> int:
    shown = [_checked(proof) for proof in proofs]
    text = "\n\n".join(sync_text.proof(entry) for entry in shown) or "There is no proof in it."
    context.console.result({"proofs": shown}, text)
    holds = shown and all(entry["holds"] for entry in shown)
    return EXIT_OK if holds else SyncRefused.exit_code


def _checked(proof: JsonObject) -> dict[str, object]:
    from memory_manager.sync.engine.evidence import verify_evidence
    from memory_manager.sync.wire.labels import server_words

    found = verify_evidence(proof)
    if found is None:
        return {"holds": False}
    key = found.device_key
    return {
        "holds": True,
        "vault": found.vault.hex(),
        "n": found.n,
        "server_key": found.server_key.hex(),
        "server_words": list(server_words(found.server_key)),
        "device_key": None if key is None else key.hex(),
    }
