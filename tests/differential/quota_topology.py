"""The topic of the quota corpus that asks into which domains of a topology pods go."""

from __future__ import annotations

import msgspec

from tests.differential.quota_flavors import pod_set
from tests.differential.quota_reading import Record
from tests.differential.quota_rules import Answer
from tutti.api.resources import amounts
from tutti.api.taints import Taint, Toleration
from tutti.quota.domains import DomainTree, Place, with_pod
from tutti.quota.topology import Misplaced, Placement, Placer

OVER = ("Succeeded", "Failed")


def places(case: Record, labels: dict[str, str]) -> list[Place]:
    """The nodes that a flavor with these labels has."""
    used: dict[str, dict[str, int]] = {}
    for pod in case.get("pods", []):
        if pod.get("phase") not in OVER:
            mine = used.setdefault(pod.get("node", ""), {})
            for name, amount in with_pod(amounts(pod["requests"])).items():
                mine[name] = mine.get(name, 0) + amount
    return [
        Place(
            node["name"],
            node["labels"],
            amounts(node["allocatable"]),
            tuple(msgspec.convert(node.get("taints", []), list[Taint])),
            used.get(node["name"], {}),
        )
        for node in case["nodes"]
        if node["ready"]
        and not node.get("unschedulable")
        and all(node["labels"].get(key) == value for key, value in labels.items())
    ]


def told(found: Placement | Misplaced, said: Record) -> tuple[Answer, Answer]:
    """What was found and what was recorded, alike in form."""
    if isinstance(found, Misplaced):
        answer: Answer = {"fits": False}
        if "fitsOnly" in said:
            answer["count"] = found.fits
    else:
        domains = [{"values": list(values), "count": count} for values, count in found.domains]
        answer = {"fits": True, "levels": list(found.levels), "domains": domains}
    expected = {key: said[key] for key in ("fits", "levels", "domains") if key in said}
    if "fitsOnly" in said:
        expected["count"] = said["fitsOnly"]["count"]
    return answer, expected


def topology_placement(case: Record, expect: Record) -> tuple[Answer, Answer]:
    flavor = case["flavor"]
    tree = DomainTree(case["levels"], places(case, flavor.get("nodeLabels", {})))
    for one in (*case.get("ownUsage", []), *case.get("otherFlavorUsage", [])):
        tree.take(tuple(one["values"]), amounts(one["requests"]), one["count"])
    placer = Placer(tree, tuple(msgspec.convert(flavor.get("tolerations", []), list[Toleration])))
    found = placer.place([pod_set(one) for one in case["podSets"]])
    answer: Answer = {}
    expected: Answer = {}
    for said in expect["podSets"]:
        answer[said["name"]], expected[said["name"]] = told(found[said["name"]], said)
    return answer, expected
