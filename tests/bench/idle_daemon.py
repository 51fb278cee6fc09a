"""What a connected daemon costs while nothing happens, beside one without sync.

    python tests/bench/idle_daemon.py [--seconds 600]

Real daemon processes and a real server; requests are those that the server counted. Both numbers
are scaled to an hour, so the time should hold several rounds (one in five minutes).
"""

from __future__ import annotations

import argparse
import http.client
import os
import re
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "support"))

import psutil
from figures import ProcessCost, machine, show
from sandbox_daemon import SandboxDaemon, unused_port, wait_until
from sync_server import ServerProcess

PASSPHRASE = "idle wheels turn slowly here"
HOUR = 3_600
SETTLE_SECONDS = 20.0
ROWS = 50


def idle_cost(folder: Path, seconds: float, settle: float = SETTLE_SECONDS) -> dict[str, object]:
    port = unused_port()
    with (
        ServerProcess(folder / "server", ("--metrics", f"127.0.0.1:{port}")) as server,
        SandboxDaemon(folder / "connected", ("--no-embeddings",)) as connected,
        SandboxDaemon(folder / "alone", ("--no-embeddings",)) as alone,
    ):
        for daemon in (connected, alone):
            daemon.init(PASSPHRASE).start()
            with daemon.wire(daemon.add_agent("filler")) as agent:
                for number in range(ROWS):
                    agent.remember(f"memory {number}")
        secrets = {"--passphrase-fd": PASSPHRASE, "--token-fd": server.registration_token()}
        command = ("sync", "setup", server.url, "--name", "connected", "--without-recovery")
        connected.cli(*command, secrets=secrets)
        wait_until(lambda: _in_step(connected), 60, "everything is on the server")
        time.sleep(settle)
        costs = {"connected": _cost(connected), "alone": _cost(alone)}
        before = {name: cost.cpu_seconds() for name, cost in costs.items()}
        requests, begun = _requests(port), time.perf_counter()
        time.sleep(seconds)
        passed = time.perf_counter() - begun
        report: dict[str, object] = {
            "seconds": round(passed),
            "requests": _requests(port) - requests,
            "requests_an_hour": round((_requests(port) - requests) * HOUR / passed),
        }
        for name, cost in costs.items():
            used = cost.cpu_seconds() - before[name]
            report[f"{name}_cpu_seconds_an_hour"] = round(used * HOUR / passed, 1)
            report[f"{name}_rss_mb"] = cost.rss_mb()
    return report


def _in_step(daemon: SandboxDaemon) -> bool:
    with daemon.owner() as owner:
        said = owner.get("/v1/sync/status").json["sync"]
    return said["state"] == "ok" and said["outbox"] == 0


def _cost(daemon: SandboxDaemon) -> ProcessCost:
    assert daemon.process is not None
    return ProcessCost([psutil.Process(daemon.process.pid), *daemon.children()])


def _requests(port: int) -> int:
    """What the server answered so far; connections that wait for pokes count when they end."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
    finally:
        connection.close()
    counts = re.findall(r"http_requests_total\{[^}]*\} ([0-9]+)", text)
    return sum(map(int, counts))


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    os.umask(0o077)
    with tempfile.TemporaryDirectory(prefix="memlocket-bench-") as folder:
        report = {"machine": machine(), "idle": idle_cost(Path(folder), options.seconds)}
    print(show(report, options.json))
    return 0


if __name__ == "__main__":
    sys.exit(main())
