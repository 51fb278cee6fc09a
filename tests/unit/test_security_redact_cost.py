"""Bounded cost on hostile shapes (redaction.md 5.5) and what a harmless text costs."""

from __future__ import annotations

import base64
import random
import subprocess
import sys
import time

import pytest

from memory_manager.security.redact import sanitize_server_write

SIZE = 20_000
# three times the contract's bound: test machines are shared, and caches with them
MAX_SECONDS = 0.75
PEM = "-----BEGIN RSA PRIVATE KEY-----"
REPEATED = (
    "a", "token=", "token", "eyJ", "eyJhbGciOiJIUzI1NiJ9.", '"', 'name="', "%41", "a.",
    "a/", "a a a", "a://b:", "curl ", "password for ", "\n", "\\n", PEM, PEM + "\n", "zoo ",
    "4111 1111 1111 1111 ", "a\u200b", "0123456789abcdef", "secret is ", "%2525", "\\", '{"a":',
    "[", "Bearer ", "authorization: ", "Cookie: a=b;", "AKIA", "ghp_", "-u a:b ", "[REDACTED:jwt]",
    "machine a login b password ", "recovery codes\n", "PuTTY-User-Key-File-", "://a:b@", "密码是",
    "密码", "--token ", "SG.", "EAAA", "Q~", ":AA", 'key: "', "token: (", "\x1b[", "İ",
)  # fmt: skip
BASE64 = base64.b64encode(random.Random(1).randbytes(SIZE)).decode()[:SIZE]
ONCE = {
    "spaces": "x = " + " " * SIZE + '"',
    "key and base64": PEM + "\n" + BASE64,
    "base64": BASE64,
    "schemes": "http" * (SIZE // 4) + "://",
    "dashes": "sk-" + "-" * SIZE,
    "userinfo": "https://a:" + "b@" * (SIZE // 2),
    "basic": "Authorization: Basic " + BASE64,
    "dotted capitals": "İ" * SIZE + " token=abc123def456",
    "label and spaces": "token" + " " * SIZE + '="',
}


def _cost(text: str) -> float:
    started = time.thread_time()
    sanitize_server_write(text)
    return time.thread_time() - started


@pytest.mark.parametrize("unit", REPEATED)
def test_a_repeated_shape_costs_little(unit: str) -> None:
    assert _cost((unit * (SIZE // len(unit) + 1))[:SIZE]) < MAX_SECONDS


@pytest.mark.parametrize("name", ONCE)
def test_a_filled_shape_costs_little(name: str) -> None:
    assert _cost(ONCE[name]) < MAX_SECONDS


def test_the_value_after_a_letter_that_grows_in_lower_case_is_cut_exactly() -> None:
    text = "İ" * 50 + " token=abc123def456 end"
    assert sanitize_server_write(text).text == ("İ" * 50 + " token=[REDACTED:labelled-secret] end")


def test_importing_the_sanitizer_reads_no_network_and_no_database() -> None:
    code = (
        "import sys; from memory_manager.security.redact import sanitize_server_write;"
        "heavy = {'sqlcipher3', 'aiohttp', 'socket', 'ssl', 'numpy', 'mnemonic'};"
        "print(sorted(heavy & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
