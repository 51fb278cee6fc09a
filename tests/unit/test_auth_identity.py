"""Instance hashes, request labels and the boundary (xmemo.md 4.4, 12)."""

from __future__ import annotations

import pytest

from memory_manager.auth.agent_identity import (
    AgentIdentity,
    agent_instance_id_hash,
    identity_from_headers,
)
from memory_manager.auth.boundary import memory_agent_boundary
from memory_manager.auth.errors import (
    AgentInstanceIdTooLong,
    EmptyAgentInstanceId,
    InvalidAgentInstanceId,
    MalformedAgentInstanceHash,
)
from memory_manager.base.errors import MemlocketError
from memory_manager.base.identifiers import AgentInstanceHash

VECTORS = {
    "codex-local-install": "09a6b41a2fc6bf4ad940ad9871b2c2e16bb52b651b6906d45906c592e2d23d34",
    " \tcodex-local-install\n": "09a6b41a2fc6bf4ad940ad9871b2c2e16bb52b651b6906d45906c592e2d23d34",
    "\u3000codex-local-install\u00a0": (
        "09a6b41a2fc6bf4ad940ad9871b2c2e16bb52b651b6906d45906c592e2d23d34"
    ),
    "Codex-Local-Install": "88570334db5ba9e4dab3c5eaa442aac0355362d0e5424004716422dc6def2e0d",
    "xmemo-laptop 7": "2fcdde91afa12e73e64812852d29d581c7b3b1c788895dc0653150e10c73dfe5",
    "köln-安装-1": "ab030edb97209ab2023110da97aa6c8b5650169e6697de01f961f73dbcb07d6b",
    "a" * 256: "02d7160d77e18c6447be80c2e355c7ed4388545271702c50253b0914c65ce5fe",
}


@pytest.mark.parametrize(("value", "digest"), VECTORS.items())
def test_instance_id_hashes_to_the_published_vector(value: str, digest: str) -> None:
    assert agent_instance_id_hash(value) == f"sha256:{digest}"


@pytest.mark.parametrize("value", ["", " ", "\t\n", "\u3000"])
def test_an_empty_instance_id_is_refused(value: str) -> None:
    with pytest.raises(EmptyAgentInstanceId):
        agent_instance_id_hash(value)


def test_the_limit_counts_code_points_after_trimming() -> None:
    assert agent_instance_id_hash("  " + "安" * 256 + "  ").startswith("sha256:")
    with pytest.raises(AgentInstanceIdTooLong):
        agent_instance_id_hash("a" * 257)


def test_a_hash_is_normalised_and_not_hashed_again() -> None:
    digest = "AB" * 32
    assert agent_instance_id_hash(f" sha256:{digest} ") == "sha256:" + "ab" * 32


@pytest.mark.parametrize(
    "value", ["sha256:", "sha256:abc", "sha256:" + "g" * 64, "sha256:" + "a" * 65, "sha256: x"]
)
def test_a_malformed_hash_is_refused_and_never_hashed(value: str) -> None:
    with pytest.raises(MalformedAgentInstanceHash):
        agent_instance_id_hash(value)
    assert identity_from_headers("codex", value) == AgentIdentity("codex", None)


def test_refusals_are_value_errors_and_do_not_repeat_the_value() -> None:
    for value in ("x" * 257, "sha256:private", "bad\udc80value"):
        with pytest.raises(ValueError, match="agent instance id") as caught:
            agent_instance_id_hash(value)
        assert isinstance(caught.value, InvalidAgentInstanceId)
        assert isinstance(caught.value, MemlocketError)
        assert value not in repr(caught.value)
        assert caught.value.__context__ is None


@pytest.mark.parametrize(
    "odd", [None, "", "   ", "x" * 257, "${XMEMO_AGENT_INSTANCE_ID}", "caf\udce9"]
)
def test_an_odd_header_counts_as_absent(odd: str | None) -> None:
    assert identity_from_headers(odd, odd) == AgentIdentity(None, None)


def test_headers_are_trimmed_and_not_case_folded() -> None:
    identity = identity_from_headers("  DeepSeek Harness ", " codex-local-install ")
    assert identity.agent_id == "DeepSeek Harness"
    assert identity.instance_hash == agent_instance_id_hash("codex-local-install")


def test_a_placeholder_inside_a_longer_label_is_kept() -> None:
    assert identity_from_headers("a${B}", None).agent_id == "a${B}"


ONE, TWO = AgentInstanceHash("sha256:" + "1" * 64), AgentInstanceHash("sha256:" + "2" * 64)


@pytest.mark.parametrize(
    ("caller", "row", "relation", "ownership"),
    [
        (AgentIdentity("a", ONE), AgentIdentity(None, ONE), "unknown", "unknown"),
        (AgentIdentity(None, None), AgentIdentity(None, None), "unknown", "unknown"),
        (AgentIdentity(None, ONE), AgentIdentity("a", ONE), "unverified", "unverified"),
        (AgentIdentity("a", ONE), AgentIdentity("b", ONE), "other_agent", "other_agent"),
        (AgentIdentity("a", None), AgentIdentity("b", None), "other_agent", "other_agent"),
        (AgentIdentity("A", ONE), AgentIdentity("a", ONE), "other_agent", "other_agent"),
        (AgentIdentity("a", None), AgentIdentity("a", ONE), "unverified", "unverified"),
        (AgentIdentity("a", ONE), AgentIdentity("a", None), "unverified", "unverified"),
        (AgentIdentity("a", ONE), AgentIdentity("a", ONE), "self", "current_agent"),
        (
            AgentIdentity("a", ONE),
            AgentIdentity("a", TWO),
            "same_agent_other_instance",
            "same_agent_other_instance",
        ),
    ],
)
def test_the_first_matching_line_of_the_boundary_wins(
    caller: AgentIdentity, row: AgentIdentity, relation: str, ownership: str
) -> None:
    boundary = memory_agent_boundary(caller, row)
    expected = {
        "relation": relation,
        "ownership": ownership,
        "boundary_authority": "attribution_only",
        "current_agent_trust": "client_asserted",
    }
    assert boundary.as_json() == expected
    assert boundary.item_fields() == {
        "memory_agent_boundary": expected,
        "agent_boundary": {**expected, "boundary": relation},
        "ownership": ownership,
    }
