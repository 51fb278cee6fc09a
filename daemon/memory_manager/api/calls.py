"""What the checks found out about one request, for its handler: caller, labels, body, door."""

from __future__ import annotations

import dataclasses
import enum
from typing import Final

from aiohttp import web

from memory_manager.api.strict_json import parse_object, parse_value
from memory_manager.auth.agent_identity import AgentIdentity
from memory_manager.auth.scopes import ALL_SCOPES, Scope
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
    READ = "read"
    WRITE = "write"
    LOCAL = "local"  # door 1 without a credential, or the owner
    OWNER = "owner"


@dataclasses.dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. ``credential_id`` is None for a caller without a credential on door 1."""

    credential_id: CredentialId | None = None
    name: str | None = None
    scopes: frozenset[Scope] = frozenset()
    is_owner: bool = False


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
