"""The doors under attack: Host, Origin, content type, and errors that give nothing away.

Rows of desktop.md 11.6 and xmemo.md 18, over plain HTTP and the path of the MCP mount.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import select
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import pytest
from sandbox_daemon import SandboxDaemon, Wire

Raw = Callable[[Any, bytes], Any]
ROUTES = ("/v1/auth/token/validate", "/api/v1/auth/token/validate", "/mcp")


@pytest.fixture(scope="module")
def port(served: SandboxDaemon) -> int:
    return int(served.url.rpartition(":")[2])


def _get(path: str, *headers: str) -> bytes:
    return "\r\n".join([f"GET {path} HTTP/1.1", *headers, "", ""]).encode()


def _expected(path: str, status: int) -> int:
    """A GET that is admitted at the MCP mount hears that it must be a POST."""
    return 405 if path == "/mcp" and status == 200 else status


HOST_ROWS = [
    ("127.0.0.1:{port}", 200),
    ("[::1]:{port}", 200),
    ("LOCALHOST:{port}", 200),
    ("localhost:{port}", 200),
    ("evil.test:{port}", 421),
    ("127.0.0.1.nip.io:{port}", 421),
    ("localhost.:{port}", 421),
    ("127.0.0.1", 421),
    ("127.0.0.1:1", 421),
    ("0.0.0.0:{port}", 421),
    ("127.0.0.1@evil.test:{port}", 421),
    ("user:secret@127.0.0.1:{port}", 421),
    ("127.0.0.1:{port}/path", 421),
    ("2130706433:{port}", 421),
    ("127.0.0.1:0{port}", 421),
    ("", 421),
]


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize(("host", "status"), HOST_ROWS)
def test_host_header(
    tcp: Raw, port: int, agent_token: str, path: str, host: str, status: int
) -> None:
    answer = tcp(
        port,
        _get(path, f"Host: {host.format(port=port)}", f"Authorization: Bearer {agent_token}"),
    )
    assert answer.status == _expected(path, status)
    assert answer.headers["content-type"].startswith("application/json")


def test_forwarded_host_is_ignored(tcp: Raw, port: int, agent_token: str) -> None:
    request = _get(
        ROUTES[0],
        f"Host: 127.0.0.1:{port}",
        "X-Forwarded-Host: evil.test",
        "Forwarded: host=evil.test",
        f"X-API-Key: {agent_token}",
    )
    assert tcp(port, request).status == 200


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        (["GET /health HTTP/1.1", "Host: 127.0.0.1:{port}", "Host: evil.test"], 400),
        (["GET /health HTTP/1.1"], 400),
        (["GET /health HTTP/1.0"], 421),
        (["GET http://evil.test/health HTTP/1.1", "Host: 127.0.0.1:{port}"], 200),
        (["GET http://evil.test/health HTTP/1.1", "Host: evil.test"], 421),
        (["CONNECT evil.test:443 HTTP/1.1", "Host: evil.test:443"], 421),
        (["GET /health HTTP/1.1", "Host: 127.0.0.1:{port}", "Bad Header"], 400),
        (["GET /health HTTP/9.9", "Host: 127.0.0.1:{port}"], 400),
        (["\x16\x03\x01\x02"], 400),
        (["GET /health HTTP/1.1", "Host: 127.0.0.1:{port}", "Expect: 200-maybe"], 417),
        (["GET /nope HTTP/1.1", "Host: 127.0.0.1:{port}", "Expect: 200-maybe"], 417),
    ],
)
def test_odd_http_gets_a_json_answer(tcp: Raw, port: int, lines: list[str], status: int) -> None:
    request = "\r\n".join([*lines, "", ""]).replace("{port}", str(port)).encode("latin-1")
    answer = tcp(port, request)
    assert answer.status == status
    assert answer.headers["content-type"].startswith("application/json")
    assert answer.headers["server"] == "memlocket"
    assert "maybe" not in answer.body.decode()


ORIGIN_ROWS = [
    (["https://evil.test"], 403),
    (["null"], 403),
    (["http://127.0.0.1:{port}"], 200),
    (["http://localhost:{port}"], 200),
    (["http://127.0.0.1:1"], 403),
    (["https://127.0.0.1:{port}"], 403),
    (["http://127.0.0.1:{port}.evil.test"], 403),
    (["http://127.0.0.1:{port}", "https://evil.test"], 403),
    ([""], 403),
]


@pytest.mark.parametrize("path", ROUTES)
@pytest.mark.parametrize(("origins", "status"), ORIGIN_ROWS)
def test_origin_header(
    tcp: Raw, port: int, agent_token: str, path: str, origins: list[str], status: int
) -> None:
    lines = [f"Origin: {origin.format(port=port)}" for origin in origins]
    answer = tcp(port, _get(path, f"Host: 127.0.0.1:{port}", f"X-API-Key: {agent_token}", *lines))
    assert answer.status == _expected(path, status)
    assert not any(name.startswith("access-control") for name in answer.headers)


@pytest.mark.parametrize(
    ("header", "status"),
    [
        ("Sec-Fetch-Site: cross-site", 403),
        ("Sec-Fetch-Site: same-site", 403),
        ("Sec-Fetch-Site: same-origin", 200),
        ("Sec-Fetch-Site: none", 200),
        ("Sec-Fetch-Mode: cors", 200),
    ],
)
def test_fetch_metadata(tcp: Raw, port: int, agent_token: str, header: str, status: int) -> None:
    request = _get(ROUTES[0], f"Host: 127.0.0.1:{port}", f"X-API-Key: {agent_token}", header)
    assert tcp(port, request).status == status


def test_refusals_come_before_the_credential_is_looked_at(tcp: Raw, port: int) -> None:
    host = f"Host: 127.0.0.1:{port}"
    assert tcp(port, _get(ROUTES[0], "Host: evil.test")).status == 421
    assert tcp(port, _get(ROUTES[0], host, "Origin: null")).status == 403
    assert tcp(port, _get(ROUTES[0], host)).status == 401


def test_a_preflight_from_a_page_is_refused(tcp: Raw, port: int) -> None:
    request = (
        f"OPTIONS /v1/remember HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        "Origin: https://evil.test\r\nAccess-Control-Request-Method: POST\r\n\r\n"
    )
    answer = tcp(port, request.encode())
    assert answer.status == 403
    assert not any(name.startswith("access-control") for name in answer.headers)


@pytest.mark.parametrize("method", ["OPTIONS", "HEAD", "PUT", "DELETE", "TRACE"])
def test_other_methods_are_405(agent: Wire, method: str) -> None:
    answer = agent.send(method, "/v1/remember")
    assert answer.status == 405
    assert answer.headers["Allow"] == "POST"
    assert not any(name.lower().startswith("access-control") for name in answer.headers)


def test_a_token_in_the_query_string_is_no_credential(served: SandboxDaemon) -> None:
    token = served.add_agent("in-query")
    with Wire(served.url) as nobody:
        for name in ("token", "access_token", "api_key", "X-API-Key"):
            assert nobody.get(ROUTES[0], **{name: token}).status == 401


def test_a_page_cannot_post_a_memory(served: SandboxDaemon, agent: Wire) -> None:
    body = b'{"content": "planted by a page", "path": "x"}'
    for headers in (
        {"Content-Type": "text/plain", "Origin": "https://evil.test"},
        {"Content-Type": "application/x-www-form-urlencoded", "Origin": "null"},
        {"Content-Type": "application/json", "Sec-Fetch-Site": "cross-site"},
    ):
        assert agent.send("POST", "/v1/remember", body, headers).status == 403
    assert agent.search("planted page") == []


@pytest.mark.parametrize(
    "content_type",
    ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "json"],
)
def test_a_body_must_be_json(agent: Wire, content_type: str) -> None:
    answer = agent.send(
        "POST", "/v1/remember", b'{"content":"x","path":"y"}', {"Content-Type": content_type}
    )
    assert (answer.status, answer.code) == (415, "unsupported_media_type")


def test_json_with_a_charset_is_json(agent: Wire) -> None:
    headers = {"Content-Type": "application/json; charset=utf-8"}
    body = b'{"content":"with charset","path":"y"}'
    assert agent.send("POST", "/v1/remember", body, headers).status == 201


def test_a_compressed_body_is_refused(agent: Wire) -> None:
    headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
    assert agent.send("POST", "/v1/remember", b"\x1f\x8b", headers).status == 415


def test_an_empty_body_counts_as_an_empty_object(agent: Wire) -> None:
    answer = agent.send("POST", "/v1/remember", None, {"Content-Length": "0"})
    assert answer.status == 422


def test_a_body_over_the_limit_is_refused_unread(tcp: Raw, port: int, agent_token: str) -> None:
    head = (
        f"POST /v1/remember HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-API-Key: {agent_token}\r\n"
        "Content-Type: application/json\r\nContent-Length: 100000000\r\n\r\n"
    )
    answer = tcp(port, head.encode())
    assert (answer.status, answer.json["error"]["code"]) == (413, "body_too_large")


def test_a_body_of_exactly_the_limit_is_read(agent: Wire) -> None:
    def padded(size: int) -> bytes:
        start, end = b'{"content":"x","path":"y","padding":"', b'"}'
        return start + b"a" * (size - len(start) - len(end)) + end

    assert agent.send("POST", "/v1/remember", padded(1 << 20)).status == 201
    assert agent.send("POST", "/v1/remember", padded((1 << 20) + 1)).status == 413


def test_a_chunked_body_over_the_limit_is_refused(tcp: Raw, port: int, agent_token: str) -> None:
    head = (
        f"POST /v1/remember HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-API-Key: {agent_token}\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
    )
    chunk = b"%x\r\n" % 65_536 + b" " * 65_536 + b"\r\n"
    assert tcp(port, head.encode() + chunk * 18).status == 413


@pytest.mark.parametrize(
    "path", ["/nope", "/v1/nope", "/api/v1/nope", "/v1", "/me/x", "/v2/remember"]
)
def test_unknown_routes_are_404_json(agent: Wire, path: str) -> None:
    answer = agent.get(path)
    assert answer.status == 404
    assert answer.json["error"]["code"] == "route_not_found"
    assert answer.json["detail"]


def test_unknown_routes_tell_strangers_nothing_about_the_api(served: SandboxDaemon) -> None:
    with Wire(served.url) as nobody:
        assert nobody.get("/v1/nope").status == 401
        assert nobody.get("/.well-known/openid-configuration").status == 404
        assert nobody.send("POST", "/register", b"x", {"Content-Type": "text/plain"}).status == 404


def test_no_answer_names_the_library(served: SandboxDaemon, agent: Wire) -> None:
    for path in ("/health", "/v1/nope", "/v1/memories/search"):
        headers = agent.get(path).headers
        assert headers["Server"] == "memlocket"
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Cache-Control"] == "no-store"


def test_parser_errors_reach_neither_body_nor_log(
    tcp: Raw, port: int, served: SandboxDaemon, agent_token: str
) -> None:
    canary = "cnry" + secrets.token_hex(12)
    requests = [
        f"GET /health?q={canary}\x01 HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n",
        f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization {canary}\r\n\r\n",
        f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: {canary}\x00\r\n\r\n",
        f"GET /{canary} HTTP/1.1\r\nHost: {canary}\r\nHost: {canary}\r\n\r\n",
        f"{canary} /health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n",
        f"GET /health HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-A: {canary * 600}\r\n\r\n",
        f"GET /{canary * 600} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n",
        f"POST /v1/remember HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-API-Key: {agent_token}\r\n"
        f"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\nzz{canary}\r\n",
        f"POST /v1/remember HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-API-Key: {agent_token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {canary}\r\n\r\n",
    ]
    for request in requests:
        answer = tcp(port, request.encode("latin-1"))
        assert answer.status in (0, 400, 404, 408, 413, 414, 431), request[:40]
        assert canary.encode() not in answer.body
    logged = _log_of(served)
    assert "http_error" in logged
    assert canary not in logged
    assert agent_token not in logged


def _log_of(served: SandboxDaemon) -> str:
    folder = served.home / "log"
    texts = [path.read_text(errors="replace") for path in folder.iterdir() if path.is_file()]
    return "".join(texts) + served.output.read_text(errors="replace")


def test_slow_clients_are_cut_and_harm_nobody(port: int, agent: Wire, agent_token: str) -> None:
    unfinished_body = (
        f"POST /v1/remember HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX-API-Key: {agent_token}\r\n"
        "Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{"
    ).encode()
    unfinished_head = b"GET /health HTTP/1.1\r\nHost: 127"
    started = time.monotonic()
    with contextlib.ExitStack() as opened:

        def connect(sent: bytes) -> socket.socket:
            stream = socket.create_connection(("127.0.0.1", port), timeout=25)
            opened.callback(stream.close)
            stream.sendall(sent)
            return stream

        slow_bodies = [connect(unfinished_body) for _ in range(20)]
        slow_heads = [connect(unfinished_head) for _ in range(20)]
        silent = [connect(b"") for _ in range(5)]
        assert agent.get("/health").status == 200
        slow = [*slow_bodies, *slow_heads, *silent]
        assert select.select(slow, [], [], 0)[0] == [], "not answered before the slow ones went"
        for stream in slow_bodies:
            answer = b"".join(iter(lambda stream=stream: stream.recv(65_536), b""))
            assert answer.startswith(b"HTTP/1.1 408 ")
            assert b'"request_timeout"' in answer
        for stream in (*slow_heads, *silent):
            assert stream.recv(1) == b""
    assert 5 < time.monotonic() - started < 25


# --- door 1


def test_door_1_ignores_the_host_and_admits_the_same_user(unix: Raw, served: SandboxDaemon) -> None:
    path = served.discovery["socket"]
    assert unix(path, _get("/v1/status", "Host: evil.test")).status == 200
    assert unix(path, _get("/v1/memories", "Host: evil.test")).status == 401


def test_door_1_refuses_pages_too(unix: Raw, served: SandboxDaemon) -> None:
    path = served.discovery["socket"]
    assert unix(path, _get("/v1/status", "Host: x", "Origin: https://evil.test")).status == 403
    assert unix(path, _get("/v1/status", "Host: x", "Sec-Fetch-Site: cross-site")).status == 403


def test_door_2_needs_a_credential_where_door_1_does_not(served: SandboxDaemon) -> None:
    with Wire(served.url) as nobody:
        assert nobody.get("/v1/status").status == 401
        assert nobody.post("/v1/vault/lock").status == 401


OTHER_UID = 65_534
CONNECT_AS_OTHER = """
import os, socket, sys
os.setgid({uid}); os.setuid({uid})
s = socket.socket(socket.AF_UNIX)
try:
    s.connect({path!r})
except PermissionError:
    print("EACCES"); sys.exit()
s.sendall(b"GET /v1/status HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
print(s.recv(4096).decode().splitlines()[0])
"""


@pytest.mark.priv
@pytest.mark.skipif(os.geteuid() != 0, reason="run as root: becomes another user")
@pytest.mark.parametrize(
    ("directory_mode", "socket_mode", "expected"),
    [(0o700, 0o600, "EACCES"), (0o755, 0o600, "EACCES"), (0o755, 0o666, "HTTP/1.1 403 Forbidden")],
)
def test_another_user_is_kept_out(
    tmp_path_factory: pytest.TempPathFactory,
    directory_mode: int,
    socket_mode: int,
    expected: str,
    served: SandboxDaemon,
) -> None:
    path = served.discovery["socket"]
    folder = os.path.dirname(path)
    parents = [p for p in list(served.home.parents) if os.stat(p).st_mode & 0o777 == 0o700]
    kept = {p: os.stat(p).st_mode & 0o777 for p in [*parents, served.home]}
    try:
        for parent in kept:
            os.chmod(parent, 0o755)
        os.chmod(folder, directory_mode)
        os.chmod(path, socket_mode)
        script = CONNECT_AS_OTHER.format(uid=OTHER_UID, path=path)
        done = subprocess.run(
            [sys.executable, "-I", "-c", script], capture_output=True, text=True, timeout=30
        )
        assert done.stdout.strip() == expected, done.stderr
        if directory_mode == 0o700:
            listing = subprocess.run(
                ["ls", folder], capture_output=True, user=OTHER_UID, group=OTHER_UID, timeout=30
            )
            assert listing.returncode != 0
    finally:
        os.chmod(path, 0o600)
        os.chmod(folder, 0o700)
        for parent, mode in kept.items():
            os.chmod(parent, mode)


def test_request_ids_differ_and_stand_in_errors(agent: Wire) -> None:
    first, second = agent.get("/v1/nope"), agent.get("/v1/nope")
    assert first.json["request_id"] == first.headers["X-Request-ID"]
    assert first.json["request_id"] != second.json["request_id"]
    assert re.fullmatch(r"[0-9a-f]{32}", first.json["request_id"])
