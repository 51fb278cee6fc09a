"""Sessions and mailboxes: statements inside a transaction of the caller's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from memory_manager.sync.server.postgres.vaults import device_state
from memory_manager.sync.server.refusals import (
    DeviceCut,
    MailAbsent,
    MailboxesFull,
    MailGone,
    MailTaken,
    NonceUsed,
    SessionEnd,
    SessionRefused,
)
from memory_manager.sync.server.storage import SESSION_MEMORY_MS, MailSide, Session, Usage
from memory_manager.sync.wire.roster import Role

if TYPE_CHECKING:
    from memory_manager.sync.server.postgres.database import Line


async def open_session(
    line: Line, vault: bytes, device: bytes, nonce: bytes, token_hash: bytes, expires_at_ms: int
) -> int:
    # the update holds the device's row: two logins, or a login and a cut, come one after the other
    epoch: int | None = await line.fetchval(
        "UPDATE device SET session_epoch = session_epoch + 1"
        " WHERE vault = $1 AND id = $2 AND cut IS NULL RETURNING session_epoch",
        vault,
        device,
    )
    if epoch is None:
        await device_state(line, vault, device)  # DeviceUnknown
        raise DeviceCut
    made = await line.fetchval(
        "INSERT INTO session VALUES ($1, $2, $3, $4, $5, $6)"
        " ON CONFLICT(vault, nonce) DO NOTHING RETURNING 1",
        token_hash,
        vault,
        device,
        epoch,
        nonce,
        expires_at_ms,
    )
    if made is None:
        raise NonceUsed
    return epoch


async def find_session(line: Line, token_hash: bytes, now_ms: int) -> Session:
    row = await line.fetchrow(
        "SELECT session.vault, session.device, device.role, session.epoch,"
        " session.expires_at_ms, device.session_epoch FROM session JOIN device"
        " ON device.vault = session.vault AND device.id = session.device WHERE token_hash = $1",
        token_hash,
    )
    if row is None:
        raise SessionRefused(SessionEnd.UNKNOWN)
    if row["epoch"] != row["session_epoch"]:
        raise SessionRefused(SessionEnd.SUPERSEDED)
    if row["expires_at_ms"] <= now_ms:
        raise SessionRefused(SessionEnd.EXPIRED)
    return Session(
        row["vault"], row["device"], Role(row["role"]), row["epoch"], row["expires_at_ms"]
    )


async def put_mail(
    line: Line,
    mailbox: bytes,
    side: MailSide,
    payload: bytes,
    origin: bytes,
    max_per_origin: int,
    now_ms: int,
    expires_at_ms: int,
) -> None:
    # one at a time per origin, or two could both find room for one
    await line.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", origin.hex())
    unexpired = await line.fetchval(
        "SELECT count(*) FROM mail WHERE origin = $1 AND expires_at_ms > $2", origin, now_ms
    )
    made = await line.fetchval(
        "INSERT INTO mail VALUES ($1, $2, $3, $4, $5) ON CONFLICT DO NOTHING RETURNING 1",
        mailbox,
        side.value,
        origin,
        payload,
        expires_at_ms,
    )
    if made is None:
        raise MailTaken
    if unexpired >= max_per_origin:
        raise MailboxesFull


async def take_mail(line: Line, mailbox: bytes, side: MailSide, now_ms: int) -> bytes:
    row = await line.fetchrow(
        "SELECT payload, expires_at_ms FROM mail WHERE mailbox = $1 AND side = $2 FOR UPDATE",
        mailbox,
        side.value,
    )
    if row is None:
        raise MailAbsent
    payload: bytes | None = row["payload"]
    if payload is None or row["expires_at_ms"] <= now_ms:
        raise MailGone
    await line.execute(
        "UPDATE mail SET payload = NULL WHERE mailbox = $1 AND side = $2", mailbox, side.value
    )
    return payload


async def expire(line: Line, now_ms: int) -> None:
    await line.execute("DELETE FROM session WHERE expires_at_ms <= $1", now_ms - SESSION_MEMORY_MS)
    await line.execute("DELETE FROM mail WHERE expires_at_ms <= $1", now_ms)
    await line.execute("DELETE FROM registration WHERE expires_at_ms <= $1", now_ms)


async def usage(line: Line, now_ms: int) -> Usage:
    row = await line.fetchrow(
        "SELECT (SELECT count(*) FROM vault), (SELECT count(*) FROM device WHERE cut IS NULL),"
        " (SELECT coalesce(sum(n), 0)::bigint FROM vault),"
        " (SELECT coalesce(sum(bytes), 0)::bigint FROM vault),"
        " (SELECT count(*) FROM session JOIN device ON device.vault = session.vault AND"
        " device.id = session.device WHERE expires_at_ms > $1 AND epoch = session_epoch),"
        " (SELECT count(*) FROM mail WHERE expires_at_ms > $1 AND payload IS NOT NULL)",
        now_ms,
    )
    assert row is not None  # noqa: S101  # a SELECT without FROM has one row
    return Usage(*row.values())
