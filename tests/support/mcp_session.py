"""What an official MCP client does in each of its sessions, and a look at the daemon meanwhile."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import httpx2
import pytest
from mcp.client import Client
from mcp.shared.exceptions import MCPError

POLL_SECONDS = 0.1
LONGEST_GAP_SECONDS = 1.0


@contextmanager
def allowed_gap(gaps: list[float]) -> Iterator[None]:
    """A busy machine makes the whole session longer, and each gap of it."""
    began = time.perf_counter()
    yield
    assert gaps, "the daemon was never asked meanwhile"
    assert max(gaps) < max(LONGEST_GAP_SECONDS, (time.perf_counter() - began) / 2), gaps


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
