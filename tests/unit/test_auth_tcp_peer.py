"""Which user is at the other end of a loopback connection (desktop.md 11.7)."""

from __future__ import annotations

import os
import socket
import time

import pytest

from memory_manager.auth.tcp_peer import is_supported, tcp_peer_uid

pytestmark = pytest.mark.skipif(not is_supported(), reason="needs Linux, which has the table")


def test_the_uid_of_a_connected_peer_is_ours() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.create_connection(server.getsockname()) as client:
            accepted, remote = server.accept()
            with accepted:
                local = accepted.getsockname()
                assert remote == client.getsockname()
                assert tcp_peer_uid(local, remote) == os.getuid()
                assert tcp_peer_uid(local, (remote[0], remote[1] ^ 1)) is None
                client.close()
                deadline = time.monotonic() + 10
                while tcp_peer_uid(local, remote) is not None:  # a closed one says uid 0
                    assert time.monotonic() < deadline
                    time.sleep(0.01)


def test_a_peer_on_a_mapped_address_is_found_too() -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("needs IPv6 on this machine")
    with socket.create_server(("127.0.0.1", 0)) as server:
        with socket.socket(socket.AF_INET6) as client:
            client.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            client.connect(("::ffff:127.0.0.1", server.getsockname()[1]))
            accepted, remote = server.accept()
            with accepted:
                assert tcp_peer_uid(accepted.getsockname(), remote) == os.getuid()
