"""The topic of the quota corpus that asks which flavors are chosen: of the rule, and of the engine where it can tell.

The rule is asked with what preemption could do as the record has it. Whether anybody could be preempted follows from
the cluster where the engine is asked. So that is done where the record comes to an end without: the workload fits, or
could not even have what it asks for if nobody else were there.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.differential.quota_cycle import assigned, reason, recorded
from tests.differential.quota_flavors import flavor_assignment
from tests.differential.quota_reading import Record
from tests.differential.quota_rules import Answer
from tests.differential.quota_world import scene_of
from tutti.engine.records.workloads import ADMITTED

NAME = "default/asked"


def assignment(case: Record, expect: Record) -> tuple[Answer, Answer]:
    """What the rule chooses, and what the engine admits to which flavors."""
    answer, expected = flavor_assignment(case, expect)
    if not asks_engine(case):
        return answer, expected
    scene = scene_of(_as_cycle(case))
    scene.decide()
    workload = scene.workload(NAME)
    assert workload is not None
    admitted = workload.phase in ADMITTED
    answer["admitted"], expected["admitted"] = admitted, expect["mode"] == "Fit"
    if expect.get("noFitReason"):
        answer["reason"], expected["reason"] = reason(scene, NAME), expect["noFitReason"]
    for said in expect.get("podSets", []) if admitted else []:
        usage = {one: said["requests"][one] for one in said["flavors"] if one in said["requests"]}
        flavors = {one: found["flavor"] for one, found in said["flavors"].items()}
        wanted = {"name": said["name"], "count": said["count"], "flavors": flavors, "usage": usage}
        key = said["name"], "engine"
        answer[key], expected[key] = assigned(scene, NAME, wanted), recorded(wanted)
    return answer, expected


def asks_engine(case: Record) -> bool:
    """Whether the engine can be asked: nothing depends on who could be preempted, or on a topology without nodes."""
    mode, why = case["expect"]["mode"], case["expect"].get("noFitReason")
    decided = mode == "Fit" or (mode == "NoFit" and why in ("ExceedsMaxQuota", "NoMatchingFlavor"))
    topology = any(one.get("topology") for one in case["flavors"])
    return decided and not topology and "podSets" in case["expect"]


def _as_cycle(case: Record) -> Record:
    incoming = case["incoming"]
    asked = {**incoming, "name": NAME, "localQueue": "asked", "queue": None}
    return {
        **case,
        "cohorts": case.get("cohorts", []),
        "localQueues": [{"name": "default/asked", "clusterQueue": incoming["queue"]}],
        "workloads": [*_running(case), asked],
    }


def _running(case: Record) -> Iterator[Record]:
    """What is in use, as one workload for each queue and flavor."""
    for queue, by_flavor in case["usage"].items():
        for flavor, usage in by_flavor.items():
            pods = {
                "name": "main",
                "count": 1,
                "requests": {name: text for name, text in usage.items() if name != "pods"},
                "admittedCount": 1,
                "flavors": dict.fromkeys(usage, flavor),
                "usage": usage,
            }
            name = f"default/running-{queue}-{flavor}"
            yield {"name": name, "queue": queue, "priority": 0, "reservedAt": 0, "podSets": [pods]}
