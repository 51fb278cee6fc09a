"""The grant inside a copy: it travels in the row's ciphertext, so every device can check it.

A copy without a good grant is no opt-in, whoever wrote it (redaction.md 11.3).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from memory_manager.security.envelope import OPT_IN_KEY
from memory_manager.sync.errors import MalformedMessage
from memory_manager.sync.ledger import sealed_rows, state
from memory_manager.sync.optin import table
from memory_manager.sync.optin.documents import document_of_payload
from memory_manager.sync.optin.errors import GrantBroken
from memory_manager.sync.optin.verified import verify_grant
from memory_manager.sync.wire import canonical, labels
from memory_manager.sync.wire.canonical import hex_bytes
from memory_manager.sync.wire.envelope import Dot
from memory_manager.sync.wire.grants import SignedGrant, read_grant
from memory_manager.sync.wire.index_document import OPTED_IN

if TYPE_CHECKING:
    from sqlcipher3.dbapi2 import Connection

    from memory_manager.sync.wire.roster import Roster

GRANT_MEMBER: Final = "index_grant"
_LIVE: Final = "SELECT device, seq FROM revision WHERE record = ? AND superseded = 0"


def copy_fields(signed: SignedGrant) -> dict[str, Any]:
    """What an opted-in copy has beside, or instead of, the members of a memory."""
    return {
        GRANT_MEMBER: {
            "grant": canonical.decode(signed.grant.document()),
            "sig_device": signed.by_device.hex(),
            "sig_grant": signed.by_owner.hex(),
        },
        OPT_IN_KEY: True,
        **OPTED_IN.as_json(),
    }


def is_granted(connection: Connection, roster: Roster, record: bytes) -> bool:
    """Whether the owner granted the one live revision of this record, when it was made."""
    own = table.of_record(connection, record)
    if own is not None and own.state in table.LIVE and own.signed is not None:
        return True
    rows = connection.execute(_LIVE, (record,)).fetchall()
    if len(rows) != 1:
        return False
    dot = Dot(*rows[0])
    payload, member = sealed_rows.payload_of(connection, dot), roster.members.get(dot.device)
    if payload is None or member is None or (member.cut is not None and dot.seq > member.cut):
        return False
    found = state.require(connection)
    try:
        verify_grant(
            _signed(payload.fields[GRANT_MEMBER]),
            document_of_payload(payload.fields).encode(),
            vault=found.vault,
            member=dataclasses.replace(member, cut=None),  # what it wrote before its end counts
            server_key=found.server_key,
            record=record,
            dot=dot,
            now=0,  # a grant that expired after it was used stays one
        )
    except (GrantBroken, MalformedMessage, ValueError, TypeError, KeyError):
        return False
    return True


def was_taken_back(connection: Connection, record: bytes) -> bool:
    """Whether our log has a copy of this name that was tombstoned: the server forgets it soon."""
    found = connection.execute(
        "SELECT 1 FROM revision WHERE record = ? AND deletion IS NOT NULL", (record,)
    ).fetchone()
    return found is not None


def _signed(members: Mapping[str, Any]) -> SignedGrant:
    return SignedGrant(
        read_grant(canonical.encode(members["grant"])),
        hex_bytes(members["sig_device"], labels.SIGNATURE_BYTES),
        hex_bytes(members["sig_grant"], labels.SIGNATURE_BYTES),
    )
