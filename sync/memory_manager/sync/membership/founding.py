"""The first device: a new vault on a server, and the acts of its members (sync.md 7.4, 8)."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Final

from memory_manager.base.errors import InvalidInput, MemlocketError
from memory_manager.sync.engine import own_state
from memory_manager.sync.engine.answers import Created
from memory_manager.sync.engine.client import SyncClient
from memory_manager.sync.engine.connection import ServerConnection, base_url
from memory_manager.sync.engine.errors import (
    RegistrationRefused,
    SyncServerRefused,
    SyncUnreachable,
)
from memory_manager.sync.errors import ServerKeyChanged, SyncCode, SyncRefused
from memory_manager.sync.ledger import device_names, kept_founding, marks, state
from memory_manager.sync.ledger.founding import enrol_again, turn_on
from memory_manager.sync.ledger.kept_founding import KeptFounding
from memory_manager.sync.membership import acts, roster_entries
from memory_manager.sync.membership.desk import Desk, note_words
from memory_manager.sync.membership.errors import SyncAlreadyOn
from memory_manager.sync.membership.roster_entries import PaperDevice, Signer
from memory_manager.sync.wire import labels
from memory_manager.sync.wire.enrolment import NO_GRANT_KEY, NewKeys
from memory_manager.sync.wire.log import FIRST_GLOBAL_HEAD, ServerHead, server_head_verifies
from memory_manager.sync.wire.roster import Role, SignedEntry
from memory_manager.vault import kdf

if TYPE_CHECKING:
    from memory_manager.vault.transaction import Transaction

NOT_YET_HINT: Final = (
    "Check the address and its port, and whether the server runs; then run this again."
)
NOT_LIKE_THIS: Final = (
    "This memory is shared now, as an earlier attempt asked for it: the recovery words and the"
    " passphrase of this one did not get through."
)
NOT_LIKE_THIS_HINT: Final = "Once it answers: memlocket sync words, and memlocket sync grant-key"
KEY_DIGITS: Final = 2 * labels.HASH_BYTES


@dataclasses.dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where the server is and, if the owner named it, its key or the six words of it.

    ``proxy`` is the owner's word.
    """

    url: str
    key: bytes | tuple[str, ...] | None = None
    ca_file: str | None = None
    proxy: str | None = None

    def connection(self, key: bytes) -> ServerConnection:
        return ServerConnection(base_url(self.url), key, self.ca_file, self.proxy)


@dataclasses.dataclass(frozen=True, slots=True)
class Enrolled:
    """This device after it became one: what a recovery sheet needs."""

    vault: bytes
    device: bytes
    server: str
    server_key: bytes

    def as_json(self) -> dict[str, object]:
        return {
            "vault": self.vault.hex(),
            "device": self.device.hex(),
            "server": self.server,
            "server_key": self.server_key.hex(),
            "server_words": list(labels.server_words(self.server_key)),
        }


def parse_server_key(text: str) -> bytes | tuple[str, ...]:
    """64 hex digits or six words; InvalidInput otherwise."""
    words = tuple(text.lower().split())
    if len(words) == len(labels.word_indices(bytes(labels.HASH_BYTES))):
        return words
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) != labels.HASH_BYTES:
        raise InvalidInput(
            f"A server key is six words or {KEY_DIGITS} hex digits.", field="server_key"
        )
    return key


def own_keys(desk: Desk, grant: bytes | None) -> NewKeys:
    """The public half of this device; ``grant`` is the public half of its GSK, if it has one."""
    secrets = desk.secrets
    return NewKeys(
        secrets.device,
        bytes(secrets.signing_key().verify_key),
        bytes(secrets.box_key().public_key),
        grant or NO_GRANT_KEY,
    )


async def named_key(client: SyncClient, address: ServerAddress) -> bytes:
    """The key that the server shows; ServerKeyChanged when the owner named another one."""
    server_key, named = await client.server_key(), address.key
    seen = labels.server_words(server_key)
    if named is not None and named not in (server_key, seen):
        expected = named if isinstance(named, tuple) else labels.server_words(named)
        raise ServerKeyChanged(expected, seen)
    return server_key


@contextlib.asynccontextmanager
async def visiting(desk: Desk, address: ServerAddress) -> AsyncGenerator[SyncClient]:
    """A client of a server, for the length of the block; its key is not pinned by itself."""
    client = await desk.sync.new_client(address.url, ca_file=address.ca_file, proxy=address.proxy)
    try:
        yield client
    except SyncUnreachable as error:
        if error.hint == SyncUnreachable.default_hint:  # nothing runs yet that would try again
            error.hint = NOT_YET_HINT
        raise
    finally:
        await client.close()


async def require_off(desk: Desk) -> None:
    """SyncAlreadyOn for a vault that has a server."""
    if await desk.state() is not None:
        raise SyncAlreadyOn


async def require_outside(desk: Desk) -> None:
    """SyncAlreadyOn for a member; a restored vault is none any more, whatever it remembers."""
    if await desk.state() is not None and not await desk.sync.store.read(state.must_enrol_again):
        raise SyncAlreadyOn


async def found_vault(
    desk: Desk,
    address: ServerAddress,
    registration_token: str,
    *,
    name: str,
    grant: bytes | None,
    paper: PaperDevice | None,
) -> Enrolled:
    """Create the vault on the server with this device as its first; sync runs from now on.

    SyncRefused(SERVER_KEY) when the server is not the one that was named, RegistrationRefused for
    a token that is none; ``registration_token`` is empty where the server lets everybody in.
    Repeated after an answer that never came, it goes on with the vault that the server has.
    """
    await require_off(desk)
    keys = own_keys(desk, grant)
    with kdf.KeyMaterial() as held:
        async with visiting(desk, address) as client:
            server_key = await named_key(client, address)
            founding, again = await _kept(desk, server_key, keys, paper)
            held.keep(founding.vrk)
            created = await _created(desk, client, registration_token, founding, again)
        vault, empty = founding.vault, created.head.value
        if created.server_key != server_key or not server_head_verifies(
            vault, empty, created.head.signature, server_key
        ):
            raise SyncRefused(SyncCode.SERVER_KEY)
        if (created.vault, empty.n, empty.g) != (vault, 0, FIRST_GLOBAL_HEAD):
            raise SyncRefused(SyncCode.ROLLBACK)
        member = await become_member(
            desk,
            address,
            server_key,
            vault,
            (founding.genesis,),
            {1: founding.vrk},
            {keys.device: name},
            mark=True,
        )
    if again:
        await _as_asked_now(desk, grant, paper)
    return member


async def _kept(
    desk: Desk, server_key: bytes, keys: NewKeys, paper: PaperDevice | None
) -> tuple[KeptFounding, bool]:
    """What to ask this server for, and whether it was asked before: then the very same again.

    It is in the vault before the server hears of it. Another server gets another vault.
    """
    if paper is not None:
        await note_words(desk, paper)
    before = await desk.sync.store.read(
        lambda connection: kept_founding.read(connection, server_key)
    )
    if before is not None:
        return before, True
    vrk = kdf.new_key()
    signer = Signer(keys.device, desk.secrets.signing_key())
    vault, genesis = roster_entries.genesis(signer, keys, paper, vrk)
    founding = KeptFounding(server_key, vault, genesis, vrk)
    await desk.write(lambda transaction: kept_founding.put(transaction, founding))
    return founding, False


async def _created(
    desk: Desk, client: SyncClient, registration_token: str, founding: KeptFounding, again: bool
) -> Created:
    try:
        return await client.create_vault(registration_token, founding.genesis)
    except SyncServerRefused as error:
        no_token, used = error.reason == "REGISTRATION", error.reason == "VAULT_EXISTS"
        if used or (no_token and not again):  # nothing at the server waits for this device
            await desk.write(kept_founding.forget)
        if no_token:
            raise RegistrationRefused(error.status) from None
        raise


async def _as_asked_now(desk: Desk, grant: bytes | None, paper: PaperDevice | None) -> None:
    """The words and the grant key of this attempt, where the first one was made with others."""
    roster = (await desk.standing()).roster
    words = {member.id for member in roster.active() if member.role is Role.RECOVERY}
    try:
        if words != ({paper.keys.device} if paper else set()):
            await acts.replace_words(desk, paper)
        if grant not in (None, roster.members[desk.secrets.device].grant):
            await acts.announce_grant_key(desk, grant)
    except MemlocketError as error:
        error.message, error.hint = NOT_LIKE_THIS, NOT_LIKE_THIS_HINT
        raise


async def become_member(
    desk: Desk,
    address: ServerAddress,
    server_key: bytes,
    vault: bytes,
    chain: tuple[SignedEntry, ...],
    keys: Mapping[int, kdf.SecretBytes],
    called: Mapping[bytes, str],
    *,
    expected: ServerHead | None = None,
    mark: bool = False,
) -> Enrolled:
    """Write the first rows of the ledger, or go on in it, and start syncing; local rows are sealed.

    ``expected`` is a head that the log has to come to. ``mark``: this device changed the list, and
    its first row says so, and how it is called.
    """
    connection = address.connection(server_key)

    def adopt(transaction: Transaction) -> None:
        known = state.read(transaction.connection)
        if known is None:
            turn_on(
                transaction,
                desk.journal,
                vault=vault,
                server_url=connection.url,
                server_key=server_key,
                chain=chain,
                keys=keys,
            )
        elif known.vault == vault:  # restored: what was verified stays
            enrol_again(transaction, desk.journal, chain=chain, keys=keys)
        else:
            raise SyncAlreadyOn("This vault belongs to another shared memory.")
        own_state.reach_by(transaction, connection)
        device_names.put(transaction, called)
        if mark:
            marks.write_mark(transaction)
        if expected is not None:
            own_state.expect(transaction, expected)

    await desk.write(adopt)
    await desk.sync.connect(connection)
    return Enrolled(vault, desk.secrets.device, connection.url, server_key)
