"""Short scenarios without faults, told by hand: what a test breaks into."""

from __future__ import annotations

from typing import Any

from tests.simulation.scenario import queue
from tests.simulation.steps import NODES, Scenario, Step

START = 3.0
"""When the first gang comes: the operator has taken the lease by then."""
PREEMPTS = {"preemption": {"withinClusterQueue": "LowerPriority", "reclaimWithinCohort": "Any"}}
"""What a queue allows that takes what is less important out, and what others have borrowed."""


def cluster(*, replicas: str = "a", nodes: int = 4, strategy: str = "BestEffortFIFO", **policy: Any) -> list[Step]:
    """Nodes of four GPUs, the queues q1 and q2 of a cohort and q3 on its own, and an operator; the first leads."""
    steps = [Step(0.0, "node", {"name": name, "gpus": 4, "rack": rack}) for name, (_, rack) in NODES.items()][:nodes]
    steps.append(Step(0.0, "put", {"kind": "ResourceFlavor", "name": "default", "spec": {}}))
    steps += queue("cq1", "q1", 4, cohortName="c", **policy)
    steps += queue("cq2", "q2", 4, cohortName="c", **policy)
    steps += queue("cq3", "q3", 6, queueingStrategy=strategy, **policy)
    return [*steps, *(Step(1.5 * number, "start", {"replica": replica}) for number, replica in enumerate(replicas))]


def gang(
    name: str,
    size: int,
    *,
    at: float = START,
    how: str = "PodGroup",
    least: int | None = None,
    queue: str = "",
    gpus: int = 1,
    priority: int = 0,
    seconds: float = 5.0,
    spread: float = 0.0,
    each: dict[str, Any] | None = None,
    slow: float = 0.0,
    **spec: Any,
) -> list[Step]:
    """A gang and its members, which come `spread` seconds apart.

    `each` is what else every member has (`annotations`, `requests`, fields of its `spec`), and `spec` what the object
    has that stands for the gang. Up to `slow` seconds more go by until its user makes anew what it has lost.
    """
    about = {"gang": name, "how": how, "queue": queue, "size": size, "least": size if least is None else least}
    steps = [Step(at, "gang", {**about, "priority": priority, "spec": spec, "slow": slow})]
    for rank in range(size):
        member = {"gang": name, "name": f"{name}-{rank}", "gpus": gpus, "gated": False, "seconds": seconds}
        steps.append(Step(at + rank * spread, "member", {**member, **(each or {})}))
    return steps


def on(node: str, **spec: Any) -> dict[str, Any]:
    """What makes pods go to one node only, and what else their specs have."""
    return {"spec": {"nodeSelector": {"kubernetes.io/hostname": node}, **spec}}


def claims(name: str, size: int, volumes: int = 0) -> list[Step]:
    """A claim for each member of a gang, to be bound once their nodes are known.

    `volumes` is how many volumes are there already, one on each node; where there are none, a provisioner makes them.
    """
    made = {"provisioner": "kubernetes.io/no-provisioner" if volumes else "csi.example.com"}
    late = {"metadata": {"name": "late"}, "volumeBindingMode": "WaitForFirstConsumer", **made}
    steps = [
        Step(0.0, "create", {"group": "storage.k8s.io", "version": "v1", "plural": "storageclasses", "body": late})
    ]
    shared = {"accessModes": ["ReadWriteOnce"], "storageClassName": "late"}
    for number in range(volumes):
        here = {"key": "kubernetes.io/hostname", "operator": "In", "values": [f"n{number}"]}
        spec = {
            **shared,
            "capacity": {"storage": "1Gi"},
            "local": {"path": "/disk"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [here]}]}},
        }
        volume = {"metadata": {"name": f"disk-{number}"}, "spec": spec}
        steps.append(Step(0.0, "create", {"group": "", "version": "v1", "plural": "persistentvolumes", "body": volume}))
    for rank in range(size):
        wanted = {**shared, "resources": {"requests": {"storage": "1Gi"}}}
        claim = {"metadata": {"name": f"{name}-{rank}", "namespace": "default"}, "spec": wanted}
        about = {"group": "", "version": "v1", "plural": "persistentvolumeclaims", "body": claim}
        steps.append(Step(0.0, "create", about))
    return steps


def with_claims(steps: list[Step]) -> list[Step]:
    """Members that use the claim of their name."""
    return [_with_claim(step) if step.do == "member" else step for step in steps]


def _with_claim(step: Step) -> Step:
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": step.args["name"]}}
    return Step(step.at, step.do, {**step.args, "spec": {"volumes": [volume]}})


def devices(*, shared: str = "", count: int = 1) -> list[Step]:
    """Machines with devices, a template of claims for so many of them, and a claim that pods share, if it has a name."""
    steps = [Step(0.0, "driver", {}), Step(0.0, "claim_template", {"name": "devices", "count": count})]
    return steps + ([Step(0.0, "claim", {"name": shared, "count": count})] if shared else [])


LISTED = {"resourceClaims": [{"name": "device", "resourceClaimTemplateName": "devices"}]}
"""What a PodGroup of Kubernetes says of a claim that all of its pods share, made from that template."""


def with_devices(steps: list[Step], *, shared: str = "") -> list[Step]:
    """Members that have a claim each, made from the template, or share one."""
    entry = {"resourceClaimName": shared} if shared else {"resourceClaimTemplateName": "devices"}
    spec = {"spec": {"resourceClaims": [{"name": "device", **entry}]}}
    return [Step(one.at, one.do, {**one.args, **spec}) if one.do == "member" else one for one in steps]


def story(*parts: list[Step], seed: int = 0, heal_at: float = 10.0) -> Scenario:
    """A scenario of these parts."""
    return Scenario(seed, [step for part in parts for step in part], heal_at=heal_at)
