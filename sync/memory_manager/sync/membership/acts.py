"""What a member does to the roster: revoke, rotate, leave, new grant key, new words (sync.md 8).

All but leaving are admin acts: whoever calls them has asked for the passphrase.
"""

from __future__ import annotations

from typing import Final

from memory_manager.base.errors import InvalidInput, NotFound
from memory_manager.sync.engine.errors import SyncServerRefused, SyncUnreachable
from memory_manager.sync.errors import SyncCode, SyncRefused
from memory_manager.sync.ledger import device_names, state
from memory_manager.sync.membership import roster_entries
from memory_manager.sync.membership.desk import REFUSED_LOGIN, Desk, Standing, note_words
from memory_manager.sync.membership.devices import member_called
from memory_manager.sync.membership.errors import RosterMoved
from memory_manager.sync.membership.roster_entries import PaperDevice
from memory_manager.sync.wire import labels
from memory_manager.sync.wire.enrolment import NO_GRANT_KEY
from memory_manager.sync.wire.roster import Member, Role, SignedEntry
from memory_manager.vault import kdf

_NOTHING_WRITTEN: Final = (0, labels.ZERO_HASH)


async def revoke(desk: Desk, typed: str) -> Member:
    """End a device and shut it out of everything that is written from now on, in one entry.

    ``typed`` is a name or the beginning of an id. Rows of that device up to the last one that was
    pulled here stay; InvalidInput for this device itself, which leaves instead.
    """
    standing = await desk.standing()
    target = member_called(standing, typed)
    if target.id == desk.secrets.device:
        raise InvalidInput(
            "This is the device you are using.", field="device", hint="Use: memlocket sync leave"
        )
    await desk.pull_first()  # what it wrote until now stays readable
    with kdf.KeyMaterial() as held:

        async def build(now: Standing) -> SignedEntry | None:
            member = now.roster.members[target.id]
            if not member.is_active:
                return None
            cut = _NOTHING_WRITTEN if member.role is Role.RECOVERY else now.last_of(member.id)
            rotation = await desk.new_rotation(now, held)
            return roster_entries.revoke(now.roster, desk.signer(now), member.id, cut, rotation)

        await desk.post(build)
    return target


async def rotate(desk: Desk) -> int:
    """A new key for everything written from now on; returns its epoch."""
    with kdf.KeyMaterial() as held:

        async def build(now: Standing) -> SignedEntry | None:
            rotation = await desk.new_rotation(now, held)
            return roster_entries.rotate(now.roster, desk.signer(now), rotation)

        await desk.post(build)
    return (await desk.standing()).roster.epoch


async def leave(desk: Desk, *, anyway: bool = False) -> bool:
    """End this device's membership and its sync; its memories stay here.

    Whether the server was told: where this device was revoked already it is not, and needs not be.
    With ``anyway`` a server out of reach is no hindrance.
    """
    await desk.standing()
    told = False
    if not await desk.sync.store.read(state.must_enrol_again):
        try:
            told = await _say_goodbye(desk)
        except (SyncUnreachable, SyncRefused):
            if not anyway:
                raise
    await _forget(desk)
    return told


async def delete_shared(desk: Desk) -> None:
    """Remove the vault from the server, for all devices; an admin act. Memories stay on each."""
    await desk.standing()
    await desk.client.delete_vault()
    await _forget(desk)


async def _forget(desk: Desk) -> None:
    await desk.sync.disconnect()
    await desk.write(device_names.forget)


async def _say_goodbye(desk: Desk) -> bool:
    async def build(now: Standing) -> SignedEntry | None:
        member = now.roster.members.get(desk.secrets.device)
        if member is None or not member.is_active:
            return None
        return roster_entries.leave(now.roster, desk.signer(now))

    try:
        await desk.pull_first()  # what was written here reaches the others first
        return await desk.post(build)
    except SyncRefused as error:
        if error.reason is not SyncCode.REVOKED_DEVICE:
            raise
    except SyncServerRefused as error:
        if error.status not in REFUSED_LOGIN:
            raise
    return False


async def announce_grant_key(desk: Desk, public_key: bytes | None) -> bool:
    """Tell the others this device's new grant key; False when they know it."""

    async def build(now: Standing) -> SignedEntry | None:
        member = now.roster.members[desk.secrets.device]
        if member.grant == (public_key or NO_GRANT_KEY):
            return None
        return roster_entries.grant_key(now.roster, desk.signer(now), public_key)

    return await desk.post(build)


async def replace_words(desk: Desk, paper: PaperDevice | None) -> bool:
    """Make these recovery words the ones that recover the vault, or none; others are revoked.

    False when they were already the only ones.
    """
    if paper is not None:
        await note_words(desk, paper)
    with kdf.KeyMaterial() as held:
        added = paper is not None and await _add_words(desk, paper, held)
        kept = None if paper is None else paper.keys.device
        revoked = False
        while await _revoke_words(desk, kept, held):
            revoked = True
    return added or revoked


async def _add_words(desk: Desk, paper: PaperDevice, held: kdf.KeyMaterial) -> bool:
    async def build(now: Standing) -> SignedEntry | None:
        known = now.roster.members.get(paper.keys.device)
        if known is not None and known.is_active:
            return None
        if known is not None:
            raise NotFound("These words were revoked; make new ones.")
        present = (await desk.new_rotation(now, held)).previous
        if present is None:
            raise RosterMoved("This device has not received the present key yet.")
        return roster_entries.add_paper(now.roster, desk.signer(now), paper, present)

    return await desk.post(build)


async def _revoke_words(desk: Desk, kept: bytes | None, held: kdf.KeyMaterial) -> bool:
    """One set of words that is not the kept one; False when there is none."""

    async def build(now: Standing) -> SignedEntry | None:
        old = next(
            (
                member
                for member in now.roster.active()
                if member.role is Role.RECOVERY and member.id != kept
            ),
            None,
        )
        if old is None:
            return None
        rotation = await desk.new_rotation(now, held)
        signer = desk.signer(now)
        return roster_entries.revoke(now.roster, signer, old.id, _NOTHING_WRITTEN, rotation)

    return await desk.post(build)
