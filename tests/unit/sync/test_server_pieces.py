"""Settings, key, limits, nonces and metrics of the sync server."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from nacl.signing import SigningKey

from memory_manager.base.private_files import UnsafeFile
from memory_manager.sync.server.credentials import counted_address
from memory_manager.sync.server.errors import RateExceeded, ServerKeyRefused, SettingsRefused
from memory_manager.sync.server.logs import bucketed
from memory_manager.sync.server.metrics import Metrics
from memory_manager.sync.server.rate_limits import PerMinute
from memory_manager.sync.server.server_key import ServerKey, load_key, load_or_create_key
from memory_manager.sync.server.settings import (
    Address,
    Limits,
    Quotas,
    ServerSettings,
    read_settings,
)
from memory_manager.sync.server.tickets import Tickets

VAULT, DEVICE = b"v" * 16, b"d" * 16


def test_arguments_stand_before_the_environment() -> None:
    environment = {
        "MEMLOCKET_SERVER_DATA": "/srv/other",
        "MEMLOCKET_SERVER_LISTEN": "[::1]:9000",
        "MEMLOCKET_SERVER_PUBLIC_HOST": "Sync.Example.ORG:443",
        "MEMLOCKET_SERVER_BEHIND_PROXY": "yes",
        "MEMLOCKET_SERVER_OPEN_REGISTRATION": "",
        "MEMLOCKET_SERVER_METRICS": "127.0.0.1:9100",
        "MEMLOCKET_SERVER_DATABASE_URL": "postgresql:///sync",
        "MEMLOCKET_SERVER_QUOTA_ROWS": "12",
        "MEMLOCKET_SERVER_LIMIT_BODY_SECONDS": "2.5",
    }
    assert read_settings({"data": "/srv/own"}, environment) == ServerSettings(
        data=Path("/srv/own"),
        listen=Address("::1", 9000),
        public_host="sync.example.org:443",
        database_url="postgresql:///sync",
        behind_proxy=True,
        metrics=Address("127.0.0.1", 9100),
        quotas=Quotas(rows=12),
        limits=Limits(body_seconds=2.5),
    )


def test_the_url_of_a_database_is_in_no_text_of_the_settings() -> None:
    settings = read_settings({"data": "x", "database_url": "postgresql://u:canary@h/d"}, {})
    assert "canary" not in repr(settings)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("LISTEN", "host"),
        ("LISTEN", "host:99999"),
        ("LISTEN", "a:b:1"),
        ("LISTEN", "user@host:1"),
        ("PUBLIC_HOST", "https://host:1"),
        ("PUBLIC_HOST", "host:0"),
        ("BEHIND_PROXY", "perhaps"),
        ("QUOTA_ROWS", "0"),
        ("QUOTA_ROWS", "-1"),
        ("QUOTA_ROWS", "1.5"),
        ("QUOTA_ROWS", "²"),
        ("LIMIT_BODY_SECONDS", "nan"),
        ("LIMIT_BODY_SECONDS", "inf"),
        ("LIMIT_BODY_SECONDS", "0"),
    ],
)
def test_a_setting_that_is_none_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingsRefused, match=name.lower()):
        read_settings({"data": "x"}, {f"MEMLOCKET_SERVER_{name}": value})


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "192.0.2.1", "sync.example.org", "::ffff:1.2.3.4"]
)
def test_plain_http_stays_on_loopback(host: str) -> None:
    listen = str(Address(host, 8443))
    with pytest.raises(SettingsRefused):
        read_settings({"data": "x", "listen": listen}, {})
    with pytest.raises(SettingsRefused):
        read_settings({"data": "x", "metrics": listen}, {})
    assert read_settings({"data": "x", "listen": listen, "behind_proxy": True}, {})
    tls = {"tls_cert": "c", "tls_key": "k"}
    assert read_settings({"data": "x", "listen": listen, **tls}, {})


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost"])
def test_loopback_needs_no_tls(host: str) -> None:
    assert read_settings({"data": "x", "listen": str(Address(host, 0))}, {})


def test_the_name_clients_use_is_the_listening_address_unless_given(tmp_path: Path) -> None:
    assert ServerSettings(tmp_path).public_name(1234) == "127.0.0.1:1234"
    six = ServerSettings(tmp_path, listen=Address("::1", 0))
    assert six.public_name(1234) == "[::1]:1234"


def test_a_key_is_made_once_and_private(tmp_path: Path) -> None:
    data = tmp_path / "server"
    key = load_or_create_key(data)
    assert load_or_create_key(data).public == load_key(data).public == key.public
    assert stat.S_IMODE((data / "server.key").stat().st_mode) == 0o600
    assert [path.name for path in data.iterdir()] == ["server.key"]
    assert bytes(key.signing).hex() not in repr(key)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        (lambda path: path.write_bytes(path.read_bytes()[:-1]), ServerKeyRefused),
        (lambda path: path.write_bytes(path.read_bytes() + b"\n"), ServerKeyRefused),
        (lambda path: path.write_bytes(b""), ServerKeyRefused),
        (lambda path: path.chmod(0o644), UnsafeFile),
        (lambda path: path.rename(path.with_name("k")).parent / "k", FileNotFoundError),
    ],
    ids=["short", "long", "empty", "open", "absent"],
)
def test_a_damaged_or_open_key_is_refused(
    tmp_path: Path, change: Callable[[Path], object], error: type[Exception]
) -> None:
    data = tmp_path / "server"
    load_or_create_key(data)
    change(data / "server.key")
    with pytest.raises(error):
        load_key(data)


@pytest.mark.parametrize(
    ("said", "counted"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::", "2001:db8:1:2::/64"),
        ("unix:", "unix:"),
        ("x" * 5_000, "x" * 64),
    ],
)
def test_an_address_counts_as_its_customers(said: str, counted: str) -> None:
    assert counted_address(said) == counted


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_minutes_worth_is_given_at_once_and_comes_back_slowly() -> None:
    clock = Clock()
    limit = PerMinute(60, clock)
    limit.take("a", 60)
    with pytest.raises(RateExceeded) as refused:
        limit.take("a", 5)
    assert refused.value.retry_after_seconds == 5
    limit.take("b")
    clock.now += 5
    limit.take("a", 5)
    clock.now += 10_000
    limit.take("a", 60)
    with pytest.raises(RateExceeded):
        limit.take("a")


def test_more_than_a_minutes_worth_waits_for_a_full_bucket() -> None:
    """A batch is never too large to be taken at all; what follows pays for it."""
    clock = Clock()
    limit = PerMinute(60, clock)
    limit.take("a", 120)
    with pytest.raises(RateExceeded) as refused:
        limit.take("a")
    assert refused.value.retry_after_seconds == 61


def test_a_nonce_is_known_for_its_device_and_time_only() -> None:
    signing = SigningKey(b"k" * 32)
    tickets = Tickets(ServerKey(signing, bytes(signing.verify_key)))
    nonce = tickets.nonce(VAULT, DEVICE, 1_000)
    assert len(nonce) == 32
    assert nonce != tickets.nonce(VAULT, DEVICE, 1_000)
    assert tickets.knows_nonce(nonce, VAULT, DEVICE, 1_000)
    assert not tickets.knows_nonce(nonce, VAULT, DEVICE, 1_001)
    assert not tickets.knows_nonce(nonce, DEVICE, VAULT, 1_000)
    for at in range(32):
        changed = bytearray(nonce)
        changed[at] ^= 1
        assert not tickets.knows_nonce(bytes(changed), VAULT, DEVICE, 0)
    other = SigningKey(b"l" * 32)
    stranger = Tickets(ServerKey(other, bytes(other.verify_key)))
    assert not stranger.knows_nonce(nonce, VAULT, DEVICE, 0)


def test_metrics_are_prometheus_text() -> None:
    metrics = Metrics()
    metrics.request("GET", "/v1/log/pull", 200, 0.004)
    metrics.request("GET", "/v1/log/pull", 200, 3.0)
    metrics.request("POST", "/v1/log/push", 409, 99.0)
    metrics.refusal("FORK")
    metrics.count("rows_pushed", 7)
    metrics.gauge("waiting", "Who waits.", lambda: 2)
    lines = metrics.text().splitlines()
    samples = dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))
    prefix = "memlocket_server_"
    assert samples[prefix + "rows_pushed_total"] == "7"
    assert samples[prefix + "waiting"] == "2"
    assert samples[prefix + 'refusals_total{code="FORK"}'] == "1"
    pulls = 'http_requests_total{method="GET",route="/v1/log/pull",status="200"}'
    assert samples[prefix + pulls] == "2"
    buckets = [
        samples[f'{prefix}request_seconds_bucket{{le="{le}"}}'] for le in ("0.005", "5.0", "+Inf")
    ]
    assert buckets == ["1", "2", "3"]
    assert samples[prefix + "request_seconds_count"] == "3"
    typed = {line.split()[2] for line in lines if line.startswith("# TYPE")}
    assert all(any(name.startswith(family) for family in typed) for name in samples)


def test_a_counter_that_nobody_knows_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        Metrics().count("rows_of_vault_0123")


@pytest.mark.parametrize(
    ("size", "shown"), [(None, None), (0, 0), (1, 1), (2, 2), (3, 4), (1024, 1024), (1025, 2048)]
)
def test_a_logged_size_is_a_power_of_two(size: int | None, shown: int | None) -> None:
    assert bucketed(size) == shown
