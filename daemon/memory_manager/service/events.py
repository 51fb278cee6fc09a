"""What happens in the daemon, told once to everybody who listens: log, caches, pages, tray."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable


@dataclasses.dataclass(frozen=True, slots=True)
class VaultUnlocked:
    """Memories can be read from now on."""

    unlock_source: str | None


@dataclasses.dataclass(frozen=True, slots=True)
class VaultClosing:
    """The vault is being locked: drop everything that came out of it."""


@dataclasses.dataclass(frozen=True, slots=True)
class CredentialsChanged:
    """A credential was issued or revoked: ask the database again."""


@dataclasses.dataclass(frozen=True, slots=True)
class StopRequested:
    """Somebody with the right to do so asked the daemon to end."""

    reason: str


Event = VaultUnlocked | VaultClosing | CredentialsChanged | StopRequested
Listener = Callable[[Event], None]


class EventBus:
    """Calls every listener in order of subscription, on the event loop. Listeners return fast."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def publish(self, event: Event) -> None:
        for listener in list(self._listeners):
            listener(event)
