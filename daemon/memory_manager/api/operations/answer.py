"""The answer of an operation, and writes that a client may repeat.

The idempotency key alone decides, and the answer it got stays (xmemo.md 4.11). Lookup, change and
stored answer are one unit of work on the single writer, so two equal requests at once leave one
row, and nothing is stored for a request that failed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from memory_manager.api.answers import json_text
from memory_manager.api.callers import still_valid
from memory_manager.api.calls import Call
from memory_manager.service.daemon import Daemon
from memory_manager.vault import idempotency
from memory_manager.vault.idempotency import IdempotencyKey
from memory_manager.vault.transaction import Transaction


@dataclasses.dataclass(frozen=True, slots=True)
class Answer:
    """``text`` is a JSON object; ``replayed``: it is what the same key got before."""

    status: int
    text: str = dataclasses.field(repr=False)
    replayed: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class Written:
    """What a unit of work answers; ``status`` is 200 or 201."""

    status: int
    body: Mapping[str, object] = dataclasses.field(repr=False)


def answer(body: Mapping[str, object], status: int = 200) -> Answer:
    """A read's answer."""
    return Answer(status, json_text(body))


async def first_answer(daemon: Daemon, key: IdempotencyKey) -> Answer | None:
    """What a key got before, for a replay whose own body says too little; None for a new key."""
    stored = await daemon.store().read(lambda connection: idempotency.lookup(connection, key))
    return None if stored is None else Answer(stored.status, stored.body_json, replayed=True)


async def written(
    daemon: Daemon,
    call: Call,
    key: IdempotencyKey | None,
    work: Callable[[Transaction, Call], Written],
) -> Answer:
    """Run ``work`` on the writer, or answer what the same key got before."""

    def unit(transaction: Transaction) -> Answer:
        # the credential may have been revoked while this request waited for its turn
        still_valid(transaction.connection, call.caller)
        if key is not None:
            stored = idempotency.lookup(transaction.connection, key)
            if stored is not None:
                return Answer(stored.status, stored.body_json, replayed=True)
        result = work(transaction, call)
        text = json_text(result.body)
        if key is not None:
            idempotency.save(transaction, key, result.status, text)
        return Answer(result.status, text)

    return await daemon.writable_store().write(unit)
