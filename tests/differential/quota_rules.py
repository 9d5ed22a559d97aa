"""The topics of the quota corpus that ask for one rule: what `tutti` answers, in the words of `expect`."""

from __future__ import annotations

import math

from tests.differential.quota_reading import (
    Record,
    amount,
    held,
    holder,
    requeuing,
    snapshot,
    tree,
    usage,
    when,
)
from tutti.api.quantity import parse
from tutti.quota.assigner import largest_counts
from tutti.quota.fair_reclaim import Contest
from tutti.quota.fair_sharing import share
from tutti.quota.ordering import entry_key, head_key
from tutti.quota.policy import Fungibility, Mode, Rank, Who, allows, is_better
from tutti.quota.preemption import hold_back
from tutti.quota.reclaim import in_victim_order
from tutti.quota.tree import UNLIMITED, QuotaNode, QuotaTree
from tutti.quota.usage import local_usage, usage_report

Answer = dict[str, object]
"""What is compared with `expect`: keys that are missing on either side are differences."""


def in_units(by_flavor: dict[str, dict[str, str]]) -> dict[tuple[str, str], int]:
    return {(f, r): amount(r, text) for f, resources in by_flavor.items() for r, text in resources.items()}


def free(expect: Record) -> Answer:
    return {key: {queue: in_units(them) for queue, them in expect[key].items()} for key in FREE}


FREE = ("available", "potentialAvailable")


def available(case: Record, expect: Record) -> tuple[Answer, Answer]:
    quota = tree(case)
    before = _free(quota, expect)
    assert before["available"] == before["potentialAvailable"]
    for queue, used in case["usage"].items():
        quota.add(queue, usage(used))
    answer = _free(quota, expect)
    for queue, used in case["usage"].items():
        quota.remove(queue, usage(used))
    assert _free(quota, expect) == before
    return answer, free(expect)


def _free(quota: QuotaTree, expect: Record) -> Answer:
    def of(queue: str, what: tuple[str, str], key: str) -> int:
        node = quota.queues[queue]
        return max(0, node.available(what)) if key == "available" else node.potential(what)

    return {
        key: {queue: {what: of(queue, what, key) for what in in_units(them)} for queue, them in expect[key].items()}
        for key in FREE
    }


def usage_tree(case: Record, expect: Record) -> tuple[Answer, Answer]:
    snap = snapshot(case, case["admitted"])
    by_name = {one["name"]: holder(one) for one in case["admitted"]}
    for name in case["remove"]:
        snap.remove(by_name[name])
    for name in case["add"]:
        snap.add(by_name[name])
    answer, expected = {}, {}
    for said in expect["nodes"]:
        node = _node(snap.tree, said)
        for key, have in (("usage", node.usage), ("subtreeQuota", node.subtree)):
            want = in_units(said[key])
            expected[said["kind"], said["name"], key] = want
            answer[said["kind"], said["name"], key] = {what: have.get(what, 0) for what in want}
    return answer, expected


def _node(quota: QuotaTree, said: Record) -> QuotaNode:
    return (quota.queues if said["kind"] == "clusterQueue" else quota.cohorts)[said["name"]]


def shares(case: Record, expect: Record) -> tuple[Answer, Answer]:
    quota = tree(case)
    for queue, used in case["usage"].items():
        quota.add(queue, usage(used))
    if "requested" in case:
        mine = share(quota.queues[expect["clusterQueue"]])
        on = mine.borrows_any(usage(case["requested"]))
        answer = {"borrowing": bool(mine.borrowed), "borrowingOnRequested": on}
        return answer, {key: expect[key] for key in answer}
    more = usage(case.get("additionalUsage"))
    answer, expected = {}, {}
    for said in expect["share"]:
        found = share(_node(quota, said), more)
        key = said["kind"], said["name"]
        answer[key] = (found.rounded(), found.resource, bool(found.borrowed))
        value = UNLIMITED if said["share"] == "unlimited" else said["share"]
        expected[key] = (value, said["dominantResource"], said["borrowing"])
    return answer, expected


def tree_generated(case: Record, expect: Record) -> tuple[Answer, Answer]:
    one, other = available(case, expect), shares(case, expect)
    return one[0] | other[0], one[1] | other[1]


def report(case: Record, expect: Record) -> tuple[Answer, Answer]:
    node = tree(case).queues[case["clusterQueues"][0]["name"]]
    answer = {}
    for key, counted in (("reserved", case["admitted"]), ("used", [w for w in case["admitted"] if w["admitted"]])):
        answer[key] = usage_report(node, map(held, counted))
        answer["reservingWorkloads" if key == "reserved" else "admittedWorkloads"] = len(counted)
    expected = dict(expect)
    for key in ("reserved", "used"):
        expected[key] = {
            (flavor, resource): (amount(resource, said["total"]), amount(resource, said["borrowed"]))
            for flavor, resources in expect[key].items()
            for resource, said in resources.items()
        }
    return answer, expected


def reserve(case: Record, expect: Record) -> tuple[Answer, Answer]:
    quota = tree(case)
    for queue, used in case["usage"].items():
        quota.add(queue, usage(used))
    incoming = case["incoming"]
    wanted = usage(incoming["usage"])
    waits = incoming["mode"] == "Preempt"
    node = quota.queues[incoming["queue"]]
    kept = hold_back(node, wanted, borrows=incoming["borrow"] > 0) if waits else wanted
    return {"reserved": kept}, {"reserved": in_units(expect["reserved"])}


MODES = {
    "noFit": Mode.NO_FIT,
    "noPreemptionCandidates": Mode.NO_CANDIDATES,
    "preempt": Mode.PREEMPT,
    "reclaim": Mode.RECLAIM,
    "fit": Mode.FIT,
}


def fungibility(said: Record | None) -> Fungibility:
    said = said or {}
    return Fungibility(
        said.get("whenCanBorrow", "MayStopSearch") == "MayStopSearch",
        said.get("whenCanPreempt", "TryNextFlavor") == "MayStopSearch",
        said.get("preference") == "PreemptionOverBorrowing",
    )


def flavor_rank(case: Record, expect: Record) -> tuple[Answer, Answer]:
    one, other = (Rank(MODES[case[key]["mode"]], case[key]["borrow"]) for key in "ab")
    return {"aPreferred": is_better(one, other, fungibility(case["flavorFungibility"]))}, expect


def partial_count(case: Record, expect: Record) -> tuple[Answer, Answer]:
    counts = [one["count"] for one in case["podSets"]]
    least = [one.get("minCount", one["count"]) for one in case["podSets"]]
    found = largest_counts(counts, least, lambda them: sum(them) <= case["totalLimit"])
    return {"found": found is not None, "total": sum(found or ())}, expect


def preemption_policy(case: Record, expect: Record) -> tuple[Answer, Answer]:
    one, other = holder(case["preemptor"]), holder(case["candidate"])
    return {"satisfied": allows(Who(case["policy"]), one, other)}, expect


def victim_order(case: Record, expect: Record) -> tuple[Answer, Answer]:
    counts = case["options"]["usageBasedOrdering"]
    used = {one["name"]: one.get("localQueueUsage") if counts else None for one in case["candidates"]}
    order = in_victim_order(
        map(holder, case["candidates"]), case["preemptorQueue"], used_lately=lambda one: used[one.name]
    )
    return {"order": [one.name for one in order]}, expect


def victim_queue_order(case: Record, expect: Record) -> tuple[Answer, Answer]:
    snap = snapshot(case, case["admitted"])
    candidates = [holder(one) for one in case["admitted"] if one["queue"] in case["candidateQueues"]]
    contest = Contest(snap, case["preemptorQueue"], in_victim_order(candidates, case["preemptorQueue"]))
    actions = iter(case["actions"])
    order = []
    for queue in contest.offers():
        order.append(queue.name)
        if next(actions, "pop") == "drop":
            contest.drop(queue)
        else:
            contest.take(queue)
    return {"order": order}, expect


def entry_order(case: Record, expect: Record) -> tuple[Answer, Answer]:
    by = requeuing(case)
    order = sorted(case["entries"], key=lambda one: entry_key(one["priority"], when(one, by), one["borrow"]))
    return {"order": [one["name"] for one in order]}, expect


def in_whole(amounts: Record | None) -> dict[str, float]:
    return {resource: parse(text) / 1000 for resource, text in (amounts or {}).items()}


def queue_order(case: Record, expect: Record) -> tuple[Answer, Answer]:
    by_usage = case["clusterQueues"][0].get("admissionMode") == "UsageBasedAdmissionFairSharing"
    weight = {one["name"]: parse(one.get("weight", "1")) / 1000 for one in case.get("localQueues", [])}
    factors = (case["options"].get("admissionFairSharing") or {}).get("resourceWeights") or {}
    used = {
        name: local_usage(in_whole(consumed), {}, weight=weight[name], resource_weights=factors)
        for name, consumed in case.get("localQueueConsumed", {}).items()
    }

    def key(one: Record) -> tuple[object, ...]:
        mine = used.get(f"default/{one.get('localQueue')}", 0.0) if by_usage else 0.0
        return head_key(one["priority"], when(one, requeuing(case)), one.get("uid", ""), local_usage=mine)

    return {"head": min(case["pending"], key=key)["name"]}, expect


def local_queue_usage(case: Record, expect: Record) -> tuple[Answer, Answer]:
    found = local_usage(
        in_whole(case["consumed"]),
        in_whole(case["penalty"]),
        weight=case["weight"],
        resource_weights=case["resourceWeights"],
    )
    return {"usage": found}, {"usage": math.inf if expect["usage"] == "Infinity" else float(expect["usage"])}
