"""`tutti bench` on a real kube-apiserver and etcd from KUBEBUILDER_ASSETS. Run by `make bench-envtest`.

Arguments are handed on; without any, our short scenarios are run. Where the folder also has a kube-scheduler, it is
run afterwards on the same cluster, and the ratio is printed.
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


def main() -> int:
    """Start the API server, run the benchmark on it, and return its exit code."""
    assets = os.environ.get("KUBEBUILDER_ASSETS", "")
    if not assets:
        print("skipped: set KUBEBUILDER_ASSETS to a folder with kube-apiserver and etcd (setup-envtest use -p path)")  # noqa: T201
        return 0
    given = sys.argv[1:] or [*map(str, sorted(SCENARIOS.glob("*.yaml"))), "--label-filter", "short", "--topic", "tutti"]
    scheduler = Path(assets) / "kube-scheduler"
    if scheduler.is_file() and "--against" not in given:
        given += ["--against", f"kube-scheduler={scheduler}"]
    with (
        tempfile.TemporaryDirectory(prefix="tutti-bench-") as folder,
        envtest(Path(folder), Path(assets), nodes=0) as up,
    ):
        command = [
            sys.executable,
            "-m",
            "tutti",
            "bench",
            "run",
            *given,
            "--kubeconfig",
            str(up.kubeconfig),
            "--operator",
        ]
        return subprocess.run([*command, "--data-items-dir", str(RESULTS)], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
