"""An administrator's part: kubectl, what it installs, and a cluster that may be taken apart."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from e2e.harness.clusters import Cluster, started, unavailable
from e2e.harness.processes import PATIENCE

ROOT = Path(__file__).parents[2]


class Administrator:
    """Somebody with kubectl and every right."""

    def __init__(self, cluster: Cluster) -> None:
        self._environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig)}

    def kubectl(self, *arguments: str) -> str:
        """Run kubectl and return what it says; it has to work."""
        done = self.run("kubectl", *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def run(self, *command: str, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command against the cluster."""
        environment = {**self._environment, **environment}
        return subprocess.run(command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False)

    def begin(self, *command: str) -> subprocess.Popen[str]:
        """Begin a command against the cluster, while the story goes on."""
        return subprocess.Popen(
            command, env=self._environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def apply(self, *what: str) -> None:
        """Apply manifests, and wait until our kinds are served."""
        self.kubectl("apply", "--server-side", "--force-conflicts", *what)
        self.wait_established()

    def wait_established(self) -> None:
        """Wait until our kinds are served."""
        self.kubectl("wait", "--for=condition=Established", "crd", "--all", f"--timeout={PATIENCE}s")

    def configuration(self) -> dict[str, object]:
        """The configuration that the operator's pod would have mounted."""
        deployed = yaml.safe_load(self.kubectl("get", "deployment", "tutti", "-n", "tutti-system", "-o", "yaml"))
        volumes = deployed["spec"]["template"]["spec"]["volumes"]
        (name,) = [volume["configMap"]["name"] for volume in volumes if "configMap" in volume]
        found = yaml.safe_load(self.kubectl("get", "configmap", name, "-n", "tutti-system", "-o", "yaml"))
        return dict(yaml.safe_load(found["data"]["tutti.yaml"]))


@contextlib.contextmanager
def own_cluster(kind: str, folder: Path) -> Iterator[Cluster]:
    """A cluster of the story's own, for what would take it from under others."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")
    if kind == "kind":
        pytest.skip("a story that takes the cluster apart; the others need it")
    if lacking := unavailable(kind):
        pytest.skip(lacking)
    folder.mkdir()
    with started(kind, folder) as cluster:
        yield cluster
