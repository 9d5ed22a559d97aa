"""Ports that stories and tests give to what listens: no connection that goes out can have taken them meanwhile."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from e2e.harness import processes
from e2e.harness.processes import free_port, free_ports

GIVEN_TO_CONNECTIONS = Path("/proc/sys/net/ipv4/ip_local_port_range")  # ip(7): the first and the last


@pytest.mark.skipif(not GIVEN_TO_CONNECTIONS.exists(), reason="only Linux tells it here")
def test_no_port_is_one_that_a_connection_may_get():
    first, last = map(int, GIVEN_TO_CONNECTIONS.read_text().split())
    assert not [port for port in free_ports(50) if first <= port <= last]


def test_each_port_is_given_once():
    given = [*free_ports(20), free_port(), *free_ports(20)]
    assert len(set(given)) == 41


def test_a_port_that_somebody_listens_on_is_passed_over(monkeypatch):
    taken, free = free_ports(2)
    with socket.create_server(("127.0.0.1", taken)):
        monkeypatch.setattr(processes, "_PORTS", range(taken, free + 1))
        assert taken not in free_ports(free - taken)
        with pytest.raises(OSError, match="fewer than"):
            free_ports(free - taken + 1)
