"""Everything odd at every route: a typed 4xx, never a 5xx, a stack trace, or the end of the daemon.

The list of routes is the application's own, so a new route is attacked from its first day. A11-A16
and A22 of xmemo.md 18, and its rules 4 and 13.
"""

from __future__ import annotations

import collections
import http.client
import json
import random
import urllib.parse
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from sandbox_daemon import Answer, SandboxDaemon, Wire

from memory_manager.api.application import ALL_ROUTES
from memory_manager.api.calls import Access
from memory_manager.api.routing import Route

ROW = "0192f0c1-0000-7000-8000-000000000000"
CANARY = "canary" + "qzxv" * 5
# Asked as the owner these would end the test: they stop, close or re-key what is under attack.
ENDING = {
    "/daemon/stop",
    "/vault/lock",
    "/vault/rekey",
    "/vault/recovery",
    "/auth/token/revoke-self",
}
BUSY = {"rate_limited", "too_many_attempts"}  # a 503 that says when to come back

FIELDS = """
content path bucket scope team_id memory_type dedupe semantic_key importance confidence source
metadata provenance expires_at idempotency_key query q limit threshold since until time_order
owner_timezone reference_time temporal_axis_mode query_mode max_items max_tokens
hypothetical_answer prefer_working explain status mode reason replacement_content version action
context usage_tracking_id state_key current_task next_action blocked_reason ttl_seconds event_type
occurred_at session_id label snapshot_id source_session_id restore_state record_restore_event
timeline_limit due_at due_before note options resolution item_status operation arguments text
category title name scopes agent_id client_id client_name device_code grant_type redirect_uris
response_type code_challenge code_verifier records what enabled passphrase old new path id ids
profile cursor offset include_deleted merge_metadata detect_conflicts month year currency
security_mode encryption_state retrieval_visibility auto_redact_pii agent_instance_id
""".split()
VALUES: tuple[str, ...] = (
    "null", "true", "7", "-1", "1.5", "1e308", "99999999999999999999999999", '""', '" "',
    json.dumps(CANARY * 20), '"\\u0000"', '"\\ud800"', '"%"', "[]", "[null]", "[[[]]]", "{}",
    '{"a":{"b":[1]}}', '"\'; DROP TABLE memory; --"', '"\\" OR * NEAR("',
)  # fmt: skip
FIELDS_AT_ONCE = 12
BODIES: tuple[bytes, ...] = (
    b"", b" ", b"{", b"}", b"nul", b"[]", b'"text"', b"7", b"NaN", b'{"a":NaN}', b'{"a":Infinity}',
    b'{"a":1,"a":2}', b'{"content":"x","content":"y"}', b"\xff\xfe{\0}\0", b"\xef\xbb\xbf{}",
    b'{"content":"\xff"}', b'{"content":"\\ud800","path":"p"}', b'{"a":' * 200 + b"1" + b"}" * 200,
    b"[" * 100_000, b'{"a":1}{"b":2}', b"{'a':1}", b"\0" * 64, b'{"a":"' + b"x" * 70_000 + b'"}',
    b"a=b&c=d", b"<xml/>",
)  # fmt: skip
BASES: dict[str, dict[str, object]] = {
    "/remember": {"content": "fuzz", "path": "fuzz/x"},
    "/recall/context": {"query": "fuzz"},
    "/update_state": {"content": "fuzz"},
    "/timeline/events": {"content": "fuzz"},
    "/reminders": {"content": "fuzz"},
    "/decisions": {"context": "fuzz"},
    "/decisions/{id}/resolve": {"resolution": "fuzz"},
    "/memories": {"text": "fuzz"},
    "/memory-conflicts": {"title": "t", "context": "c", "resolution": "r"},
    "/skill/operations": {"operation": "remember", "arguments": {"content": "c", "path": "p"}},
    "/oauth/register": {"client_name": "fuzz", "redirect_uris": ["http://127.0.0.1:1/cb"]},
    "/auth/device/token": {"device_code": "x", "grant_type": "y"},
}


def filled(route: Route, value: str = ROW) -> str:
    path = route.paths()[0]
    for name in ("id", "agent", "code", "client"):
        path = path.replace("{" + name + "}", value)
    return path


def routes(*methods: str, ending: bool = True) -> Iterator[Route]:
    for route in ALL_ROUTES:
        if route.method in methods and (ending or route.path not in ENDING):
            yield route


class Attack:
    """Sends as an agent, or as the owner where only he is heard, and collects what was wrong."""

    def __init__(self, daemon: SandboxDaemon, token: str) -> None:
        self.agent = daemon.wire(token, agent="fuzz", instance="fuzz-1")
        self.owner = daemon.owner()
        self.found: list[str] = []
        self.sent = 0
        self.statuses: collections.Counter[int] = collections.Counter()

    def wire(self, route: Route) -> Wire:
        return self.owner if route.access in (Access.OWNER, Access.LOCAL) else self.agent

    def send(
        self,
        route: Route,
        path: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        """One request; whatever may not be in an answer is a finding."""
        where = f"{route.method} {path[:60]} {(body or b'')[:50]!r}"
        self.sent += 1
        try:
            answer = self.wire(route).send(route.method, path, body, headers)
        except (OSError, http.client.HTTPException) as error:
            self.found.append(f"{where}: {error!r}")
            return
        self.statuses[answer.status] += 1
        self.found += [f"{where}: {answer.status} {fault}" for fault in faults(route, answer)]

    def close(self) -> None:
        self.agent.close()
        self.owner.close()
        assert self.found == [], f"{len(self.found)} of {self.sent}: {self.found[:8]}"


def faults(route: Route, answer: Answer) -> Iterator[str]:
    kind = answer.headers.get("Content-Type", "")
    text = answer.body.decode("utf-8", "replace")
    if answer.status >= 500 and not (answer.status == 503 and answer.code in BUSY):
        yield "5xx"
    if 300 <= answer.status < 400 and route.path != "/oauth/authorize":
        yield "redirect"
    if "Traceback" in text or 'File "' in text or "sqlite" in text.lower() or "fts5" in text:
        yield "inner workings"
    if any(name.lower().startswith("access-control") for name in answer.headers):
        yield "CORS header"
    if route.at_root and kind.startswith(("text/", "image/")):
        return
    if answer.body and not kind.startswith(("application/json", "application/x-ndjson")):
        yield f"type {kind}"
    if answer.status >= 400:
        if CANARY in text:
            yield "echo"
        try:
            error = answer.json.get("error")
        except (ValueError, AttributeError):
            yield "not a JSON object"
            return
        code = error.get("code") if isinstance(error, dict) else error
        if not isinstance(code, str) or not code or code == "internal_error":
            yield f"code {code!r}"


@pytest.fixture
def attack(served: SandboxDaemon, agent_token: str) -> Iterator[Attack]:
    made = Attack(served, agent_token)
    try:
        yield made
    finally:
        made.close()
    with served.owner() as wire:
        assert wire.get("/health").status == 200
        assert wire.get("/v1/status").status == 200
    logs = [path.read_text(errors="replace") for path in _logs(served)]
    assert not [line for log in logs for line in log.splitlines() if "Traceback" in line]
    assert not [log for log in logs if CANARY in log]


def _logs(daemon: SandboxDaemon) -> Iterable[Path]:
    return [daemon.output, *(daemon.home / "log").glob("*")]


@pytest.mark.timeout(180)
def test_bodies_that_are_no_json_object(attack: Attack) -> None:
    for route in routes("POST", "PATCH", ending=False):
        for body in BODIES:
            attack.send(route, filled(route), body)
        for kind in (
            "text/plain",
            "multipart/form-data; boundary=x",
            "application/json; charset=x",
        ):
            attack.send(route, filled(route), b"{}", {"Content-Type": kind})
        attack.send(route, filled(route), b"{}", {"Content-Encoding": "gzip"})


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_wrong_types_at_every_field(attack: Attack) -> None:
    choice = random.Random(4)
    for route in routes("POST", "PATCH", ending=False):
        base = {name: json.dumps(value) for name, value in BASES.get(route.path, {}).items()}
        path = filled(route)
        for at, value in enumerate(VALUES):
            needed = base if at % 2 else {}
            attack.send(route, path, _object({**dict.fromkeys(FIELDS, value), **needed}))
        for start in range(FIELDS_AT_ONCE):
            names = FIELDS[start::FIELDS_AT_ONCE]
            odd = {name: choice.choice(VALUES) for name in names}
            attack.send(route, path, _object({**odd, **base}))
        for name in base:
            for value in VALUES:
                attack.send(route, path, _object({**base, name: value}))
    reached = attack.statuses
    assert reached[422] > 500, reached  # looked at by handlers, not turned away before them
    assert reached[200] + reached[201] > 200, reached


def _object(members: dict[str, str]) -> bytes:
    return ("{" + ",".join(f'"{name}":{value}' for name, value in members.items()) + "}").encode()


@pytest.mark.timeout(180)
def test_odd_query_strings(attack: Attack) -> None:
    texts = [json.loads(value) for value in VALUES if value.startswith('"') and "ud8" not in value]
    texts += [
        "999999999999",
        "-1",
        "true",
        "2026-13-45T99:99:99Z",
        "Mars/Olympus",
        "*",
        '"',
        "a" * 900,
    ]
    for route in routes("GET", ending=False):
        for text in texts:
            query = urllib.parse.urlencode(dict.fromkeys(FIELDS, text))
            attack.send(route, f"{filled(route)}?{query[:7000]}")
            attack.send(route, f"{filled(route)}?query=x&{urllib.parse.urlencode({'limit': text})}")
        for raw in (
            "%",
            "%zz",
            "%00",
            "%ff%fe",
            "query=%ed%a0%80",
            "query&query=",
            "=&&=;",
            "a" * 7000,
        ):
            attack.send(route, f"{filled(route)}?{raw}")
            attack.send(route, f"{filled(route)}?query=x&{raw}")


def test_a12_odd_path_segments(attack: Attack) -> None:
    segments = [
        "..",
        "%2e%2e",
        "%2F",
        "a%2Fb",
        "%00",
        "%ff",
        "%ed%a0%80",
        "a" * 300,
        "%20",
        "'",
        "*",
    ]
    segments += ["%25", CANARY, "0" * 36, ROW.upper(), ROW + "x", "null", "-1", "%0d%0aX:y"]
    for route in routes("GET", "POST", "PATCH"):
        if "{" in route.path:
            for segment in segments:
                attack.send(route, filled(route, segment), b"{}" if route.method != "GET" else None)


def test_hosts_origins_and_pages_at_every_route(served: SandboxDaemon, agent_token: str) -> None:
    port = served.discovery["url"].rpartition(":")[2]
    cases: list[tuple[dict[str, str], int]] = [
        ({"Host": f"evil.test:{port}"}, 421),
        ({"Host": f"127.0.0.1.nip.io:{port}"}, 421),
        ({"Host": f"127.0.0.1:{port}/x"}, 421),
        ({"Host": f"u@127.0.0.1:{port}"}, 421),
        ({"Host": "127.0.0.1:1"}, 421),
        ({"Origin": "https://evil.test"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Host": f"evil.test:{port}", "Origin": "https://evil.test"}, 421),
    ]
    wrong: list[str] = []
    with served.wire(agent_token) as agent, served.wire(None) as nobody:  # type: ignore[arg-type]
        for route in ALL_ROUTES:
            body = b"{}" if route.method != "GET" else None
            for headers, wanted in cases:
                for wire in (agent, nobody):
                    answer = wire.send(route.method, filled(route), body, headers)
                    if answer.status != wanted or "Set-Cookie" in answer.headers:
                        wrong.append(f"{route.method} {route.path} {headers}: {answer.status}")
    assert wrong == []


def test_every_get_route_takes_a_content_type_without_a_body(attack: Attack) -> None:
    for route in routes("GET", ending=False):
        plain = attack.wire(route).send("GET", filled(route))
        typed = attack.wire(route).send(
            "GET", filled(route), None, {"Content-Type": "application/json"}
        )
        assert plain.status == typed.status, route.path


def test_every_route_is_served_under_both_prefixes_and_with_a_slash(attack: Attack) -> None:
    for route in routes("GET", ending=False):
        statuses = set()
        for path in route.paths():
            for spelling in (path, path + "/"):
                concrete = spelling
                for name in ("id", "client"):
                    concrete = concrete.replace("{" + name + "}", ROW)
                statuses.add(attack.wire(route).send("GET", concrete.replace("//", "/")).status)
        assert len(statuses) == 1, (route.path, statuses)


def test_other_methods_and_unknown_routes_are_json(attack: Attack, served: SandboxDaemon) -> None:
    with served.owner() as wire:
        for route in ALL_ROUTES:
            for method in ("PUT", "DELETE", "OPTIONS", "TRACE"):
                if method == "DELETE" and route.path == "/mcp":
                    continue
                answer = wire.send(method, filled(route), b"{}")
                assert answer.status in (404, 405), (method, route.path, answer.status)
                assert answer.headers["Content-Type"].startswith("application/json")
        for path in ("/v1", "/v1/", "/v2/remember", "/v1/remember/x", "//v1/remember", "/mcpfoo"):
            answer = wire.get(path)
            assert answer.status == 404
            assert answer.code


@pytest.mark.timeout(180)
def test_wrong_types_at_every_argument_of_every_tool(attack: Attack, served: SandboxDaemon) -> None:
    choice = random.Random(5)
    with served.owner() as wire:
        agents = wire.get("/v1/agents").json["agents"]
        first = next(agent for agent in agents if agent["name"] == "first")
        wire.post(f"/v1/agents/{first['id']}/mcp-profile", {"mcp_profile": "full"})

    def call(method: str, parameters: object) -> Answer:
        attack.sent += 1
        message = {"jsonrpc": "2.0", "id": attack.sent, "method": method, "params": parameters}
        return attack.agent.post("/mcp", message)

    tools = call("tools/list", {}).json["result"]["tools"]
    assert len(tools) > 8
    values = [json.loads(value) for value in VALUES]
    for tool in tools:
        names = list(tool["inputSchema"].get("properties", {}))
        tries: list[object] = [dict.fromkeys(names, value) for value in values]
        tries += [{name: choice.choice(values)} for name in names]
        tries += values
        for arguments in tries:
            answer = call("tools/call", {"name": tool["name"], "arguments": arguments})
            where = f"{tool['name']} {json.dumps(arguments)[:60]}"
            text = answer.body.decode()
            if "\\ud800" in where and answer.status == 400:
                continue  # half a character is no JSON text
            if answer.status != 200 or ("result" not in answer.json and "error" not in answer.json):
                attack.found.append(f"{where}: {answer.status}")
            elif answer.json.get("error", {}).get("code") == -32603 or "Traceback" in text:
                attack.found.append(f"{where}: {text[:120]}")
            elif "error" in answer.json and CANARY in text:
                attack.found.append(f"{where}: echo")


HEADS: dict[str, bytes] = {
    "bad header byte": b"GET /health HTTP/1.1\r\nHost: %b\r\nX\xff\x00: y\r\n\r\n",
    "folded header": b"GET /health HTTP/1.1\r\nHost: %b\r\nX: a\r\n b\r\n\r\n",
    "two lengths": b"POST /v1/remember HTTP/1.1\r\nHost: %b\r\nContent-Length: 2\r\n"
    b"Content-Length: 3\r\n\r\n{}",
    "length and chunks": b"POST /v1/remember HTTP/1.1\r\nHost: %b\r\nContent-Length: 2\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    "bad chunk": b"POST /v1/remember HTTP/1.1\r\nHost: %b\r\n"
    b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
    "negative length": b"POST /v1/remember HTTP/1.1\r\nHost: %b\r\nContent-Length: -1\r\n\r\n",
    "long line": b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: %b\r\n\r\n",
    "many headers": b"GET /health HTTP/1.1\r\nHost: %b\r\n" + b"X: y\r\n" * 40_000 + b"\r\n",
    "no http": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\0" * 64,
    "no method": b"FOO /v1/remember HTTP/1.1\r\nHost: %b\r\n\r\n",
    "no version": b"GET /health\r\n\r\n",
    "http 9": b"GET /health HTTP/9.9\r\nHost: %b\r\n\r\n",
    "empty line first": b"\r\n\r\nGET /health HTTP/1.1\r\nHost: %b\r\n\r\n",
    "null in path": b"GET /\x00 HTTP/1.1\r\nHost: %b\r\n\r\n",
    "bytes in path": b"GET /v1/memories/\xff\xfe HTTP/1.1\r\nHost: %b\r\n\r\n",
    "smuggled": b"POST /v1/remember HTTP/1.1\r\nHost: %b\r\nContent-Length : 2\r\n\r\n{}",
}


@pytest.mark.parametrize("name", HEADS)
def test_http_that_is_none(name: str, served: SandboxDaemon, tcp: object) -> None:
    port = int(served.discovery["url"].rpartition(":")[2])
    request = HEADS[name].replace(b"%b", b"127.0.0.1:%d" % port)
    assert callable(tcp)
    try:
        answer = tcp(port, request)
    except ConnectionError:
        answer = None  # cut off in the middle of a head that has no end
    if answer is not None:
        assert answer.status in (0, 200, 400, 401, 404, 405, 411, 413, 414, 421, 431, 501, 505)
        assert b"Traceback" not in answer.body
        if answer.status >= 400:
            assert answer.json["error"]["code"]
    with served.owner() as wire:
        assert wire.get("/health").status == 200
