"""Pieces of MCP without a daemon: listings, arguments, texts, the lines of the relay."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from memory_manager.api.errors import InvalidFields
from memory_manager.api.mcp import text
from memory_manager.api.mcp.catalogue import ALL_TOOLS, LISTED, TOOLS
from memory_manager.api.mcp.prompts import PROMPTS
from memory_manager.api.mcp.running import operation_arguments, slim
from memory_manager.cli.mcp_shim import ShimArguments, shim_arguments
from memory_manager.client.errors import DaemonNotRunning
from memory_manager.client.mcp_relay import error_line, version_headers
from memory_manager.vault.mcp_profiles import Profile

VERSION_META = {"_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}}
HEAVY = ("mcp", "mcp_types", "pydantic", "starlette", "torch", "onnxruntime")


def size(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode())


def test_listings_keep_their_size() -> None:
    """The short one is a promise; the long one shall not grow unnoticed."""
    core, full = LISTED[Profile.CORE], LISTED[Profile.FULL]
    assert len(core) == 8
    assert size({"tools": core}) <= 5_000
    assert len(full) == len(ALL_TOOLS) == len(TOOLS) == 41  # as README says
    assert size({"tools": full}) <= 25_000


@pytest.mark.parametrize("tool", ALL_TOOLS, ids=lambda tool: tool.name)
def test_every_tool_describes_itself(tool: Any) -> None:
    assert tool.summary.endswith(".")
    assert len(tool.summary) <= 100
    names = [argument.name for argument in tool.arguments]
    assert len(names) == len(set(names))
    assert all(len(argument.note) <= 60 for argument in tool.arguments)
    assert not (tool.read_only and tool.destructive)
    short, full = tool.listed(short=True), tool.listed(short=False)
    assert list(full["inputSchema"]["properties"]) == names
    assert short["inputSchema"].get("required") == full["inputSchema"].get("required")


def test_arguments_get_the_names_of_operations() -> None:
    assert operation_arguments(
        {
            "query": "x",
            "path_filter": "a/%",
            "memory_id": "1",
            "metadata_json": '{"a": 1}',
            "provenance_json": "",
            "agent_id": "label",
            "embedding_json": "[1]",
            "team_id": None,
            "unheard_of": 1,
        }
    ) == {"query": "x", "path": "a/%", "id": "1", "metadata": {"a": 1}, "unheard_of": 1}


@pytest.mark.parametrize("value", ["{", "[]", "1", 7, '{"a":1,"a":2}', '{"a":NaN}'])
def test_json_text_must_be_an_object(value: object) -> None:
    with pytest.raises(InvalidFields, match="metadata_json"):
        operation_arguments({"metadata_json": value})


def test_slim_answers_lose_only_what_says_nothing() -> None:
    item = {"id": "1", "scope": None, "security_envelope": {"security_mode": "vault"}, "score": 0.0}
    kept = {"id": "1", "score": 0.0}
    assert slim({"results": [item]}) == {"results": [kept]}
    assert slim({"reminders": [item], "items": [item]}) == {"reminders": [kept]}
    assert slim({"reminders": [], "items": [item]}) == {"reminders": [], "items": [kept]}


def test_a_block_is_one_paragraph() -> None:
    item = {"id": "i", "path": "a\n b", "content": "one\n\n\u2028two\r\n\x0b\x85 three "}
    assert text.block(item) == "[i] a b: one\ntwo\n three"
    assert text.block({"id": "i", "path": None, "content": None}) == "[i] : "


def test_prompts_fill_in_braces_as_they_are() -> None:
    assert PROMPTS["recall"].message({"query": "{0} {query}"}).endswith("{0} {query}")
    assert "Path: a/b" in PROMPTS["remember"].message({"content": "x", "path": "a/b"})


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (None, {}),
        ({"name": "recall"}, {}),
        ({"_meta": {"progressToken": 1}, "name": "recall"}, {}),
        (VERSION_META, {}),
        ({**VERSION_META, "name": "recall"}, {"Mcp-Name": "recall"}),
        ({**VERSION_META, "uri": "file:///x"}, {"Mcp-Name": "file:///x"}),
        ({**VERSION_META, "name": "a\r\nX: y"}, {"Mcp-Name": "=?base64?YQ0KWDogeQ==?="}),
    ],
)
def test_headers_of_the_version_without_handshake(
    params: dict[str, Any] | None, expected: dict[str, str]
) -> None:
    message = {"id": 1, "method": "tools/call", "params": params}
    always = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call"}
    modern = params is not None and "io.modelcontextprotocol/protocolVersion" in params.get(
        "_meta", {}
    )
    assert version_headers(message) == ({**always, **expected} if modern else {})


@pytest.mark.parametrize("name", ["recall", "安装", " edge ", "=?base64?eA==?=", ""])
def test_a_header_value_is_what_the_library_reads_back(name: str) -> None:
    from mcp.shared.inbound import decode_header_value

    found = version_headers({"method": "m", "params": {**VERSION_META, "name": name}})
    assert decode_header_value(found.get("Mcp-Name", "")) == name


def test_an_error_line_says_the_way_out() -> None:
    line = json.loads(error_line("a", DaemonNotRunning()))
    assert line["id"] == "a"
    assert "memlocket up" in line["error"]["message"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], ShimArguments()),
        (["--client", "cursor"], ShimArguments("cursor")),
        (["--client=cursor", "--start"], ShimArguments("cursor", may_start=True)),
        (["--client"], None),
        (["--help"], None),
        (["serve"], None),
    ],
)
def test_the_short_way_to_the_shim(words: list[str], expected: ShimArguments | None) -> None:
    assert shim_arguments(words) == expected


def test_the_daemon_starts_without_the_protocol_library() -> None:
    code = (
        "import sys, memory_manager.api.run\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
