"""The clusters a story can run on: embedded, real servers (envtest), real kubelets on a real control plane, or kind.

Each gives a kubeconfig and `NODES` nodes with two GPUs, and knows how a pod's work comes to an end there.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from kubernetes import client, config

from e2e.harness.kubelets import Kubelets, managed
from e2e.harness.kubelets import missing as kubelets_lack
from e2e.harness.machines import GPUS, Containers, Hollow, Machines, Pretended
from e2e.harness.node import NODE, Node, real_node
from e2e.harness.node import missing as node_lacks
from e2e.harness.pretended import PRETENDED
from e2e.harness.processes import Switched, running, wait_for
from e2e.harness.servers import Server, served

NODES = 4
SPARE = "e2e.tutti.dev/spare"
"""The taint of the fifth node of real kubelets: stories that count nodes do not see it, and others may tolerate it."""
SPARE_GPUS = 8
AUTHORIZED = ("--authorization-mode", "Node,RBAC", "--enable-admission-plugins", "NodeRestriction")
"""A kubelet may do what kubelets may."""
GRACE_SECONDS = 2
"""How long a node of the embedded cluster may be silent."""
KINDS = ("embedded", "envtest", "kubelets", "node", "kind")


@dataclass(frozen=True)
class Cluster:
    """A cluster that is up.

    Attributes:
        kind: one of `KINDS`.
        kubelets: Whether bound pods really start; without them a story plays the kubelet's part.
        machines: What stands behind its nodes.
        runtime: What runs the containers of its one node, for the kind `node`.
        server: Its control plane, where that is one whose processes a story may kill.
        manager: Its kube-controller-manager, likewise.
    """

    kind: str
    kubeconfig: Path
    nodes: tuple[str, ...]
    kubelets: bool
    machines: Machines
    runtime: Node | None = None
    server: Server | None = None
    manager: Switched | None = None

    def connect(self) -> client.ApiClient:
        """A connection of its own."""
        return config.new_client_from_config(str(self.kubeconfig))

    @property
    def provisioner(self) -> str:
        """Who makes volumes where a pod will be; "" where nobody binds claims, or nobody makes volumes."""
        return {"embedded": "csi.example.com", "kubelets": "kubernetes.io/host-path"}.get(self.kind, "")

    @property
    def replica_sets(self) -> bool:
        """Whether somebody makes the pods of Deployments, and a service account for each namespace."""
        return self.kind in {"kubelets", "node", "kind"}

    @property
    def stateful_sets(self) -> bool:
        """Whether somebody makes the pods of StatefulSets; elsewhere that is left to stories."""
        return self.kind == "kind"


def unavailable(kind: str) -> str:
    """Why a kind of cluster cannot run here, in words; "" where nothing is known against it."""
    return {"kubelets": kubelets_lack, "node": node_lacks}.get(kind, str)()


@contextlib.contextmanager
def started(kind: str, folder: Path) -> Iterator[Cluster]:
    """Start (or, for kind, find) a cluster, and stop it afterwards."""
    match kind:
        case "embedded":
            starting = embedded(folder)
        case "envtest":
            starting = envtest(folder, Path(os.environ["KUBEBUILDER_ASSETS"]))
        case "kubelets":
            starting = kubelets(folder, Path(os.environ["KUBEBUILDER_ASSETS"]))
        case "node":
            starting = one_node(folder, Path(os.environ["KUBEBUILDER_ASSETS"]))
        case "kind":
            starting = kind_cluster()
        case _:
            raise ValueError(f"there is no cluster of kind {kind!r}; use one of {', '.join(KINDS)}")
    with starting as cluster:
        yield cluster


@contextlib.contextmanager
def embedded(folder: Path) -> Iterator[Cluster]:
    """The embedded cluster, as a process of its own."""
    kubeconfig = folder / "kubeconfig"
    command = [sys.executable, "-m", "tutti", "cluster", "--nodes", str(NODES), "--gpus", str(GPUS)]
    command += ["--node-grace", str(GRACE_SECONDS), "--port", "0", "--kubeconfig", str(kubeconfig)]
    with running(command, folder / "cluster.log") as process:
        wait_for(kubeconfig.exists, "the embedded cluster to write its kubeconfig", process, folder / "cluster.log")
        with config.new_client_from_config(str(kubeconfig)) as api:
            nodes = client.CoreV1Api(api)
            wait_for(lambda: len(nodes.list_node().items) == NODES, f"{NODES} hollow nodes", process)
            names = tuple(sorted(node.metadata.name for node in nodes.list_node().items))
        machines = Hollow(lambda: config.new_client_from_config(str(kubeconfig)))
        yield Cluster("embedded", kubeconfig, names, kubelets=True, machines=machines)


@contextlib.contextmanager
def envtest(folder: Path, assets: Path, nodes: int = NODES, arguments: Sequence[str] = ()) -> Iterator[Cluster]:
    """A real kube-apiserver, with further arguments, and etcd from a folder of binaries; no kubelets or controllers."""
    lone = ["--authorization-mode", "RBAC", "--disable-admission-plugins", "ServiceAccount,TaintNodesByCondition"]
    with served(folder, assets, [*lone, *arguments]) as server:
        machines = Pretended(lambda: config.new_client_from_config(str(server.kubeconfig)))
        names = tuple(f"node-{number}" for number in range(nodes))
        for name in names:
            machines.add(name)
        yield Cluster("envtest", server.kubeconfig, names, kubelets=False, machines=machines, server=server)


@contextlib.contextmanager
def kubelets(folder: Path, assets: Path) -> Iterator[Cluster]:
    """A real control plane with five real kubelets, whose runtime pretends; the fifth is spare."""
    with served(folder, assets, AUTHORIZED) as server, managed(server, assets) as manager:
        machines = Kubelets(server, assets)
        try:
            names = tuple(f"node-{number}" for number in range(NODES))
            for number, name in enumerate(names):
                machines.start(name, labels=f"topology.kubernetes.io/zone=zone-{number // 2}")
            machines.start("spare", SPARE_GPUS, taint=f"{SPARE}=:NoSchedule")
            for name in (*names, "spare"):
                machines.wait_ready(name)
            yield Cluster(
                "kubelets", server.kubeconfig, names, kubelets=True, machines=machines, server=server, manager=manager
            )
        finally:
            machines.close()


@contextlib.contextmanager
def one_node(folder: Path, assets: Path) -> Iterator[Cluster]:
    """A real control plane, and one node with real containers, which is given GPUs that it does not have."""
    with served(folder, assets, AUTHORIZED) as server, real_node(server, assets) as runtime:
        machines = Pretended(lambda: config.new_client_from_config(str(server.kubeconfig)))
        with config.new_client_from_config(str(server.kubeconfig)) as api:
            give_gpus(client.CoreV1Api(api), NODE, SPARE_GPUS)
        yield Cluster("node", server.kubeconfig, (NODE,), kubelets=True, machines=machines, runtime=runtime)


def give_gpus(core: client.CoreV1Api, node: str, gpus: int) -> None:
    """Have a node offer GPUs; a kubelet leaves alone what it does not know."""
    amounts = {"nvidia.com/gpu": str(gpus)}
    core.patch_node_status(node, {"status": {"capacity": amounts, "allocatable": amounts}})


@contextlib.contextmanager
def kind_cluster() -> Iterator[Cluster]:
    """A kind cluster that e2e/kind.sh has made; its workers are given GPUs that they do not have."""
    kubeconfig = Path(os.environ["KUBECONFIG"])
    with config.new_client_from_config(str(kubeconfig)) as api:
        core = client.CoreV1Api(api)
        workers = [
            node.metadata.name
            for node in core.list_node().items
            if "node-role.kubernetes.io/control-plane" not in node.metadata.labels
            and PRETENDED not in (node.metadata.annotations or {})
        ][:NODES]
        for name in workers:
            give_gpus(core, name, GPUS)
    yield Cluster("kind", kubeconfig, tuple(workers), kubelets=True, machines=Containers())
