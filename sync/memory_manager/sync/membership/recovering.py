"""Back with nothing but the recovery words, or on under a new id after lost state (sync.md 7.4).

The paper device signs one ``add``; everything after that this device does itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from memory_manager.base.errors import InvalidInput
from memory_manager.sync.engine.client import SyncClient
from memory_manager.sync.engine.device_secrets import DeviceSecrets
from memory_manager.sync.engine.errors import NothingToConfirm, SyncOff, SyncServerRefused
from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.ledger import keybag, state
from memory_manager.sync.ledger.founding import enrol_again
from memory_manager.sync.membership import names, roster_entries
from memory_manager.sync.membership.chain import entries_after
from memory_manager.sync.membership.desk import ATTEMPTS, REFUSED_LOGIN, Desk, Standing
from memory_manager.sync.membership.epoch_keys import collect_keys
from memory_manager.sync.membership.errors import RecoveryRefused, RosterMoved
from memory_manager.sync.membership.founding import (
    Member,
    ServerAddress,
    become_member,
    own_keys,
    require_outside,
)
from memory_manager.sync.membership.letters import printable_name
from memory_manager.sync.membership.mailbox import check_signatures, is_member
from memory_manager.sync.membership.roster_entries import PaperDevice, Signer
from memory_manager.sync.wire import labels
from memory_manager.sync.wire.log import ServerHead, head_words
from memory_manager.sync.wire.roster import Role, Roster, SignedEntry, found
from memory_manager.vault import kdf
from memory_manager.vault.device_key import DeviceKey

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.vault.transaction import Transaction


@dataclasses.dataclass(frozen=True, slots=True)
class NotedHead:
    """What a recovery sheet says of the log: its number of rows and the six words at that time."""

    n: int
    words: tuple[str, ...]


@dataclasses.dataclass(frozen=True, slots=True)
class Lost:
    """What to recover: the vault on the sheet, and the words."""

    vault: bytes
    paper: PaperDevice = dataclasses.field(repr=False)
    noted: NotedHead | None = None


def parse_vault_id(text: str) -> bytes:
    """32 hex digits, dashes and blanks between them allowed; InvalidInput otherwise."""
    try:
        vault = bytes.fromhex(text.replace("-", "").replace(" ", ""))
    except ValueError:
        vault = b""
    if len(vault) != labels.ID_BYTES:
        raise InvalidInput("A vault id has 32 hex digits.", field="vault")
    return vault


def parse_noted_head(n: int | None, words: Sequence[str]) -> NotedHead | None:
    """Both or none of them; InvalidInput otherwise."""
    if n is None and not words:
        return None
    if n is None or n < 1 or len(words) != len(labels.word_indices(bytes(32))):
        raise InvalidInput(
            "Give the six head words and their row number together.", field="head_words"
        )
    return NotedHead(n, tuple(word.lower() for word in words))


async def recover(
    desk: Desk, address: ServerAddress, lost: Lost, *, name: str, grant: bytes | None
) -> Member:
    """Add this device with the words and start syncing.

    RecoveryRefused when words, vault and server do not belong together, or when the server's log
    is not the one whose words were noted. Without noted words an older log cannot be told.
    """
    await require_outside(desk)
    keys, called = own_keys(desk, grant), {desk.secrets.device: printable_name(name)}
    client = await desk.sync.new_client(address.url, ca_file=address.ca_file, proxy=address.proxy)
    paper_secrets = _paper_secrets(lost.paper)
    try:
        server_key = await client.server_key()
        if address.key is not None and server_key != address.key:
            raise SyncRefused(SyncCode.SERVER_KEY)
        client.identify(lost.vault, paper_secrets, server_key)
        seen = None
        if lost.noted is not None:
            seen = await _check_noted(client, lost, server_key, lost.noted)
        for _ in range(ATTEMPTS):
            chain, roster = await _chain_of(client, lost)
            if is_member(roster, keys):
                break  # an earlier attempt got this far
            entry = roster_entries.add(roster, lost.paper.signer(), keys, None)
            try:
                await client.post_roster(entry)
            except SyncServerRefused as error:
                if error.reason == "ROSTER_HEAD":
                    continue
                raise
            chain, roster = (*chain, entry), roster.verify((entry,))
            break
        else:
            raise RosterMoved
    finally:
        paper_secrets.wipe()
        await client.close()
    with kdf.KeyMaterial() as held:
        epochs = collect_keys(chain, roster, lost.paper.keys.device, lost.paper.box_secret)
        for vrk in epochs.values():
            held.keep(vrk)
        if roster.epoch not in epochs:
            raise RecoveryRefused("The words do not open the present key of this vault.")
        member = await become_member(
            desk, address, server_key, lost.vault, chain, epochs, called, expected=seen
        )
    await desk.sync.roster_changed_here()
    return member


async def _chain_of(client: SyncClient, lost: Lost) -> tuple[tuple[SignedEntry, ...], Roster]:
    try:
        chain = await entries_after(client, -1)
    except SyncServerRefused as error:
        if error.status in REFUSED_LOGIN:
            raise RecoveryRefused from None
        raise
    if not chain:
        raise RecoveryRefused
    roster = found(chain[0], lost.vault).verify(chain[1:])
    member = roster.members.get(lost.paper.keys.device)
    if member is None or not member.is_active or member.role is not Role.RECOVERY:
        raise RecoveryRefused
    return chain, roster


async def _check_noted(
    client: SyncClient, lost: Lost, server_key: bytes, noted: NotedHead
) -> ServerHead:
    try:
        page = await client.pull(noted.n - 1, 1)
    except SyncServerRefused as error:
        if error.status in REFUSED_LOGIN:
            raise RecoveryRefused from None
        raise
    check_signatures(page, lost.vault, server_key)
    head = page.page_head.value
    if page.tip.value.n < noted.n:
        raise RecoveryRefused(
            f"The server's log ends at row {page.tip.value.n}; the sheet names row {noted.n}:"
            " the server was set back, or something was taken from it."
        )
    if head.n != noted.n or head_words(lost.vault, head.n, head.g) != noted.words:
        raise RecoveryRefused(
            "The head words of the server's log are others than those on the sheet."
        )
    return head


def _paper_secrets(paper: PaperDevice) -> DeviceSecrets:
    return DeviceSecrets(
        DeviceKey(paper.keys.device, bytearray(bytes(paper.signing) + bytes(paper.box_secret)))
    )


async def renew(desk: Desk, *, grant: bytes | None) -> Member:
    """Go on under this device's new id after its state was lost; its old log is closed for good.

    Signed with the keys the old id had, which a new id on the same machine keeps. NothingToConfirm
    when nothing was lost.
    """
    connection = await desk.sync.connection()
    lost = await desk.sync.store.read(state.must_enrol_again)
    if connection is None:
        raise SyncOff
    if not lost:
        raise NothingToConfirm
    standing = await desk.standing()
    old, key = standing.state.device, desk.secrets.signing_key()
    old_secrets = DeviceSecrets(DeviceKey(old, bytearray(desk.secrets.key.secrets)))
    client = await desk.sync.new_client(
        connection.url, ca_file=connection.ca_file, proxy=connection.proxy
    )
    try:
        client.identify(standing.state.vault, old_secrets, connection.server_key)
        chain = await entries_after(client, -1)
        roster = found(chain[0], standing.state.vault).verify(chain[1:])
        last = standing.last_of(old)
        for _ in range(ATTEMPTS):
            entry = roster_entries.fork_close(
                roster, Signer(old, key, last[0]), last, own_keys(desk, grant)
            )
            try:
                await client.post_roster(entry)
            except SyncServerRefused as error:
                if error.reason == "GAP":  # rows of ours that this state does not know
                    last = _server_side(error)
                    continue
                raise
            break
        else:
            raise RosterMoved
    finally:
        old_secrets.wipe()
        await client.close()
    await _go_on(desk, (*chain, entry), roster.verify((entry,)), standing)
    await desk.sync.connect(connection)
    await desk.sync.roster_changed_here()
    return Member(standing.state.vault, desk.secrets.device, connection.url, connection.server_key)


def _server_side(error: SyncServerRefused) -> tuple[int, bytes]:
    try:
        return int(error.details["seq"]), bytes.fromhex(error.details["head"])
    except (KeyError, ValueError, TypeError):
        raise error from None


async def _go_on(
    desk: Desk, chain: tuple[SignedEntry, ...], roster: Roster, before: Standing
) -> None:
    old, device = before.state.device, desk.secrets.device
    box_secret = bytes(desk.secrets.box_key())

    def adopt(transaction: Transaction) -> None:
        with kdf.KeyMaterial() as held:
            known = _held_keys(transaction.connection, held)
            epochs = collect_keys(chain, roster, old, box_secret, known)
            for vrk in epochs.values():
                held.keep(vrk)
            enrol_again(transaction, desk.journal, chain=chain, keys=epochs)
        if old in before.names:
            names.put(transaction, {device: before.names[old]})

    await desk.write(adopt)


def _held_keys(connection: Connection, held: kdf.KeyMaterial) -> dict[int, bytearray]:
    return {
        epoch: held.keep(vrk)
        for epoch in keybag.epochs(connection)
        if (vrk := keybag.vrk(connection, epoch)) is not None
    }
