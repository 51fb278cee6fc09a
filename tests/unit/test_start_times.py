"""From the birth of the process to what it could answer."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from memory_manager.service.start_times import StartTimes


def test_nothing_is_claimed_that_did_not_come() -> None:
    times = StartTimes()
    assert times.as_json(None) == {"doors_ms": None, "words_ms": None, "vectors_ms": None}
    times.doors_are_open()
    locked = times.as_json(time.monotonic())
    assert locked["doors_ms"] is not None
    assert (locked["words_ms"], locked["vectors_ms"]) == (None, None)


@pytest.mark.parametrize("vault_first", [True, False])
def test_words_need_both_the_doors_and_the_vault(vault_first: bool) -> None:
    times = StartTimes()
    acts = [times.vault_is_open, times.doors_are_open]
    for act in acts if vault_first else reversed(acts):
        act()
        time.sleep(0.02)
    done = times.as_json(None)
    assert done["doors_ms"] is not None
    assert done["words_ms"] is not None
    waited = done["words_ms"] - done["doors_ms"]
    assert (waited == 0) is vault_first
    assert waited == 0 or waited >= 19
    early, late = times.as_json(0.0), times.as_json(time.monotonic() + 1)
    assert early["vectors_ms"] == done["words_ms"]
    assert (late["vectors_ms"] or 0) >= done["words_ms"] + 1000


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: reads /proc")
def test_time_before_our_first_statement_counts() -> None:
    code = (
        "import time; time.sleep(0.3)\n"
        "from memory_manager.service.start_times import StartTimes\n"
        "times = StartTimes(); times.doors_are_open(); print(times.as_json(None)['doors_ms'])"
    )
    began = time.perf_counter()
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    passed_ms = (time.perf_counter() - began) * 1000
    assert 290 <= int(done.stdout) <= passed_ms + 20  # the kernel counts in hundredths
