"""The clusters a story can run on: embedded, real binaries (envtest), or kind.

Each gives a kubeconfig and `NODES` nodes with two GPUs, and knows how a pod's work comes to an end there.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml
from kubernetes import client, config

from e2e.harness.pretended import PRETENDED

NODES = 4
GPUS = 2


@dataclass(frozen=True)
class Cluster:
    """A cluster that is up.

    Attributes:
        kind: embedded, envtest or kind.
        kubelets: Whether bound pods really start; without them a story plays the kubelet's part.
    """

    kind: str
    kubeconfig: Path
    nodes: tuple[str, ...]
    kubelets: bool

    def connect(self) -> client.ApiClient:
        """A connection of its own."""
        return config.new_client_from_config(str(self.kubeconfig))


@contextlib.contextmanager
def started(kind: str, folder: Path) -> Iterator[Cluster]:
    """Start (or, for kind, find) a cluster, and stop it afterwards."""
    match kind:
        case "embedded":
            starting = embedded(folder)
        case "envtest":
            starting = envtest(folder, Path(os.environ["KUBEBUILDER_ASSETS"]))
        case "kind":
            starting = kind_cluster()
        case _:
            raise ValueError(f"there is no cluster of kind {kind!r}; use embedded, envtest or kind")
    with starting as cluster:
        yield cluster


@contextlib.contextmanager
def embedded(folder: Path) -> Iterator[Cluster]:
    """The embedded cluster, as a process of its own."""
    kubeconfig = folder / "kubeconfig"
    command = [sys.executable, "-m", "tutti", "cluster", "--nodes", str(NODES), "--gpus", str(GPUS)]
    with running([*command, "--port", "0", "--kubeconfig", str(kubeconfig)], folder / "cluster.log") as process:
        wait_for(kubeconfig.exists, "the embedded cluster to write its kubeconfig", process, folder / "cluster.log")
        with config.new_client_from_config(str(kubeconfig)) as api:
            nodes = client.CoreV1Api(api)
            wait_for(lambda: len(nodes.list_node().items) == NODES, f"{NODES} hollow nodes", process)
            names = tuple(sorted(node.metadata.name for node in nodes.list_node().items))
        yield Cluster("embedded", kubeconfig, names, kubelets=True)


@contextlib.contextmanager
def envtest(folder: Path, assets: Path, nodes: int = NODES, arguments: Sequence[str] = ()) -> Iterator[Cluster]:
    """A real kube-apiserver, with further arguments, and etcd from a folder of binaries; no kubelets or controllers."""
    token, kubeconfig = secrets.token_hex(16), folder / "kubeconfig"
    etcd_port, peer_port, api_port = free_ports(3)
    (folder / "tokens.csv").write_text(f"{token},admin,admin,system:masters\n")
    etcd_url, peer_url = f"http://127.0.0.1:{etcd_port}", f"http://127.0.0.1:{peer_port}"
    key = str(folder / "sa.key")
    subprocess.run(["openssl", "genrsa", "-out", key, "2048"], check=True, stderr=subprocess.DEVNULL)
    etcd = [
        str(assets / "etcd"), "--data-dir", str(folder / "etcd"), "--log-level", "error", "--unsafe-no-fsync",
        "--listen-client-urls", etcd_url, "--advertise-client-urls", etcd_url, "--listen-peer-urls", peer_url,
        "--initial-advertise-peer-urls", peer_url, "--initial-cluster", f"default={peer_url}",
    ]  # fmt: skip
    apiserver = [
        str(assets / "kube-apiserver"), "--etcd-servers", etcd_url, "--bind-address", "127.0.0.1",
        "--secure-port", str(api_port), "--cert-dir", str(folder / "certs"),
        "--service-cluster-ip-range", "10.0.0.0/24", "--service-account-issuer", "https://kubernetes.default.svc",
        "--service-account-key-file", key, "--service-account-signing-key-file", key,
        "--token-auth-file", str(folder / "tokens.csv"), "--authorization-mode", "RBAC",
        "--disable-admission-plugins", "ServiceAccount,TaintNodesByCondition",
        "--feature-gates", "GenericWorkload=true", "--runtime-config", "scheduling.k8s.io/v1alpha2=true",
    ]  # fmt: skip
    with (
        running(etcd, folder / "etcd.log"),
        running(apiserver, folder / "apiserver.log") as process,
    ):
        server = f"https://127.0.0.1:{api_port}"
        write_kubeconfig(kubeconfig, server, token, folder / "certs" / "apiserver.crt")
        wait_for(lambda: is_ready(server, token), "kube-apiserver to be ready", process, folder / "apiserver.log", 120)
        with config.new_client_from_config(str(kubeconfig)) as api:
            names = tuple(make_node(api, f"node-{i}") for i in range(nodes))
        yield Cluster("envtest", kubeconfig, names, kubelets=False)


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
            amounts = {"nvidia.com/gpu": str(GPUS)}
            core.patch_node_status(name, {"status": {"capacity": amounts, "allocatable": amounts}})
    yield Cluster("kind", kubeconfig, tuple(workers), kubelets=True)


def make_node(api: client.ApiClient, name: str) -> str:
    """A node object without a kubelet behind it."""
    amounts = {"cpu": "64", "memory": "512Gi", "pods": "500", "nvidia.com/gpu": str(GPUS)}
    ready = {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": ""}
    node = {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"capacity": amounts, "allocatable": amounts, "conditions": [ready]},
    }
    client.CoreV1Api(api).create_node(node)
    return name


def is_ready(server: str, token: str) -> bool:
    """Whether an API server says that it is ready, and can say what it serves, which it cannot do at once."""
    trusting = ssl.create_default_context()
    trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
    headers = {"Authorization": f"Bearer {token}"}
    requests = [urllib.request.Request(f"{server}/{path}", headers=headers) for path in ("readyz", "openapi/v2")]
    try:
        for request in requests:
            with urllib.request.urlopen(request, timeout=5, context=trusting) as response:
                if response.status != 200:
                    return False
    except OSError:  # not listening yet, or an answer that says no
        return False
    return True


def write_kubeconfig(path: Path, server: str, token: str, authority: Path) -> None:
    """Write a kubeconfig with a token, for a server whose certificate signs itself."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "e2e",
        "clusters": [{"name": "e2e", "cluster": {"server": server, "certificate-authority": str(authority)}}],
        "users": [{"name": "e2e", "user": {"token": token}}],
        "contexts": [{"name": "e2e", "context": {"cluster": "e2e", "user": "e2e"}}],
    }
    path.write_text(yaml.safe_dump(document))


def free_ports(count: int) -> list[int]:
    """Ports that nothing listens on now."""
    held = [socket.socket() for _ in range(count)]
    for one in held:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


@contextlib.contextmanager
def running(command: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with the block."""
    with log.open("ab") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_for(
    so: object, what: str, process: subprocess.Popen[bytes] | None = None, log: Path | None = None, seconds: float = 60
) -> None:
    """Wait until `so()` is true; say what was waited for, and the end of the log, where it does not become so."""
    assert callable(so)
    end = time.monotonic() + seconds
    while not so():
        died = process is not None and process.poll() is not None
        if died or time.monotonic() > end:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-20:]) if log and log.exists() else ""
            verb = f"process ended with {process.returncode}" if died and process else f"{seconds:.0f} s passed"
            raise AssertionError(f"waited for {what}, but {verb}\n{tail}")
        time.sleep(0.05)
