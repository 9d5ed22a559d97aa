"""`tutti doctor` on a real API server: what is well is said to be, and each fault is found with what puts it right."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from e2e.harness.installing import ROOT, Administrator, own_cluster
from e2e.harness.processes import PATIENCE
from e2e.harness.story import Story

Ward = tuple[Story, Administrator]
Finding = dict[str, str]


@pytest.fixture
def ward(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Ward]:
    """A cluster on which the manifests were applied, with the operator that they configure."""
    with own_cluster(request.config.getoption("--cluster"), tmp_path / "cluster") as cluster:
        administrator, story = Administrator(cluster), Story(cluster, "tenant", tmp_path)
        try:
            administrator.kubectl("create", "namespace", "tutti-system")
            administrator.apply("-k", str(ROOT / "manifests" / "overlays" / "default"))
            story.start_operator(**{**administrator.configuration(), "metrics": {"bindAddress": "127.0.0.1:0"}})
            yield story, administrator
        finally:
            story.stop_operator()
            story.api.close()


def findings(story: Story) -> dict[str, Finding]:
    """What it says, by check."""
    command = [sys.executable, "-m", "tutti", "doctor", "--kubeconfig", str(story.cluster.kubeconfig), "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.stdout, done.stderr
    told = json.loads(done.stdout)
    return {one["check"]: one for one in (told["findings"] if isinstance(told, dict) else told)}


def test_faults_of_an_installation_are_found_one_by_one_with_their_remedies(ward: Ward) -> None:
    story, administrator = ward
    story.queue("team", 4)
    story.gang("running", 2, queue="team")
    story.wait(lambda: len(story.where("running")) == 2, "a gang to be bound")
    well = findings(story)
    for check in ("kinds", "rights", "webhooks", "clocks", "schedulers", "queues"):
        assert well[check]["verdict"] == "Good", well[check]

    role = json.loads(administrator.kubectl("get", "clusterrole", "tutti", "-o", "json"))
    rules = [rule for rule in role["rules"] if "pods/binding" not in rule.get("resources", ())]
    administrator.kubectl("patch", "clusterrole", "tutti", "--type=merge", "-p", json.dumps({"rules": rules}))
    lost = {"metadata": {"name": "lost", "labels": {"kueue.x-k8s.io/queue-name": "team"}}}
    spec = {"schedulerName": "default-scheduler", "containers": [{"name": "c", "image": "x"}]}
    story.core.create_namespaced_pod(story.namespace, {**lost, "spec": spec})
    hooks = (ROOT / "manifests" / "components" / "webhook" / "webhooks.yaml").read_text()
    validating = next(one for one in hooks.split("---") if "ValidatingWebhookConfiguration" in one)
    aside = story.folder / "hook.yaml"
    aside.write_text(validating)
    administrator.apply("-f", str(aside))
    administrator.kubectl("delete", "crd", "admissionchecks.scheduling.tutti.dev", "--wait=true")

    ill = findings(story)
    for check, message, remedy in (
        (
            "kinds",
            "1 CRD missing: admissionchecks.scheduling.tutti.dev",
            "kubectl apply --server-side --force-conflicts -k crds",
        ),
        ("rights", "may not create pods/binding", "apply the roles of this release"),
        ("webhooks", "the API server cannot reach them", "keeps the API server from the operator's port 9443"),
        ("schedulers", f"{story.namespace}/lost", "write schedulerName: tutti"),
    ):
        found = ill[check]
        assert (found["verdict"], message in found["message"], remedy in found["remedy"]) == ("Bad", True, True), found
