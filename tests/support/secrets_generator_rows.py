"""Rows with a secret at every position, and secrets split over a row's strings (redaction.md 8)."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from secrets_generator_draw import Draw, Value
from secrets_generator_keys import pem

Row = dict[str, Any]
Place = Callable[[str], Row]


def _argv(value: str) -> Row:
    return {"provenance": {"argv": ["tool", "login", "--token", value, "--verbose"]}}


# where any self-identifying token may stand
PLACES: dict[str, Place] = {
    "content": lambda v: {"content": f"we used {v} there"},
    "title": lambda v: {"content": "x", "title": v},
    "tag": lambda v: {"content": "x", "tags": ["shop", v]},
    "path": lambda v: {"content": "x", "path": f"notes/{v}"},
    "metadata-leaf": lambda v: {"content": "x", "metadata": {"note": v}},
    "metadata-key": lambda v: {"content": "x", "metadata": {v: 1}},
    "metadata-deep": lambda v: {"content": "x", "metadata": {"a": [[{"b": {"c": ["k", v]}}]]}},
    "metadata-tuple": lambda v: {"content": "x", "metadata": {"pair": ("a", v)}},
    "metadata-bytes": lambda v: {"content": "x", "metadata": {"raw": v.encode()}},
    "metadata-json": lambda v: {"content": "x", "metadata": {"body": json.dumps({"list": [v]})}},
    "metadata-json-twice": lambda v: {
        "content": "x", "metadata": {"body": json.dumps({"inner": json.dumps([{"t": v}])})}
    },
    "metadata-url": lambda v: {"content": "x", "metadata": {"url": f"https://acme.io/?q={v}"}},
    "provenance-url": lambda v: {"content": "x", "provenance": {"url": f"https://acme.io/{v}/x"}},
    "provenance-argv": lambda v: {"content": "x", "provenance": {"argv": ["tool", f"--x={v}"]}},
    "provenance-cwd": lambda v: {"content": "x", "provenance": {"cwd": f"/tmp/{v}"}},
    "provenance-branch": lambda v: {"content": "x", "provenance": {"branch": f"fix/{v}"}},
    "provenance-file": lambda v: {"content": "x", "provenance": {"file": f"src/{v}.py"}},
    "search-text": lambda v: {"content": "x", "search_text": f"shop {v}"},
    "entities": lambda v: {"content": "x", "entities": [{"name": v, "kind": "tool"}]},
    "todo": lambda v: {"content": "x", "todos": [{"text": f"rotate {v}", "done": False}]},
    "audit-before": lambda v: {"content": "x", "audit": {"before": {"content": f"old {v}"}}},
    "error": lambda v: {"content": "x", "error": f"HTTP 401 for {v}"},
    "content-json": lambda v: {"content": json.dumps({"steps": [{"run": v}]})},
}  # fmt: skip

# where a password is told by its key, name or neighbour
KEYED: dict[str, Place] = {
    "key": lambda v: {"metadata": {"password": v}},
    "key-camel": lambda v: {"metadata": {"dbPassword": v}},
    "key-upper": lambda v: {"metadata": {"API_KEY": v}},
    "key-dash": lambda v: {"metadata": {"client-secret": v}},
    "key-space": lambda v: {"metadata": {"access token": v}},
    "key-pt": lambda v: {"metadata": {"senha": v}},
    "key-es": lambda v: {"metadata": {"contraseña": v}},
    "key-fr": lambda v: {"metadata": {"mot de passe": v}},
    "key-de": lambda v: {"metadata": {"Passwort": v}},
    "key-pl": lambda v: {"metadata": {"hasło": v}},
    "key-ru": lambda v: {"metadata": {"пароль": v}},
    "key-zh": lambda v: {"metadata": {"密码": v}},
    "key-ja": lambda v: {"metadata": {"パスワード": v}},
    "key-ko": lambda v: {"metadata": {"비밀번호": v}},
    "key-tr": lambda v: {"metadata": {"şifre": v}},
    "key-nl": lambda v: {"metadata": {"wachtwoord": v}},
    "key-ar": lambda v: {"metadata": {"كلمة المرور": v}},
    "subtree-list": lambda v: {"metadata": {"passwords": [v]}},
    "subtree-dict": lambda v: {"metadata": {"credentials": {"first": {"of": v}}}},
    "argv": _argv,
    "argv-short": lambda v: {"provenance": {"argv": ["mytool", "--password", v]}},
    "pair-name": lambda v: {"metadata": {"env": [{"name": "DB_PASSWORD", "value": v}]}},
    "pair-key": lambda v: {"metadata": {"env": [{"key": "API_TOKEN", "value": v}]}},
    "pair-turned": lambda v: {"metadata": {"env": [{"value": v, "name": "CLIENT_SECRET"}]}},
    "header": lambda v: {"metadata": {"headers": [["Accept", "*/*"], ["X-Api-Key", v]]}},
    "header-dict": lambda v: {"metadata": {"headers": {"X-Auth-Token": v}}},
    "json-leaf": lambda v: {"metadata": {"body": json.dumps({"db": {"password": v}})}},
    "json-content": lambda v: {"content": json.dumps({"user": "bob", "password": v})},
    "json-array": lambda v: {"content": json.dumps([{"name": "API_TOKEN", "value": v}])},
    "bytes": lambda v: {"metadata": {"password": v.encode()}},
    "nested-env": lambda v: {"metadata": {"compose": {"env": {"PGPASSWORD": v}}}},
}


def shown(row: Any) -> str:
    """Everything in a row as text, with bytes decoded and inner escapes as they are."""
    return json.dumps(row, ensure_ascii=False, default=_text)


def _text(value: object) -> object:
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    return str(value)


# cuts that the contract names; of others it asks for the best effort
SURE_SPLITS = ("pem-title", "pem-path", "pem-cut", "pem-lines", "aws-metadata", "aws-leaves")


def split_rows(draw: Draw) -> dict[str, tuple[Row, Value]]:
    """Rows of which two strings together hold a secret."""
    key = pem(draw, "plain")
    header, *body = key.text.split("\n")
    key_id, secret = draw.of("3", 16), draw.of("b", 40)
    token = "gh" + "p_" + draw.of("a", 36)
    label = draw.password()
    long = draw.of("w", 93)
    return {
        "pem-title": ({"title": header, "content": "\n".join(body)}, key),
        "pem-path": ({"path": header, "content": "\n".join(body)}, key),
        "pem-cut": (
            {"content": "\n".join((header, *body[:3])), "metadata": {"r": "\n".join(body[3:-1])}},
            Value("", key.secrets),
        ),
        "pem-lines": ({"content": "key", "metadata": {"lines": [header, *body]}}, key),
        "aws-metadata": (
            {"content": f"use {secret} here", "metadata": {"id": f"AKIA{key_id}"}},
            Value("", (key_id, secret)),
        ),
        "aws-leaves": (
            {"metadata": {"id": f"AKIA{key_id}", "other": secret}}, Value("", (key_id, secret))
        ),
        "token-fields": (
            {"content": token[:20], "metadata": {"rest": token[20:]}}, Value("", (token[4:],))
        ),
        "token-list": (
            {"metadata": {"parts": ["sk-" + "ant-api03-" + long[:40], long[40:] + "AA"]}},
            Value("", (long[:40], long[40:])),
        ),
        "label-value": ({"metadata": {"label": "password", "value": label}}, Value("", (label,))),
    }  # fmt: skip
