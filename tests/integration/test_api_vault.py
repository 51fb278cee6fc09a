"""The vault's states on the wire: locked, unlocked by the owner, admin acts, the retrieval gate.

xmemo.md W38, W39; vault.md 4.2, 4.3, 14, T46, T53, T54.
"""

from __future__ import annotations

import json
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sandbox_daemon import SandboxDaemon, Wire, wait_until

from memory_manager.vault.key_file import read_key_file
from memory_manager.vault.lifecycle import VaultLifecycle
from memory_manager.vault.store import Store

PASSPHRASE = "copper lantern orbit velvet mango thicket"
NEW_PASSPHRASE = "walnut summit ribbon plaza ember quartz"
DATA_ROUTES = [
    ("GET", "/v1/memories/search?query=x"),
    ("GET", "/v1/recall?query=x"),
    ("POST", "/v1/recall/context"),
    ("POST", "/v1/remember"),
    ("GET", "/v1/memories"),
    ("GET", "/v1/memories/0192f0c1-0000-7000-8000-000000000001"),
    ("GET", "/v1/memories/0192f0c1-0000-7000-8000-000000000001/explain"),
    ("POST", "/v1/memories/0192f0c1-0000-7000-8000-000000000001/forget"),
    ("GET", "/v1/auth/token/validate"),
]
BODIES: dict[str, Any] = {
    "/v1/recall/context": {"query": "x"},
    "/v1/remember": {"content": "x", "path": "p"},
}


def _send(wire: Wire, method: str, path: str) -> Any:
    return wire.send(method, path, BODIES.get(path, {}) if method == "POST" else None)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> SandboxDaemon:
    """A vault with a passphrase and a key file."""
    return SandboxDaemon(tmp_path_factory.mktemp("vault") / "home").init(PASSPHRASE)


@pytest.fixture(scope="module")
def pristine(made: SandboxDaemon) -> Path:
    """A copy of the vault's directory from before any daemon ran on it."""
    return shutil.copytree(made.home / "vault", made.home.with_name("pristine"))


@pytest.fixture(scope="module")
def guarded(made: SandboxDaemon, pristine: Path) -> Iterator[SandboxDaemon]:
    """Its daemon, started without the key file: locked until somebody enters the passphrase."""
    made.keyless = True
    with made.start():
        yield made


@pytest.fixture
def owner(guarded: SandboxDaemon) -> Iterator[Wire]:
    with guarded.owner() as wire:
        yield wire


def _unlock(owner: Wire) -> None:
    answer = owner.post("/v1/vault/unlock", {"passphrase": PASSPHRASE})
    assert (answer.status, answer.json["vault"]["state"]) == (200, "unlocked")


@pytest.fixture(scope="module")
def token(guarded: SandboxDaemon) -> str:
    with guarded.owner() as wire:
        _unlock(wire)
    return guarded.add_agent("client")


@pytest.fixture
def client(guarded: SandboxDaemon, token: str) -> Iterator[Wire]:
    with guarded.wire(token) as wire:
        yield wire


def test_a_locked_vault_is_503_and_never_an_empty_list(
    guarded: SandboxDaemon, owner: Wire, client: Wire
) -> None:
    assert owner.post("/v1/vault/lock").status == 200
    health = client.get("/health")
    assert (health.status, health.json["vault"]) == (200, "locked")
    assert client.get("/ready").status == 503
    for prefix in ("", "/api"):
        for method, path in DATA_ROUTES:
            answer = client.send(
                method, prefix + path, BODIES.get(path, {}) if method == "POST" else None
            )
            assert (answer.status, answer.code) == (503, "vault_locked"), path
            assert answer.headers["Retry-After"] == "5"
            assert answer.json["error"]["reason"] == "user"
            assert "results" not in answer.json
    with Wire(guarded.url) as nobody:
        assert nobody.get("/v1/memories").status == 401
    for method, path in DATA_ROUTES[:-1]:
        assert _send(owner, method, path).code == "vault_locked"
    status = owner.get("/v1/status")
    assert (status.status, status.json["vault"]["state"]) == (200, "locked")
    assert status.json["counts"] is None
    _unlock(owner)
    assert client.get("/v1/auth/token/validate").status == 200


def test_writes_come_through_after_the_lock(owner: Wire, client: Wire) -> None:
    stored = client.remember("written before the lock")
    assert owner.post("/v1/vault/lock", {"reason": "suspend"}).status == 200
    assert owner.get("/v1/status").json["vault"]["reason"] == "suspend"
    _unlock(owner)
    assert client.get(f"/v1/memories/{stored['id']}").status == 200
    assert client.search("before the lock")


def test_the_same_user_may_lock_without_a_credential(
    guarded: SandboxDaemon, owner: Wire, token: str
) -> None:
    with Wire(socket_path=guarded.discovery["socket"]) as anybody:
        assert anybody.post("/v1/vault/lock").status == 200
        assert anybody.get("/v1/status").json["vault"]["state"] == "locked"
        assert anybody.post("/v1/vault/unlock", {"passphrase": PASSPHRASE}).status == 401
    _unlock(owner)


def test_a_wrong_passphrase_says_when_to_try_again(owner: Wire, token: str) -> None:
    wrong = secrets.token_hex(12)
    answer = owner.post("/v1/vault/unlock", {"passphrase": wrong})
    assert (answer.status, answer.code) == (403, "wrong_passphrase")
    assert int(answer.headers["Retry-After"]) >= 1
    assert wrong not in answer.body.decode()
    wait_until(
        lambda: owner.post("/v1/vault/unlock", {"passphrase": PASSPHRASE}).status == 200,
        60,
        "the right passphrase is looked at again",
        0.5,
    )


@pytest.mark.parametrize(
    "body", [{}, {"passphrase": ""}, {"passphrase": 7}, {"recovery_words": "x"}]
)
def test_odd_unlock_bodies_are_422(owner: Wire, token: str, body: dict[str, Any]) -> None:
    assert owner.post("/v1/vault/unlock", body).status == 422


def test_an_export_needs_a_fresh_passphrase(owner: Wire, client: Wire) -> None:
    client.remember("exported text", path="x/1", metadata={"tags": ["a"]})
    owner.post("/v1/vault/lock")
    _unlock(owner)
    answer = owner.get("/v1/memories/export")
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/x-ndjson"
    lines = [json.loads(line) for line in answer.body.splitlines()]
    assert "exported text" in {line["content"] for line in lines}
    assert all(line["memlocket"] == "memory" for line in lines)


def test_a_backup_is_written_to_an_absolute_path_only(
    owner: Wire, client: Wire, tmp_path: Path
) -> None:
    _unlock(owner)
    assert owner.post("/v1/vault/backup", {"path": "relative"}).status == 422
    target = tmp_path / "vault.backup"
    answer = owner.post("/v1/vault/backup", {"path": str(target)})
    assert answer.status == 200
    assert target.stat().st_size == answer.json["size_bytes"]
    assert target.stat().st_mode & 0o777 == 0o600
    again = owner.post("/v1/vault/backup", {"path": str(target)})
    assert (again.status, again.code) == (422, "backup_refused")


def test_recovery_words_stand_in_one_answer_only(
    guarded: SandboxDaemon, owner: Wire, token: str
) -> None:
    _unlock(owner)
    words = owner.post("/v1/vault/recovery").json["recovery_words"]
    assert len(words) == 24
    assert owner.get("/v1/status").json["vault"]["recovery"] == "unconfirmed"
    assert owner.post("/v1/vault/recovery/confirm").json["vault"]["recovery"] == "confirmed"
    logged = "".join(p.read_text() for p in (guarded.home / "log").glob("*.log"))
    assert " ".join(words[:3]) not in logged


def test_the_passphrase_can_be_changed(owner: Wire, token: str) -> None:
    weak = owner.post("/v1/vault/passphrase", {"old": PASSPHRASE, "new": "password1"})
    assert (weak.status, weak.code) == (422, "weak_passphrase")
    changed = owner.post("/v1/vault/passphrase", {"old": PASSPHRASE, "new": NEW_PASSPHRASE})
    assert changed.status == 200
    try:
        owner.post("/v1/vault/lock")
        opened = owner.post("/v1/vault/unlock", {"passphrase": NEW_PASSPHRASE})
        assert opened.status == 200
    finally:
        back = owner.post("/v1/vault/passphrase", {"old": NEW_PASSPHRASE, "new": PASSPHRASE})
        assert back.status == 200


def test_the_owner_destroys_for_good_only_with_a_fresh_passphrase(
    owner: Wire, client: Wire
) -> None:
    stored = client.remember("to be destroyed")["id"]
    asked = client.post(f"/v1/memories/{stored}/forget", {"mode": "hard_delete"})
    assert asked.json["hard_delete"] == "awaiting_owner"
    _unlock(owner)
    done = owner.post(f"/v1/memories/{stored}/forget", {"mode": "hard_delete"})
    assert done.json["hard_delete"] == "done"
    assert owner.get(f"/v1/memories/{stored}/versions").status == 404
    assert client.post(f"/v1/memories/{stored}/forget").status == 200


def test_rebuilding_the_words_keeps_everything_findable(owner: Wire, client: Wire) -> None:
    client.remember("findable after a rebuild")
    answer = owner.post("/v1/recall/rebuild", {"what": "fulltext"})
    assert (answer.status, answer.json["rebuilt"]) == (200, "fulltext")
    assert client.search("findable rebuild")
    assert owner.post("/v1/recall/rebuild", {"what": "everything"}).status == 422


# --- vaults without a passphrase


def test_a_key_file_vault_refuses_admin_acts(tmp_path: Path) -> None:
    with SandboxDaemon(tmp_path / "home").init().start() as daemon, daemon.owner() as owner:
        for method, path, body in (
            ("GET", "/v1/memories/export", None),
            ("POST", "/v1/vault/backup", {"path": str(tmp_path / "b")}),
            ("POST", "/v1/vault/recovery", {}),
            ("POST", "/v1/vault/accept-rollback", {}),
        ):
            answer = owner.send(method, path, body)
            assert (answer.status, answer.code) == (403, "passphrase_required"), path
        assert owner.post("/v1/vault/passphrase", {"new": PASSPHRASE}).status == 200
        assert owner.get("/v1/memories/export").status == 200


def test_without_a_vault_everything_but_status_says_so(tmp_path: Path) -> None:
    daemon = SandboxDaemon(tmp_path / "home", keyless=True)
    daemon.home.mkdir(mode=0o700)
    with daemon.start(), daemon.owner() as owner:
        assert owner.get("/v1/status").json["vault"]["state"] == "absent"
        assert owner.get("/health").json["vault"] == "absent"
        assert owner.get("/ready").code == "no_vault"
        answer = owner.get("/v1/memories/search", query="x")
        assert (answer.status, answer.code) == (503, "no_vault")
        assert owner.post("/v1/remember", {"content": "x", "path": "p"}).code == "no_vault"


# --- the gate


def _set_visibility(daemon: SandboxDaemon, ids: list[str], visibility: str) -> None:
    """No route does this: the owner's act is made directly on the stopped vault."""
    lifecycle = VaultLifecycle(
        daemon.home / "vault",
        open_store=lambda connect, context: Store(connect, on_commit=context.on_commit),
        tick_seconds=None,
    )
    lifecycle.unlock_with_key_file(daemon.key_file)
    try:
        raw = [bytes.fromhex(memory_id.replace("-", "")) for memory_id in ids]
        lifecycle.store.submit(
            lambda transaction: transaction.connection.executemany(
                "UPDATE record SET retrieval_visibility = ? WHERE id = ?",
                [(visibility, value) for value in raw],
            )
        ).result(30)
    finally:
        lifecycle.close()


def test_hidden_rows_are_in_no_answer_and_no_count(tmp_path: Path) -> None:
    daemon = SandboxDaemon(tmp_path / "home").init()
    assert read_key_file(daemon.key_file)
    with daemon.start():
        token = daemon.add_agent("gated")
        with daemon.wire(token) as wire:
            shown = wire.remember("glacier shown", path="g")["id"]
            hidden = [wire.remember(f"glacier hidden {n}", path="g")["id"] for n in range(3)]
        daemon.stop()
        _set_visibility(daemon, hidden, "not_retrievable")
        daemon.start()
        with daemon.wire(token) as wire, daemon.owner() as owner:
            for caller in (wire, owner):
                assert [item["id"] for item in caller.search("glacier")] == [shown]
                assert [item["id"] for item in caller.search("*")] == [shown]
                # two digits of an id may be those of the day that the other row was made on
                assert {item["id"] for item in caller.search(hidden[0])} <= {shown}
                pack = caller.context("glacier")
                assert [item["id"] for item in pack["items"]] == [shown]
                assert pack["coverage"] == {"candidates": 1, "returned": 1}
                listed = caller.get("/v1/memories").json
                assert (len(listed["results"]), listed["total"]) == (1, 1)
                for method, path in (
                    ("GET", f"/v1/memories/{hidden[0]}"),
                    ("GET", f"/v1/memories/{hidden[0]}/explain"),
                    ("GET", f"/v1/memories/{hidden[0]}/versions"),
                    ("POST", f"/v1/memories/{hidden[0]}/usage"),
                    ("POST", f"/v1/memories/{hidden[0]}/forget"),
                    ("POST", f"/v1/memories/{hidden[0]}/restore"),
                ):
                    answer = caller.send(method, path, {} if method == "POST" else None)
                    assert answer.status == 404, path
                changed = caller.send("PATCH", f"/v1/memories/{hidden[0]}", {"content": "x"})
                assert changed.status == 404
            assert len(owner.get("/v1/memories", include_hidden="true").json["results"]) == 4
            assert len(wire.get("/v1/memories", include_hidden="true").json["results"]) == 1


def test_expired_rows_are_gone_too(tmp_path: Path) -> None:
    with SandboxDaemon(tmp_path / "home").init().start() as daemon:
        with daemon.wire(daemon.add_agent("brief")) as wire:
            soon = time.time() + 1.5
            moment = (
                time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(soon))
                + f".{int(soon % 1 * 1000):03d}Z"
            )
            stored = wire.remember("short lived", expires_at=moment)["id"]
            wait_until(lambda: not wire.search("short lived"), 20, "the row expired")
            assert wire.get(f"/v1/memories/{stored}").status == 404
            assert wire.send("PATCH", f"/v1/memories/{stored}", {"path": "x"}).status == 404
            assert wire.context("short lived")["items"] == []


# --- insecure key files


@pytest.mark.parametrize("fault", ["mode", "symlink", "length", "absent"])
def test_a_bad_key_file_leaves_the_vault_locked(
    made: SandboxDaemon, tmp_path: Path, fault: str, refused_status: Callable[[Path], Any]
) -> None:
    key = tmp_path / "key"
    if fault == "mode":
        key.write_bytes(made.key_file.read_bytes())
        key.chmod(0o640)
    elif fault == "symlink":
        key.symlink_to(made.key_file)
    elif fault == "length":
        key.write_bytes(b"short")
        key.chmod(0o600)
    vault = refused_status(key)
    assert vault["state"] == "locked"
    assert vault["reason"] == "key_file_refused"


@pytest.fixture
def refused_status(tmp_path: Path, pristine: Path) -> Callable[[Path], Any]:
    """Status of a daemon on a copy of the vault, started with the given key file."""

    def status(key: Path) -> Any:
        copy = SandboxDaemon(tmp_path / "home", key_file_path=key)
        shutil.copytree(pristine, copy.home / "vault")
        copy.home.chmod(0o700)
        with copy.start():
            return copy.status()["vault"]

    return status
