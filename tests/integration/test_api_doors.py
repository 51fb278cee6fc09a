"""What the connection of a door does with answers that go wrong half-way."""

from __future__ import annotations

import asyncio
from pathlib import Path

from aiohttp import web

from memory_manager.api.doors import Doors


async def test_a_broken_stream_is_cut_off_without_a_second_answer_in_it(tmp_path: Path) -> None:
    async def half(request: web.BaseRequest) -> web.StreamResponse:
        begun = web.StreamResponse()
        await begun.prepare(request)
        await begun.write(b"first half")
        return web.json_response({"code": "vault_locked"}, status=503)

    doors = Doors(tmp_path, None)
    doors.bind()
    try:
        await doors.listen(web.Server(half))
        reader, writer = await asyncio.open_unix_connection(doors.path)
        writer.write(b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")
        heard = await asyncio.wait_for(reader.read(), 10)
        writer.close()
    finally:
        doors.close()
    assert b"first half" in heard
    assert heard.count(b"HTTP/1.1") == 1
    assert not heard.endswith(b"0\r\n\r\n"), "it must not look complete"
