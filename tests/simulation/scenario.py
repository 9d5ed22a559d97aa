"""What happens to a simulated cluster, as a list of steps (`steps.py`) drawn from a seed; faults are in `faults.py`."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from tests.simulation.faults import CODES, accidents, broken_machines, lasting_faults, process_faults, wire_faults
from tests.simulation.loss_steps import loss_steps
from tests.simulation.mistakes import BAD, STRAYS
from tests.simulation.pods import NATIVE
from tests.simulation.policy_steps import policy_steps
from tests.simulation.steps import NODES, Scenario, Step
from tests.simulation.waiting_steps import waiting_steps

SHARED = (("ClusterQueue", "cq1"), ("ClusterQueue", "cq3"), ("LocalQueue", "q2"), ("ResourceFlavor", "default"))
"""What many gangs depend on, and somebody may spoil for a while."""
QUEUES = ("", "q1", "q2", "q3")
LARGEST = 6
"""GPUs that a gang may ask for: it fits into any queue, and into the cluster with one node missing."""

MOVES = 0.4
"""How often queues have others moved for their workloads."""

TAKES = 0.85
"""How often anybody is taken out for others."""

LOSES = 0.4
"""How often there is a gang that loses members while it runs, and a crowd that would have their room."""


URGENT = 0.2
"""How often there are pods that are more important than others, whatever their queues."""


CLAIMS = 0.35
"""How often machines have devices that pods claim; drawn apart, so that all else of a seed is as without."""


LATE = 0.3
"""How often a gang's room is given back because a promised member does not come."""


def drawn(seed: int) -> Scenario:
    """The scenario of a seed."""
    draw = random.Random(seed)
    takes = draw.random() < TAKES
    steps = [
        *_cluster(draw, takes=takes),
        *_gangs(draw),
        *(_contests(draw) if takes else ()),
    ]
    steps += [
        *wire_faults(draw),
        *lasting_faults(draw, [step.args for step in steps if step.do == "gang"]),
        *process_faults(draw),
        *accidents(draw),
        *broken_machines(draw),
        *_rivals(draw),
        *(_urgent(draw) if draw.random() < URGENT else ()),
        *(_losses(draw) if draw.random() < LOSES else ()),
    ]
    slowness = draw.choice((1.0, 1.0, 1.0, 5.0, 20.0))
    steps += _mistakes(draw, [step.args for step in steps if step.do == "gang"])
    steps += _latecomer(draw) if draw.random() < LATE else []
    steps = [_moving(step) for step in steps] if draw.random() < MOVES else steps
    apart = random.Random(f"{seed}/devices")
    steps += _devices(apart) if apart.random() < CLAIMS else []
    steps += _group_claims(random.Random(f"{seed}/groups")) if any(step.do == "driver" for step in steps) else []
    steps += [Step(at, do, args) for at, do, args in (*waiting_steps(seed), *policy_steps(seed))]
    moments = [step.at for step in steps if step.do in ("member", "job")]
    clocks = not any(step.do in ("window", "policies") for step in steps)
    steps += [Step(at, do, args) for at, do, args in loss_steps(seed, moments, clocks=clocks)]
    return Scenario(seed, steps, heal_at=150.0, slowness=slowness)


def _moving(step: Step) -> Step:
    """The same where queues have others moved for their workloads, and everybody lets himself be moved."""
    args = step.args
    if step.do == "put" and args["kind"] == "ClusterQueue" and isinstance(args.get("spec"), dict):
        spec = {**args["spec"], "consolidation": {"maxMoves": 4}}
        return msgspec.structs.replace(step, args={**args, "spec": spec})
    if step.do == "member":
        said = {**args.get("annotations", {}), "scheduling.tutti.dev/movable": "true"}
        return msgspec.structs.replace(step, args={**args, "annotations": said})
    return step


def _cluster(draw: random.Random, *, takes: bool) -> list[Step]:
    """Nodes and queues: two that lend each other what they do not use, one with a strict line, and a second replica.

    `takes`: whether whoever is more important, or is owed what was lent, takes it from others.
    """
    steps = [Step(0.0, "node", {"name": name, "gpus": gpus, "rack": rack}) for name, (gpus, rack) in NODES.items()]
    steps.append(Step(0.0, "put", {"kind": "ResourceFlavor", "name": "default", "spec": {}}))
    within = {"withinClusterQueue": "LowerPriority"}
    among = {"reclaimWithinCohort": "Any", "borrowWithinCohort": {"policy": "LowerPriority"}}
    own, reclaim = ({"preemption": within}, {"preemption": within | among}) if takes else ({}, {})
    steps += queue("cq1", "q1", 4, cohortName="c", **reclaim)
    steps += queue("cq2", "q2", 4, cohortName="c", **reclaim)
    steps += queue("cq3", "q3", 6, queueingStrategy=draw.choice(("StrictFIFO", "BestEffortFIFO")), **own)
    steps.append(Step(0.0, "start", {"replica": "a"}))
    if draw.random() < 0.5:
        steps.append(Step(draw.uniform(0, 20), "start", {"replica": "b"}))
    return steps


def queue(name: str, local: str, gpus: int, **spec: Any) -> list[Step]:
    """Steps that make a ClusterQueue with so many GPUs, and a LocalQueue to it."""
    quotas = [
        {"name": "nvidia.com/gpu", "nominalQuota": str(gpus)},
        {"name": "cpu", "nominalQuota": "1000"},
        {"name": "memory", "nominalQuota": "1000Gi"},
    ]
    group = {
        "coveredResources": [quota["name"] for quota in quotas],
        "flavors": [{"name": "default", "resources": quotas}],
    }
    whole = {"namespaceSelector": {}, "resourceGroups": [group], **spec}
    return [
        Step(0.0, "put", {"kind": "ClusterQueue", "name": name, "spec": whole}),
        Step(0.0, "put", {"kind": "LocalQueue", "name": local, "spec": {"clusterQueue": name}}),
    ]


def _gangs(draw: random.Random) -> list[Step]:
    """Gangs of several conventions, whose objects and members come in any order, and what their users do to them."""
    steps: list[Step] = []
    for number in range(draw.randint(3, 7)):
        name, size = f"g{number}", draw.randint(1, 4)
        gpus = draw.randint(1, max(1, min(4, LARGEST // size)))
        begin, spread = draw.uniform(1, 90), draw.choice((0.0, 0.5, 5.0, 20.0, 70.0))
        held = draw.random() < 0.2
        how = draw.choice(("PodGroup", "PodGroup", "Workload", "pfnet", "Pod"))
        least = draw.randint(1, size) if how in ("PodGroup", "Workload") else size
        about = {
            "gang": name,
            "how": how,
            "queue": draw.choice(QUEUES),
            "size": size,
            "least": least,
            "priority": draw.choice((0, 0, 0, 10)),
            "slow": draw.choice((0.0, 0.0, 0.0, 50.0)),
        }
        if how == "Workload" and draw.random() < 0.6:
            about["spec"] = _promise(size, least, gpus)
        steps.append(Step(begin + draw.uniform(0, spread), "gang", about))
        for rank in range(size):
            gated = draw.random() < 0.1
            member = {
                "gang": name,
                "name": f"{name}-{rank}",
                "gpus": gpus,
                "gated": gated,
                "seconds": round(draw.uniform(1, 40), 1),
                "held": held,
            }
            at = begin + draw.uniform(0, spread)
            steps.append(Step(at, "member", member))
            if gated:
                steps.append(Step(at + draw.uniform(0, 40), "ungate", {"name": f"{name}-{rank}"}))
            if draw.random() < 0.1:
                steps.append(Step(at + draw.uniform(0, 30), "delete_pod", {"name": f"{name}-{rank}"}))
        if draw.random() < 0.1:
            steps.append(Step(begin + draw.uniform(0, 60), "cancel", {"gang": name}))
    return steps


def _promise(size: int, least: int, gpus: int) -> dict[str, Any]:
    """A Workload that says what its members will be, so that room is held for those that do not exist yet."""
    requests = {"cpu": "1", "memory": "1Gi", "nvidia.com/gpu": str(gpus)}
    containers = [{"name": "c", "resources": {"requests": requests, "limits": requests}}]
    template = {"spec": {"schedulerName": "tutti", "containers": containers}}
    return {"podGroups": [{"name": "main", "count": size, "minCount": least, "template": template}]}


def _contests(draw: random.Random) -> list[Step]:
    """Gangs that run long, or until they are taken out, and others that get what they want only in their place.

    One at most runs for ever: it is less important than everybody else, and leaves room enough beside it for anybody of
    another queue.
    """
    steps: list[Step] = []
    for number in range(draw.choice((1, 1, 2))):
        reclaims, endless = draw.random() < 0.4, number == 0 and draw.random() < 0.7
        begin = draw.uniform(1, 50)
        low = {"gang": f"low{number}", "how": "Workload", "queue": "q1" if reclaims else "q3", "size": 2, "least": 2}
        low |= {"priority": -10 if endless else 0, "endless": endless}
        steps.append(Step(begin, "gang", low))
        seconds = 1e6 if endless else round(draw.uniform(40, 90), 1)
        steps += [_plain_member(begin, f"low{number}", rank, 3, seconds) for rank in range(2)]
        high, size = f"high{number}", draw.randint(1, 3)
        gpus, at = draw.randint(1, 2) if size > 1 else draw.randint(1, 4), begin + draw.uniform(2, 40)
        how = draw.choice(("Workload", "PodGroup", "Pod")) if reclaims or endless else "Workload"
        about = {"gang": high, "how": how, "queue": "q2" if reclaims else "q3", "size": size, "least": size}
        steps.append(Step(at, "gang", {**about, "priority": 10}))
        steps += [_plain_member(at, high, rank, gpus, round(draw.uniform(1, 30), 1)) for rank in range(size)]
    return steps


def _devices(draw: random.Random) -> list[Step]:
    """Gangs whose members claim devices, each its own or all one, another scheduler beside us, and what befalls devices."""
    steps = [Step(0.0, "driver", {})]
    steps += [Step(0.0, "claim_template", {"name": f"of-{count}", "count": count}) for count in (1, 2)]
    for number in range(draw.randint(1, 3)):
        name, size, count = f"d{number}", draw.randint(1, 3), draw.choice((1, 1, 2))
        begin, spread = draw.uniform(1, 80), draw.choice((0.0, 0.5, 10.0))
        about = {"gang": name, "how": draw.choice(("PodGroup", "Workload", "Pod")), "queue": draw.choice(QUEUES)}
        least = draw.randint(1, size) if about["how"] != "Pod" else size
        steps.append(Step(begin, "gang", {**about, "size": size, "least": least, "priority": draw.choice((0, 10))}))
        shares = draw.random() < 0.2
        if shares:
            steps.append(Step(begin, "claim", {"name": name, "count": 1}))
        entry = {"resourceClaimName": name} if shares else {"resourceClaimTemplateName": f"of-{count}"}
        for rank in range(size):
            seconds = round(draw.uniform(1, 40), 1)
            step = _plain_member(begin + draw.uniform(0, spread), name, rank, draw.choice((0, 1)), seconds)
            spec = {"resourceClaims": [{"name": "device", **entry}]}
            steps.append(Step(step.at, "member", {**step.args, "spec": spec}))
        if draw.random() < 0.2:
            steps.append(Step(begin + draw.uniform(0, 40), "cancel", {"gang": name}))
    for number in range(draw.choice((0, 3, 8))):
        taken = {"node": draw.choice(sorted(NODES)), "seconds": round(draw.uniform(2, 30), 1)}
        steps.append(Step(draw.uniform(1, 120), "rival_claim", {"name": f"rc{number}", **taken}))
    for _ in range(draw.choice((0, 1, 2))):
        at, node, device = draw.uniform(1, 110), draw.choice(sorted(NODES)), {"device": f"gpu-{draw.randint(0, 1)}"}
        effect = {"effect": draw.choice(("NoSchedule", "NoExecute"))}
        steps.append(Step(at, "taint_device", {"node": node, **device, **effect}))
        steps.append(Step(at + draw.uniform(1, 40), "untaint_device", {"node": node, **device}))
    for _ in range(draw.choice((0, 0, 1))):
        at, node = draw.uniform(1, 110), draw.choice(sorted(NODES))
        steps += [
            Step(at, "driver_gone", {"node": node}),
            Step(at + draw.uniform(1, 40), "driver_back", {"node": node}),
        ]
    for _ in range(draw.choice((0, 1, 3))):
        trouble = {"what": draw.choice(("resourceclaims", "resourceclaims/status")), "method": "PATCH"}
        how = draw.choice(("refuse", "spoil", "lose", "swallow", "hold"))
        trouble |= {"how": how, "code": draw.choice(CODES), "seconds": 1.5, "times": draw.choice((1, 2, 6))}
        steps.append(Step(draw.uniform(0, 120), "trouble", trouble))
    if draw.random() < 0.5:
        at, what = draw.uniform(0, 100), draw.choice(("resourceclaims", "resourceslices"))
        lag = {"what": what, "seconds": round(draw.uniform(0.2, 15), 1)}
        steps += [Step(at, "lag", lag), Step(at + draw.uniform(1, 30), "lag", {"what": what, "seconds": 0.0})]
    return steps


def _group_claims(draw: random.Random) -> list[Step]:
    """Gangs for which a PodGroup of Kubernetes stands, with a claim that is the group's, made for it or shared."""
    steps: list[Step] = []
    for number in range(draw.choice((0, 1, 2))):
        name, size, begin = f"n{number}", draw.randint(1, 3), draw.uniform(1, 80)
        shares = draw.random() < 0.3
        entry = {"resourceClaimName": name} if shares else {"resourceClaimTemplateName": f"of-{draw.choice((1, 2))}"}
        listed = {"resourceClaims": [{"name": "device", **entry}]}
        about = {"gang": name, "how": NATIVE, "queue": draw.choice(QUEUES), "size": size, "spec": listed}
        steps.append(Step(begin, "gang", {**about, "least": draw.randint(1, size), "priority": 0}))
        steps += [Step(begin, "claim", {"name": name, "count": draw.choice((1, 2))})] if shares else []
        spread = draw.choice((0.0, 0.5, 10.0))
        for rank in range(size):
            at, seconds = begin + draw.uniform(0, spread), round(draw.uniform(1, 40), 1)
            step = _plain_member(at, name, rank, draw.choice((0, 1)), seconds)
            steps.append(Step(at, "member", {**step.args, "spec": listed}))
        steps += [Step(begin + draw.uniform(0, 40), "cancel", {"gang": name})] if draw.random() < 0.2 else []
    return steps


def _latecomer(draw: random.Random) -> list[Step]:
    """A gang of which one member, promised, comes only after its permit has run out."""
    at, queue_name = draw.uniform(1, 50), draw.choice(("", "q1", "q2"))
    about = {"gang": "late", "how": "Workload", "queue": queue_name, "size": 2, "least": 2, "priority": 0}
    steps = [Step(at, "gang", {**about, "spec": _promise(2, 2, 1)})]
    comes = (at, at + draw.uniform(70, 90))
    return steps + [_plain_member(when, "late", rank, 1, 5.0) for rank, when in enumerate(comes)]


def _plain_member(at: float, gang: str, rank: int, gpus: int, seconds: float) -> Step:
    member = {"gang": gang, "name": f"{gang}-{rank}", "gpus": gpus, "gated": False, "seconds": seconds}
    return Step(at, "member", member)


def _rivals(draw: random.Random) -> list[Step]:
    """Single pods that stand at the door: whatever of quota or room becomes free for a moment, they would have."""
    steps: list[Step] = []
    for number in range(draw.choice((0, 0, 1, 3))):
        name, at = f"rival{number}", draw.uniform(1, 60)
        about = {"gang": name, "how": "Pod", "queue": draw.choice(QUEUES), "size": 1, "least": 1, "priority": 0}
        steps.append(Step(at, "gang", about))
        steps.append(_plain_member(at, name, 0, draw.randint(1, 4), round(draw.uniform(5, 60), 1)))
    return steps


def _losses(draw: random.Random) -> list[Step]:
    """A gang that runs long and loses members, which its user makes again soon or late, and pods that fill the rest."""
    begin, size = draw.uniform(1, 20), draw.randint(2, 4)
    gpus = draw.randint(1, min(2, LARGEST // size))
    about = {"gang": "life", "how": draw.choice(("PodGroup", "Workload")), "queue": draw.choice(("", "", "q3"))}
    about |= {"size": size, "least": draw.randint(2, size), "priority": 0, "slow": draw.choice((0.0, 20.0, 80.0))}
    steps = [Step(begin, "gang", about)]
    steps += [_plain_member(begin, "life", rank, gpus, round(draw.uniform(70, 120), 1)) for rank in range(size)]
    at = begin + draw.uniform(5, 40)
    lost = draw.sample(range(size), draw.randint(1, size - 1))
    steps += [Step(at + draw.uniform(0, 3), "delete_pod", {"name": f"life-{rank}"}) for rank in lost]
    for number in range(draw.choice((2, 6))):
        name, when = f"crowd{number}", draw.uniform(1, at)
        steps.append(
            Step(when, "gang", {"gang": name, "how": "Pod", "queue": "", "size": 1, "least": 1, "priority": 0})
        )
        steps.append(_plain_member(when, name, 0, draw.randint(1, 4), round(draw.uniform(20, 60), 1)))
    return steps


def _urgent(draw: random.Random) -> list[Step]:
    """Gangs whose pods run long, and others whose pods are more important and find no room beside them."""
    spec = {"metadata": {"name": "urgent"}, "value": 100}
    made = {"group": "scheduling.k8s.io", "version": "v1", "plural": "priorityclasses"}
    steps = [
        Step(0.0, "create", {**made, "body": {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", **spec}})
    ]
    begin = draw.uniform(1, 40)
    for number in range(2):
        size = draw.randint(2, 4)
        about = {"gang": f"long{number}", "how": "PodGroup", "queue": "", "size": size, "least": draw.randint(2, size)}
        steps.append(Step(begin, "gang", {**about, "priority": 0}))
        seconds = round(draw.uniform(40, 90), 1)
        steps += [_plain_member(begin, f"long{number}", rank, 2, seconds) for rank in range(size)]
    at, size = begin + draw.uniform(5, 30), draw.randint(1, 3)
    about = {"gang": "urgent", "how": draw.choice(("PodGroup", "Pod")), "queue": "", "size": size, "least": size}
    steps.append(Step(at, "gang", {**about, "priority": 100}))
    for rank in range(size):
        step = _plain_member(at, "urgent", rank, draw.choice((2, 4)), round(draw.uniform(5, 30), 1))
        steps.append(Step(at, "member", {**step.args, "spec": {"priorityClassName": "urgent"}}))
    return steps


def _mistakes(draw: random.Random, gangs: list[dict[str, Any]]) -> list[Step]:
    """Objects and pods that cannot be read, some of them for a while only: of gangs, and what all of them depend on."""
    steps: list[Step] = []
    objects = [(about["how"], about["gang"]) for about in gangs if about["how"] in ("PodGroup", "Workload")]
    for number in range(draw.choice((0, 0, 1, 3))):
        kind = draw.choice(sorted(BAD))
        junk = {"kind": kind, "name": f"junk-{number}", "spec": draw.choice(BAD[kind])}
        steps.append(Step(draw.uniform(0, 130), "junk", junk))
    for _ in range(draw.choice((0, 0, 1, 2, 4))):
        kind, name = draw.choice((*objects, *objects, *SHARED))
        at = draw.uniform(0, 130)
        steps.append(Step(at, "spoil", {"kind": kind, "name": name, "spec": draw.choice(BAD[kind])}))
        steps.append(Step(at + draw.uniform(0.1, 40), "mend", {"kind": kind, "name": name}))
    for number in range(draw.choice((0, 0, 1, 3))):
        meta = {"labels": {}, "annotations": {}, **draw.choice(STRAYS)}
        steps.append(Step(draw.uniform(0, 130), "stray", {"name": f"stray-{number}", **meta}))
    return steps
