"""A grant that was checked against the roster, together with the very bytes it covers.

``VerifiedGrant`` is made here only: whoever has one may hand these bytes to ``egress.send_row``.
"""

from __future__ import annotations

from typing import Final

from memory_manager.sync.optin.errors import GrantBroken
from memory_manager.sync.wire.envelope import Dot
from memory_manager.sync.wire.grants import Grant, SignedGrant, grant_fits
from memory_manager.sync.wire.roster import Member

_KEY: Final = object()


class VerifiedGrant:
    """Obtained from ``verify_grant``; ValueError when it is made any other way."""

    __slots__ = ("_document", "_signed")

    def __init__(self, key: object, signed: SignedGrant, document: bytes) -> None:
        if key is not _KEY:
            raise ValueError("a grant is verified by verify_grant")
        self._signed = signed
        self._document = document

    @property
    def signed(self) -> SignedGrant:
        return self._signed

    @property
    def grant(self) -> Grant:
        return self._signed.grant

    @property
    def document(self) -> bytes:
        """The exact bytes the owner was shown."""
        return self._document


def verify_grant(
    signed: SignedGrant,
    document: bytes,
    *,
    vault: bytes,
    member: Member | None,
    server_key: bytes,
    record: bytes,
    dot: Dot,
    now: int,
) -> VerifiedGrant:
    """GrantBroken unless both keys of ``member`` signed exactly these bytes of this revision, for
    this server and this vault, and the grant has not expired at ``now`` (Unix seconds).
    """
    fits = member is not None and grant_fits(
        signed,
        vault=vault,
        member=member,
        server_key=server_key,
        record=record,
        dot=dot,
        shown=document,
        now=now,
    )
    if not fits:
        raise GrantBroken
    return VerifiedGrant(_KEY, signed, document)
