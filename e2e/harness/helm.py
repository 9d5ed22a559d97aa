"""Helm, as an administrator uses it: its own SDK against the cluster's API server."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml
from kubernetes import client

from e2e.harness.clusters import Cluster
from tests.manifests.check import ROOT
from tests.manifests.helm import CHART, sdk

NAMESPACE = "tutti-system"
RELEASE = "tutti"
PREVIOUS = ROOT / "e2e" / "previous" / "0.1.0.yaml"


class Helm:
    """One release in one cluster."""

    def __init__(self, cluster: Cluster, folder: Path) -> None:
        self._config = sdk().Config(kubeconfig_path=str(cluster.kubeconfig), namespace=NAMESPACE)
        self.chart = folder / "tutti"
        shutil.copytree(CHART, self.chart)
        with cluster.connect() as api:
            told = client.VersionApi(api).get_code().git_version
        if told.startswith("v0.0.0"):  # a server that somebody has built, without its version
            metadata = self.chart / "Chart.yaml"
            lines = metadata.read_text(encoding="utf-8").splitlines(keepends=True)
            metadata.write_text(
                "".join(line for line in lines if not line.startswith("kubeVersion:")), encoding="utf-8"
            )

    def install(self, chart: Path | None = None, **values: Any) -> None:
        """`helm install --create-namespace`."""
        self._config.install(str(chart or self.chart), RELEASE, values, create_namespace=True)

    def upgrade(self, **values: Any) -> None:
        """`helm upgrade`."""
        self._config.upgrade(str(self.chart), RELEASE, values)

    def uninstall(self) -> str:
        """`helm uninstall`; returns what it says."""
        return str(self._config.uninstall(RELEASE)["info"])

    def test(self, seconds: int) -> None:
        """`helm test`.

        Raises:
            HelmError: its pod has failed, or has not ended in time.
        """
        self._config.test(RELEASE, timeout=seconds)

    def close(self) -> None:
        """Let go of the cluster."""
        self._config.close()


def chart_of_before(today: Path) -> Path:
    """A chart as one of 0.1.0 would have been, when there was none: today's templates with the definitions of then."""
    chart = today.with_name("before")
    shutil.copytree(today, chart)
    definitions = []
    for one in yaml.load_all(PREVIOUS.read_text(encoding="utf-8"), yaml.CSafeLoader):
        if one["kind"] == "CustomResourceDefinition":
            one["metadata"].setdefault("annotations", {})["helm.sh/resource-policy"] = "keep"
            definitions.append(one)
    assert definitions
    (chart / "templates" / "crds.yaml").write_text(yaml.safe_dump_all(definitions), encoding="utf-8")
    return chart


def begin_test(cluster: Cluster, seconds: int) -> subprocess.Popen[str]:
    """`helm test` in a process of its own, while the story goes on."""
    program = (
        "import sys; sys.path.append(sys.argv[1]); import helm_python; "
        f"config = helm_python.Config(kubeconfig_path=sys.argv[2], namespace={NAMESPACE!r}); "
        f"config.test({RELEASE!r}, timeout={seconds})"
    )
    command = [sys.executable, "-c", program, str(Path(sdk().__file__).parents[1]), str(cluster.kubeconfig)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
