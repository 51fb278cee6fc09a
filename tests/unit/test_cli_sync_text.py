"""Answers about sync as a person reads them."""

from __future__ import annotations

from typing import Any

import pytest

from memory_manager.cli import sync_text

REVOKED = {
    "code": "REVOKED_DEVICE",
    "at": "2026-11-30T12:00:00Z",
    "device": "ab" * 16,
    "n": 7,
    "advice": "It was revoked.",
}


def on(**members: Any) -> dict[str, Any]:
    return {
        "state": "ok",
        "server": "sync.example.org:8443",
        "vault": "2a0211bc8d057e0765ca14b7d416a0db",
        "device": "cd" * 16,
        "verified": {"n": 12, "g": "00" * 32, "words": ["a", "b", "c", "d", "e", "f"]},
        "outbox": 0,
        "alarms": [],
        **members,
    }


def test_off_is_said_in_one_sentence() -> None:
    assert sync_text.status({"sync": {"state": "off"}}) == (
        "Sync is off: this memory is on this machine only."
    )


def test_the_verified_row_and_its_words_are_shown() -> None:
    shown = sync_text.status({"sync": on()})
    assert "verified up to row  12" in shown
    assert "a b c d e f" in shown
    assert "2a02-11bc-8d05-7e07-65ca-14b7-d416-a0db" in shown


@pytest.mark.parametrize(("known", "said"), [(False, True), (True, False), (None, False)])
def test_words_that_do_not_recover_the_shared_memory_are_named_where_that_is_known(
    known: bool | None, said: bool
) -> None:
    shown = sync_text.status({"sync": on(words_recover=known)})
    assert ("do not recover the shared memory" in shown) is said
    assert ("memlocket sync words" in shown) is said


def test_this_machine_is_told_by_its_name_and_its_id() -> None:
    devices = [{"id": "ab" * 16, "name": "laptop"}, {"id": "cd" * 16, "name": "desk"}]
    assert "desk (cdcdcdcd)" in sync_text.status({"sync": on(devices=devices)})
    assert sync_text.this_device(on(devices=devices)) == "desk (cdcdcdcd)"
    assert sync_text.this_device(on()) == "cdcdcdcd"
    assert sync_text.this_device({"state": "off", "device": None}) is None


@pytest.mark.parametrize(
    ("code", "next_step"),
    [
        ("ROSTER_CHANGED", "memlocket sync confirm ROSTER_CHANGED"),
        ("BREAKER", "memlocket sync confirm BREAKER"),
        ("ROLLBACK", "memlocket sync confirm ROLLBACK"),
        ("REVOKED_DEVICE", "memlocket sync devices"),
        ("EQUIVOCATION", "memlocket sync evidence"),
        ("ENROL_AGAIN", "memlocket sync renew"),
        ("CHAIN_BREAK", "memlocket sync retry"),
    ],
)
def test_a_stop_names_its_device_its_row_and_the_next_command(code: str, next_step: str) -> None:
    alarm = {**REVOKED, "code": code}
    shown = sync_text.status({"sync": on(state="stopped", alarms=[alarm])})
    assert f"! {code} (device abababab, row 7)" in shown
    assert "It was revoked." in shown
    assert next_step in shown.partition("Next: ")[2]


def test_the_blur_of_writes_is_said_in_seconds() -> None:
    assert sync_text.jitter({"jitter_seconds": 0.0}).endswith("sent at once.")
    assert "within 7.5 seconds" in sync_text.jitter({"jitter_seconds": 7.5})


def test_a_proof_that_rests_on_a_device_says_so() -> None:
    held = {"holds": True, "vault": "ab" * 16, "n": 3, "server_words": ["a", "b"]}
    assert "make sure" in sync_text.proof({**held, "device_key": "cd" * 32})
    assert "make sure" not in sync_text.proof({**held, "device_key": None})


def test_what_goes_on_by_itself_asks_for_nothing() -> None:
    shown = sync_text.status({"sync": on(state="offline", alarms=[{**REVOKED, "code": "OFFLINE"}])})
    assert "Next:" not in shown


@pytest.mark.parametrize(
    ("sync", "line"),
    [
        ({"state": "off"}, None),
        ({}, None),
        (on(), "ok"),
        (on(state="syncing", outbox=2), "syncing, 2 rows to be sent"),
        (
            on(state="stopped", alarms=[REVOKED]),
            "stopped, REVOKED_DEVICE: memlocket sync status",
        ),
    ],
    ids=["off", "absent", "ok", "waiting", "stopped"],
)
def test_the_line_among_others(sync: dict[str, Any], line: str | None) -> None:
    assert sync_text.line(sync) == line


@pytest.mark.parametrize(
    ("ended_by", "said"),
    [("revoke", "revoked"), ("leave", "left"), ("fork_close", "renewed"), (None, "ended")],
)
def test_devices_that_ended_say_how_and_where(ended_by: str | None, said: str) -> None:
    shown = sync_text.devices(
        {
            "devices": [
                {"device": "ab" * 16, "name": "desk", "active": True, "this_device": True,
                 "role": "device", "rows": 3},
                {"device": "cd" * 16, "name": None, "active": True, "role": "recovery", "rows": 0},
                {"device": "ef" * 16, "name": "lost", "active": False, "role": "device",
                 "rows": 2, "ended_at_row": 2, "ended_by": ended_by},
            ]
        },
        {"alarms": [{"code": "ROSTER_CHANGED", "changes": "add " + "12" * 16 + " by words"}]},
    )  # fmt: skip
    assert "added: 12121212 by the recovery words" in shown.partition("Not confirmed yet")[2]
    assert "this device" in shown
    assert "recovery words" in shown
    assert f"{said} at row 2" in shown
