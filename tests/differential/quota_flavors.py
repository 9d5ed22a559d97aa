"""The topic of the quota corpus that asks which flavors are chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from tests.differential.quota_reading import Record, count_left, policy, quotas, tree, usage
from tests.differential.quota_rules import Answer, fungibility, in_units
from tutti.api.labels import LabelSelector, NodeSelector
from tutti.api.resources import amounts
from tutti.api.taints import Taint, Toleration
from tutti.placement.topology.request import LevelRequest, Slice, Together
from tutti.quota.assigner import Chooser
from tutti.quota.assignment import Attempt, PodSetChoice, Verdict, verdict_of
from tutti.quota.flavors import Flavor, PodSet, Queue, ResourceGroup
from tutti.quota.policy import Mode, Rank

VERDICTS = {
    Verdict.NO_FIT: "NoFit",
    Verdict.PREEMPT: "Preempt",
    Verdict.FIT: "Fit",
}
POSSIBLE = {"NoCandidates": Mode.NO_CANDIDATES, "Preempt": Mode.PREEMPT, "Reclaim": Mode.RECLAIM}


def flavors(case: Record) -> dict[str, Flavor]:
    levels = {one["name"]: tuple(one["levels"]) for one in case.get("topologies", [])}
    return {
        one["name"]: Flavor(
            one["name"],
            tuple(one.get("nodeLabels", {}).items()),
            tuple(msgspec.convert(one.get("taints", []), list[Taint])),
            tuple(msgspec.convert(one.get("tolerations", []), list[Toleration])),
            levels.get(one.get("topology", ""), ()),
        )
        for one in case["flavors"]
    }


def queue(said: Record) -> Queue:
    selector = said.get("namespaceSelector", {})
    return Queue(
        said["name"],
        said.get("cohort", ""),
        tuple(
            ResourceGroup(tuple(group["coveredResources"]), tuple(one["name"] for one in group["flavors"]))
            for group in said.get("resourceGroups", [])
        ),
        quotas(said),
        selector=None if selector is None else msgspec.convert(selector, LabelSelector),
        strict=said.get("queueingStrategy") == "StrictFIFO",
        hold=said.get("stopPolicy", "None") != "None",
        fungibility=fungibility(said.get("flavorFungibility")),
    )


def topology(asked: Record) -> LevelRequest | None:
    """Where pods want to be; a name of a group alone says nothing of that."""
    slices = [Slice(one["topology"], one["size"]) for one in asked.get("podsetSliceRequiredTopologyConstraints", [])]
    if asked.get("podSetSliceRequiredTopology"):
        slices = [Slice(asked["podSetSliceRequiredTopology"], asked.get("podSetSliceSize", 0))]
    together = next((one for one in Together if asked.get(one.value)), None)
    if together is None and not slices:
        return None
    level = asked[together.value] if together not in (None, Together.ANYWHERE) else ""
    return LevelRequest(together or Together.ANYWHERE, level, tuple(slices))


def group_of(said: Record) -> str:
    """The name that pod sets share which get one flavor, and go to one domain; "" for none."""
    return said.get("group") or said.get("podSetGroupName") or (said.get("topology") or {}).get("podSetGroupName", "")


def pod_set(said: Record, count: int) -> PodSet:
    affinity = said.get("affinity", {}).get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution")
    asked = said.get("topology") or {}
    return PodSet(
        said["name"],
        count,
        amounts(said.get("requests", {})),
        said.get("nodeSelector", {}),
        None if affinity is None else msgspec.convert(affinity, NodeSelector),
        tuple(msgspec.convert(said.get("tolerations", []), list[Toleration])),
        topology(asked),
        group_of(said),
    )


def oracle(said: Record) -> Callable[[tuple[str, str], int], Rank]:
    by_pair: Mapping[tuple[str, str], Record] = {
        (one["flavor"], one["resource"]): one for one in said.get("byFlavorResource", [])
    }

    def simulate(what: tuple[str, str], amount: int) -> Rank:
        found = by_pair.get(what, said["default"])
        return Rank(POSSIBLE[found["possibility"]], found["borrow"])

    return simulate


def flavor_assignment(case: Record, expect: Record) -> tuple[Answer, Answer]:
    quota = tree(case)
    for name, used in case["usage"].items():
        quota.add(name, usage(used))
    incoming = case["incoming"]
    mine = next(one for one in case["clusterQueues"] if one["name"] == incoming["queue"])
    chooser = Chooser(
        queue(mine),
        quota.queues[mine["name"]],
        flavors(case),
        policy(mine),
        oracle(case["oracle"]),
        fair=case["options"]["fairSharing"],
    )
    choice = chooser.choose([pod_set(one, count_left(incoming, one)) for one in incoming["podSets"]])
    answer: Answer = {"mode": VERDICTS[choice.verdict]}
    expected: Answer = {"mode": expect["mode"]}
    if "borrow" in expect:
        answer["borrow"], expected["borrow"] = choice.level, expect["borrow"]
        answer["usage"], expected["usage"] = choice.usage, in_units(expect["usage"])
    if "noFitReason" in expect:
        answer["noFitReason"], expected["noFitReason"] = choice.why().reason, expect["noFitReason"]
    if "flavors" in expect:
        answer["flavors"] = {name: one.flavor for pods in choice.pod_sets for name, one in pods.flavors.items()}
        expected["flavors"] = expect["flavors"]
    for said in expect.get("podSets", []):
        found = next((one for one in choice.pod_sets if one.name == said["name"]), None)
        answer[said["name"]], expected[said["name"]] = _told(found), _without_scan(said.get("flavors", {}))
        if "attempts" in said:
            _compare_attempts(found, said, answer, expected)
    return answer, expected


def _told(pods: PodSetChoice | None) -> Answer:
    return {
        name: {"flavor": one.flavor, "mode": VERDICTS[verdict_of(one.rank.mode)]}
        for name, one in (pods.flavors if pods else {}).items()
    }


def _without_scan(flavors: Record) -> Answer:
    """What was recorded, less where Kueue goes on with the flavors in its next cycle: we look at all of them in one."""
    return {name: {key: one[key] for key in ("flavor", "mode")} for name, one in flavors.items()}


def _compare_attempts(found: PodSetChoice, said: Record, answer: Answer, expected: Answer) -> None:
    """Where a flavor fits, those reached must agree; else all recorded, and others may have been looked at before.

    In which order resources are looked at is not fixed.
    """
    key = said["name"], "attempts"
    reached = {one.flavor: _attempt(one) for one in found.attempts}
    wanted = {one["flavor"]: one for one in said["attempts"]}
    compared = reached if any(one["mode"] == "Fit" for one in wanted.values()) else wanted
    answer[key] = {name: reached.get(name) for name in compared}
    expected[key] = {name: wanted.get(name) for name in compared}


def _attempt(one: Attempt) -> Answer:
    told: Answer = {"flavor": one.flavor, "mode": VERDICTS[verdict_of(one.mode)], "borrow": one.level}
    possible = {mode: word for word, mode in POSSIBLE.items()}
    if one.mode in possible:
        told["possibility"] = possible[one.mode]
    if one.why:
        told["noFitReason"] = one.why.reason
    return told
