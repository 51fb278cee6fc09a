"""Clients that registered and were granted nothing are few, however many register."""

from __future__ import annotations

from memory_manager.service.logins import MAX_REGISTERED, Logins
from memory_manager.vault.store import Store


def no_vault() -> Store:
    raise AssertionError("a registration needs no vault")


async def test_a_flood_of_registrations_keeps_the_newest() -> None:
    logins = Logins(
        auto_approve=False, writable_store=no_vault, peek=lambda: None, changed=lambda: None
    )
    uris = ["http://127.0.0.1:1/cb"]
    made = [logins.register(f"client {number}", uris) for number in range(MAX_REGISTERED + 44)]
    known = [client for client in made if await logins.client(client.id) is not None]
    assert known == made[44:]
