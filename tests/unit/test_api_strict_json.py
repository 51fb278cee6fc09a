"""The JSON border: strict or a typed refusal, and never an echo of the input."""

from __future__ import annotations

import json

import pytest

from memory_manager.api.errors import InvalidJson
from memory_manager.api.strict_json import MAX_DEPTH, parse_object, parse_value


@pytest.mark.parametrize(
    "body",
    [
        b'{"a": 1',
        b'{"a": 1} trailing',
        b'{"a": 1, "a": 2}',
        b'{"a": 1, "\\u0061": 2}',
        b'{"deep": {"x": 1, "x": 1}}',
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": -Infinity}',
        b'{"a": 1e999}',
        b'{"a": "\\ud800"}',
        b'{"\\udfff": 1}',
        b'{"a": ["\\uDBFFx"]}',
        b'{"a": "\xff"}',
        b'\xef\xbb\xbf{"a": 1}',
        '{"a": 1}'.encode("utf-16"),
        b"[" * 100 + b"]" * 100,
        b'{"a":' * 100 + b"1" + b"}" * 100,
        b"[" * 100_000,
        b'{"a": 1' + b"0" * 5_000 + b"}",
    ],
)
def test_unacceptable_json_is_refused_without_an_echo(body: bytes) -> None:
    with pytest.raises(InvalidJson) as refused:
        parse_value(body)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__ or refused.value.__context__ is None
    assert "\\ud800" not in str(refused.value)


@pytest.mark.parametrize(
    ("body", "value"),
    [
        (b"", {}),
        (b"  \n", {}),
        (b"{}", {}),
        (b'{"a": "\\ud83d\\ude00"}', {"a": "\U0001f600"}),
        ('{"a": "köln 安装"}'.encode(), {"a": "köln 安装"}),
        (b'{"a": 1e3, "b": -0, "c": null}', {"a": 1000.0, "b": 0, "c": None}),
        (b'{"a": 12345678901234567}', {"a": 12345678901234567}),
        (b'{"a": 1234567890123456789012}', {"a": 1.2345678901234568e21}),
    ],
)
def test_acceptable_bodies(body: bytes, value: object) -> None:
    assert parse_object(body) == value


def test_depth_limit_is_exact() -> None:
    within = "[" * MAX_DEPTH + "]" * MAX_DEPTH
    assert parse_value(within.encode()) == json.loads(within)
    with pytest.raises(InvalidJson):
        parse_value(f"[{within}]".encode())


def test_brackets_inside_text_are_no_depth() -> None:
    text = "[{" * 200
    assert parse_object(json.dumps({"a": text}).encode()) == {"a": text}


@pytest.mark.parametrize("body", [b"[]", b"1", b'"text"', b"null", b"true"])
def test_a_body_must_be_an_object(body: bytes) -> None:
    with pytest.raises(InvalidJson):
        parse_object(body)
