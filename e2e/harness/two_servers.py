"""Two API servers on one storage behind one address: clients are led to the one or to the other."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from e2e.harness.passage import Passage
from e2e.harness.servers import Server, beside, write_kubeconfig


@dataclass(frozen=True)
class TwoServers:
    """Two API servers.

    Attributes:
        first: The one that the address leads to at first; it is that of the cluster.
        second: The other one.
        address: The address.
        storage: The way of the second to the storage.
        kubeconfig: An administrator's, who comes by the address.
    """

    first: Server
    second: Server
    address: Passage
    storage: Passage
    kubeconfig: Path

    def lead_to(self, server: Server) -> None:
        """Lead who comes from now on to one of them; who is at the other stays there."""
        self.address.beyond = port_of(server.url)

    def move_to(self, server: Server) -> None:
        """The same, and cut off who is at the other."""
        self.address.shut()
        self.lead_to(server)
        self.address.open()


def port_of(url: str) -> int:
    """The port of a URL."""
    port = urlsplit(url).port
    assert port is not None
    return port


@contextlib.contextmanager
def two_servers(first: Server, folder: Path) -> Iterator[TwoServers]:
    """Have a second API server beside the one that there is."""
    etcd = first.api.command[first.api.command.index("--etcd-servers") + 1]
    with Passage() as storage, Passage() as address:
        storage.beyond = port_of(etcd)
        with beside(first, f"http://127.0.0.1:{storage.port}") as second:
            kubeconfig = folder / "two.kubeconfig"
            write_kubeconfig(kubeconfig, f"https://127.0.0.1:{address.port}", first.token, first.certificate)
            found = TwoServers(first, second, address, storage, kubeconfig)
            found.lead_to(first)
            yield found
