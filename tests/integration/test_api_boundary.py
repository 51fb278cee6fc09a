"""The label between caller and row: six lines, on every recall route, and never a right."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from sandbox_daemon import SandboxDaemon, Wire

# (row's agent, row's instance, caller's agent, caller's instance) -> relation, ownership
LINES = [
    ((None, "i1"), ("a", "i1"), "unknown", "unknown"),
    (("a", "i1"), (None, "i1"), "unverified", "unverified"),
    (("a", "i1"), ("b", "i1"), "other_agent", "other_agent"),
    (("a", None), ("a", "i1"), "unverified", "unverified"),
    (("a", "i1"), ("a", None), "unverified", "unverified"),
    (("a", "i1"), ("a", "i1"), "self", "current_agent"),
    (("a", "i1"), ("a", "i2"), "same_agent_other_instance", "same_agent_other_instance"),
]
Identity = tuple[str | None, str | None]


def _read_as_hermes(item: dict[str, Any]) -> object:
    """The order in which a public client looks for the label; it never reads ``relation``."""
    boundary = item.get("agent_boundary")
    if isinstance(boundary, str):
        return boundary
    for key in ("boundary", "agent_boundary", "relationship", "ownership"):
        if isinstance(boundary, dict) and key in boundary:
            return boundary[key]
    return item.get("ownership")


@pytest.fixture(scope="module")
def speak(served: SandboxDaemon, agent_token: str) -> Callable[[Identity], Wire]:
    def wire(identity: Identity) -> Wire:
        agent, instance = identity
        return served.wire(agent_token, agent=agent, instance=instance)

    return wire


@pytest.mark.parametrize(("row", "caller", "relation", "ownership"), LINES)
def test_every_line_on_every_route(
    speak: Callable[[Identity], Wire],
    row: Identity,
    caller: Identity,
    relation: str,
    ownership: str,
) -> None:
    bucket = f"{row}{caller}"
    with speak(row) as writer:
        stored = writer.remember("boundary marker text", bucket=bucket)["id"]
    with speak(caller) as reader:
        items = [
            *reader.search("boundary marker", bucket=bucket),
            *reader.context("boundary marker", bucket=bucket)["items"],
            reader.get(f"/v1/memories/{stored}").json,
            reader.get(f"/v1/memories/{stored}/explain").json["memory"],
            *reader.get("/v1/memories", bucket=bucket).json["results"],
        ]
        whole = reader.context("boundary marker", bucket=bucket)["agent_boundary"]
    assert len(items) == 5
    for item in items:
        assert item["memory_agent_boundary"] == {
            "relation": relation,
            "ownership": ownership,
            "boundary_authority": "attribution_only",
            "current_agent_trust": "client_asserted",
        }
        assert _read_as_hermes(item) == relation
        assert item["ownership"] == ownership
    assert whole["relation"] == relation


@pytest.mark.parametrize(
    "odd", ["${XMEMO_AGENT_INSTANCE_ID}", "", "   ", "x" * 257, "sha256:zz", "\xff\xfe"]
)
def test_odd_instance_ids_count_as_absent(
    served: SandboxDaemon, agent_token: str, odd: str
) -> None:
    bucket = f"odd-{hashlib.sha256(odd.encode()).hexdigest()[:8]}"
    with served.wire(agent_token, agent="a", instance="i1") as writer:
        writer.remember("odd label", bucket=bucket)
    with served.wire(agent_token, agent="a", instance=odd) as reader:
        (item,) = reader.search("odd", bucket=bucket)
    assert item["memory_agent_boundary"]["relation"] == "unverified"


@pytest.mark.parametrize("odd", ["${AGENT}", " ", "x" * 257])
def test_odd_agent_ids_count_as_absent(served: SandboxDaemon, agent_token: str, odd: str) -> None:
    bucket = f"odd-agent-{len(odd)}"
    with served.wire(agent_token, agent=odd, instance="i1") as writer:
        writer.remember("odd agent", bucket=bucket)
    with served.wire(agent_token, agent="a", instance="i1") as reader:
        (item,) = reader.search("odd", bucket=bucket)
    assert (item["memory_agent_boundary"]["relation"], item["agent_id"]) == ("unknown", None)


def test_a_hash_in_place_of_the_id_is_the_same_instance(
    served: SandboxDaemon, agent_token: str
) -> None:
    instance = "codex-local-install"
    digest = hashlib.sha256(instance.encode()).hexdigest().upper()
    with served.wire(agent_token, agent="DeepSeek Harness", instance=f" {instance} ") as writer:
        writer.remember("hashed label", bucket="hashed")
    with served.wire(agent_token, agent="DeepSeek Harness", instance=f"sha256:{digest}") as reader:
        answer = reader.get("/v1/memories/search", query="hashed", bucket="hashed")
    (item,) = answer.json["results"]
    assert item["memory_agent_boundary"]["relation"] == "self"
    assert instance.encode() not in answer.body
    assert digest.lower().encode() not in answer.body


def test_raw_instance_ids_are_kept_nowhere(served: SandboxDaemon, agent_token: str) -> None:
    instance = "a-rather-unusual-installation-name"
    with served.wire(agent_token, agent="a", instance=instance) as writer:
        writer.remember("raw id", bucket="raw-id")
    stored = served.contents()
    assert "vault/vault.db" in stored
    assert [name for name, data in stored.items() if instance.encode() in data] == []
