"""`tutti bench` on a real kube-apiserver and etcd from KUBEBUILDER_ASSETS. Run by `make bench-envtest`.

Arguments are handed on; without any, our short scenarios are run. Where the folder also has a kube-scheduler, it is
run afterwards on the same cluster, and the ratio is printed. With `--native-gangs` first, the API server serves
Kubernetes' own PodGroups, and kube-scheduler schedules them as gangs. With `--claims` first, the controller that makes
ResourceClaims from templates runs as well, from the kube-controller-manager of the folder.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from e2e.harness.clusters import Cluster, envtest
from e2e.harness.processes import running

SCENARIOS = Path(__file__).parent / "scenarios"
RESULTS = Path("build/bench-envtest")
NATIVE = "--native-gangs"
GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true"
SERVED = "--runtime-config=scheduling.k8s.io/v1alpha2=true"
CLAIMS = "--claims"


def main() -> int:
    """Start the API server, run the benchmark on it, and return its exit code."""
    assets = os.environ.get("KUBEBUILDER_ASSETS", "")
    if not assets:
        print("skipped: set KUBEBUILDER_ASSETS to a folder with kube-apiserver and etcd (setup-envtest use -p path)")  # noqa: T201
        return 0
    given, server = sys.argv[1:], []
    scheduler = Path(assets) / "kube-scheduler"
    against = ["--against", f"kube-scheduler={scheduler}"] if scheduler.is_file() else []
    files = SCENARIOS
    if given[:1] == [NATIVE]:
        given, server, files = given[1:], [SERVED, GATES], SCENARIOS / "native"
        against += [f"--argument={GATES}"] if against else []
    makes_claims = given[:1] == [CLAIMS]
    given = given[1:] if makes_claims else given
    if not given:
        given = [*map(str, sorted(files.glob("*.yaml"))), "--label-filter", "short", "--topic", "tutti"]
    with (
        tempfile.TemporaryDirectory(prefix="tutti-bench-") as folder,
        envtest(Path(folder), Path(assets), nodes=0, arguments=server) as up,
        contextlib.ExitStack() as stack,
    ):
        if makes_claims:
            stack.enter_context(running(claim_controller(Path(assets), up), Path(folder) / "claims.log"))
        where = ["--kubeconfig", str(up.kubeconfig), "--operator", "--data-items-dir", str(RESULTS)]
        command = [sys.executable, "-m", "tutti", "bench", "run", *given, *where, *against]
        return subprocess.run(command, check=False).returncode


def claim_controller(assets: Path, cluster: Cluster) -> list[str]:
    """The command that makes claims from templates, and frees those of pods that are gone, on a cluster."""
    kubeconfig = str(cluster.kubeconfig)
    return [
        str(assets / "kube-controller-manager"), "--controllers=resourceclaim-controller", "--leader-elect=false",
        "--kubeconfig", kubeconfig, "--secure-port", "0", "--kube-api-qps", "2000", "--kube-api-burst", "4000",
    ]  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
