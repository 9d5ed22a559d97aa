"""The topics of the quota corpus that ask whom to preempt: of the rule, and of the engine where Kueue comes that far.

A record hands the flavors to the function that looks for victims. Where whoever chooses flavors would not have come to
these at all, or the queue does not even cover what is asked for, only the rule can be asked.
"""

from __future__ import annotations

from tests.differential.quota_cycle import preempted
from tests.differential.quota_flavors import flavors, pod_set, queue
from tests.differential.quota_reading import Record, amount, count_left, evicted, holder, policy, requeuing, snapshot
from tests.differential.quota_rules import Answer
from tests.differential.quota_world import OWN, named, scene_of
from tutti.quota.assigner import FlavorAssigner
from tutti.quota.assignment import AssignmentMode
from tutti.quota.fair_reclaim import FairSharingStrategy, fair_victims
from tutti.quota.flavors import uncovered
from tutti.quota.policy import FlavorRank, PreemptionMode
from tutti.quota.reclaim import classical_victims
from tutti.quota.snapshot import Demand


def demand(case: Record) -> Demand:
    """What the incoming workload wants under the assignment that is given."""
    incoming = holder(case["incoming"], requeuing(case))
    requests = {one["name"]: one for one in case["incoming"]["podSets"]}
    wanted: dict[tuple[str, str], int] = {}
    contested = set()
    for chosen in case["assignment"]:
        mine = requests[chosen["podSet"]]
        for resource, said in chosen["flavors"].items():
            what = (said["flavor"], resource)
            per_pod = 1 if resource == "pods" else amount(resource, mine.get("requests", {}).get(resource, "0"))
            wanted[what] = wanted.get(what, 0) + per_pod * chosen.get("count", count_left(case["incoming"], mine))
            if said["mode"] == "Preempt":
                contested.add(what)
    return Demand(incoming.queue, wanted, frozenset(contested), incoming.priority, incoming.queued_at)


def preemption(case: Record, expect: Record) -> tuple[Answer, Answer]:
    """Whom the rule takes out, and whom the engine does, each with the reason."""
    snap, wanted = snapshot(case, case["admitted"]), demand(case)
    if case["options"]["fairSharing"]:
        strategies = [FairSharingStrategy(one) for one in case["options"]["strategies"]]
        victims = fair_victims(snap, wanted, strategies=strategies)
    else:
        victims = classical_victims(snap, wanted)
    targets = {one["name"]: one["reason"] for one in expect["targets"]}
    answer: Answer = {one.holder.name: one.reason.value for one in victims}
    expected: Answer = dict(targets)
    if asks_engine(case):
        scene = scene_of(_as_cycle(case))
        scene.decide()
        leaving = {one["name"] for one in case["admitted"] if evicted(one)}  # whom nobody takes out a second time
        for side, them in ((answer, preempted(scene)), (expected, targets)):
            side["engine"] = {name: why for name, why in them.items() if name not in leaving}
    return answer, expected


def asks_engine(case: Record) -> bool:
    """Whether victims would be looked for in these flavors at all, if anybody could be preempted."""
    incoming, mine = case["incoming"], _as_cycle(case)["workloads"][-1]
    said = next(one for one in case["clusterQueues"] if one["name"] == incoming["queue"])
    wanted = demand(case).usage
    if uncovered(queue(said), {resource: units for (_, resource), units in wanted.items()}):
        return False
    tree = snapshot(case, case["admitted"]).tree
    chooser = FlavorAssigner(
        queue(said),
        tree.queues[said["name"]],
        flavors(_with_labels(case)),
        policy(said),
        lambda *_: FlavorRank(PreemptionMode.PREEMPT),
        fair=case["options"]["fairSharing"],
    )
    choice = chooser.assign([pod_set(pods, pods["count"]) for pods in mine["podSets"]])
    return choice.mode is AssignmentMode.PREEMPT and choice.usage == dict(wanted)


def _with_labels(case: Record) -> Record:
    """The flavors with a node label each, by which pods can name the one that they are to get."""
    return {**case, "flavors": [{**one, "nodeLabels": {_label(one["name"]): "yes"}} for one in case["flavors"]]}


def _label(flavor: str) -> str:
    return f"{OWN}{named(flavor)}"


def _as_cycle(case: Record) -> Record:
    incoming = case["incoming"]
    chosen = {one["podSet"]: one for one in case["assignment"]}
    pod_sets = [
        {
            **pods,
            "count": chosen[pods["name"]].get("count", count_left(incoming, pods)),
            "nodeSelector": {_label(one["flavor"]): "yes" for one in chosen[pods["name"]]["flavors"].values()},
        }
        for pods in incoming["podSets"]
        if pods["name"] in chosen
    ]
    asked = {**incoming, "localQueue": "asked", "queue": None, "podSets": pod_sets, "reclaimablePods": []}
    namespace = incoming["name"].rpartition("/")[0] or "default"
    return {
        **_with_labels(case),
        "cohorts": case.get("cohorts", []),
        "localQueues": [{"name": f"{namespace}/asked", "clusterQueue": incoming["queue"]}],
        "workloads": [*({**one, "localQueue": ""} for one in case["admitted"]), asked],
    }
