"""The objects of the play as the API server is given them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tutti.api.conventions.tutti import POD_GROUP, QUEUE_NAME
from tutti.api.crds import crd
from tutti.api.kinds import KINDS
from tutti.api.model import API_VERSION
from tutti_demo.scenario import COHORT, FLAVOR, GPU, LOCAL_QUEUE, PLATFORM, Job, Scenario, Team

JOB = "demo.tutti.dev/job"
"""The label that says which job of the play a pod belongs to."""
RUN_SECONDS = "sim.tutti.dev/run-seconds"
"""The annotation by which hollow nodes know when a pod is done."""
HOSTNAME = "kubernetes.io/hostname"
RACK = "topology.tutti.dev/rack"

Document = dict[str, Any]


def definitions() -> list[Document]:
    """The CustomResourceDefinitions, generated from the kinds as they are in this very version."""
    return [crd(kind) for kind in KINDS.values()]


def fixtures(scenario: Scenario) -> list[Document]:
    """What stands before the first act: namespaces, the flavor, the cohort, and each team's queues; in this order."""
    names = [*(team.name for team in scenario.teams), PLATFORM]
    namespaces = [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in names]
    shared = [_ours("ResourceFlavor", FLAVOR, {}), _ours("Cohort", COHORT, {})]
    queues = [document for team in scenario.teams for document in _queues(team)]
    return [*namespaces, *shared, *queues]


def pod_group(job: Job) -> Document:
    """The PodGroup of a gang: all its members or none."""
    spec: Document = {"schedulingPolicy": {"gang": {"minCount": job.members}}}
    if job.queue:
        spec["queueName"] = job.queue
    return _ours("PodGroup", job.name, spec, namespace=job.team)


def pod(job: Job, name: str, *, pinned_to: Sequence[str] = ()) -> Document:
    """One pod of a job.

    Args:
        job: What it is a member of.
        name: Its own name.
        pinned_to: The host names that will do for a pinned job.
    """
    labels = {JOB: job.name}
    if job.queue:
        labels[QUEUE_NAME] = job.queue
    if job.is_gang:
        labels[POD_GROUP] = job.name
    container = {"name": "main", "image": "demo", "resources": {"limits": {GPU: str(job.gpus)}}}
    spec: Document = {"schedulerName": "tutti", "restartPolicy": "Never", "containers": [container]}
    if job.pinned:
        spec["affinity"] = _on(pinned_to)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": job.team,
            "labels": labels,
            "annotations": {RUN_SECONDS: f"{job.run_seconds:.2f}"},
        },
        "spec": spec,
    }


def _queues(team: Team) -> list[Document]:
    quota = {"name": GPU, "nominalQuota": team.nominal, "borrowingLimit": team.borrowing_limit}
    group = {"coveredResources": [GPU], "flavors": [{"name": FLAVOR, "resources": [quota]}]}
    cluster_queue = {"cohortName": COHORT, "namespaceSelector": {}, "resourceGroups": [group]}
    return [
        _ours("ClusterQueue", team.name, cluster_queue),
        _ours("LocalQueue", LOCAL_QUEUE, {"clusterQueue": team.name}, namespace=team.name),
    ]


def _on(hosts: Sequence[str]) -> Document:
    expression = {"key": HOSTNAME, "operator": "In", "values": list(hosts)}
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def _ours(kind: str, name: str, spec: Document, *, namespace: str = "") -> Document:
    metadata = {"name": name, "namespace": namespace} if namespace else {"name": name}
    return {"apiVersion": API_VERSION, "kind": kind, "metadata": metadata, "spec": spec}
