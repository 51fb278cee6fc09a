"""What a sync server is started with: arguments before environment before defaults.

Every setting is also ``MEMLOCKET_SERVER_`` and its name in capitals. A setting that would put
plain HTTP on a network is refused here, before anything is opened.
"""

from __future__ import annotations

import dataclasses
import ipaddress
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

from memory_manager.sync.server.errors import SettingsRefused
from memory_manager.sync.wire.enrolment import MAILBOX_SECONDS

T = TypeVar("T")

ENVIRONMENT_PREFIX: Final = "MEMLOCKET_SERVER_"
DEFAULT_PORT: Final = 8443
SESSION_SECONDS: Final = 900
NONCE_SECONDS: Final = 60

_ADDRESS: Final = re.compile(r"(?:\[([0-9a-fA-F:.]+)\]|([^\[\]:/\s@]+)):(\d{1,5})")


@dataclasses.dataclass(frozen=True, slots=True)
class Address:
    """``host`` without brackets and a port; 0 takes a free one."""

    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


@dataclasses.dataclass(frozen=True, slots=True)
class Quotas:
    """Limits that an operator may set. ``rows`` and ``bytes`` of one vault for ever; the
    ``_per_minute`` ones refill all the time.
    """

    rows: int = 10_000_000
    bytes: int = 20 << 30
    devices: int = 64
    entries_per_minute: int = 300_000
    requests_per_minute: int = 3_000  # of one session's device
    logins_per_minute: int = 600  # of one IP: challenge, session, vault creation, mailbox
    mailboxes_per_ip: int = 20
    mailboxes_per_minute: int = 1_000  # of everybody: they need no session and fill a disk
    notify_per_device: int = 4


@dataclasses.dataclass(frozen=True, slots=True)
class Limits:
    """Bounds against slow and many clients. Times in seconds."""

    connections: int = 2_000
    connections_per_address: int = 200  # not behind a proxy, where all come from one
    header_seconds: float = 10.0
    body_seconds: float = 60.0
    send_seconds: float = 120.0
    keep_alive_seconds: float = 75.0
    ping_seconds: float = 30.0
    finish_seconds: float = 10.0
    session_seconds: int = SESSION_SECONDS
    nonce_seconds: int = NONCE_SECONDS
    mailbox_seconds: int = MAILBOX_SECONDS


@dataclasses.dataclass(frozen=True, slots=True)
class ServerSettings:
    """One server process. ``public_host`` is what clients put into their URL, ``name:port`` in
    lower case; None: the listening address. ``metrics`` None: no metrics. ``models``
    is a folder of prepared embedding models for opted-in rows; None: found by words only.
    """

    data: Path
    listen: Address = Address("127.0.0.1", DEFAULT_PORT)
    public_host: str | None = None
    database_url: str | None = dataclasses.field(default=None, repr=False)
    open_registration: bool = False
    behind_proxy: bool = False
    tls_cert: Path | None = None
    tls_key: Path | None = None
    metrics: Address | None = None
    models: Path | None = None
    quotas: Quotas = Quotas()
    limits: Limits = Limits()

    def __post_init__(self) -> None:
        if (self.tls_cert is None) != (self.tls_key is None):
            raise SettingsRefused("--tls-cert and --tls-key go together.")
        if self.tls_cert is not None or self.behind_proxy:
            return
        for address in filter(None, (self.listen, self.metrics)):
            if address.is_loopback:
                continue
            raise SettingsRefused(
                f"{address} can be reached from other machines, and there is no TLS.",
                hint="Give --tls-cert and --tls-key, or say --behind-proxy if a proxy in front"
                " of this server does TLS.",
            )

    def public_name(self, port: int) -> str:
        """``name:port`` that login signatures are bound to, once the port is known."""
        return self.public_host or str(Address(self.listen.host, port)).lower()


def parse_address(text: str) -> Address:
    """``HOST:PORT``, an IPv6 host in brackets; SettingsRefused otherwise."""
    match = _ADDRESS.fullmatch(text.strip())
    if match is None or int(match[3]) > 65_535:
        raise SettingsRefused(f"{text!r} is not HOST:PORT.")
    return Address(match[1] or match[2], int(match[3]))


def _public(text: str) -> str:
    address = parse_address(text)
    if address.port == 0:
        raise SettingsRefused("--public-host needs the port that clients use.")
    return str(address).lower()


def _switch(text: str) -> bool:
    word = text.strip().lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("", "0", "false", "no", "off"):
        return False
    raise SettingsRefused(f"{text!r} is neither yes nor no.")


def _whole(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text)):
        raise SettingsRefused(f"{text!r} is not a whole number from 1 on.")
    return int(text)


def _seconds(text: str) -> float:
    try:
        number = float(text)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise SettingsRefused(f"{text!r} is not a number above 0.")
    return number


_PARSERS: Final[Mapping[str, Callable[[str], object]]] = {
    "data": Path,
    "listen": parse_address,
    "public_host": _public,
    "database_url": str,
    "open_registration": _switch,
    "behind_proxy": _switch,
    "tls_cert": Path,
    "tls_key": Path,
    "metrics": parse_address,
    "models": Path,
}


def read_settings(
    given: Mapping[str, str | bool | None], environ: Mapping[str, str]
) -> ServerSettings:
    """Settings of a start; ``given`` are arguments, None where one was left out.

    Quotas and limits stand in the environment only, such as ``MEMLOCKET_SERVER_QUOTA_ROWS`` and
    ``MEMLOCKET_SERVER_LIMIT_BODY_SECONDS``. SettingsRefused names what is wrong.
    """
    found: dict[str, object] = {}
    for name, parse in _PARSERS.items():
        value = given.get(name)
        if value is None:
            value = environ.get(ENVIRONMENT_PREFIX + name.upper()) or None
        if value is not None:
            found[name] = value if isinstance(value, bool) else _named(name, parse, value)
    if "data" not in found:
        raise SettingsRefused(
            "The server needs a folder of its own.",
            hint=f"Give --data DIR, or set {ENVIRONMENT_PREFIX}DATA.",
        )
    found["quotas"] = Quotas(**_numbers(Quotas, "QUOTA_", environ))
    found["limits"] = Limits(**_numbers(Limits, "LIMIT_", environ))
    return ServerSettings(**found)  # type: ignore[arg-type]  # parsed by name above


def _numbers(
    kind: type[Quotas] | type[Limits], prefix: str, environ: Mapping[str, str]
) -> dict[str, Any]:
    """The numbers of one group that the environment sets."""
    found: dict[str, Any] = {}
    for field in dataclasses.fields(kind):
        name = prefix + field.name.upper()
        if text := environ.get(ENVIRONMENT_PREFIX + name):
            parse: Callable[[str], object] = _whole if field.type == "int" else _seconds
            found[field.name] = _named(name, parse, text)
    return found


def _named(name: str, parse: Callable[[str], T], text: str) -> T:
    try:
        return parse(text)
    except SettingsRefused as error:
        raise SettingsRefused(f"{name.lower()}: {error.message}") from None
