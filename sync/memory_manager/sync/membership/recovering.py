"""Back with nothing but the recovery words, or on under a new id after lost state (sync.md 7.4).

The paper device signs one ``add``; everything after that this device does itself.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING

from nacl.signing import SigningKey

from memory_manager.base.errors import InvalidInput
from memory_manager.sync.engine.client import SyncClient
from memory_manager.sync.engine.device_secrets import DeviceSecrets
from memory_manager.sync.engine.errors import NothingToConfirm, SyncOff, SyncServerRefused
from memory_manager.sync.ledger import device_names, keybag, marks, state
from memory_manager.sync.ledger.founding import enrol_again
from memory_manager.sync.membership import roster_entries
from memory_manager.sync.membership.chain import entries_after
from memory_manager.sync.membership.desk import ATTEMPTS, REFUSED_LOGIN, Desk, Standing
from memory_manager.sync.membership.epoch_keys import collect_keys
from memory_manager.sync.membership.errors import RecoveryRefused, RosterMoved
from memory_manager.sync.membership.founding import (
    Enrolled,
    ServerAddress,
    become_member,
    named_key,
    own_keys,
    require_outside,
    visiting,
)
from memory_manager.sync.membership.mailbox import check_signatures, is_member
from memory_manager.sync.membership.roster_entries import PaperDevice, Signer
from memory_manager.sync.wire import labels
from memory_manager.sync.wire.enrolment import NewKeys, printable_name
from memory_manager.sync.wire.log import ServerHead, head_words
from memory_manager.sync.wire.roster import Role, Roster, SignedEntry, roster_of
from memory_manager.vault import kdf
from memory_manager.vault.device_key import DeviceKey

if TYPE_CHECKING:
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
) -> Enrolled:
    """Add this device with the words and start syncing.

    RecoveryRefused when words, vault and server do not belong together, or when the server's log
    is not the one whose words were noted. Without noted words an older log cannot be told.
    """
    await require_outside(desk)
    keys, called = own_keys(desk, grant), {desk.secrets.device: printable_name(name)}
    paper_secrets = _paper_secrets(lost.paper)
    try:
        async with visiting(desk, address) as client:
            server_key = await named_key(client, address)
            client.identify(lost.vault, paper_secrets, server_key)
            seen = None
            if lost.noted is not None:
                seen = await _check_noted(client, lost, server_key, lost.noted)
            chain, roster = await _added(client, lost, keys)
    finally:
        paper_secrets.wipe()
    with kdf.KeyMaterial() as held:
        epochs = collect_keys(chain, roster, lost.paper.keys.device, lost.paper.box_secret)
        for vrk in epochs.values():
            held.keep(vrk)
        if roster.epoch not in epochs:
            raise RecoveryRefused("The words do not open the present key of this vault.")
        return await become_member(
            desk, address, server_key, lost.vault, chain, epochs, called, expected=seen, mark=True
        )


async def _added(
    client: SyncClient, lost: Lost, keys: NewKeys
) -> tuple[tuple[SignedEntry, ...], Roster]:
    """The whole chain with an entry, signed by the words, that adds this device."""
    for _ in range(ATTEMPTS):
        chain, roster = await _chain_of(client, lost)
        if is_member(roster, keys):
            return chain, roster  # an earlier attempt got this far
        entry = roster_entries.add(roster, lost.paper.signer(), keys, None)
        try:
            await client.post_roster(entry)
        except SyncServerRefused as error:
            if error.reason == "ROSTER_HEAD":
                continue
            raise
        return (*chain, entry), roster.verify((entry,))
    raise RosterMoved


async def _chain_of(client: SyncClient, lost: Lost) -> tuple[tuple[SignedEntry, ...], Roster]:
    try:
        chain = await entries_after(client, -1)
    except SyncServerRefused as error:
        if error.status in REFUSED_LOGIN:
            raise RecoveryRefused from None
        raise
    if not chain:
        raise RecoveryRefused
    roster = roster_of(chain, lost.vault)
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
            " the server was set back, or something was taken from it.",
            hint="Ask its owner for its newest backup. Without --head you get what is left.",
        )
    if head.n != noted.n or head_words(lost.vault, head.n, head.g) != noted.words:
        raise RecoveryRefused(
            "The head words of the server's log are others than those on the sheet.",
            hint="Check row and words on the sheet; if they are right, do not trust the server.",
        )
    return head


def _paper_secrets(paper: PaperDevice) -> DeviceSecrets:
    return DeviceSecrets(
        DeviceKey(paper.keys.device, bytearray(bytes(paper.signing) + bytes(paper.box_secret)))
    )


async def renew(desk: Desk, *, grant: bytes | None) -> Enrolled:
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
    address = ServerAddress(connection.url, ca_file=connection.ca_file, proxy=connection.proxy)
    try:
        async with visiting(desk, address) as client:
            client.identify(standing.state.vault, old_secrets, connection.server_key)
            successor = own_keys(desk, grant)
            try:
                chain = await _closed(client, standing, key, successor)
            except SyncServerRefused as error:
                if error.status not in REFUSED_LOGIN:
                    raise
                client.identify(standing.state.vault, desk.secrets, connection.server_key)
                chain = await _closed_before(client, standing, successor)
                if not chain:
                    raise
    finally:
        old_secrets.wipe()
    await _go_on(desk, chain, standing)
    await desk.sync.connect(connection)
    return Enrolled(
        standing.state.vault, desk.secrets.device, connection.url, connection.server_key
    )


async def _closed(
    client: SyncClient, standing: Standing, key: SigningKey, successor: NewKeys
) -> tuple[SignedEntry, ...]:
    """The whole chain with the entry that ends the old log where the server has its last row."""
    old = standing.state.device
    last = standing.last_of(old)
    for _ in range(ATTEMPTS):
        chain = await entries_after(client, -1)
        roster = roster_of(chain, standing.state.vault)
        entry = roster_entries.fork_close(roster, Signer(old, key, last[0]), last, successor)
        try:
            await client.post_roster(entry)
        except SyncServerRefused as error:
            if error.reason == "GAP":  # rows of ours that this state does not know
                last = _server_side(error)
                continue
            if error.reason == "ROSTER_HEAD":
                continue
            raise
        return (*chain, entry)
    raise RosterMoved


async def _closed_before(
    client: SyncClient, standing: Standing, successor: NewKeys
) -> tuple[SignedEntry, ...]:
    """The whole chain where an earlier attempt got this far; nothing where the server does not know
    the new id either.
    """
    try:
        chain = await entries_after(client, -1)
    except SyncServerRefused as error:
        if error.status not in REFUSED_LOGIN:
            raise
        return ()
    return chain if is_member(roster_of(chain, standing.state.vault), successor) else ()


def _server_side(error: SyncServerRefused) -> tuple[int, bytes]:
    try:
        return int(error.details["seq"]), bytes.fromhex(error.details["head"])
    except (KeyError, ValueError, TypeError):
        raise error from None


async def _go_on(desk: Desk, chain: tuple[SignedEntry, ...], before: Standing) -> None:
    old, device = before.state.device, desk.secrets.device
    roster = roster_of(chain, before.state.vault)
    box_secret = bytes(desk.secrets.box_key())

    def adopt(transaction: Transaction) -> None:
        with kdf.KeyMaterial() as held:
            epochs = keybag.keep_all(transaction.connection, held)
            for member in (old, device):  # a rotation since an earlier attempt names the new id
                epochs = collect_keys(chain, roster, member, box_secret, epochs)
                for vrk in epochs.values():
                    held.keep(vrk)
            enrol_again(transaction, desk.journal, chain=chain, keys=epochs)
        if old in before.names:
            device_names.put(transaction, {device: before.names[old]})
        marks.write_mark(transaction)

    await desk.write(adopt)
