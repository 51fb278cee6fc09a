"""What packaging/server says about settings is what the server takes."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from memory_manager.cli.main import build_parser
from memory_manager.sync.server.settings import Limits, Quotas, ServerSettings, read_settings


@pytest.fixture
def folder(repository: Path) -> Path:
    return repository / "packaging" / "server"


def named_settings(text: str) -> dict[str, str]:
    return dict(re.findall(r"^#?(MEMLOCKET_SERVER_[A-Z_]+)=(.*)$", text, re.MULTILINE))


def test_the_example_of_settings_is_complete_and_shows_the_defaults(folder: Path) -> None:
    shown = named_settings((folder / "server.env.example").read_text())
    examples = {"PUBLIC_HOST", "TLS_CERT", "TLS_KEY", "DATABASE_URL", "METRICS", "MODELS"}
    defaults = ServerSettings(Path("data"))
    kept = {
        name: value
        for name, value in shown.items()
        if name.removeprefix("MEMLOCKET_SERVER_") not in examples
    }
    assert read_settings({"data": "data"}, kept) == defaults
    assert read_settings({"data": "data"}, shown).public_host == "sync.example.org:443"
    names = {field.name for field in dataclasses.fields(ServerSettings)} - {
        "quotas",
        "limits",
        "data",
    }
    names |= {f"quota_{field.name}" for field in dataclasses.fields(Quotas)}
    names |= {f"limit_{field.name}" for field in dataclasses.fields(Limits)}
    assert {name.removeprefix("MEMLOCKET_SERVER_").lower() for name in shown} == names


def test_unit_and_container_start_the_command_that_exists(folder: Path) -> None:
    unit = (folder / "memlocket-server.service").read_text()
    container = (folder / "Containerfile").read_text()
    (started,) = re.findall(r"^ExecStart=\S+/memlocket (.*)$", unit, re.MULTILINE)
    assert build_parser().parse_args(started.split()).command == "server"
    assert 'ENTRYPOINT ["memlocket", "server"]' in container
    for text in (unit, container):
        used = set(re.findall(r"MEMLOCKET_SERVER_[A-Z_]+", text))
        known = set(named_settings((folder / "server.env.example").read_text()))
        assert used <= known | {"MEMLOCKET_SERVER_DATA"}
