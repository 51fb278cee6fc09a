"""The official Python client over HTTP and stdio, in its three modes (xmemo.md 16.3, E1)."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import httpx2
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp_session import e1, health_polled
from sandbox_daemon import SandboxDaemon

MODES = ("auto", "legacy", "2026-07-28")
PROGRAM = str(Path(sys.executable).with_name("memlocket"))


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
