"""Texts made to cost a pattern matcher dear: the shapes of redaction.md 5.5, and more."""

from __future__ import annotations

import base64
import json
import random

PEM = "-----BEGIN " + "RSA PRIVATE KEY-----"
BASE64 = base64.b64encode(random.Random("cost").randbytes(200_000)).decode()
HEX = random.Random("cost").randbytes(110_000).hex()
JWT_PART = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("=")

REPEATED = {
    "a": "a", "token=": "token=", "token": "token", "eyJ": "eyJ", "jwt-part": JWT_PART + ".",
    "quote": '"', "name": 'name="', "percent": "%41", "a-dot": "a.", "a-slash": "a/",
    "a-space": "a a a", "userinfo": "a://b:", "curl": "curl ", "password-for": "password for ",
    "newline": "\n", "literal-newline": "\\n", "pem": PEM, "pem-line": PEM + "\n", "zoo": "zoo ",
    "pan": "4111 1111 1111 1111 ", "digits": "4111111111111111", "zero-width": "a\u200b",
    # beyond the contract's list: labels, schemes and breaks of other kinds
    "is": "secret is ", "chinese": "密码是", "arabic": "كلمة المرور ", "json": '{"a":',
    "list": "[", "backslash": "\\", "entity": "&#65;", "unicode": "\\u0041", "layers": "%2525",
    "mark": "[REDACTED:jwt]", "open-mark": "[REDACTED:", "bearer": "Bearer ", "flag": "--token ",
    "user-flag": "-u a:b ", "cookie": "Cookie: a=b;", "at": "a:b@", "codes": "recovery codes\n",
    "code-lines": "a1b2-c3d4\n", "machine": "machine a login b password ", "ansi": "\x1b[1m",
    "concat": '" + "', "wrap": "a\\\n", "mail": "> a\n", "aws": "AKIA",
    "putty": "Private-Lines: 1\n",
    "xml": '<add key="secret" value="', "phone": "+1 202 555 01 ", "mixed": "token: (", "İ": "İ",
    "prefix": "gh" + "p_", "dashes-prefix": "sk" + "-", "equals": "key==",
}  # fmt: skip


def _repeat(unit: str, size: int) -> str:
    return (unit * (size // len(unit) + 1))[:size]


def _once(name: str, size: int) -> str:
    return {
        "spaces": "x =" + " " * size + '"',
        "label-spaces": "password" + " " * size + '= "',
        "pem-base64": PEM + "\n" + BASE64[:size],
        "base64": BASE64[:size],
        "hex": HEX[:size],
        "schemes": "http" * (size // 4) + "://",
        "dashes": "sk" + "-" * size,
        "userinfo": "https://a:" + "b@" * (size // 2),
        "basic": "Authorization: Basic " + BASE64[:size],
        "dotted-capital": "İ" * size + " token=abc123def456",
        "words": "seed phrase: " + "abandon ability able about " * (size // 27),
        "base64-lines": "\n".join(BASE64[at : at + 64] for at in range(0, size, 64)),
        "json-string": json.dumps({"password": "a" * size}),
        "deep-json": "[" * (size // 2) + "]" * (size // 2),
    }[name]


ONCE = (
    "spaces", "label-spaces", "pem-base64", "base64", "hex", "schemes", "dashes", "userinfo",
    "basic", "dotted-capital", "words", "base64-lines", "json-string", "deep-json",
)  # fmt: skip
# near the bound of 200 KB: the bench prints it, the suite does not assert it
DEAR = ("machine",)
SHAPES = [*REPEATED, *(f"once-{name}" for name in ONCE)]


def shaped(name: str, size: int) -> str:
    """The hostile text of that name with about ``size`` characters."""
    if name.startswith("once-"):
        return _once(name.removeprefix("once-"), size)
    return _repeat(REPEATED[name], size)


# pieces that labels, schemes, marks and encodings are made of, for texts put together at random
FRAGMENTS = (
    "token", "password", "senha", "密码", "пароль", "secret", "api_key", "key", " = ", "=", ": ",
    "：", " is ", " é ", "是", '"', "'", "`", "\\", "\\n", "\\u0041", "\n", "\r\n", " ", "\t",
    "%41", "%25", "&#65;", "\u200b", "\u00ad", "\u202e", "\x00", "\x1b[31m", "\ud800", "\udfff",
    "[REDACTED]", "[REDACTED:jwt]", "[REDACTED:", "]", "***", "https://", "a:b@", "@", "?sig=",
    "--password ", "-u ", "Bearer ", "Authorization: ", "Cookie: ", "eyJ", ".", "-----BEGIN ",
    "PRIVATE KEY-----", "-----END ", "AKIA", "sk" + "-", "gh" + "p_", "xox" + "b-", "x", "Q7",
    "abc123def456", "Summer-2024x", "not-a-real-secret", "{", "}", "[", "(", ")", "<", ">", "|",
    "İ", "ß", "ﬁ", "🔑", "abandon ", "0x", "deadbeef", "recovery codes\n", "a1b2-c3d4\n", "${X}",
    "name: ", "value: ", "bob@acme.io", "+351 912 345 678", "A" * 40, "=" * 3, "YWJj", "6162",
)  # fmt: skip
