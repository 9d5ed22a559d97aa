"""`tutti bench` on a real kube-apiserver and etcd from KUBEBUILDER_ASSETS. Run by `make bench-envtest`.

Arguments are handed on; without any, our short scenarios are run. Where the folder also has a kube-scheduler, it is
run afterwards on the same cluster, and the ratio is printed. With `--native-gangs` first, the API server serves
Kubernetes' own PodGroups, and kube-scheduler schedules them as gangs.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from e2e.harness.clusters import envtest

SCENARIOS = Path(__file__).parent / "scenarios"
RESULTS = Path("build/bench-envtest")
NATIVE = "--native-gangs"
GATES = "--feature-gates=GenericWorkload=true,GangScheduling=true"
SERVED = "--runtime-config=scheduling.k8s.io/v1alpha2=true"


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
    if not given:
        given = [*map(str, sorted(files.glob("*.yaml"))), "--label-filter", "short", "--topic", "tutti"]
    with (
        tempfile.TemporaryDirectory(prefix="tutti-bench-") as folder,
        envtest(Path(folder), Path(assets), nodes=0, arguments=server) as up,
    ):
        where = ["--kubeconfig", str(up.kubeconfig), "--operator", "--data-items-dir", str(RESULTS)]
        command = [sys.executable, "-m", "tutti", "bench", "run", *given, *where, *against]
        return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
