"""One real node on a real control plane: kubelet, containerd, runc, and the image of the Dockerfile, without Docker.

Containers are real here, so the operator runs as the pod that the manifests ask for. Two things are the cluster's own:
no proxy serves the address of the API server to pods, and no kube-scheduler places them; both are patched by
`e2e/test_on_a_node.py`.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

import yaml

from e2e.harness.kubelets import client_of, is_ready, managed
from e2e.harness.processes import free_ports, running, wait_for
from e2e.harness.servers import Server

ROOT = Path(__file__).parents[2]
CACHE = ROOT / "build" / "e2e-node"
"""Where images are kept between runs: a base takes minutes to make."""
BINARIES = ("kube-apiserver", "etcd", "kube-controller-manager", "kubelet")
PROGRAMS = ("containerd", "runc", "podman", "debootstrap", "busybox", "ip")
PLUGINS = Path("/usr/lib/cni")
PAUSE = "registry.k8s.io/pause:3.9"
"""What stories run, and what holds a pod's namespaces: an image of this name that is made here, of busybox."""
BRIDGE = "tutti-e2e"
NODE = "node"


def missing() -> str:
    """What is not there of what this needs, in words; "" where all is."""
    if os.geteuid() != 0:
        return "real containers need root"
    assets = Path(os.environ.get("KUBEBUILDER_ASSETS", ""))
    if not assets.name:
        return f"set KUBEBUILDER_ASSETS to a folder with {', '.join(BINARIES)}"
    if lacking := [name for name in BINARIES if not (assets / name).exists()]:
        return f"{assets} (KUBEBUILDER_ASSETS) has no {', '.join(lacking)}"
    if any(Path("/sys/fs/cgroup").glob("*/kubepods")):
        return "another kubelet runs containers on this machine"
    lacking = [name for name in PROGRAMS if shutil.which(name) is None]
    lacking += [f"{PLUGINS}/{name}" for name in ("bridge", "host-local") if not (PLUGINS / name).exists()]
    return f"not installed: {', '.join(lacking)}" if lacking else ""


# ---- images


def images() -> Path:
    """Build the operator's image by the Dockerfile, and the stories' own; returns an archive of both."""
    CACHE.mkdir(parents=True, exist_ok=True)
    if not _has("docker.io/library/python:e2e"):
        _import_base("docker.io/library/python:e2e")
    if not _has(PAUSE):
        _import_pause(PAUSE)
    tag = yaml.safe_load((ROOT / "manifests" / "base" / "kustomization.yaml").read_text())["images"][0]["newTag"]
    image = f"docker.io/library/tutti:{tag}"
    # pip trusts whom this machine trusts.
    trust = ["--volume", "/etc/ssl/certs:/etc/ssl/certs:ro"]
    trust += ["--env", f"PIP_CERT={os.environ['PIP_CERT']}"] if "PIP_CERT" in os.environ else []
    isolated = ["--isolation=chroot", "--network=host", "--pull=never", "--format=docker"]
    _podman("build", *isolated, *trust, "--build-arg", "PYTHON=e2e", "--tag", image, str(ROOT))
    archive = CACHE / "images.tar"
    archive.unlink(missing_ok=True)
    _podman("save", "--multi-image-archive", "--output", str(archive), image, PAUSE)
    return archive


def _podman(*arguments: str) -> None:
    """Run podman on a storage of our own; what it says is shown where it fails."""
    where = ["--root", str(CACHE / "storage"), "--runroot", str(CACHE / "run"), "--cgroup-manager", "cgroupfs"]
    done = subprocess.run(["podman", *where, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"podman {arguments[0]}: {done.stdout[-2000:]}{done.stderr[-2000:]}"


def _has(image: str) -> bool:
    try:
        _podman("image", "exists", image)
    except AssertionError:
        return False
    return True


def _import_base(image: str) -> None:
    """What the Dockerfile starts from: Debian with its own Python, which is 3.11 as well."""
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        tree, archive = Path(folder, "tree"), Path(folder, "base.tar")
        made = ["debootstrap", "--variant=minbase", "--include=python3,python3-venv,ca-certificates", "bookworm"]
        subprocess.run([*made, str(tree)], check=True, capture_output=True)
        (tree / "usr" / "bin" / "python").symlink_to("python3")
        subprocess.run(["tar", "-C", str(tree), "-cf", str(archive), "."], check=True)
        _podman("import", str(archive), image)


def _import_pause(image: str) -> None:
    """A container that does nothing, and ends when it is told to."""
    waits = ["/bin/busybox", "sh", "-c", "trap 'exit 0' TERM; /bin/busybox sleep 2147483647 & wait"]
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        archive = Path(folder, "pause.tar")
        with tarfile.open(archive, "w") as tar:
            tar.add(str(shutil.which("busybox")), "bin/busybox")
        _podman("import", "--change", f"CMD {json.dumps(waits)}", str(archive), image)


# ---- the node


class Node:
    """A kubelet and what it runs containers with.

    Attributes:
        folder: where its files are; short, since the path of a socket has 108 characters at most.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def socket(self) -> Path:
        """Where containerd answers."""
        return self.folder / "containerd.sock"

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Tell containerd what to do with what the kubelet has it run."""
        command = ["ctr", "--address", str(self.socket), "--namespace", "k8s.io", *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def ctr(self, *arguments: str) -> str:
        """The same for what has to work; returns what it says."""
        done = self.run(*arguments)
        assert done.returncode == 0, f"ctr {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def pids(self) -> dict[str, int]:
        """The first process of each container that runs, by the container's id."""
        rows = (line.split() for line in self.ctr("tasks", "ls").splitlines()[1:])
        return {row[0]: int(row[1]) for row in rows if row[2] == "RUNNING"}

    def logs(self) -> str:
        """Everything that containers have said."""
        return "\n".join(file.read_text(errors="replace") for file in sorted((self.folder / "logs").rglob("*.log")))

    def configure(self, server: Server) -> None:
        """Write what containerd, its network and the kubelet read."""
        network = self.folder / "net.d"
        network.mkdir()
        ranges = {
            "type": "host-local",
            "dataDir": str(self.folder / "addresses"),
            "ranges": [[{"subnet": "10.213.0.0/24"}]],
        }
        bridge = {"type": "bridge", "bridge": BRIDGE, "isGateway": False, "ipMasq": False, "ipam": ranges}
        listed = {"cniVersion": "0.4.0", "name": "e2e", "plugins": [bridge]}
        (network / "10-e2e.conflist").write_text(json.dumps(listed))
        (self.folder / "containerd.toml").write_text(
            _CONTAINERD.format(folder=self.folder, pause=PAUSE, plugins=PLUGINS)
        )
        port, health = free_ports(2)
        settings = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "address": "127.0.0.1",
            "port": port,
            "healthzPort": health,
            "readOnlyPort": 0,
            "authentication": {"x509": {"clientCAFile": str(server.folder / "ca.crt")}},
            "authorization": {"mode": "Webhook"},
            "cgroupDriver": "cgroupfs",
            "failCgroupV1": False,
            "failSwapOn": False,
            "makeIPTablesUtilChains": False,
            "containerRuntimeEndpoint": f"unix://{self.socket}",
            "podLogsDir": str(self.folder / "logs"),
            "evictionHard": {"memory.available": "1Mi", "nodefs.available": "0%", "imagefs.available": "0%"},
            "imageGCHighThresholdPercent": 100,
        }
        (self.folder / "kubelet.yaml").write_text(yaml.safe_dump(settings))

    def kubelet(self, server: Server, assets: Path) -> list[str]:
        """The command of its kubelet."""
        kubeconfig = server.kubeconfig_of(f"system:node:{NODE}", "system:nodes")
        return [
            str(assets / "kubelet"), "--config", str(self.folder / "kubelet.yaml"), "--kubeconfig", str(kubeconfig),
            "--hostname-override", NODE, "--root-dir", str(self.folder / "kubelet"),
            "--cert-dir", str(self.folder / "pki"),
        ]  # fmt: skip

    def clear(self) -> None:
        """End every container that is left; containerd itself may be about to."""
        for name in self.ctr("tasks", "ls", "-q").split():
            self.run("tasks", "rm", "--force", name)
        assert not self.pids(), "containers run on though they were killed"


_CONTAINERD = """\
version = 2
root = "{folder}/containerd"
state = "{folder}/state"
disabled_plugins = ["io.containerd.internal.v1.opt"]
[grpc]
address = "{folder}/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "{pause}"
restrict_oom_score_adj = true  # a machine may not let its root make a process safer from running out of memory
stream_server_address = "127.0.0.1"
[plugins."io.containerd.grpc.v1.cri".containerd]
snapshotter = "native"
[plugins."io.containerd.grpc.v1.cri".cni]
bin_dir = "{plugins}"
conf_dir = "{folder}/net.d"
"""


@contextlib.contextmanager
def real_node(server: Server, assets: Path) -> Iterator[Node]:
    """A kube-controller-manager and one node, ready for pods."""
    archive = images()
    folder = Path(tempfile.mkdtemp(prefix="node-"))
    node = Node(folder)
    node.configure(server)
    log, said = server.folder / "containerd.log", server.folder / "kubelet.log"
    try:
        with (
            managed(server, assets),
            running(["containerd", "--config", str(folder / "containerd.toml")], log) as runtime,
        ):
            wait_for(node.socket.exists, "containerd to answer", runtime, log)
            node.ctr("images", "import", "--snapshotter", "native", str(archive))
            try:
                with (
                    running(node.kubelet(server, assets), said) as kubelet,
                    client_of(server) as core,
                ):
                    ready = f"{NODE} to be ready"
                    wait_for(lambda: is_ready(core, NODE), ready, kubelet, said)
                    yield node
            finally:
                node.clear()
    finally:
        _forget(folder)


def _forget(folder: Path) -> None:
    """Take away what a kubelet and containers leave on a machine: mounts, control groups, a bridge, files."""
    mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for mount in sorted((one for one in mounts if one.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "--lazy", mount], check=True, capture_output=True)
    for group in sorted(Path("/sys/fs/cgroup").glob("*/kubepods")):
        for inner, _, _ in os.walk(group, topdown=False):
            with contextlib.suppress(OSError):  # a process may still be on its way out of it
                Path(inner).rmdir()
    subprocess.run(["ip", "link", "delete", BRIDGE], check=False, capture_output=True)  # made with the first pod
    shutil.rmtree(folder)


if __name__ == "__main__":
    sys.stdout.write(missing())
