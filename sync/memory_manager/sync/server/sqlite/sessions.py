"""Sessions and mailboxes: statements inside a transaction of the caller's."""

from __future__ import annotations

import sqlite3

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
from memory_manager.sync.server.sqlite.vaults import device_state
from memory_manager.sync.server.storage import SESSION_MEMORY_MS, MailSide, Session, Usage
from memory_manager.sync.wire.roster import Role


def open_session(
    connection: sqlite3.Connection,
    vault: bytes,
    device: bytes,
    nonce: bytes,
    token_hash: bytes,
    expires_at_ms: int,
) -> int:
    member = device_state(connection, vault, device)
    if not member.is_active:
        raise DeviceCut
    if connection.execute(
        "SELECT 1 FROM session WHERE vault = ? AND nonce = ?", (vault, nonce)
    ).fetchone():
        raise NonceUsed
    epoch = member.session_epoch + 1
    connection.execute(
        "UPDATE device SET session_epoch = ? WHERE vault = ? AND id = ?", (epoch, vault, device)
    )
    connection.execute(
        "INSERT INTO session VALUES (?, ?, ?, ?, ?, ?)",
        (token_hash, vault, device, epoch, nonce, expires_at_ms),
    )
    return epoch


def find_session(connection: sqlite3.Connection, token_hash: bytes, now_ms: int) -> Session:
    row = connection.execute(
        "SELECT session.vault, session.device, device.role, session.epoch,"
        " session.expires_at_ms, device.session_epoch FROM session JOIN device"
        " ON device.vault = session.vault AND device.id = session.device WHERE token_hash = ?",
        (token_hash,),
    ).fetchone()
    if row is None:
        raise SessionRefused(SessionEnd.UNKNOWN)
    vault, device, role, epoch, expires_at_ms, newest = row
    if epoch != newest:
        raise SessionRefused(SessionEnd.SUPERSEDED)
    if expires_at_ms <= now_ms:
        raise SessionRefused(SessionEnd.EXPIRED)
    return Session(vault, device, Role(role), epoch, expires_at_ms)


def put_mail(
    connection: sqlite3.Connection,
    mailbox: bytes,
    side: MailSide,
    payload: bytes,
    origin: bytes,
    max_per_origin: int,
    now_ms: int,
    expires_at_ms: int,
) -> None:
    if connection.execute(
        "SELECT 1 FROM mail WHERE mailbox = ? AND side = ?", (mailbox, side.value)
    ).fetchone():
        raise MailTaken
    (unexpired,) = connection.execute(
        "SELECT count(*) FROM mail WHERE origin = ? AND expires_at_ms > ?", (origin, now_ms)
    ).fetchone()
    if unexpired >= max_per_origin:
        raise MailboxesFull
    connection.execute(
        "INSERT INTO mail VALUES (?, ?, ?, ?, ?)",
        (mailbox, side.value, origin, payload, expires_at_ms),
    )


def take_mail(connection: sqlite3.Connection, mailbox: bytes, side: MailSide, now_ms: int) -> bytes:
    row = connection.execute(
        "SELECT payload, expires_at_ms FROM mail WHERE mailbox = ? AND side = ?",
        (mailbox, side.value),
    ).fetchone()
    if row is None:
        raise MailAbsent
    payload: bytes | None = row[0]
    if payload is None or row[1] <= now_ms:
        raise MailGone
    connection.execute(
        "UPDATE mail SET payload = NULL WHERE mailbox = ? AND side = ?", (mailbox, side.value)
    )
    return payload


def expire(connection: sqlite3.Connection, now_ms: int) -> None:
    connection.execute(
        "DELETE FROM session WHERE expires_at_ms <= ?", (now_ms - SESSION_MEMORY_MS,)
    )
    connection.execute("DELETE FROM mail WHERE expires_at_ms <= ?", (now_ms,))
    connection.execute("DELETE FROM registration WHERE expires_at_ms <= ?", (now_ms,))


def usage(connection: sqlite3.Connection, now_ms: int) -> Usage:
    figures = connection.execute(
        "SELECT (SELECT count(*) FROM vault), (SELECT count(*) FROM device WHERE cut IS NULL),"
        " (SELECT coalesce(sum(n), 0) FROM vault), (SELECT coalesce(sum(bytes), 0) FROM vault),"
        " (SELECT count(*) FROM session JOIN device ON device.vault = session.vault AND"
        " device.id = session.device WHERE expires_at_ms > ? AND epoch = session_epoch),"
        " (SELECT count(*) FROM mail WHERE expires_at_ms > ? AND payload IS NOT NULL)",
        (now_ms, now_ms),
    ).fetchone()
    return Usage(*figures)
