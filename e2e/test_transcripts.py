"""What kubectl shows of our kinds, word for word; the same on the embedded cluster and on a real API server.

`pytest e2e/test_transcripts.py --write-transcripts` takes over what it says now; look at the difference before you
commit it.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.harness.clusters import Cluster

ROOT = Path(__file__).parents[1]
TRANSCRIPTS = Path(__file__).parent / "transcripts"
WHY = {
    "gate": "Quota",
    "reason": "WaitingForQuota",
    "message": "ClusterQueue team-a: needs 3 nvidia.com/gpu in a100; 1 free now (1 of its own 8, 0 of 8 to borrow)",
}
PENDING = {
    "position": 2,
    "since": "2026-01-01T00:00:00Z",
    "estimatedStart": "2026-01-01T06:30:00Z",
    "reasons": [WHY],
}
CONDITION = {"type": "Scheduled", "status": "False", "reason": WHY["reason"], "message": WHY["message"]}
STATUS = {
    "podgroup.scheduling.tutti.dev/trio -n team-a": {
        "phase": "Waiting", "queueName": "training", "members": 3, "pending": 3, "pendingReason": PENDING,
        "conditions": [{**CONDITION, "lastTransitionTime": "2026-01-01T00:00:00Z"}],
    },
    "workload.scheduling.tutti.dev/train -n team-a": {"pending": PENDING},
    "clusterqueue/team-a": {"pendingWorkloads": 2, "admittedWorkloads": 1},
}  # fmt: skip
WORKLOAD = {
    "apiVersion": "scheduling.tutti.dev/v1alpha1",
    "kind": "Workload",
    "metadata": {"name": "train", "namespace": "team-a"},
    "spec": {"queueName": "training", "podGroups": [{"name": "workers", "count": 4, "minCount": 2}]},
}
COMMANDS = {
    "get": "get workloads.scheduling.tutti.dev,podgroups.scheduling.tutti.dev,localqueues -n team-a",
    "get-wide": "get workloads.scheduling.tutti.dev,podgroups.scheduling.tutti.dev -n team-a -o wide",
    "get-queues": "get clusterqueues team-a team-b",
    "get-queues-wide": "get clusterqueues team-a team-b -o wide",
    "get-flavor": "get resourceflavor a100",
    "get-short-names": "get wl,pg -n team-a",
    "describe-podgroup": "describe podgroup.scheduling.tutti.dev trio -n team-a",
    "describe-clusterqueue": "describe clusterqueue team-a",
    "explain": "explain podgroup.spec.schedulingPolicy.gang --api-version scheduling.tutti.dev/v1alpha1",
    "api-resources": "api-resources --api-group=scheduling.tutti.dev --no-headers",
}
Kubectl = Callable[..., str]


@pytest.fixture(scope="module")
def kubectl(cluster: Cluster) -> Iterator[Kubectl]:
    """A kubectl with the samples applied and some statuses written, as the operator would."""
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl is not installed")

    def run(*arguments: str, given: object = None) -> str:
        command = ["kubectl", "--kubeconfig", str(cluster.kubeconfig), *arguments]
        text = None if given is None else json.dumps(given)
        done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    files = [f"--filename={ROOT / 'manifests' / 'samples' / name}" for name in ("two-queues.yaml", "gang.yaml")]
    run("apply", *files)
    run("apply", "-f", "-", given=WORKLOAD)
    for what, status in STATUS.items():
        patch = json.dumps({"status": status})
        run("patch", *what.split(), "--subresource=status", "--type=merge", "--patch", patch)
    yield run
    run("delete", *files, "--wait=false", "--grace-period=0", "--force", "--ignore-not-found")


@pytest.mark.parametrize("name", COMMANDS)
def test_kubectl_shows_our_kinds_as_written_down(name: str, kubectl: Kubectl, request: pytest.FixtureRequest) -> None:
    said = timeless(kubectl(*COMMANDS[name].split()))
    file = TRANSCRIPTS / f"{name}.txt"
    if request.config.getoption("--write-transcripts"):
        file.write_text(said)
    assert said == file.read_text()


def timeless(text: str) -> str:
    """The text without what differs from run to run: ages, times, uids, versions, and the widths they cause."""
    text = re.sub(r"\b\d+(s|m|m\d+s)\b", "<age>", text)
    text = re.sub(r"20(?!26-01-01)\d\d-\d\d-\d\dT[\d:.]+Z", "<time>", text)
    text = re.sub(r"(UID:\s+)\S+", r"\1<uid>", text)
    text = re.sub(r"(Resource Version:\s+)\d+", r"\1<version>", text)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
