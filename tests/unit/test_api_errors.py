"""One table from error codes to statuses, and the error body of xmemo.md 4.9."""

from __future__ import annotations

import importlib
import json
import pkgutil

import pytest

import memory_manager
from memory_manager.api.errors import (
    STATUS_OF_CODE,
    Fault,
    InvalidFields,
    RequestError,
    error_body,
    error_response,
    status_of,
)
from memory_manager.base.errors import MemlocketError, NotFound
from memory_manager.vault.errors import LockReason, VaultLocked, WrongPassphrase

OWN_MODULES = ("memory_manager.base.private_files",)  # errors beside what raises them
FACES = ("memory_manager.cli", "memory_manager.client", "memory_manager.sync.server")


def _error_classes() -> list[type[MemlocketError]]:
    for package in pkgutil.walk_packages(memory_manager.__path__, "memory_manager."):
        if package.name.rpartition(".")[2] == "errors":
            importlib.import_module(package.name)
    for name in OWN_MODULES:
        importlib.import_module(name)
    found: list[type[MemlocketError]] = []
    waiting = [MemlocketError]
    while waiting:
        kind = waiting.pop()
        found.append(kind)
        waiting.extend(kind.__subclasses__())
    return found


def test_every_error_that_can_reach_the_socket_has_a_status() -> None:
    missing = {
        kind.code
        for kind in _error_classes()
        if kind.code not in STATUS_OF_CODE
        and not issubclass(kind, RequestError)
        and not kind.__module__.startswith(FACES)
        and not kind.__module__.startswith(("memory_manager.recall.models", "test"))
    }
    assert missing == set()


def test_no_status_is_kept_for_an_error_that_is_gone() -> None:
    assert set(STATUS_OF_CODE) <= {kind.code for kind in _error_classes()}


def test_locked_is_a_503_that_says_when_to_come_back() -> None:
    response = error_response(VaultLocked(LockReason.IDLE), "r1")
    assert (response.status, response.headers["Retry-After"]) == (503, "5")
    body = json.loads(response.body or b"")
    assert body["error"]["code"] == "vault_locked"
    assert body["error"]["reason"] == "idle"
    assert body["request_id"] == "r1"
    assert body["detail"] == "The vault is locked."


def test_a_wrong_passphrase_says_how_long_to_wait() -> None:
    response = error_response(WrongPassphrase(retry_after_seconds=4), "r1")
    assert (response.status, response.headers["Retry-After"]) == (403, "4")


def test_field_faults_are_an_array() -> None:
    error = InvalidFields([Fault("body", "content", "field required", "missing")])
    assert error_body(error, "r1")["detail"] == [
        {"loc": ["body", "content"], "msg": "field required", "type": "missing"}
    ]
    assert status_of(error) == 422


@pytest.mark.parametrize("error", [NotFound(), MemlocketError()])
def test_a_plain_error_is_a_sentence(error: MemlocketError) -> None:
    assert error_body(error, "r1")["detail"] == error.message
