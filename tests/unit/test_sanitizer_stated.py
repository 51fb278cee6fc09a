"""Values behind fixed words, common passwords and hex bodies go; what resembles them stays
(redaction.md 4.3, 12, 13).
"""

from __future__ import annotations

import pytest
from secrets_generator_draw import Draw

from memory_manager.security.redact import sanitize_server_write

# ``{N}`` is drawn: h hex, a letters and digits, d digits, u a UUID
SECRET = {
    "django-cookie": "GET / with sessionid={h32}",
    "php-cookie": "Sent PHPSESSID={a26}; path=/",
    "java-cookie": "GET /a;jsessionid={h32}?x=1",
    "express-cookie": "connect.sid=s%3A{a30}",
    "wpa-key": "WPA2 key: {a12}7",
    "wpa-psk": "WPA2-PSK key: {a12}7",
    "wifi-key": "the wifi key is {a12}7!",
    "nix": "access-tokens = github.com={a36}77 code.acme.io=PAT:{a30}77",
    "outlook": "https://outlook.office.com/webhook/{u}@{u}/IncomingWebhook/{h32}/{u}",
    "outlook-connector": "https://outlook.office.com/webhook/{u}@{u}/JenkinsCI/{h32}/{u}",
    "hex-behind-word": "the token {h32}",
    "hex-behind-prefix": "use secret_{h40} there",
    "hex-behind-prefix-2": "tok-{h64}",
    "key-in-quotes": '<Setting key="{a14}aQ7" />',
    "passphrase": "the passphrase is {c6} {c7} {c5} {c8}.",
}
PIN = (
    "PIN {}", "pin: {}", "PIN code is {}", "The PIN code {} opens the door", "SIM PIN={}",
    "my pin {}", "the door pin is {}, twice",
)  # fmt: skip
PASSWORD = ("password hunter2", "the root password pa55w0rd works", "try password dragon99.")
HARMLESS = (
    "password sha256", "password step2 is done", "the password policy1 page", "passwords v2",
    "a password manager2 thing", "the password chapter12 covers", "password utf8mb4",
    "password hash123 x", "password oauth2 flow", "password room101",
    "PIN code 560001 is in Bangalore", "pin 4.2.1", "pin 13", "PIN: 1-800", "pin 2024",
    "spin: 1234", "Pin 1234 to the board", "pin code 1234567", "PIN 1234-5678-90",
    "pins 1021 and 1022", "sessionid=none", "session_id=abc", "sessionId: 42",
    "WPA2 key: see the router", "wifi key is on the fridge", "wifi code: none",
    "access-tokens = see the docs",
    'key="user.profile.title"', 'key="ctrl+shift+down"', 'key="TableOfContents1"',
    "the passphrase is stored inside the vault", "the passphrase is never written to disk",
    "the passphrase is kept beside other things",
)  # fmt: skip
LOOK_ALIKE = ("secret-{h32}-pod", "csrf-token-{h32}", "my_token_{h40}.json", "a/secret-{h32}")


def _filled(shape: str, draw: Draw) -> tuple[str, list[str]]:
    parts: list[str] = []
    drawn: list[str] = []
    for piece in shape.split("{"):
        kind, closed, rest = piece.partition("}")
        if not closed:
            parts.append(piece)
            continue
        value = draw.uuid() if kind == "u" else draw.of(kind[0], int(kind[1:]))
        drawn.append(value)
        parts += [value, rest]
    return "".join(parts), drawn


@pytest.mark.parametrize("name", SECRET)
def test_a_stated_secret_goes(name: str) -> None:
    for number in range(12):
        text, drawn = _filled(SECRET[name], Draw(f"{name}-{number}"))
        result = sanitize_server_write(text)
        # of a row of values every one goes, of an address the last two parts
        secret = drawn[2:] if name.startswith("outlook") else drawn
        assert not any(value in result.text for value in secret), (text, result.text)
        again = sanitize_server_write(result.text)
        assert not again.applied


@pytest.mark.parametrize("shape", PIN)
def test_a_pin_of_four_digits_goes(shape: str) -> None:
    for number in (7391, 4821, "0815"):
        assert str(number) not in sanitize_server_write(shape.format(number)).text


@pytest.mark.parametrize("text", PASSWORD)
def test_a_common_password_goes_without_a_separator(text: str) -> None:
    assert sanitize_server_write(text).applied


@pytest.mark.parametrize("text", HARMLESS)
def test_a_text_of_the_same_words_stays(text: str) -> None:
    assert sanitize_server_write(text).text is text


@pytest.mark.parametrize("shape", LOOK_ALIKE)
def test_hex_in_a_longer_name_stays(shape: str) -> None:
    text, _ = _filled(shape, Draw(shape))
    assert sanitize_server_write(text).text is text
