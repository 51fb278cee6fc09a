"""What the memory routes promise on the wire (xmemo.md 4.5-4.12, 6.2-6.5, checks W1-W21)."""

from __future__ import annotations

import concurrent.futures
import json
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from sandbox_daemon import SandboxDaemon, Wire

UNKNOWN = "0192f0c1-0000-7000-8000-00000000dead"


@pytest.fixture
def other(served: SandboxDaemon) -> Iterator[Wire]:
    """A second credential."""
    name = f"other-{uuid.uuid4().hex[:8]}"
    with served.wire(served.add_agent(name), agent="other-agent") as wire:
        yield wire


def _count(wire: Wire, bucket: str) -> int:
    return len(wire.search("*", bucket=bucket, limit=100))


# --- remember


def test_remember_answers_flat_and_never_with_a_false_outcome(agent: Wire, bucket: str) -> None:
    answer = agent.post(
        "/v1/remember",
        {"content": "Cafés close early", "path": "projects/alpha", "bucket": bucket, "scope": "s"},
    )
    assert answer.status == 201
    body = answer.json
    assert body["id"] == body["memory_id"]
    assert body["status"] == "created"
    assert (body["version"], body["path"], body["bucket"]) == (1, "projects/alpha", bucket)
    assert (body["scope"], body["redactions"]) == ("s", [])
    assert body["memory_type"] in ("episodic", "semantic", "procedural", "working", "identity")
    assert "result" not in body


def test_null_empty_and_unknown_members_are_fine(agent: Wire, bucket: str) -> None:
    answer = agent.post(
        "/v1/remember",
        {
            "content": "tolerant",
            "path": "p",
            "bucket": bucket,
            "scope": None,
            "team_id": None,
            "semantic_key": "",
            "memory_type": "auto",
            "expires_at": "",
            "metadata": {},
            "unknown_member": {"a": [1]},
        },
    )
    assert answer.status == 201
    assert answer.json["scope"] is None


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"content": "no path"},
        {"path": "no/content"},
        {"content": None, "path": "p"},
        {"content": "x", "path": "p", "memory_type": "sensitive"},
        {"content": "x" * 100_001, "path": "p"},
        {"content": "x", "path": "p", "metadata": {"big": "y" * 70_000}},
        {"content": "x", "path": "p", "importance": 2},
    ],
)
def test_impossible_memories_are_422_and_not_stored(
    agent: Wire, bucket: str, body: dict[str, Any]
) -> None:
    answer = agent.post("/v1/remember", {**body, "bucket": bucket})
    assert answer.status == 422
    assert answer.headers["Content-Type"].startswith("application/json")
    assert _count(agent, bucket) == 0


def test_a_missing_field_is_named_as_clients_expect(agent: Wire) -> None:
    detail = agent.post("/v1/remember", {"path": "p"}).json["detail"]
    assert detail == [{"loc": ["body", "content"], "msg": "field required", "type": "missing"}]


def test_content_of_the_full_length_is_stored(agent: Wire, bucket: str) -> None:
    text = "ä" * 99_990 + " 100000 ok"
    stored = agent.remember(text, bucket=bucket)
    assert agent.get(f"/v1/memories/{stored['id']}").json["content"] == text


def test_secrets_are_stored_redacted_and_reported(agent: Wire, bucket: str) -> None:
    secret = "hunter2-" + uuid.uuid4().hex[:10]
    answer = agent.post(
        "/v1/remember",
        {
            "content": f"the login is password={secret} today",
            "path": "p",
            "bucket": bucket,
            "metadata": {"nested": {"note": f"password={secret}"}},
            "provenance": {"line": f"password={secret}"},
        },
    )
    assert answer.status == 201
    assert answer.json["redactions"]
    assert secret not in answer.body.decode()
    item = agent.get(f"/v1/memories/{answer.json['id']}/explain")
    assert secret not in item.body.decode()
    assert "password=[REDACTED" in item.json["memory"]["content"]


# --- idempotency


@pytest.mark.parametrize("carrier", ["Idempotency-Key", "X-Idempotency-Key", "body"])
def test_the_key_alone_decides(agent: Wire, bucket: str, carrier: str) -> None:
    key = uuid.uuid4().hex
    headers = {} if carrier == "body" else {carrier: key}
    extra = {"idempotency_key": key} if carrier == "body" else {}
    first = agent.post(
        "/v1/remember", {"content": "first", "path": "p", "bucket": bucket, **extra}, **headers
    )
    again = agent.post("/api/v1/remember", {"content": "other", "path": "q", **extra}, **headers)
    assert (first.status, again.status) == (201, 201)
    assert again.json == first.json
    assert again.headers["Idempotent-Replay"] == "true"
    assert "Idempotent-Replay" not in first.headers
    assert _count(agent, bucket) == 1


def test_the_first_key_in_order_counts(agent: Wire, bucket: str) -> None:
    one, two = uuid.uuid4().hex, uuid.uuid4().hex
    body = {"content": "ordered", "path": "p", "bucket": bucket, "idempotency_key": two}
    first = agent.post("/v1/remember", body, **{"Idempotency-Key": one})
    by_second = agent.post("/v1/remember", {**body, "content": "not the same key"})
    assert by_second.json["id"] != first.json["id"]


def test_a_key_belongs_to_one_credential_and_one_route(
    agent: Wire, other: Wire, bucket: str
) -> None:
    key = {"Idempotency-Key": uuid.uuid4().hex}
    body = {"content": "mine", "path": "p", "bucket": bucket}
    mine = agent.post("/v1/remember", body, **key).json["id"]
    theirs = other.post("/v1/remember", body, **key).json["id"]
    assert mine != theirs
    forgotten = agent.post(f"/v1/memories/{mine}/forget", {}, **key)
    assert forgotten.json["status"] == "deleted"
    also = agent.post(f"/v1/memories/{theirs}/forget", {}, **key)
    assert also.json["id"] == theirs


def test_a_failed_attempt_does_not_use_the_key_up(agent: Wire, bucket: str) -> None:
    key = {"Idempotency-Key": uuid.uuid4().hex}
    assert agent.post("/v1/remember", {"path": "p"}, **key).status == 422
    good = agent.post("/v1/remember", {"content": "now", "path": "p", "bucket": bucket}, **key)
    assert good.status == 201
    assert "Idempotent-Replay" not in good.headers


def test_many_at_once_with_one_key_leave_one_row(
    served: SandboxDaemon, agent: Wire, agent_token: str, bucket: str
) -> None:
    key = uuid.uuid4().hex

    def attempt(number: int) -> str:
        with served.wire(agent_token) as wire:
            body = {"content": f"attempt {number}", "path": "p", "bucket": bucket}
            answer = wire.post("/v1/remember", body, **{"Idempotency-Key": key})
            assert answer.status == 201
            return str(answer.json["id"])

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        ids = set(pool.map(attempt, range(16)))
    assert len(ids) == 1
    assert _count(agent, bucket) == 1


def test_an_overlong_key_is_refused(agent: Wire, bucket: str) -> None:
    body = {"content": "x", "path": "p", "bucket": bucket, "idempotency_key": "k" * 500_000}
    assert agent.post("/v1/remember", body).status == 422
    assert _count(agent, bucket) == 0


def test_replayed_forget_patch_and_restore(agent: Wire, bucket: str) -> None:
    row = agent.remember("to be changed", bucket=bucket)["id"]
    for method, path, body in (
        ("PATCH", f"/v1/memories/{row}", {"content": "changed"}),
        ("POST", f"/v1/memories/{row}/forget", {}),
        ("POST", f"/v1/memories/{row}/restore", {}),
        ("POST", f"/v1/memories/{row}/usage", {"action": "used"}),
    ):
        key = {"Idempotency-Key": uuid.uuid4().hex}
        first = agent.send(method, path, body, key)
        again = agent.send(method, "/api" + path, {}, key)
        assert (first.status, again.status) == (200, 200), path
        assert again.json == first.json
    versions = agent.get(f"/v1/memories/{row}/versions").json["versions"]
    assert [found["action"] for found in versions] == ["created", "updated", "deleted", "restored"]


# --- semantic key, dedupe


def test_a_semantic_key_updates_in_place(agent: Wire, bucket: str) -> None:
    def store(content: str, **fields: str) -> Any:
        body = {"content": content, "path": "p", "bucket": bucket, "semantic_key": "k", **fields}
        return agent.post("/v1/remember", body)

    first, second = store("zebra crossing"), store("giraffe crossing")
    assert second.json["id"] == first.json["id"]
    assert (second.status, second.json["status"], second.json["version"]) == (200, "updated", 2)
    assert [item["content"] for item in agent.search("crossing", bucket=bucket)] == [
        "giraffe crossing"
    ]
    assert agent.search("zebra", bucket=bucket) == []
    assert store("elsewhere", scope="another").json["id"] != first.json["id"]


def test_dedupe_returns_the_row_that_is_there(agent: Wire, bucket: str) -> None:
    body = {"content": "said twice", "path": "p", "bucket": bucket, "dedupe": True}
    first, second = agent.post("/v1/remember", body), agent.post("/v1/remember", body)
    assert (second.status, second.json["status"]) == (200, "deduplicated")
    assert second.json["id"] == first.json["id"]
    moved = agent.post("/v1/remember", {**body, "path": "q"})
    assert moved.json["id"] != first.json["id"]
    agent.post(f"/v1/memories/{first.json['id']}/forget")
    assert agent.post("/v1/remember", body).json["id"] != first.json["id"]


# --- one memory


def test_unknown_ids_are_404_json_everywhere(agent: Wire) -> None:
    for segment in (UNKNOWN, "no-such-id", "x" * 300, "%2F", "..%2F..", "%00", "mem 1"):
        quoted = segment.replace(" ", "%20")
        for path in ("", "/explain", "/versions"):
            answer = agent.get(f"/v1/memories/{quoted}{path}")
            assert answer.status == 404, (segment, path)
            assert answer.json["error"]["code"] == "not_found"
        for action in ("forget", "restore", "usage"):
            assert agent.post(f"/v1/memories/{quoted}/{action}").status == 404
        assert agent.send("PATCH", f"/v1/memories/{quoted}", {"content": "x"}).status == 404


def test_get_and_explain_show_one_row(agent: Wire, bucket: str) -> None:
    stored = agent.remember("explained row", bucket=bucket, metadata={"k": "v"})["id"]
    flat = agent.get(f"/v1/memories/{stored}").json
    assert (flat["id"], flat["content"], flat["status"]) == (stored, "explained row", "active")
    assert "score" not in flat
    explained = agent.get(f"/v1/memories/{stored}/explain", query="explained").json
    assert {key: explained["memory"][key] for key in flat} == flat
    assert explained["provenance"]["written_by"] == "tester"
    assert explained["match"]


def test_patch_changes_what_it_names(agent: Wire, bucket: str) -> None:
    stored = agent.remember("old words", bucket=bucket, metadata={"a": 1})["id"]
    answer = agent.send(
        "PATCH", f"/v1/memories/{stored}", {"content": "new words", "merge_metadata": {"b": 2}}
    )
    assert answer.status == 200
    assert (answer.json["id"], answer.json["version"]) == (stored, 2)
    assert answer.json["metadata"] == {"a": 1, "b": 2}
    assert answer.json["bucket"] == bucket
    assert agent.search("old", bucket=bucket) == []
    assert agent.search("new", bucket=bucket)[0]["id"] == stored


@pytest.mark.parametrize("mode", ["soft_delete", "hard_delete"])
def test_forget_takes_effect_before_the_answer(agent: Wire, bucket: str, mode: str) -> None:
    stored = agent.remember("fleeting thought", bucket=bucket)["id"]
    answer = agent.post(f"/v1/memories/{stored}/forget", {"mode": mode, "scope": None})
    assert answer.status == 200
    assert (answer.json["status"], answer.json["mode"]) == ("deleted", mode)
    assert answer.json.get("hard_delete") == ("awaiting_owner" if mode == "hard_delete" else None)
    assert agent.search("fleeting", bucket=bucket) == []
    assert agent.search("*", bucket=bucket) == []
    assert agent.search(stored, bucket=bucket) == []
    assert agent.context("fleeting thought", bucket=bucket)["items"] == []
    assert agent.get(f"/v1/memories/{stored}").status == 404
    assert agent.get(f"/v1/memories/{stored}/explain").status == 404
    again = agent.post(f"/v1/memories/{stored}/forget", {"mode": mode})
    assert (again.status, again.json["status"]) == (200, "deleted")


def test_a_redaction_leaves_no_readable_version(agent: Wire, bucket: str) -> None:
    stored = agent.remember("embarrassing detail", bucket=bucket)["id"]
    answer = agent.post(f"/v1/memories/{stored}/forget", {"mode": "redact"})
    assert (answer.status, answer.json["status"]) == (200, "redacted")
    assert agent.get(f"/v1/memories/{stored}").json["content"] == "[REDACTED]"
    versions = agent.get(f"/v1/memories/{stored}/versions")
    assert b"embarrassing" not in versions.body
    assert agent.search("embarrassing", bucket=bucket) == []


def test_restore_brings_a_row_and_its_versions_back(agent: Wire, bucket: str) -> None:
    stored = agent.remember("comes back", bucket=bucket)["id"]
    agent.send("PATCH", f"/v1/memories/{stored}", {"content": "second wording"})
    agent.post(f"/v1/memories/{stored}/forget")
    back = agent.post(f"/v1/memories/{stored}/restore", {"reason": "needed"})
    assert (back.status, back.json["status"]) == (200, "restored")
    assert agent.search("wording", bucket=bucket)[0]["id"] == stored
    older = agent.post(f"/v1/memories/{stored}/restore", {"version": 1})
    assert older.status == 200
    assert agent.get(f"/v1/memories/{stored}").json["content"] == "comes back"


def test_usage_takes_the_extra_member(agent: Wire, bucket: str) -> None:
    stored = agent.remember("used row", bucket=bucket)["id"]
    body = {"action": "used", "usage_tracking_id": None, "idempotency_key": uuid.uuid4().hex}
    answer = agent.post(f"/v1/memories/{stored}/usage", body)
    assert (answer.status, answer.json["id"]) == (200, stored)


def test_an_agent_cannot_widen_visibility(agent: Wire, bucket: str) -> None:
    wide = {
        "security_envelope": {"security_mode": "cloud"},
        "retrieval_visibility": "server_retrievable",
        "server_embeddings_enabled": True,
        "metadata": {"vault_semantic_index_opt_in": True},
    }
    stored = agent.post("/v1/remember", {"content": "w", "path": "p", "bucket": bucket, **wide})
    agent.send("PATCH", f"/v1/memories/{stored.json['id']}", {**wide, "merge_metadata": True})
    item = agent.get(f"/v1/memories/{stored.json['id']}").json
    assert item["security_envelope"]["security_mode"] == "vault"
    assert item["security_envelope"]["retrieval_visibility"] == "client_local_only"
    assert item["security_envelope"]["server_embeddings_enabled"] is False
    assert "vault_semantic_index_opt_in" not in item["metadata"]


# --- families of routes


def test_get_routes_take_a_content_type_without_a_body(agent: Wire, bucket: str) -> None:
    stored = agent.remember("typed get", bucket=bucket)["id"]
    headers = {"Content-Type": "application/json"}
    for path in (
        "/health",
        "/ready",
        "/v1/auth/token/validate",
        "/v1/memories/search?query=typed",
        "/v1/recall?query=typed",
        "/v1/memories",
        f"/v1/memories/{stored}",
        f"/v1/memories/{stored}/explain",
        f"/v1/memories/{stored}/versions",
    ):
        for spelling in (path, path.replace("/v1", "/api/v1")):
            assert agent.send("GET", spelling, None, headers).status == 200, spelling


def test_a_slash_at_the_end_is_served_without_a_redirect(agent: Wire) -> None:
    for path in ("/health/", "/v1/memories/", "/api/v1/auth/token/validate/"):
        assert agent.get(path).status == 200


def test_health_says_nothing_about_the_content(served: SandboxDaemon) -> None:
    with Wire(served.url) as nobody:
        body = nobody.get("/health").json
        assert nobody.get("/ready").status == 200
    assert (body["status"], body["service"], body["vault"]) == ("ok", "memory-os", "unlocked")
    assert body["version"].startswith("0.4.")
    assert str(served.home) not in json.dumps(body)
    assert not any(isinstance(value, int) for value in body.values())


def test_import_takes_records_and_reports_each(agent: Wire, owner: Wire, bucket: str) -> None:
    records = [
        {
            "content": "imported row",
            "path": "i/1",
            "bucket": bucket,
            "created_at": "2020-05-01T10:00:00Z",
        },
        {"path": "no content"},
        "not an object",
        {"content": "imported row two", "path": "i/2", "bucket": bucket},
    ]
    answer = owner.post("/v1/memories/import", {"records": records})
    assert answer.status == 200
    statuses = [result["status"] for result in answer.json["results"]]
    assert statuses == ["created", "refused", "refused", "created"]
    found = agent.search("imported", bucket=bucket)
    assert {item["path"]: item["created_at"][:4] for item in found}["i/1"] == "2020"
    assert owner.post("/v1/memories/import", {"records": 7}).status == 422
    assert owner.post("/v1/memories/import", {"records": [{}] * 257}).status == 422


def test_status_counts_for_the_owner(owner: Wire, agent: Wire) -> None:
    agent.remember("counted")
    status = owner.get("/v1/status").json
    assert status["vault"]["state"] == "unlocked"
    assert status["vault"]["insecure"] is True
    assert status["counts"]["memories"] >= 1
    assert status["counts"]["agents"] >= 1
    assert status["daemon"]["safe_mode"] is False
    assert "state" in status["embeddings"]
