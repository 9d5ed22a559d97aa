"""The topics of the quota corpus that run whole cycles, asked of the engine: `observe` everything, then `decide`.

One cycle of Kueue looks at one head of each queue, while one turn of the engine goes on until nobody can be admitted
any more. So of a record of one cycle the engine is told of the heads alone. Where a cycle leaves its queues (who was
put back, who is parked) is compared as far as users see it: who holds how much quota in which flavors and domains, who
is being taken out and by which right, who waits and why.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

from tests.differential.quota_reading import Record, amount, requeuing, when
from tests.differential.quota_rules import Answer
from tests.differential.quota_world import Scene, named, scene_of
from tutti.engine.records.members import Member
from tutti.engine.records.workloads import ADMITTED
from tutti.quota.ordering import HeadKey, Requeuing, head_key

REASONS = {
    "WaitingForVictims": "WaitingForPreemptedWorkloads",
    "Unschedulable": "WaitingForQuota",
    "ResourceNotCovered": "NoMatchingFlavor",
}
"""What the engine calls otherwise than Kueue, which has one word for what lacks quota and for what lacks room alone."""


def cycle(case: Record, expect: Record) -> tuple[Answer, Answer]:
    """Who is admitted to what, who is taken out, who waits and why."""
    cycles = case["options"].get("cycles", 1)
    told = case if cycles > 1 else {**case, "workloads": _heads_and_holders(case)}
    scene = scene_of(told)
    scene.decide(cycles)
    waited = [one["name"] for one in told["workloads"] if not one.get("queue")]
    got = [name for name in waited if _is_admitted(scene, name)]
    wanted = [name for name in expect["admitted"] if name in waited]
    answer: Answer = {"admitted": sorted(got)}
    expected: Answer = {"admitted": sorted(wanted)}
    for name in got:
        for said in expect["assignments"].get(name, {}).get("podSets", []):
            key = name, said["name"]
            answer[key], expected[key] = assigned(scene, name, said), recorded(said)
    if "preempted" in expect:
        answer["preempted"] = preempted(scene)
        expected["preempted"] = {one["name"]: one["reason"] for one in expect["preempted"]}
    for name, said in (expect.get("reasons") or {}).items():
        answer[name, "reason"], expected[name, "reason"] = reason(scene, name), said
    return answer, expected


def _heads_and_holders(case: Record) -> list[Record]:
    """Who holds quota, and of those that wait at each queue the first."""
    doors = {one["name"]: one["clusterQueue"] for one in case["localQueues"]}
    heads: dict[str, Record] = {}
    for one in case["workloads"]:
        if not one.get("queue"):
            door = f"{one['name'].rpartition('/')[0] or 'default'}/{one.get('localQueue')}"
            queue = doors.get(door, f"none: {one['name']}")
            heads[queue] = min(heads.get(queue, one), one, key=partial(_key, requeuing(case)))
    return [one for one in case["workloads"] if one.get("queue") or one in heads.values()]


def _key(by: Requeuing, one: Record) -> HeadKey:
    return head_key(one.get("priority", 0), when(one, by), one.get("uid") or one["name"])


def _is_admitted(scene: Scene, name: str) -> bool:
    workload = scene.workload(name)
    return workload is not None and workload.phase in ADMITTED


def members(scene: Scene, name: str, pod_set: str) -> list[Member]:
    """The members of a pod set that have a node, or one reserved."""
    workload = scene.workload(name)
    group = None if workload is None else workload.groups.get(named(pod_set or "main"))
    return [] if group is None else [one for one in group.members.values() if one.pod.place]


def domains(scene: Scene, found: list[Member], levels: list[str]) -> dict[tuple[str, ...], int]:
    """How many of some members are in which domain, by the values of its levels."""
    labels = (scene.nodes[one.pod.place] for one in found)
    return dict(Counter(tuple(mine[level] for level in levels) for mine in labels))


def assigned(scene: Scene, name: str, said: Record) -> Answer:
    """What one pod set has got, in the form of what was recorded of it."""
    found = members(scene, name, said["name"])
    usage: dict[tuple[str, str], int] = {}
    for one in found:
        for what, used in one.charge.usage.items() if one.charge is not None else ():
            usage[what] = usage.get(what, 0) + used
    answer: Answer = {"count": len(found), "usage": {what: used for what, used in usage.items() if used}}
    if "topology" in said:
        answer["domains"] = domains(scene, found, said["topology"]["levels"])
    return answer


def recorded(said: Record) -> Answer:
    """What was recorded of a pod set that was admitted."""
    flavors = {resource: named(flavor) for resource, flavor in said["flavors"].items()}
    usage = {(flavors[one], one): amount(one, text) for one, text in said["usage"].items() if one in flavors}
    expected: Answer = {"count": said["count"], "usage": {what: used for what, used in usage.items() if used}}
    if "topology" in said:
        expected["domains"] = {tuple(one["values"]): one["count"] for one in said["topology"]["domains"]}
    return expected


def preempted(scene: Scene) -> dict[str, str]:
    """Who is being taken out for others, and by which right."""
    out = {}
    for (namespace, name), called in scene.called.items():
        workload = scene.world.engine.state.workloads.get(("Workload", namespace, name))
        if workload is not None and workload.evicted is not None and workload.evicted.preempted:
            out[called] = workload.evicted.preempted
    return out


def reason(scene: Scene, name: str) -> str:
    """Why a workload waits, as Kueue calls that."""
    workload = scene.workload(name)
    why = None if workload is None else workload.explanation
    return "" if why is None else REASONS.get(why.reason, why.reason)
