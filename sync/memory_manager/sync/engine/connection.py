"""Where the server of a vault is and by what it is recognised; nothing of it comes from the server.

Contract: sync.md 7.4, 9. Pure.
"""

from __future__ import annotations

import dataclasses
import ipaddress
from typing import Final
from urllib.parse import urlsplit

from memory_manager.sync.engine.errors import SyncAddressRefused

_PORTS: Final = {"http": 80, "https": 443}


@dataclasses.dataclass(frozen=True, slots=True)
class ServerConnection:
    """``server_key`` is the pinned Ed25519 key; ``ca_file`` and ``proxy`` are the owner's words."""

    url: str
    server_key: bytes
    ca_file: str | None = None
    proxy: str | None = None

    @property
    def host(self) -> str:
        """``name:port`` in lower case, as login signatures bind it."""
        return host_of(self.url)


def base_url(text: str) -> str:
    """The address without a path, as it is used; SyncAddressRefused for one that is not."""
    try:
        parts = urlsplit(text.strip())
        port = parts.port or _PORTS[parts.scheme]
    except (ValueError, KeyError):
        raise SyncAddressRefused from None
    name = parts.hostname
    if not name or parts.username:
        raise SyncAddressRefused("The address of a sync server is https://, a name and a port.")
    if parts.query or parts.fragment or parts.path not in ("", "/"):
        raise SyncAddressRefused(
            "The address of a sync server ends with its port: no path is allowed behind it."
        )
    if parts.scheme != "https" and not _is_this_machine(name):
        raise SyncAddressRefused
    shown = f"[{name}]" if ":" in name else name
    return f"{parts.scheme}://{shown}:{port}"


def host_of(url: str) -> str:
    """``name:port`` of an address."""
    return base_url(url).split("://", 1)[1]


def _is_this_machine(name: str) -> bool:
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False
