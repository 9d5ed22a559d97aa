"""Real kubelets on a real control plane: kube-apiserver, etcd, kube-controller-manager, and a kubemark for each node.

kubemark is the kubelet itself, its pod workers, its admission and its leases included, with a runtime that pretends to
run containers: one starts at once, and ends with 0 when it is told to. Each node is a process of its own, so that
it can be killed. There is no provisioner of volumes but the controller manager's own for host paths.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from kubernetes import client, config

from e2e.harness.machines import GPUS
from e2e.harness.processes import Switched, free_port, free_ports, launch, wait_for
from e2e.harness.servers import FEATURE_GATES, Server

NEEDED = ("kube-apiserver", "etcd", "kube-controller-manager", "kubemark")
GRACE_SECONDS = 20
"""How long a node may be silent. A kubelet renews its lease every ten seconds; kubemark cannot be told otherwise."""


def missing() -> str:
    """What the folder KUBEBUILDER_ASSETS lacks for this, in words; "" where nothing does."""
    assets = Path(os.environ.get("KUBEBUILDER_ASSETS", ""))
    if not assets.name:
        return f"set KUBEBUILDER_ASSETS to a folder with {', '.join(NEEDED)}"
    lacking = [name for name in NEEDED if not (assets / name).exists()]
    return f"{assets} (KUBEBUILDER_ASSETS) has no {', '.join(lacking)}" if lacking else ""


class Kubelets:
    """The nodes of one control plane, each of which is a process."""

    can_die = can_come = forgets = ""

    def __init__(self, server: Server, assets: Path) -> None:
        self._server, self._assets = server, assets
        # Not below the cluster's folder: the path of a socket of a kubelet has 108 characters at most.
        self._files = tempfile.mkdtemp(prefix="kubelets-")
        self._commands: dict[str, list[str]] = {}
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def add(self, name: str, gpus: int = GPUS, labels: str = "", taint: str = "") -> None:
        """Start a kubelet, with labels and a taint as its own flags take them, and wait until its node is ready."""
        self.start(name, gpus, labels, taint)
        self.wait_ready(name)

    def start(self, name: str, gpus: int = GPUS, labels: str = "", taint: str = "") -> None:
        """Start a kubelet that has not run before."""
        port, read_only = free_ports(2)
        self._commands[name] = [
            str(self._assets / "kubemark"), "--morph=kubelet", f"--name={name}",
            f"--kubeconfig={self._server.kubeconfig_of(f'system:node:{name}', 'system:nodes')}",
            f"--extended-resources=nvidia.com/gpu={gpus}", f"--node-labels={labels}",
            f"--register-with-taints={taint}", "--use-host-image-service=false", "--max-pods=250",
            f"--kubelet-port={port}", f"--kubelet-read-only-port={read_only}",
            "--kube-api-qps=100", "--kube-api-burst=200", "--v=2",
        ]  # fmt: skip
        self.on(name)

    def wait_ready(self, name: str) -> None:
        """Wait until the node says that it is ready, and takes pods."""
        with client_of(self._server) as core:
            wait_for(lambda: is_ready(core, name), f"{name} to be ready", self._running[name], self._log(name))

    def remove(self, name: str) -> None:
        """Kill the kubelet for good, and delete its node."""
        if name in self._running:
            self.off(name)
        self._commands.pop(name, None)
        with client_of(self._server) as core, contextlib.suppress(client.ApiException):  # the story may have deleted it
            core.delete_node(name)

    def off(self, name: str) -> None:
        """Kill -9."""
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def on(self, name: str) -> None:
        """Start the kubelet anew."""
        self._running[name] = launch(self._commands[name], self._log(name), {"TMPDIR": self._files})

    def freeze(self, name: str) -> None:
        """SIGSTOP: it says nothing, and goes on with what it runs when it is thawed."""
        self._running[name].send_signal(signal.SIGSTOP)

    def thaw(self, name: str) -> None:
        """SIGCONT; one that runs does not notice."""
        self._running[name].send_signal(signal.SIGCONT)

    def _log(self, name: str) -> Path:
        return self._server.folder / f"{name}.log"

    def close(self) -> None:
        """Stop them all, and remove their files."""
        for name in list(self._running):
            self.off(name)
        shutil.rmtree(self._files)


@contextlib.contextmanager
def managed(server: Server, assets: Path) -> Iterator[Switched]:
    """A kube-controller-manager, which soon notices that a node is silent, and marks as many as are.

    StatefulSets are left to stories: those of job frameworks have pods that the frameworks' webhooks complete.
    """
    kubeconfig = str(server.kubeconfig_of("system:kube-controller-manager"))
    port = free_port()
    command = [
        str(assets / "kube-controller-manager"), "--feature-gates", FEATURE_GATES,
        "--kubeconfig", kubeconfig, "--authentication-kubeconfig", kubeconfig,
        "--authorization-kubeconfig", kubeconfig, "--bind-address", "127.0.0.1", "--secure-port", str(port),
        "--cert-dir", str(server.folder / "manager"), "--leader-elect=false", "--use-service-account-credentials",
        "--controllers", "*,-statefulset-controller",
        "--service-account-private-key-file", str(server.folder / "sa.key"),
        "--root-ca-file", str(server.certificate), "--enable-hostpath-provisioner",
        "--node-monitor-period", "1s", "--node-monitor-grace-period", f"{GRACE_SECONDS}s", "--node-eviction-rate", "10",
        "--kube-api-qps", "200", "--kube-api-burst", "400",
    ]  # fmt: skip
    log = server.folder / "manager.log"
    with Switched(command, log) as manager:
        with client_of(server) as core:
            wait_for(lambda: has_account(core, "default"), "a service account for `default`", manager.process, log)
        yield manager


@contextlib.contextmanager
def client_of(server: Server) -> Iterator[client.CoreV1Api]:
    """The administrator's connection."""
    with config.new_client_from_config(str(server.kubeconfig)) as api:
        yield client.CoreV1Api(api)


def is_ready(core: client.CoreV1Api, name: str) -> bool:
    """Whether a node is there, ready, and without the taints that it has until then; it may be cordoned."""
    try:
        node = core.read_node(name)
    except client.ApiException as error:
        if error.status == 404:
            return False
        raise
    ready = any(one.type == "Ready" and one.status == "True" for one in node.status.conditions or [])
    taints = {one.key for one in node.spec.taints or []} - {"node.kubernetes.io/unschedulable"}
    return ready and not any(key.startswith("node.kubernetes.io/") for key in taints)


def has_account(core: client.CoreV1Api, namespace: str) -> bool:
    """Whether pods can be made in a namespace: each has a service account, which a controller makes."""
    return any(one.metadata.name == "default" for one in core.list_namespaced_service_account(namespace).items)


if __name__ == "__main__":
    print(missing())
