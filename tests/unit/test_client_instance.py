"""The installation file of a client: private, made once, reused, and its secret never shown."""

from __future__ import annotations

import concurrent.futures
import json
import os
import stat
from pathlib import Path

import pytest

from memory_manager.auth.agent_identity import AGENT_HEADER, INSTANCE_HEADER
from memory_manager.base.errors import InvalidInput
from memory_manager.base.private_files import UnsafeFile
from memory_manager.client import instance
from memory_manager.client.errors import ClientNotConnected
from memory_manager.client.instance import Installation

CREDENTIAL = "mlk_" + "x" * 43


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    return {"MEMLOCKET_HOME": str(home)}


def test_what_is_written_is_read_back_and_private(environ: dict[str, str]) -> None:
    previous = os.umask(0)
    try:
        kept = Installation("codex", "codex", "codex-1", CREDENTIAL, "id-1")
        instance.write_installation(kept, environ)
    finally:
        os.umask(previous)
    assert instance.read_installation("codex", environ) == kept
    path = instance.installation_path("codex", environ)
    assert path == Path(environ["MEMLOCKET_HOME"]) / "clients" / "codex.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert [entry.name for entry in path.parent.iterdir()] == ["codex.json"]


def test_the_credential_is_not_in_repr() -> None:
    assert CREDENTIAL not in repr(Installation("codex", "codex", "codex-1", CREDENTIAL))


def test_instance_id_is_made_once_and_is_one_value_for_two_at_once(
    environ: dict[str, str],
) -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        made = list(
            pool.map(lambda _: instance.ensure_installation("zed", "zed", environ), range(24))
        )
    assert len({installation.instance_id for installation in made}) == 1
    assert instance.ensure_installation("zed", "zed", environ) == made[0]
    other = instance.ensure_installation("codex", "codex", environ)
    assert other.instance_id != made[0].instance_id
    folder = instance.installation_path("zed", environ).parent
    assert sorted(entry.name for entry in folder.iterdir()) == ["codex.json", "zed.json"]


def test_without_a_credential_a_client_is_not_connected(environ: dict[str, str]) -> None:
    with pytest.raises(ClientNotConnected) as refused:
        instance.read_installation("zed", environ)
    assert "memlocket connect zed" in str(refused.value.hint)
    instance.ensure_installation("zed", "zed", environ)
    with pytest.raises(ClientNotConnected):
        instance.read_installation("zed", environ)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "..",
        "../x",
        "a/b",
        "A",
        "a b",
        "a.json",
        "-a",
        "a-",
        "a\0",
        "a\n",
        "k\u00f6ln",
        "x" * 65,
    ],
    ids=ascii,
)
def test_names_that_are_no_file_names_are_refused(name: str, environ: dict[str, str]) -> None:
    with pytest.raises(InvalidInput):
        instance.find_installation(name, environ)


def test_other_is_the_generic_client(environ: dict[str, str]) -> None:
    instance.write_installation(Installation("generic", "a", "b", CREDENTIAL), environ)
    assert instance.read_installation("other", environ).client == "generic"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"[" * 5000,
        b"\xff",
        json.dumps({"schema": 2, "client": "zed", "agent_id": "a", "instance_id": "b"}).encode(),
        json.dumps({"schema": 1, "client": "codex", "agent_id": "a", "instance_id": "b"}).encode(),
        json.dumps(
            {"schema": 1, "client": "zed", "agent_id": "a\r\nX: y", "instance_id": "b"}
        ).encode(),
        json.dumps({"schema": 1, "client": "zed", "agent_id": 7, "instance_id": "b"}).encode(),
        json.dumps({"schema": 1, "client": "zed", "agent_id": "a"}).encode(),
        b"x" * 20_000,
    ],
    ids=[
        "empty",
        "cut",
        "list",
        "nested",
        "bytes",
        "schema",
        "other",
        "newline",
        "type",
        "missing",
        "large",
    ],
)
def test_a_file_with_something_else_is_refused_and_kept(
    content: bytes, environ: dict[str, str]
) -> None:
    instance.ensure_installation("zed", "zed", environ)
    path = instance.installation_path("zed", environ)
    path.write_bytes(content)
    with pytest.raises(UnsafeFile):
        instance.find_installation("zed", environ)
    assert path.read_bytes() == content
    assert instance.list_installations(environ) == []


def test_open_files_links_and_open_folders_are_refused(
    environ: dict[str, str], tmp_path: Path
) -> None:
    instance.write_installation(Installation("zed", "zed", "i", CREDENTIAL), environ)
    path = instance.installation_path("zed", environ)
    path.chmod(0o644)
    with pytest.raises(UnsafeFile):
        instance.read_installation("zed", environ)
    path.chmod(0o600)
    path.parent.chmod(0o755)
    with pytest.raises(UnsafeFile):
        instance.read_installation("zed", environ)
    path.parent.chmod(0o700)
    elsewhere = tmp_path / "elsewhere.json"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    with pytest.raises(UnsafeFile):
        instance.read_installation("zed", environ)
    instance.write_installation(Installation("zed", "zed", "new", CREDENTIAL), environ)
    assert json.loads(elsewhere.read_bytes())["instance_id"] == "i"  # not written through
    assert instance.read_installation("zed", environ).instance_id == "new"


def test_own_labels_are_stable_and_never_fail(environ: dict[str, str]) -> None:
    first, second = instance.own_labels(environ), instance.own_labels(environ)
    assert first == second
    assert first[AGENT_HEADER] == "memlocket-cli"
    assert first[INSTANCE_HEADER].startswith("cli-")
    assert instance.list_installations(environ) == []  # our own command line is no client
    instance.installation_path("cli", environ).write_bytes(b"{")
    assert instance.own_labels(environ) == {AGENT_HEADER: "memlocket-cli"}


def test_own_labels_make_no_data_directory(tmp_path: Path) -> None:
    environ = {"MEMLOCKET_HOME": str(tmp_path / "nowhere")}
    assert instance.own_labels(environ) == {AGENT_HEADER: "memlocket-cli"}
    assert not (tmp_path / "nowhere").exists()


def test_every_client_is_listed_by_name(environ: dict[str, str]) -> None:
    for name in ("zed", "codex"):
        instance.write_installation(Installation(name, name, "i", CREDENTIAL), environ)
    folder = instance.installation_path("zed", environ).parent
    (folder / "zed.change.json").write_bytes(b"{}")  # what connect notes beside it
    assert [found.client for found in instance.list_installations(environ)] == ["codex", "zed"]
