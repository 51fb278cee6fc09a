"""Accepting a page and, where it shows that the server signed two histories, keeping the proof."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from memory_manager.sync.engine import evidence, own_state
from memory_manager.sync.engine.advice import Finding, RoundStopped, reaction
from memory_manager.sync.engine.evidence import Path, SignedPath
from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.wire.acceptance import Accepted, VerifiedLog, Verifier
from memory_manager.sync.wire.framing import Page
from memory_manager.sync.wire.log import next_global_head

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
        proof = _proof(connection, rules, log, page, device, n)
    code = SyncCode.EQUIVOCATION.value
    detail: dict[str, str | int] = {} if proof is None else {EVIDENCE: json.dumps(proof)}
    raise RoundStopped(Finding(code, reaction(code), device, n, detail=detail))


def _proof(
    connection: Connection,
    rules: Verifier,
    log: VerifiedLog,
    page: Page,
    device: bytes | None,
    n: int,
) -> dict[str, object] | None:
    """None where what contradicts was not signed twice."""
    known = list(_signed_paths(connection, rules, log, page, n))
    if device is not None:
        author = rules.roster.members.get(device)
        for said in page.checkpoints:
            if author is None or said.value.device != device or said.value.n != n:
                continue
            for ours in known:
                if ours.path.g != said.value.g:
                    return evidence.head_and_checkpoint(
                        rules.vault, rules.server_key, ours, said, author.ed25519
                    )
        return None
    shown = [evidence.at_once(head) for head in (page.page_head, page.tip) if head.value.n == n]
    for theirs in shown:
        for ours in (*known, *shown):
            if ours.path.g != theirs.path.g:
                return evidence.two_heads(rules.vault, rules.server_key, ours, theirs)
    return None


def _signed_paths(
    connection: Connection, rules: Verifier, log: VerifiedLog, page: Page, n: int
) -> Iterator[SignedPath]:
    """Heads of the server that cover our G at ``n``, directly or through the entries after it."""
    fresh = [(row.entry.device, row.entry.head) for row in page.rows]
    if n <= log.n:
        g = log.g if n == log.n else rules.global_head(n)
        steps = [*_steps(connection, n), *fresh]
    else:
        g, steps = log.g, fresh[n - log.n :]
        for device, head in fresh[: n - log.n]:
            g = next_global_head(g, device, head)
    for end in (*own_state.heads(connection), page.page_head, page.tip):
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
