"""Complaints about what recall finds (field-complaints F10, F39, F40, G1-G5, G16)."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from listing import list_all
from sandbox_daemon import SandboxDaemon, running


@pytest.fixture(scope="module")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxDaemon]:
    with running(tmp_path_factory.mktemp("recall") / "home") as started:
        yield started


@pytest.fixture(scope="module")
def token(daemon: SandboxDaemon) -> str:
    return daemon.add_agent("recall")


CJK = {
    "zh": "重跑gen-itgc后需要清理缓存，然后重新启动数据库服务。",
    "ja": "本番環境のデータベースは毎週月曜日の朝に再起動されます。",
    "ko": "배포서버는 매주 월요일에 재시작되며 담당자는 민지입니다.",
    "mixed": "今天把API网关升级到v2.3.1，錯誤碼ERR_5521消失了。",
}
CJK_QUERIES = [
    ("清理缓存", "zh"),
    ("缓存", "zh"),
    ("gen-itgc", "zh"),
    ("重跑", "zh"),
    ("itgc", "zh"),
    ("重新启动数据库", "zh"),
    ("月曜日", "ja"),
    ("データベース", "ja"),
    ("再起動", "ja"),
    ("배포서버", "ko"),
    ("담당자", "ko"),
    ("민지", "ko"),
    ("网关", "mixed"),
    ("ERR_5521", "mixed"),
    ("API网关", "mixed"),
    ("v2.3.1", "mixed"),
]


@pytest.fixture(scope="module")
def cjk_ids(daemon: SandboxDaemon, token: str) -> dict[str, str]:
    with daemon.wire(token) as wire:
        for number in range(30):
            wire.remember(f"这是第{number}条无关的记录，关于天气和午餐。", "f39/noise")
        return {name: wire.remember(text, "f39")["id"] for name, text in CJK.items()}


@pytest.mark.parametrize(("query", "expected"), CJK_QUERIES)
def test_f39_cjk_phrases_words_and_glued_ascii_are_found(
    daemon: SandboxDaemon, token: str, cjk_ids: dict[str, str], query: str, expected: str
) -> None:
    with daemon.wire(token) as wire:
        found = wire.search(query, path="f39", limit=3)
        pack = wire.context(query, path="f39%", max_items=3)
    assert found[0]["id"] == cjk_ids[expected]
    assert pack["items"][0]["id"] == cjk_ids[expected]


DIGIT_UPDATES = [
    ("port is 22", "port is 49222"),
    ("the gateway address is 10.0.0.7", "the gateway address is 10.0.0.8"),
    ("we ship version 2.3.1", "we ship version 2.3.2"),
    ("the contract ends on 2026-05-01", "the contract ends on 2026-05-02"),
    ("the invoice in euro was over 1200", "the invoice in euro was over 1300"),
]


@pytest.mark.parametrize("number", range(len(DIGIT_UPDATES)))
def test_f40_an_update_that_differs_by_a_digit_is_kept_and_comes_first(
    daemon: SandboxDaemon, token: str, number: int
) -> None:
    old, new = DIGIT_UPDATES[number]
    folder = f"f40/{number}"
    with daemon.wire(token) as wire:
        first = wire.remember(old, folder, dedupe=True)
        second = wire.remember(new, folder, dedupe=True)
        assert (first["status"], second["status"]) == ("created", "created")
        found = wire.search(old.rpartition(" ")[0], path=folder)
        assert [row["id"] for row in found] == [second["id"], first["id"]]
        again = wire.remember(new, folder, dedupe=True)
        assert (again["status"], again["id"]) == ("deduplicated", second["id"])


def test_f40_only_the_same_text_is_a_duplicate(daemon: SandboxDaemon, token: str) -> None:
    texts = ["Use tabs in makefiles", "use tabs in makefiles", "Use tabs in makefiles!"]
    with daemon.wire(token) as wire:
        ids = [wire.remember(text, "f40/text", dedupe=True)["id"] for text in texts]
        assert len(set(ids)) == 3
        blanks = wire.remember("  Use  tabs in\tmakefiles ", "f40/text", dedupe=True)
        assert (blanks["status"], blanks["id"]) == ("deduplicated", ids[0])
        elsewhere = wire.remember(texts[0], "f40/other", dedupe=True)
        assert elsewhere["status"] == "created"


def test_f10_of_a_pair_of_the_same_text_only_the_forgotten_one_goes(
    daemon: SandboxDaemon, token: str
) -> None:
    text = "The ferry leaves from pier nine"
    with daemon.wire(token) as wire:
        pair = {wire.remember(text, "f10", dedupe=False)["id"] for _ in range(2)}
        assert len(pair) == 2
        third = wire.remember(text, "f10", dedupe=True)
        assert third["status"] == "deduplicated"
        assert {row["id"] for row in wire.search("ferry pier", path="f10")} == pair
        (left,) = pair - {third["id"]}
        assert wire.post(f"/v1/memories/{third['id']}/forget").status == 200
        assert [row["id"] for row in wire.search("ferry pier", path="f10")] == [left]
        assert wire.post(f"/v1/memories/{third['id']}/restore").status == 200
        assert {row["id"] for row in wire.search("ferry pier", path="f10")} == pair


def test_g01_no_leg_returns_old_text_after_update_or_forget(
    daemon: SandboxDaemon, token: str
) -> None:
    with daemon.wire(token) as wire:
        made = wire.remember("The office door code was aubergine", "g01/edit")
        address = f"/v1/memories/{made['id']}"
        assert wire.search("aubergine", path="g01/edit")
        assert wire.send("PATCH", address, {"content": "The door code is now celery"}).status == 200
        assert wire.search("aubergine", path="g01/edit") == []
        assert "aubergine" not in json.dumps(wire.context("door code", path="g01/edit%"))
        assert [x["id"] for x in wire.search("celery", path="g01/edit")] == [made["id"]]
        assert wire.post(f"{address}/forget").status == 200
        assert wire.search("celery", path="g01/edit") == []
        assert wire.context("door code celery", path="g01/edit%")["items"] == []
        assert wire.get(address).status == 404
        assert wire.get(f"{address}/explain").status == 404
        assert list(list_all(wire, path="g01/edit")) == []


def test_g01_redacted_text_is_gone_from_versions_too(daemon: SandboxDaemon, token: str) -> None:
    with daemon.wire(token) as wire:
        made = wire.remember("The nickname was kohlrabi", "g01/redact")
        address = f"/v1/memories/{made['id']}"
        assert wire.post(f"{address}/forget", {"mode": "redact"}).status == 200
        assert wire.get(address).json["content"] == "[REDACTED]"
        assert "kohlrabi" not in wire.get(f"{address}/versions").body.decode()
        assert wire.search("kohlrabi", path="g01/redact") == []


def test_g02_recalled_text_given_back_is_no_new_memory(daemon: SandboxDaemon, token: str) -> None:
    """An agent that stores what it has just recalled, again and again, as recall gave it."""
    with daemon.wire(token) as wire:
        made = {
            wire.remember(f"Cormorant {n}:\n  dives  {n} m", "g02", scope="birds")["id"]
            for n in range(4)
        }
        for turn in range(3):
            found = wire.search("cormorant", path="g02", limit=20)
            packed = wire.context("cormorant dives", path="g02%", max_items=20)["items"]
            assert {row["id"] for row in found} == {row["id"] for row in packed} == made
            for row in [*found, *packed]:
                again = wire.remember(row["content"], row["path"], scope="birds", dedupe=True)
                assert (again["status"], again["id"]) == ("deduplicated", row["id"]), turn
        assert {row["id"] for row in list_all(wire, path="g02")} == made


def test_g04_the_time_filter_comes_before_the_cut(daemon: SandboxDaemon, token: str) -> None:
    with daemon.wire(token) as wire:
        old = wire.remember("The heron project once mentioned a harbour", "g04")
        until = made_at = wire.get(f"/v1/memories/{old['id']}").json["created_at"]
        while until == made_at:  # a fast machine makes two rows in one millisecond
            boundary = wire.remember("a marker row", "g04/marker")
            until = wire.get(f"/v1/memories/{boundary['id']}").json["created_at"]
        for number in range(150):
            wire.remember(f"heron heron heron project {number}", "g04")
        for params in ({"until": until}, {"until": until, "time_order": "desc"}):
            found = wire.search("heron project", path="g04", limit=5, **params)
            assert old["id"] in [row["id"] for row in found]
        pack = wire.context("heron project", path="g04%", until=until)
        assert old["id"] in [row["id"] for row in pack["items"]]


def test_g05_a_forgotten_text_can_be_stored_again(daemon: SandboxDaemon, token: str) -> None:
    text = "The kettle belongs to the third floor"
    with daemon.wire(token) as wire:
        first = wire.remember(text, "g05", dedupe=True)
        assert wire.post(f"/v1/memories/{first['id']}/forget").status == 200
        second = wire.remember(text, "g05", dedupe=True)
        assert second["status"] == "created"
        assert second["id"] != first["id"]
        assert [x["id"] for x in wire.search("kettle third floor", path="g05")] == [second["id"]]


def test_g03_packs_respect_their_budget(daemon: SandboxDaemon, token: str) -> None:
    with daemon.wire(token) as wire:
        for number in range(12):
            wire.remember(f"budget note {number} 预算说明 " + "détail `codeName` 🙂 " * 60, "g03")
        for tokens in (60, 128, 900):
            pack = wire.context("budget note 预算", path="g03%", max_items=10, max_tokens=tokens)
            assert pack["budget"]["tokens"] <= tokens
            assert len(pack["context_text"]) / 4 <= tokens
            blocks = pack["context_text"].split("\n\n") if pack["context_text"] else []
            assert len(blocks) == len(pack["items"])


def test_g16_list_search_and_context_agree_on_scope(daemon: SandboxDaemon, token: str) -> None:
    with daemon.wire(token) as wire:
        mine = {wire.remember(f"quokka {n}", "g16", scope="team/a")["id"] for n in range(3)}
        wire.remember("quokka of another scope", "g16", scope="team/b")
        wire.remember("quokka without a scope", "g16")
        listed = {row["id"] for row in list_all(wire, path="g16", scope="team/a")}
        found = wire.search("quokka", path="g16", scope="team/a", limit=20)
        packed = wire.context("quokka", path="g16%", scope="team/a", max_items=20)["items"]
        assert listed == {row["id"] for row in found} == {row["id"] for row in packed} == mine
        assert {row["scope"] for row in found} == {"team/a"}
