"""Devices and a server of one vault, all in memory, on the real wire format; for sync tests."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence
from typing import Any

from nacl.public import PrivateKey
from nacl.signing import SigningKey

from memory_manager.sync.wire import labels
from memory_manager.sync.wire.acceptance import Accepted, VerifiedLog, Verifier
from memory_manager.sync.wire.envelope import Dot, EpochKey, Policy, body_hash, seal_row
from memory_manager.sync.wire.framing import LogRow, Page, Signed
from memory_manager.sync.wire.log import (
    FIRST_GLOBAL_HEAD,
    Checkpoint,
    Entry,
    ServerHead,
    next_global_head,
    sign_checkpoint,
    sign_server_head,
)
from memory_manager.sync.wire.payload import HybridTime, Kind, encode_payload
from memory_manager.sync.wire.roster import Roster, SignedEntry, found, sign_entry, vault_id


@dataclasses.dataclass(frozen=True)
class Keys:
    """The secret half of a device."""

    id: bytes
    signing: SigningKey
    box: PrivateKey
    grant: SigningKey

    def public(self, role: str = "device") -> dict[str, str]:
        return {
            "id": self.id.hex(),
            "role": role,
            "ed25519": self.signing.verify_key.encode().hex(),
            "x25519": self.box.public_key.encode().hex(),
            "grant": self.grant.verify_key.encode().hex(),
        }


def new_keys(source: random.Random) -> Keys:
    return Keys(
        source.randbytes(16),
        SigningKey(source.randbytes(32)),
        PrivateKey(source.randbytes(32)),
        SigningKey(source.randbytes(32)),
    )


class Founded:
    """A vault with its roster chain; ``amend`` signs one more entry."""

    def __init__(self, source: random.Random) -> None:
        self.source = source
        self.vrk = {1: source.randbytes(32)}
        self.first, self.paper = new_keys(source), new_keys(source)
        genesis = {
            **_common(0, bytes(32), "genesis", self.first.id),
            "vault": bytes(16).hex(),
            "device": self.first.public(),
            "recovery": self.paper.public("recovery"),
            "epoch": self.epoch_document(1),
        }
        self.vault = vault_id(genesis)
        first_entry = sign_entry({**genesis, "vault": self.vault.hex()}, self.first.signing)
        self.chain = [first_entry]
        self.roster = found(first_entry, self.vault)

    def epoch_document(self, epoch: int) -> dict[str, Any]:
        return {"e": epoch, "kid": labels.key_id(self.key(epoch).key).hex()}

    def key(self, epoch: int) -> EpochKey:
        return EpochKey(epoch, labels.wrapping_key(self.vrk[epoch]))

    def entry(self, op: str, by: Keys, **extra: Any) -> SignedEntry:
        """The next roster entry, signed and not applied."""
        idx, prev = len(self.roster.positions), self.roster.head
        document = {**_common(idx, prev, op, by.id), "vault": self.vault.hex(), **extra}
        return sign_entry(document, by.signing)

    def amend(self, op: str, by: Keys, **extra: Any) -> Roster:
        entry = self.entry(op, by, **extra)
        self.roster = self.roster.verify((entry,))
        self.chain.append(entry)
        return self.roster

    def add(self, by: Keys | None = None) -> Keys:
        keys = new_keys(self.source)
        self.amend("add", by or self.first, device=keys.public())
        return keys

    def revoke(self, target: Keys, by: Keys, seq: int, head: bytes) -> Roster:
        epoch = self.roster.epoch + 1
        self.vrk[epoch] = self.source.randbytes(32)
        cut = {"target": target.id.hex(), "cut_seq": seq, "cut_head": head.hex()}
        return self.amend("revoke", by, **cut, epoch=self.epoch_document(epoch))


def _common(idx: int, prev: bytes, op: str, by: bytes) -> dict[str, Any]:
    return {
        "v": 1,
        "idx": idx,
        "prev": prev.hex(),
        "op": op,
        "by": by.hex(),
        "at_seq": 0,
    }


class Server:
    """An honest server of one vault: keeps the order, signs its heads. Subclasses lie."""

    def __init__(self, vault: bytes, source: random.Random) -> None:
        self.vault = vault
        self.key = SigningKey(source.randbytes(32))
        self.rows: list[LogRow] = []
        self.global_heads = [FIRST_GLOBAL_HEAD]
        self.checkpoints: list[Signed[Checkpoint]] = []

    @property
    def public_key(self) -> bytes:
        return bytes(self.key.verify_key)

    def push(self, rows: Sequence[LogRow]) -> None:
        for row in rows:
            n = len(self.rows) + 1
            self.rows.append(dataclasses.replace(row, n=n))
            g = next_global_head(self.global_heads[-1], row.entry.device, row.entry.head)
            self.global_heads.append(g)

    def head(self, n: int) -> Signed[ServerHead]:
        statement = ServerHead(n, self.global_heads[n])
        return Signed(statement, sign_server_head(self.key, self.vault, statement))

    def pull(self, after: int, limit: int) -> Page:
        rows = tuple(self.rows[after : after + limit])
        tip = len(self.rows)
        end = min(after + len(rows), tip)
        return Page(rows, tuple(self.checkpoints), self.head(end), self.head(tip))


class Device:
    """One device's own log and what it verified of everybody's."""

    def __init__(self, vault: Founded, keys: Keys, server_key: bytes) -> None:
        self.vault, self.keys, self.server_key = vault, keys, server_key
        self.own: list[LogRow] = []
        self.pushed = 0
        self.log = VerifiedLog()
        self.global_heads = [FIRST_GLOBAL_HEAD]
        self.seen: list[LogRow] = []

    def write(self, record: bytes, content: str, parents: tuple[Dot, ...] = ()) -> LogRow:
        source = self.vault.source
        seq = len(self.own) + 1
        time = HybridTime(1_764_500_000_000 + seq, 0, self.keys.id.hex())
        row = seal_row(
            encode_payload(Kind.RESOLVE, time, parents, {"title": content}),
            policy=Policy.VAULT,
            vault=self.vault.vault,
            record=record,
            dot=Dot(self.keys.id, seq),
            parents=parents,
            under=self.vault.key(self.vault.roster.epoch),
            cek=source.randbytes(32),
            body_nonce=source.randbytes(24),
            wrap_nonce=source.randbytes(24),
        )
        previous = self.own[-1].entry.head if self.own else bytes(32)
        entry = Entry(
            self.vault.vault,
            self.keys.id,
            seq,
            previous,
            body_hash(row.body),
            self.vault.roster.head,
        )
        made = LogRow(entry, row)
        self.own.append(made)
        return made

    def push(self, server: Server) -> None:
        server.push(self.own[self.pushed :])
        self.pushed = len(self.own)
        server.checkpoints = [self.checkpoint()]

    def checkpoint(self) -> Signed[Checkpoint]:
        head = self.own[-1].entry.head if self.own else bytes(32)
        said = Checkpoint(
            self.vault.vault, self.keys.id, len(self.own), head, self.log.n, self.log.g
        )
        return Signed(said, sign_checkpoint(self.keys.signing, said))

    def verifier(self) -> Verifier:
        return Verifier(
            vault=self.vault.vault,
            server_key=self.server_key,
            device=self.keys.id,
            roster=self.vault.roster,
            own_entry=lambda seq: self.own[seq - 1].entry.pack() if seq <= len(self.own) else None,
            global_head=lambda n: self.global_heads[n],
        )

    def accept(self, page: Page) -> Accepted:
        accepted = self.verifier().accept(self.log, page)
        self.log = accepted.log
        self.global_heads.extend(accepted.global_heads)
        self.seen.extend(page.rows)
        return accepted

    def pull(self, server: Server, limit: int = 500) -> None:
        while True:
            page = server.pull(self.log.n, limit)
            self.accept(page)
            if self.log.n == page.tip.value.n:
                return
