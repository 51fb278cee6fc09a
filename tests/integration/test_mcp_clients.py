"""The official Python client over HTTP and stdio, in its three modes (xmemo.md 16.3, E1)."""

from __future__ import annotations

import asyncio
import sys
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from sandbox_daemon import SandboxDaemon

MODES = ("auto", "legacy", "2026-07-28")
POLL_SECONDS = 0.1
LONGEST_GAP_SECONDS = 1.0
PROGRAM = str(Path(sys.executable).with_name("memlocket"))


@contextmanager
def allowed_gap(gaps: list[float]) -> Iterator[None]:
    yield
    assert gaps, "the daemon was never asked meanwhile"
    assert max(gaps) < LONGEST_GAP_SECONDS


@asynccontextmanager
async def health_polled(url: str) -> AsyncIterator[None]:
    """Asks /health ten times a second; a loop that stands still shows as a gap."""
    gaps: list[float] = []
    done = asyncio.Event()

    async def poll() -> None:
        async with httpx2.AsyncClient(timeout=10) as http:
            while not done.is_set():
                began = time.perf_counter()
                assert (await http.get(f"{url}/health")).status_code == 200
                gaps.append(time.perf_counter() - began)
                await asyncio.sleep(POLL_SECONDS)

    with allowed_gap(gaps):
        async with asyncio.TaskGroup() as group:
            group.create_task(poll())
            yield
            done.set()


async def e1(client: Client) -> None:
    """Tools listed; identity, remember, recall and search succeed; an unknown tool is an error."""
    word = "q" + uuid.uuid4().hex
    listed = await client.list_tools()
    assert "get_mcp_identity" in [tool.name for tool in listed.tools]

    async def call(name: str, **arguments: Any) -> str:
        told = await client.call_tool(name, arguments)
        assert not told.is_error, told.content
        return str(told.content[0].text)  # type: ignore[union-attr]

    assert (await call("get_mcp_identity")).splitlines()[0]
    assert (await call("remember", content=f"{word} is kept", path="e1")).startswith("Created")
    assert f"e1: {word} is kept" in await call("recall", query=word)
    assert f"e1: {word} is kept" in await call("search_memory", query=word)
    with pytest.raises(MCPError):
        await asyncio.wait_for(client.call_tool("no_such_tool", {}), 10)
    assert isinstance((await client.list_prompts()).prompts, list)
    assert (await client.list_resources()).resources == []


@pytest.mark.parametrize("mode", MODES)
async def test_streamable_http(served: SandboxDaemon, agent_token: str, mode: str) -> None:
    headers = {"Authorization": f"Bearer {agent_token}"}
    async with (
        health_polled(served.url),
        httpx2.AsyncClient(headers=headers, timeout=30) as http,
        Client(streamable_http_client(f"{served.url}/mcp", http_client=http), mode=mode) as client,
    ):
        await e1(client)


async def test_several_clients_of_different_modes_at_once(served: SandboxDaemon) -> None:
    tokens = [served.add_agent(f"crowd-{number}") for number in range(3)]

    async def one(number: int) -> None:
        headers = {"X-API-Key": tokens[number]}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=30) as http,
            Client(
                streamable_http_client(f"{served.url}/mcp", http_client=http), mode=MODES[number]
            ) as client,
        ):
            for _ in range(3):
                await e1(client)
                told = await client.call_tool("get_mcp_identity", {})
                assert told.content[0].text.startswith(f"crowd-{number}\n")  # type: ignore[union-attr]

    async with health_polled(served.url), asyncio.TaskGroup() as group:
        for number in range(3):
            group.create_task(one(number))


@pytest.fixture(scope="module")
def connected(served: SandboxDaemon) -> SandboxDaemon:
    served.cli("connect", "generic", "--yes")
    return served


@pytest.mark.parametrize("mode", MODES)
async def test_stdio(connected: SandboxDaemon, mode: str) -> None:
    """The client passes on only its short list of variables; the home is the test's own."""
    server = StdioServerParameters(
        command=PROGRAM, args=["mcp"], env={"MEMLOCKET_HOME": str(connected.home)}
    )
    async with health_polled(connected.url), Client(server, mode=mode) as client:
        await e1(client)


async def test_stdio_answers_many_requests_in_flight(connected: SandboxDaemon) -> None:
    server = StdioServerParameters(
        command=PROGRAM, args=["mcp"], env={"MEMLOCKET_HOME": str(connected.home)}
    )
    async with Client(server) as client, asyncio.TaskGroup() as group:
        calls = [
            group.create_task(
                client.call_tool("remember", {"content": f"in flight {number}", "path": "many"})
            )
            for number in range(20)
        ]
    assert not any(call.result().is_error for call in calls)
    assert len({call.result().structured_content["result"]["id"] for call in calls}) == 20
