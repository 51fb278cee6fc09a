"""What the checks found out about one request, for its handler: caller, labels, body, door."""

from __future__ import annotations

import dataclasses
import enum
from typing import Final

from aiohttp import web

from memory_manager.api.strict_json import parse_object, parse_value
from memory_manager.auth.agent_identity import AgentIdentity
from memory_manager.auth.scopes import ALL_SCOPES, Scope
from memory_manager.base.errors import MemlocketError
from memory_manager.base.identifiers import CredentialId
from memory_manager.vault.rows import Attribution

_CALL: Final = web.RequestKey("call", object)
_NOBODY: Final = AgentIdentity()
OWNER_CREDENTIAL: Final = CredentialId("owner")


class Door(enum.StrEnum):
    UNIX = "unix"
    TCP = "tcp"


class Access(enum.Enum):
    """What a route asks of its caller (desktop.md 11.4, xmemo.md 4.3)."""

    OPEN = "open"
    CREDENTIAL = "credential"  # any valid credential
    OPTIONAL = "optional"  # without one as well; the operation decides what it then may
    READ = "read"
    WRITE = "write"
    RESTORE = "restore"
    LEDGER_READ = "ledger_read"
    LEDGER_WRITE = "ledger_write"
    LOCAL = "local"  # door 1 without a credential, or the owner
    OWNER = "owner"
    MCP = "mcp"  # any valid credential; with a closed vault the tools say so, not the route


@dataclasses.dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. ``credential_id`` is None for a caller without a credential on door 1.

    ``unchecked``: why the vault could not tell whose credential this is; only where Access.MCP
    lets such a request in, and then nothing but that refusal may be answered from the vault.
    """

    credential_id: CredentialId | None = None
    name: str | None = None
    scopes: frozenset[Scope] = frozenset()
    is_owner: bool = False
    expires_at_ms: int | None = None  # of an access token
    unchecked: MemlocketError | None = None


_NEEDED: Final = {
    Access.READ: frozenset({Scope.MEMORY_READ}),
    Access.WRITE: frozenset({Scope.MEMORY_WRITE}),
    Access.RESTORE: frozenset({Scope.MEMORY_RESTORE, Scope.MEMORY_WRITE}),
    Access.LEDGER_READ: frozenset({Scope.LEDGER_READ}),
    Access.LEDGER_WRITE: frozenset({Scope.LEDGER_WRITE}),
}


def may(caller: Caller, access: Access) -> bool:
    """Whether a caller with a credential has this right: the owner every one, else by scope."""
    if caller.is_owner or access in (Access.CREDENTIAL, Access.MCP, Access.OPTIONAL):
        return True
    return bool(_NEEDED.get(access, frozenset()) & caller.scopes)


ANONYMOUS: Final = Caller()
OWNER: Final = Caller(OWNER_CREDENTIAL, "owner", ALL_SCOPES, is_owner=True)


@dataclasses.dataclass(slots=True)
class Call:
    """One request after the checks; ``body`` is raw and at most 1 MiB."""

    request_id: str
    door: Door
    base_url: str
    caller: Caller = ANONYMOUS
    identity: AgentIdentity = _NOBODY
    body: bytes = dataclasses.field(default=b"", repr=False)

    def json_object(self) -> dict[str, object]:
        """The body as an object; InvalidJson if it is none."""
        return parse_object(self.body)

    def json_value(self) -> object:
        return parse_value(self.body)

    @property
    def attribution(self) -> Attribution:
        return Attribution(self.identity, self.caller.credential_id, self.caller.name)


def attach_call(request: web.Request, call: Call) -> None:
    request[_CALL] = call


def call_of(request: web.Request) -> Call:
    """The Call of a request that passed the checks."""
    call = request[_CALL]
    if not isinstance(call, Call):
        raise TypeError("the checks did not run")
    return call
