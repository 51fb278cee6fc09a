"""Complaints about lost and damaged data (field-complaints F1-F10), against the real daemon."""

from __future__ import annotations

import concurrent.futures
import contextlib
import importlib.util
import random
import shutil
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from listing import list_all
from sandbox_daemon import BROKEN, SandboxDaemon, Wire, running, wait_until
from small_disk import small_disk


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxDaemon]:
    with running(tmp_path_factory.mktemp("durability") / "home") as started:
        yield started


@pytest.fixture(scope="module")
def token(daemon: SandboxDaemon) -> str:
    return daemon.add_agent("durability")


def _contents(wire: Wire, folder: str) -> dict[str, str]:
    rows = list(list_all(wire, path=folder))
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["content"] for row in rows}


def _write_until_broken(wire: Wire, folder: str, written: dict[str, str]) -> None:
    number = 0
    try:
        while True:
            number += 1
            content = f"{folder} note {number} {uuid.uuid4().hex}"
            answer = wire.post("/v1/remember", {"content": content, "path": folder})
            if answer.status not in (200, 201):
                return  # refused because of the stop: not acknowledged
            written[answer.json["id"]] = content
    except BROKEN:
        return
    finally:
        wire.close()


def _kill(daemon: SandboxDaemon) -> None:
    daemon.kill()


def _terminate(daemon: SandboxDaemon) -> None:
    assert daemon.stop() == 0


def _ask_to_stop(daemon: SandboxDaemon) -> None:
    with daemon.owner() as owner:
        assert owner.post("/v1/daemon/stop").status in (200, 202)
    assert daemon.process is not None
    assert daemon.process.wait(30) == 0


ENDS: dict[str, Callable[[SandboxDaemon], None]] = {
    "kill -9": _kill,
    "SIGTERM": _terminate,
    "stop": _ask_to_stop,
}


def _stop_right_after_an_answer(home: Path, end: str, rounds: int) -> None:
    kept: dict[str, str] = {}
    with SandboxDaemon(home) as daemon:
        daemon.init().start()
        token = daemon.add_agent("writer")
        for _ in range(rounds):
            seen = len(kept)
            wires = [daemon.wire(token) for _ in range(2)]
            writers = [
                threading.Thread(target=_write_until_broken, args=(wire, "f01", kept))
                for wire in wires
            ]
            for writer in writers:
                writer.start()
            wait_until(lambda seen=seen: len(kept) > seen, 30, "one write is acknowledged", 0.001)
            ENDS[end](daemon)
            for writer in writers:
                writer.join(30)
            daemon.start()
            with daemon.wire(token) as wire:
                found = _contents(wire, "f01")
            missing = kept.items() - found.items()
            assert not missing, f"{len(missing)} acknowledged rows are gone after {end}"


@pytest.mark.parametrize("end", ENDS)
def test_f01_stop_right_after_an_answer_keeps_the_row(tmp_path: Path, end: str) -> None:
    _stop_right_after_an_answer(tmp_path / "home", end, rounds=2)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("end", ENDS)
def test_f01_rounds_of_writing_and_ending(tmp_path: Path, end: str, thorough: bool) -> None:
    _stop_right_after_an_answer(tmp_path / "home", end, rounds=50 if thorough else 10)


def test_f02_files_as_a_power_cut_leaves_them_open_with_every_acknowledged_row(
    tmp_path: Path,
) -> None:
    rng = random.Random(2)
    written: dict[str, str] = {}
    with running(tmp_path / "home") as daemon:
        token = daemon.add_agent("writer")
        writer = threading.Thread(
            target=_write_until_broken, args=(daemon.wire(token), "f02", written)
        )
        writer.start()
        images: list[tuple[SandboxDaemon, dict[str, str]]] = []
        for number in range(3):
            seen = len(written)
            wait_until(lambda seen=seen: len(written) > seen + 5, 30, "some writes", 0.001)
            time.sleep(rng.uniform(0, 0.02))  # the random moment is the point
            acknowledged = dict(written)
            with daemon.frozen():  # the copy must be of one moment
                image = SandboxDaemon(tmp_path / f"image{number}")
                shutil.copytree(
                    daemon.home, image.home, ignore=lambda *_: ["run"], copy_function=shutil.copy2
                )
                shutil.copy2(daemon.key_file, image.key_file)
            images.append((image, acknowledged))
        daemon.kill()
        writer.join(30)
    for image, acknowledged in images:
        with image:
            image.start()
            vault = image.status()["vault"]
            assert vault["state"] == "unlocked", vault
            wait_until(
                lambda image=image: image.status()["vault"]["last_integrity_check"] is not None,
                30,
                "the whole file is checked after an unclean end",
            )
            with image.wire(token) as wire:
                assert not acknowledged.items() - _contents(wire, "f02").items()


def test_f03_two_clients_writing_in_parallel_lose_nothing(
    daemon: SandboxDaemon, token: str
) -> None:
    other = daemon.add_agent("durability-second")

    def write(pair: tuple[str, int]) -> str:
        with daemon.wire(pair[0]) as wire:
            return str(wire.remember(f"parallel {pair[0][-6:]} {pair[1]}", "f03")["id"])

    jobs = [(who, number) for number in range(20) for who in (token, other)]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(write, jobs))
    assert len(ids) == 40
    with daemon.wire(token) as wire:
        assert set(_contents(wire, "f03")) == ids


def test_f03_second_daemon_on_the_vault_refuses_with_a_clear_message(
    daemon: SandboxDaemon,
) -> None:
    second = SandboxDaemon(daemon.home)
    before = daemon.discovery
    process = second.launch()
    assert process.wait(30) == 3
    said = second.output.read_text(errors="replace")
    assert "already_running" in said
    assert str(daemon.discovery["socket"]) in said
    with daemon.owner() as owner:
        assert owner.get("/health").status == 200
    assert before == daemon.discovery


def test_f04_fifty_concurrent_adds_and_deletes(daemon: SandboxDaemon, token: str) -> None:
    with daemon.wire(token) as wire:
        old = [wire.remember(f"to be deleted {number}", "f04")["id"] for number in range(25)]

    def act(number: int) -> str | None:
        with daemon.wire(token) as wire:
            if number < 25:
                assert wire.post(f"/v1/memories/{old[number]}/forget").status == 200
                return None
            return str(wire.remember(f"added {number}", "f04")["id"])

    order = list(range(50))
    random.Random(4).shuffle(order)
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        added = {x for x in pool.map(act, order) if x is not None}
    with daemon.wire(token) as wire:
        assert set(_contents(wire, "f04")) == added
    assert len(added) == 25
    assert daemon.cli("doctor", "--json").returncode == 0


def test_f05_nothing_is_written_under_the_package_and_a_reinstall_keeps_the_memory(
    tmp_path: Path, repository: Path
) -> None:
    installed = tmp_path / "site" / "memory_manager"

    def install() -> None:
        ignore = shutil.ignore_patterns("__pycache__")
        shutil.copytree(repository / "daemon" / "memory_manager", installed, ignore=ignore)

    def tree() -> set[Path]:
        return {x for x in installed.rglob("*") if "__pycache__" not in x.parts}

    install()
    environment = {"PYTHONPATH": str(tmp_path / "site")}
    with SandboxDaemon(tmp_path / "home", environment=environment) as daemon:
        where = subprocess.run(
            [sys.executable, "-c", "import memory_manager.vault as m; print(m.__file__)"],
            env=daemon.env,
            capture_output=True,
            text=True,
        )
        assert str(installed) in where.stdout
        before = tree()
        daemon.init().start()
        token = daemon.add_agent("first")
        with daemon.wire(token) as wire:
            made = wire.remember("survives a reinstall", "f05")
        assert daemon.stop() == 0
        assert tree() == before
        assert importlib.util.find_spec("memory_manager") is not None
        shutil.rmtree(installed)
        install()
        daemon.start()
        with daemon.wire(token) as wire:
            assert _contents(wire, "f05") == {made["id"]: "survives a reinstall"}


def test_f06_the_vault_grows_by_a_bounded_number_of_bytes_per_row(tmp_path: Path) -> None:
    from memory_corpus import Corpus

    rows = 400
    with running(tmp_path / "home") as daemon:
        token = daemon.add_agent("growth")

        def size() -> int:
            # vault.db and its WAL; the ballast file is not growth
            vault = daemon.home / "vault"
            return sum(x.stat().st_size for x in vault.iterdir() if x.name.startswith("vault.db"))

        start = size()
        texts = 0
        with daemon.wire(token) as wire:
            for memory in Corpus(6).memories(rows):
                wire.remember(**_fields(memory.remember_body()))
                texts += len(memory.content.encode())
        assert daemon.stop() == 0
        grown = size() - start
        assert grown < 40 * texts, f"{grown / rows:.0f} bytes per row of {texts / rows:.0f}"
        assert grown / rows < 8_192


def _fields(body: dict[str, object]) -> dict[str, Any]:
    return dict(body)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with small_disk(tmp_path / "small", 24) as folder:
        yield folder


@pytest.mark.priv
@pytest.mark.timeout(180)
def test_f06_full_disk_refuses_cleanly_reads_go_on_and_space_heals(
    disk: Path, tmp_path: Path
) -> None:
    with SandboxDaemon(disk / "home") as daemon:
        daemon.init().start()
        token = daemon.add_agent("full")
        filler = disk / "filler"
        with daemon.wire(token) as wire:
            kept = {wire.remember(f"kept {n}", "f06")["id"]: f"kept {n}" for n in range(20)}
            _fill(filler)
            refused = _write_until_refused(wire, kept)
            assert refused.status in (503, 507), (refused.status, refused.code)
            assert refused.code == "read_only"
            assert refused.json["error"]["message"].strip()
            assert _contents(wire, "f06") == kept
            assert wire.search("kept 7", path="f06")
            assert daemon.status()["vault"]["state"] == "read_only"
            filler.unlink()
            wait_until(
                lambda: (
                    wire.post("/v1/remember", {"content": "again", "path": "f06b"}).status
                    in (200, 201)
                ),
                90,
                "writes work again after space returned",
                0.5,
            )
            assert _contents(wire, "f06") == kept
        daemon.kill()
        daemon.start()
        with daemon.wire(token) as wire:
            assert _contents(wire, "f06") == kept


def _fill(filler: Path) -> None:
    with filler.open("wb", buffering=0) as stream:
        for block in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    stream.write(bytes(block))
            except OSError:
                continue


def _write_until_refused(wire: Wire, kept: dict[str, str]) -> Any:
    for number in range(3_000):
        content = f"filling {number} " + "x" * 20_000
        answer = wire.post("/v1/remember", {"content": content, "path": "f06"})
        if answer.status not in (200, 201):
            return answer
        kept[answer.json["id"]] = content
    raise AssertionError("the disk never filled up")


def test_f09_every_update_keeps_a_version_and_one_call_restores(
    daemon: SandboxDaemon, token: str
) -> None:
    with daemon.wire(token) as wire:
        made = wire.remember("The good note about the quarterly plan.", "f09")
        address = f"/v1/memories/{made['id']}"
        garbage = "lorem garbage ipsum"
        assert wire.send("PATCH", address, {"content": garbage}).status == 200
        assert wire.get(address).json["content"] == garbage

        versions = wire.get(f"{address}/versions").json["versions"]
        assert sorted(x["version"] for x in versions) == [1, 2]
        assert wire.post(f"{address}/restore", {"version": 1}).status == 200
        assert wire.get(address).json["content"] == "The good note about the quarterly plan."
        assert wire.search("lorem garbage", path="f09") == []
        assert [x["id"] for x in wire.search("quarterly plan", path="f09")] == [made["id"]]

        # restore of a restore
        assert wire.post(f"{address}/restore", {"version": 2}).status == 200
        assert wire.get(address).json["content"] == garbage
        assert len(wire.get(f"{address}/versions").json["versions"]) == 4


def test_f09_a_forgotten_note_comes_back_with_one_call(daemon: SandboxDaemon, token: str) -> None:
    with daemon.wire(token) as wire:
        made = wire.remember("A note that was deleted by mistake.", "f09/deleted")
        address = f"/v1/memories/{made['id']}"
        assert wire.post(f"{address}/forget").status == 200
        assert wire.get(address).status == 404
        assert wire.post(f"{address}/restore", {}).status == 200
        assert wire.get(address).json["content"] == "A note that was deleted by mistake."
        assert wire.search("deleted by mistake", path="f09/deleted")


def test_f10_the_same_text_from_many_clients_and_over_a_crash_stays_one_row(
    tmp_path: Path,
) -> None:
    """Four clients send the same texts at once; the daemon is killed among them; all send again."""
    texts = [f"The lighthouse log of night {number}" for number in range(80)]
    with running(tmp_path / "home") as daemon:
        tokens = [daemon.add_agent(f"client {number}") for number in range(4)]
        ids: dict[str, set[str]] = {text: set() for text in texts}
        under_way = threading.Event()

        def send_all(token: str) -> None:
            with daemon.wire(token) as wire:
                for number, text in enumerate(texts):
                    ids[text].add(wire.remember(text, "f10", dedupe=True)["id"])
                    if number == 10:
                        under_way.set()

        def send_until_killed(token: str) -> None:
            with contextlib.suppress(*BROKEN):
                send_all(token)

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            cut = [pool.submit(send_until_killed, token) for token in tokens]
            assert under_way.wait(30)
            daemon.kill()
            for future in cut:
                future.result(30)
        acknowledged = sum(map(len, ids.values()))
        assert acknowledged < len(texts), "the kill came after the last write"
        daemon.start()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(send_all, tokens))
        with daemon.wire(tokens[0]) as wire:
            rows = {row["id"]: row["content"] for row in list_all(wire, path="f10")}
    assert sorted(rows.values()) == sorted(texts)
    assert {text: {row} for row, text in rows.items()} == ids
