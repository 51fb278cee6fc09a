"""Accepting a page and, where it shows that the server signed two histories, keeping the proof."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from memory_manager.sync.engine import evidence, own_state
from memory_manager.sync.engine.advice import Finding, RoundStopped, reaction
from memory_manager.sync.engine.evidence import Path, SignedPath
from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.wire.acceptance import Accepted, VerifiedLog, Verifier
from memory_manager.sync.wire.framing import LogRow, Page, Signed
from memory_manager.sync.wire.log import Checkpoint, ServerHead, next_global_head

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

EVIDENCE = "evidence"


def accepted(connection: Connection, rules: Verifier, log: VerifiedLog, page: Page) -> Accepted:
    """As ``Verifier.accept``, but EQUIVOCATION comes as RoundStopped with its evidence."""
    try:
        return rules.accept(log, page)
    except SyncRefused as error:
        if error.reason is not SyncCode.EQUIVOCATION or error.n is None:
            raise
        device, n = error.device, error.n
    held = list(_signed_paths(connection, rules, log, page.rows, page, n))
    if device is None:
        proof = _by_head(rules, held, [page.page_head, page.tip], n)
    else:
        proof = _by_checkpoint(rules, held, page.checkpoints, device, n)
    raise _stopped(proof, device, n)


def equivocation(
    connection: Connection, rules: Verifier, log: VerifiedLog, said: Signed[ServerHead]
) -> RoundStopped:
    """What a head that contradicts the verified log means, with its evidence."""
    n = said.value.n
    held = list(_signed_paths(connection, rules, log, (), None, n))
    return _stopped(_by_head(rules, held, [said], n), None, n)


def _stopped(proof: dict[str, object] | None, device: bytes | None, n: int) -> RoundStopped:
    code = SyncCode.EQUIVOCATION.value
    detail: dict[str, str | int] = {} if proof is None else {EVIDENCE: json.dumps(proof)}
    return RoundStopped(Finding(code, reaction(code), device, n, detail=detail))


def _by_head(
    rules: Verifier, held: list[SignedPath], said: Sequence[Signed[ServerHead]], n: int
) -> dict[str, object] | None:
    """None where what contradicts was not signed twice."""
    shown = [evidence.at_once(head) for head in said if head.value.n == n]
    for theirs in shown:
        for ours in (*held, *shown):
            if ours.path.g != theirs.path.g:
                return evidence.two_heads(rules.vault, rules.server_key, ours, theirs)
    return None


def _by_checkpoint(
    rules: Verifier,
    held: list[SignedPath],
    checkpoints: Sequence[Signed[Checkpoint]],
    device: bytes,
    n: int,
) -> dict[str, object] | None:
    author = rules.roster.members.get(device)
    for said in checkpoints:
        if author is None or (said.value.device, said.value.n) != (device, n):
            continue
        for ours in held:
            if ours.path.g != said.value.g:
                return evidence.head_and_checkpoint(
                    rules.vault, rules.server_key, ours, said, author.ed25519
                )
    return None


def _signed_paths(
    connection: Connection,
    rules: Verifier,
    log: VerifiedLog,
    rows: Sequence[LogRow],
    page: Page | None,
    n: int,
) -> Iterator[SignedPath]:
    """Heads of the server that cover our G at ``n``, directly or through the entries after it;
    ``rows`` follow the log.
    """
    fresh = [(row.entry.device, row.entry.head) for row in rows]
    if n <= log.n:
        g = log.g if n == log.n else rules.global_head(n)
        steps = [*_steps(connection, n), *fresh]
    else:
        g, steps = log.g, fresh[n - log.n :]
        for device, head in fresh[: n - log.n]:
            g = next_global_head(g, device, head)
    ends = own_state.heads(connection)
    if page is not None:
        ends += (page.page_head, page.tip)
    for end in ends:
        length = end.value.n - n
        if 0 <= length <= min(len(steps), evidence.MAX_PATH):
            path = Path(n, g, tuple(steps[:length]))
            if path.leads_to(end.value):
                yield SignedPath(end, path)


def _steps(connection: Connection, n: int) -> Iterator[tuple[bytes, bytes]]:
    rows = connection.execute(
        "SELECT device, head FROM entry WHERE n > ? ORDER BY n LIMIT ?", (n, evidence.MAX_PATH)
    )
    yield from ((bytes(device), bytes(head)) for device, head in rows)
