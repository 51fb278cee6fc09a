"""Rules of OAuth without a server: redirect addresses, PKCE, resources, codes (xmemo.md 10)."""

from __future__ import annotations

import base64
import hashlib
import random
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from memory_manager.auth.errors import InvalidRedirectUri, TooManyAttempts, UnknownLogin
from memory_manager.auth.logins import LoginDesk, LoginKind, Redirect
from memory_manager.auth.oauth_codes import CODE_SECONDS, AuthorizationCodes, Redeemed, Reused
from memory_manager.auth.oauth_rules import (
    check_redirect_uri,
    is_challenge,
    names_us,
    verifier_matches,
    with_parameters,
)
from memory_manager.auth.scopes import MEMORY_SCOPES
from memory_manager.base.identifiers import CredentialId

RFC_VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
RFC_CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
GOOD = [
    "vscode://xmemo.xmemo-vscode/auth-callback",
    "vscode://xmemo.xmemo-vscode/auth-callback?windowId=_blank",
    "vscode-insiders://xmemo.xmemo-vscode/auth-callback",
    "http://127.0.0.1",
    "http://127.0.0.1/",
    "http://127.0.0.1:33418/",
    "http://127.0.0.1:33418/oauth/callback?x=1",
    "http://localhost:8080/cb",
    "http://[::1]:3000/cb",
]
BAD = [
    "",
    "javascript:alert(1)",
    "data:text/html,x",
    "file:///etc/passwd",
    "https://evil.test/cb",
    "https://127.0.0.1/cb",
    "http://evil.test/cb",
    "http://127.0.0.1.evil.test/cb",
    "http://127.0.0.1.nip.io/cb",
    "http://localhost.evil.test/cb",
    "http://127.0.0.1@evil.test/cb",
    "http://evil.test#@127.0.0.1/cb",
    "http://127.0.0.1:80@evil.test/cb",
    "http://user:pass@127.0.0.1/cb",
    "http://127.0.0.1\\@evil.test/cb",
    "http://127.0.0.1\\.evil.test",
    "http:\\\\127.0.0.1\\cb",
    "http:/127.0.0.1/cb",
    "//127.0.0.1/cb",
    "http://127.0.0.1:99999/cb",
    "http://127.0.0.1:0/cb",
    "http://127.0.0.1:/cb",
    "http://127.0.0.1:\u0661\u0662/cb",
    "http://127.0.0.1/cb#fragment",
    "http://127.0.0.1/cb\r\nSet-Cookie: a=b",
    "http://127.0.0.1/cb\n",
    " http://127.0.0.1/cb",
    "http://127.0.0.1 /cb",
    "http://127.1/cb",
    "http://0x7f000001/cb",
    "http://2130706433/cb",
    "http://0.0.0.0/cb",
    "http://[::]/cb",
    "http://[::1%25lo]/cb",
    "http://[::ffff:127.0.0.1]/cb",
    "HTTP://127.0.0.1/cb",
    "http://LOCALHOST/cb",
    "http://localhost./cb",
    "http://ⓛocalhost/cb",
    "http://127。0。0。1/cb",
    "vscode:evil",
    "vscode:///path",
    "vscode://a b/c",
    "vscode://evil.test@x/y",
    "vscode-evil://x/y",
    "vscode://x/y#z",
    'vscode://x/"onload=',
    "vscode://x/<script>",
    "http://127.0.0.1/" + "a" * 2_048,
]


@pytest.mark.parametrize("uri", GOOD)
def test_addresses_on_this_machine_are_accepted(uri: str) -> None:
    assert check_redirect_uri(uri) == uri


@pytest.mark.parametrize("number", range(len(BAD)))
def test_other_addresses_are_refused(number: int) -> None:
    with pytest.raises(InvalidRedirectUri) as refused:
        check_redirect_uri(BAD[number])
    assert not BAD[number] or BAD[number] not in refused.value.message


@given(st.text(max_size=60), st.sampled_from(GOOD))
def test_whatever_is_accepted_leads_to_this_machine_or_an_editor(text: str, start: str) -> None:
    uri = start + text
    try:
        check_redirect_uri(uri)
    except InvalidRedirectUri:
        return
    parts = urlsplit(uri)
    assert parts.scheme in ("vscode", "vscode-insiders") or parts.hostname in (
        "127.0.0.1", "localhost", "::1",
    )  # fmt: skip
    assert parts.fragment == ""
    assert parts.username is None
    assert uri.isascii()
    assert uri.isprintable()


def test_pkce_is_that_of_the_standard() -> None:
    assert verifier_matches(RFC_VERIFIER, RFC_CHALLENGE)
    assert not verifier_matches(RFC_VERIFIER[:-1] + "X", RFC_CHALLENGE)
    assert not verifier_matches("", RFC_CHALLENGE)
    assert not verifier_matches(RFC_CHALLENGE, RFC_CHALLENGE)  # "plain" is unknown


def test_a_verifier_may_use_dots_and_tildes() -> None:
    verifier = "a.b~c-d_e" * 6
    digest = hashlib.sha256(verifier.encode()).digest()
    challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    assert is_challenge(challenge)
    assert verifier_matches(verifier, challenge)


@pytest.mark.parametrize("length", [0, 42, 129])
def test_a_verifier_has_43_to_128_characters(length: int) -> None:
    verifier = "a" * length
    digest = hashlib.sha256(verifier.encode()).digest()
    challenge = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    assert not verifier_matches(verifier, challenge)


@pytest.mark.parametrize(
    ("resource", "ours"),
    [
        ("", True),
        ("http://127.0.0.1:5/mcp", True),
        ("http://127.0.0.1:5/mcp/", True),
        ("http://127.0.0.1:5", True),
        ("http://LOCALHOST:5/mcp", True),
        ("http://127.0.0.1:6/mcp", False),
        ("https://127.0.0.1:5/mcp", False),
        ("https://xmemo.dev/mcp", False),
        ("http://127.0.0.1:5/mcp/other", False),
    ],
)
def test_a_resource_is_empty_or_ours(resource: str, ours: bool) -> None:
    assert names_us(resource, ("http://127.0.0.1:5", "http://localhost:5")) is ours


def test_an_answer_keeps_the_query_of_its_address() -> None:
    uri = with_parameters("http://127.0.0.1/cb?a=1", {"code": "c&d", "state": None})
    assert parse_qs(urlsplit(uri).query) == {"a": ["1"], "code": ["c&d"]}


REDIRECT = Redirect("client", "http://127.0.0.1/cb", "s", RFC_CHALLENGE)


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def codes_at(clock: Clock) -> AuthorizationCodes:
    return AuthorizationCodes(clock=clock, random_bytes=random.Random(3).randbytes)


def redeem(codes: AuthorizationCodes, code: str, **changed: str) -> Redeemed | Reused | None:
    given = {
        "client_id": REDIRECT.client_id,
        "redirect_uri": REDIRECT.redirect_uri,
        "verifier": RFC_VERIFIER,
        **changed,
    }
    return codes.redeem(code, **given)


def test_a_code_works_once_and_its_second_use_names_the_grant() -> None:
    codes = codes_at(Clock())
    code = codes.issue(REDIRECT, MEMORY_SCOPES)
    first = redeem(codes, code)
    assert isinstance(first, Redeemed)
    assert redeem(codes, code) == Reused(first.credential_id)


@pytest.mark.parametrize(
    "changed",
    [
        {"client_id": "other"},
        {"redirect_uri": "http://127.0.0.1/other"},
        {"redirect_uri": ""},
        {"verifier": "x" * 43},
        {"verifier": ""},
    ],
    ids=["client", "redirect", "no-redirect", "verifier", "no-verifier"],
)
def test_a_code_is_bound_and_a_wrong_use_spends_it(changed: dict[str, str]) -> None:
    codes = codes_at(Clock())
    code = codes.issue(REDIRECT, MEMORY_SCOPES)
    assert redeem(codes, code, **changed) is None
    assert not isinstance(redeem(codes, code), Redeemed)


def test_a_code_lives_sixty_seconds() -> None:
    clock = Clock()
    codes = codes_at(clock)
    early, late = codes.issue(REDIRECT, MEMORY_SCOPES), codes.issue(REDIRECT, MEMORY_SCOPES)
    clock.now = CODE_SECONDS - 0.001
    assert isinstance(redeem(codes, early), Redeemed)
    clock.now = CODE_SECONDS
    assert redeem(codes, late) is None


def test_unknown_codes_are_nothing() -> None:
    assert redeem(codes_at(Clock()), "0" * 64) is None


class OAuthModel(RuleBasedStateMachine):
    """Any order of steps of several programs: one grant for a yes, none without, none twice."""

    requests = Bundle("requests")
    codes = Bundle("codes")

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        source = random.Random(7).randbytes
        self.desk = LoginDesk(clock=self.clock, random_bytes=source)
        self.authorization = AuthorizationCodes(clock=self.clock, random_bytes=source)
        self.approved: set[str] = set()
        self.claimed: list[str] = []
        self.granted: dict[str, CredentialId] = {}
        self.spent: set[str] = set()
        self.issued_at: dict[str, float] = {}

    @rule(target=requests)
    def ask(self) -> tuple[str, str]:
        login, secret = self.desk.start(LoginKind.OAUTH, "editor", MEMORY_SCOPES, REDIRECT)
        return login.user_code, secret

    @rule(request=requests, approve=st.booleans())
    def decide(self, request: tuple[str, str], approve: bool) -> None:
        try:
            self.desk.decide(request[0], approve=approve)
        except (UnknownLogin, TooManyAttempts):
            return
        if approve:
            self.approved.add(request[1])

    @rule(target=codes, request=requests)
    def claim(self, request: tuple[str, str]) -> str:
        login = self.desk.claim(request[1])
        if login is None:
            return ""
        assert request[1] in self.approved
        self.claimed.append(request[1])
        self.desk.finish(login)
        code = self.authorization.issue(REDIRECT, login.scopes)
        self.issued_at[code] = self.clock.now
        return code

    @rule(code=codes, right=st.booleans())
    def redeem(self, code: str, right: bool) -> None:
        changed = {} if right else {"verifier": "y" * 43}
        found = redeem(self.authorization, code, **changed)
        if code in self.spent:
            assert isinstance(found, Reused)
            assert self.granted.get(code, found.credential_id) == found.credential_id
            return
        if isinstance(found, Redeemed):
            assert right
            assert self.clock.now - self.issued_at[code] < CODE_SECONDS
            self.granted[code] = found.credential_id
        else:
            assert found is None
        if code:
            self.spent.add(code)

    @rule(seconds=st.sampled_from([1.0, 30.0, 61.0, 601.0]))
    def wait(self, seconds: float) -> None:
        self.clock.now += seconds

    @invariant()
    def one_grant_for_one_yes(self) -> None:
        assert len(self.claimed) == len(set(self.claimed)) <= len(self.approved)
        assert len(set(self.granted.values())) == len(self.granted) <= len(self.claimed)


TestOAuthModel = OAuthModel.TestCase
TestOAuthModel.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
