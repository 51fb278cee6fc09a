"""The login of the official MCP client, from its 401 to a forced refresh (xmemo.md 10, 16.3)."""

from __future__ import annotations

import asyncio
import dataclasses
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from mcp.client import Client
from mcp.client.auth import AuthorizationCodeResult, OAuthClientProvider, TokenStorage
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from mcp_session import e1, health_polled
from oauth_client import answer_of, waiting
from pydantic import AnyUrl
from sandbox_daemon import Answer, SandboxDaemon, Wire

CALLBACK = "http://localhost:3030/callback"


@dataclasses.dataclass
class Storage(TokenStorage):
    """What the client keeps between its runs."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@dataclasses.dataclass
class Person:
    """The browser of the client's user, and the terminal in which they approve."""

    daemon: SandboxDaemon
    approves: bool = True
    seen: list[str] = dataclasses.field(default_factory=list)
    given: dict[str, str] = dataclasses.field(default_factory=dict)

    async def follow(self, url: str) -> None:
        self.given = await asyncio.to_thread(self._follow, url)

    def _follow(self, url: str) -> dict[str, str]:
        self.seen.append(url)
        with Wire(self.daemon.url) as browser, self.daemon.owner() as owner:
            parts = urlsplit(url)
            shown: Answer = browser.send(
                "GET", f"{parts.path}?{parts.query}", headers={"Accept": "text/html"}
            )
            code, secret = waiting(shown)
            word = "approve" if self.approves else "deny"
            assert owner.post(f"/v1/approvals/{code}/{word}").status == 200
            return answer_of(browser.get("/oauth/authorize", request=secret))

    async def answer(self) -> AuthorizationCodeResult:
        return AuthorizationCodeResult(code=self.given.get("code", ""), state=self.given["state"])


def provider_of(daemon: SandboxDaemon, storage: Storage, person: Person) -> OAuthClientProvider:
    metadata = OAuthClientMetadata(
        client_name="official-sdk",
        redirect_uris=[AnyUrl(CALLBACK)],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
    )
    return OAuthClientProvider(f"{daemon.url}/mcp", metadata, storage, person.follow, person.answer)


async def identity_of(daemon: SandboxDaemon, provider: OAuthClientProvider) -> str:
    async with (
        health_polled(daemon.url),
        httpx2.AsyncClient(auth=provider, timeout=30) as http,
        Client(streamable_http_client(f"{daemon.url}/mcp", http_client=http)) as client,
    ):
        told = await client.call_tool("get_mcp_identity", {})
        await e1(client)
        return str(told.content[0].text)  # type: ignore[union-attr]


async def test_the_official_client_logs_in_and_refreshes(served: SandboxDaemon) -> None:
    storage, person = Storage(), Person(served)
    first = await identity_of(served, provider_of(served, storage, person))
    assert first.startswith("official-sdk")
    asked = parse_qs(urlsplit(person.seen[0]).query)
    assert asked["resource"] == [f"{served.url}/mcp"]
    assert asked["code_challenge_method"] == ["S256"]
    assert storage.tokens is not None
    before = storage.tokens
    assert before.expires_in is not None
    assert before.refresh_token

    again = provider_of(served, storage, person)  # another run of the client: no browser
    await again._initialize()
    again.context.token_expiry_time = 1.0  # as if the hour were over: it must refresh
    assert (await identity_of(served, again)).splitlines()[0] == first.splitlines()[0]
    assert len(person.seen) == 1
    assert storage.tokens.access_token != before.access_token
    assert storage.tokens.refresh_token != before.refresh_token

    with served.owner() as owner:
        named = [a for a in owner.get("/v1/agents").json["agents"] if a["name"] == "official-sdk"]
        assert len(named) == 1
        assert owner.post("/v1/agents/official-sdk/revoke").status == 200
    await identity_of(served, provider_of(served, storage, person))  # revoked: the login again
    assert len(person.seen) == 2


async def test_a_refused_login_is_an_error_not_a_hang(served: SandboxDaemon) -> None:
    provider = provider_of(served, Storage(), Person(served, approves=False))
    with pytest.raises(BaseException, match=r"(?i)token|code|grant|unhandled"):
        await asyncio.wait_for(identity_of(served, provider), 30)
