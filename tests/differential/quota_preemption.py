"""The topics of the quota corpus that ask whom to preempt."""

from __future__ import annotations

from tests.differential.quota_reading import Record, amount, count_left, holder, requeuing, snapshot
from tests.differential.quota_rules import Answer
from tutti.quota.fair_reclaim import Strategy, fair_reclaim
from tutti.quota.reclaim import reclaim
from tutti.quota.snapshot import Demand


def demand(case: Record) -> Demand:
    """What the incoming workload wants under the assignment that is given."""
    incoming = holder(case["incoming"], requeuing(case))
    requests = {one["name"]: one for one in case["incoming"]["podSets"]}
    wanted: dict[tuple[str, str], int] = {}
    contested = set()
    for pod_set in case["assignment"]:
        mine = requests[pod_set["podSet"]]
        for resource, said in pod_set["flavors"].items():
            what = (said["flavor"], resource)
            per_pod = 1 if resource == "pods" else amount(resource, mine.get("requests", {}).get(resource, "0"))
            wanted[what] = wanted.get(what, 0) + per_pod * pod_set.get("count", count_left(case["incoming"], mine))
            if said["mode"] == "Preempt":
                contested.add(what)
    return Demand(incoming.queue, wanted, frozenset(contested), incoming.priority, incoming.queued_at)


def preemption(case: Record, expect: Record) -> tuple[Answer, Answer]:
    snap, wanted = snapshot(case, case["admitted"]), demand(case)
    if case["options"]["fairSharing"]:
        strategies = [Strategy(one) for one in case["options"]["strategies"]]
        victims = fair_reclaim(snap, wanted, strategies=strategies)
    else:
        victims = reclaim(snap, wanted)
    answer = {one.holder.name: one.reason.value for one in victims}
    return answer, {one["name"]: one["reason"] for one in expect["targets"]}
