"""A small OAuth client for tests of the wire: it does what a program and its browser do."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import re
import secrets
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from sandbox_daemon import Answer, SandboxDaemon, Wire

FORM = {"Content-Type": "application/x-www-form-urlencoded"}
REDIRECT_URI = "http://127.0.0.1:33418/callback"


def post_form(wire: Wire, path: str, /, **fields: str) -> Answer:
    return wire.send("POST", path, urlencode(fields).encode(), FORM)


@dataclasses.dataclass
class OAuthClient:
    """One registered client; ``authorize`` leaves a waiting request in the daemon."""

    wire: Wire
    client_id: str
    redirect_uri: str = REDIRECT_URI
    verifier: str = dataclasses.field(default_factory=lambda: secrets.token_urlsafe(48))

    @property
    def challenge(self) -> str:
        digest = hashlib.sha256(self.verifier.encode()).digest()
        return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()

    def authorize(self, **changed: str | None) -> Answer:
        fields = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "state": "st&te",
            "code_challenge": self.challenge,
            "code_challenge_method": "S256",
            "scope": "memory:read memory:write",
            **changed,
        }
        query = urlencode({k: v for k, v in fields.items() if v is not None})
        return self.wire.send("GET", f"/oauth/authorize?{query}", headers={"Accept": "text/html"})

    def redeem(self, code: str, **changed: str) -> Answer:
        fields = {
            "grant_type": "authorization_code",
            "code": code,
            "client_id": self.client_id,
            "redirect_uri": self.redirect_uri,
            "code_verifier": self.verifier,
            **changed,
        }
        return post_form(self.wire, "/oauth/token", **fields)

    def refresh(self, refresh_token: str, **changed: str) -> Answer:
        fields = {
            "grant_type": "refresh_token",
            "refresh_token": refresh_token,
            "client_id": self.client_id,
            **changed,
        }
        return post_form(self.wire, "/oauth/token", **fields)


def register(wire: Wire, name: str = "editor", *uris: str) -> OAuthClient:
    wanted = list(uris or (REDIRECT_URI,))
    answer = wire.post("/oauth/register", {"client_name": name, "redirect_uris": wanted})
    assert answer.status == 201, answer.body
    return OAuthClient(wire, answer.json["client_id"], wanted[0])


def waiting(page: Answer) -> tuple[str, str]:
    """User code and secret of a waiting page."""
    text = page.body.decode()
    code = re.search(r'class="code">([A-Z-]+)<', text)
    secret = re.search(r"request=([0-9a-f]{64})", text) or re.search(
        r'name="request" value="([0-9a-f]{64})"', text
    )
    assert code is not None, text
    assert secret is not None, text
    return code[1], secret[1]


def answer_of(redirect: Answer) -> dict[str, str]:
    """The parameters that went back to the program."""
    assert redirect.status == 302, redirect.body
    query = parse_qs(urlsplit(redirect.headers["Location"]).query)
    return {name: values[0] for name, values in query.items()}


def granted_code(client: OAuthClient, owner: Wire, **changed: str | None) -> str:
    """An authorization code, approved in the terminal."""
    code, secret = waiting(client.authorize(**changed))
    assert owner.post(f"/v1/approvals/{code}/approve").status == 200
    return answer_of(client.wire.get("/oauth/authorize", request=secret))["code"]


def granted(served: SandboxDaemon, wire: Wire, name: str = "editor") -> tuple[OAuthClient, Any]:
    """A client with tokens."""
    client = register(wire, name)
    with served.owner() as owner:
        answer = client.redeem(granted_code(client, owner))
    assert answer.status == 200, answer.body
    return client, answer.json
