"""What only the owner decides: settings, destruction for good; and reads without a limit (W50)."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest
from sandbox_daemon import SandboxDaemon, Wire

MAIL = "anna.muster" + "@" + "musterfirma-berlin.de"


@pytest.fixture
def redacting(owner: Wire) -> Iterator[None]:
    changed = owner.post("/v1/settings", {"name": "auto_redact_pii", "value": True})
    assert changed.json["settings"]["auto_redact_pii"] is True
    yield
    owner.post("/v1/settings", {"name": "auto_redact_pii", "value": False})


def test_contact_data_stays_unless_the_owner_says_otherwise(
    served: SandboxDaemon, agent: Wire, bucket: str
) -> None:
    agent.remember(f"write to {MAIL}", bucket=bucket)
    assert MAIL in agent.search("write", bucket=bucket)[0]["content"]
    assert "off" in served.cli("settings").stdout
    assert "on" in served.cli("settings", "auto_redact_pii", "on").stdout
    try:
        agent.remember(f"call or mail {MAIL}", bucket=bucket)
        assert MAIL not in agent.search("call", bucket=bucket)[0]["content"]
    finally:
        served.cli("settings", "auto_redact_pii", "off")


def test_numbers_dialled_at_home_and_identity_numbers_go_once_the_owner_says_so(
    owner: Wire, agent: Wire, bucket: str, redacting: None
) -> None:
    number, card = "030 " + "901820", "4111 1111 " + "1111 1111"
    texts = [f"plumber {number} on weekdays", f"hotel paid with {card}"]

    def stored() -> list[str]:
        rows = [agent.remember(text, bucket=bucket) for text in texts]
        return [agent.get(f"/v1/memories/{row['id']}").json["content"] for row in rows]

    assert stored() == texts
    for name, value in (("phone_region", "de"), ("redact_identity_numbers", True)):
        assert owner.post("/v1/settings", {"name": name, "value": value}).status == 200
    try:
        assert owner.get("/v1/settings").json["settings"]["phone_region"] == "DE"
        found = stored()
        assert number not in found[0]
        assert card not in found[1]
    finally:
        for name in ("phone_region", "redact_identity_numbers"):
            assert owner.post("/v1/settings", {"name": name, "value": False}).status == 200
    assert stored() == texts
    unknown = owner.post("/v1/settings", {"name": "phone_region", "value": "XX"})
    assert unknown.status == 422


def test_a_setting_is_known_and_a_yes_or_no(redacting: None, owner: Wire, agent: Wire) -> None:
    unknown = owner.post("/v1/settings", {"name": "nothing", "value": True})
    assert unknown.status == 422
    assert "auto_redact_pii, phone_region, redact_identity_numbers" in unknown.body.decode()
    for value in ("on", 1, None):
        body = {"name": "auto_redact_pii", "value": value}
        assert owner.post("/v1/settings", body).status == 422
    assert agent.get("/v1/settings").status == 403
    assert agent.post("/v1/settings", {"name": "auto_redact_pii", "value": False}).status == 403
    assert owner.get("/v1/settings").json["settings"]["auto_redact_pii"] is True


def test_settings_at_the_command_line_say_what_there_is_and_what_has_no_effect(
    served: SandboxDaemon, owner: Wire
) -> None:
    odd = served.cli("settings", "redact_identity_numbers", "maybe", check=False)
    assert (odd.returncode, "on or off" in odd.stderr) == (2, True)
    for value in ((), ("on",)):
        unknown = served.cli("settings", "nothing", *value, check=False)
        assert (unknown.returncode, "phone_region" in unknown.stderr) == (2, True)
    assert served.cli("settings", "phone_region").stdout == "off\n"
    assert json.loads(served.cli("settings", "phone_region", "--json").stdout) == {
        "settings": {"phone_region": None}
    }
    try:
        alone = served.cli("settings", "phone_region", "CH")
        assert "no effect until" in alone.stderr
        assert served.cli("settings", "phone_region").stdout == "CH\n"
        served.cli("settings", "auto_redact_pii", "on")
        assert "no effect" not in served.cli("settings", "phone_region", "ch").stderr
    finally:
        for name in ("phone_region", "auto_redact_pii"):
            assert owner.post("/v1/settings", {"name": name, "value": False}).status == 200


def test_destruction_waits_for_the_owner(
    served: SandboxDaemon, owner: Wire, agent: Wire, bucket: str
) -> None:
    before = owner.get("/v1/destructions").json["count"]
    ids = [agent.remember(f"to destroy {number}", bucket=bucket)["id"] for number in range(3)]
    for memory_id in ids:
        asked = agent.post(f"/v1/memories/{memory_id}/forget", {"mode": "hard_delete"})
        assert asked.json["hard_delete"] == "awaiting_owner"
    listed = owner.get("/v1/destructions").json
    assert listed["count"] == before + 3
    assert served.status()["counts"]["awaiting_destruction"] == before + 3
    shown = {memory["id"]: memory for memory in listed["memories"]}
    assert shown[ids[0]]["content"] == "to destroy 0"
    for path in ("/v1/destructions", "/api/v1/destructions"):
        assert agent.get(path).status == 403
        assert agent.post(path, {"all": True}).status == 403
    text = served.cli("destroy").stdout
    assert ids[0] in text
    assert "memlocket destroy" in served.cli("status").stdout
    served.cli("destroy", ids[0], "0192f0c1-0000-7000-8000-000000000001")
    assert owner.post(f"/v1/memories/{ids[0]}/restore", {}).status == 404
    assert owner.post(f"/v1/memories/{ids[1]}/restore", {}).status == 200  # kept after all
    done = owner.post("/v1/destructions", {"ids": [ids[1], ids[2]]}).json
    assert done["destroyed"] == [ids[2]]
    assert agent.search("destroy", bucket=bucket)[0]["id"] == ids[1]
    assert owner.post("/v1/destructions", {}).status == 422


def test_two_thousand_reads_in_a_row_all_pass(agent: Wire) -> None:
    """W50: a client that waits for its answers is never told to go away."""
    times = []
    for _ in range(2_000):
        started = time.perf_counter()
        assert agent.get("/v1/auth/token/validate").status == 200
        times.append(time.perf_counter() - started)
    assert sorted(times)[1_900] < 0.25


def test_labels_do_not_slow_or_grow(agent: Wire, owner: Wire, agent_token: str) -> None:
    for number in range(40):
        headers = {"X-Memory-OS-Agent-ID": f"ever-new-{number}"}
        assert agent.send("GET", "/v1/auth/token/validate", headers=headers).status == 200
    agents = {found["name"]: found for found in owner.get("/v1/agents").json["agents"]}
    assert len(agents["first"]["seen_as"]) <= 20
