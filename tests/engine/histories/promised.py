"""Random histories in which much is promised, each drawn from a number alone, so that it can be told twice.

Queues share, borrow, take back, keep room for heads and ask checks; gangs are elastic, of mixed priorities, and mended;
victims take their time. What is drawn next depends on nothing but the number and what there is in the cluster.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from tests.engine.histories.watched import MOVABLE
from tests.engine.lifecycle.test_permit import TEMPLATE
from tests.engine.world import GPU, World, replaced
from tutti.api.core import OwnerReference, Pod, PodStatus
from tutti.engine.records.decisions import AnyDecision, Evict

WITHIN = ("Never", "LowerPriority", "LowerOrNewerEqualPriority")
RECLAIM = ("Never", "LowerPriority", "Any", "Any")
ORDERINGS = ("BorrowedShare", "DominantShare", "Proportion")
FLAVORS = (("a",), ("b",), ("a", "b"), ("b", "a"))
BY_USE = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}
CHECKED = {"admissionChecksStrategy": {"admissionChecks": [{"name": "budget"}]}}


class Remade(World):
    """A world in which whoever made a pod that is moved makes another."""

    def _carry_out(self, decision: AnyDecision) -> None:
        old = self.pods.get((decision.namespace, decision.name)) if isinstance(decision, Evict) else None
        super()._carry_out(decision)
        if isinstance(decision, Evict) and decision.within_budgets and old is not None:
            self._make_again(old)

    def _make_again(self, old: Pod) -> None:
        name = f"{old.metadata.name}-s"
        if (old.metadata.namespace, name) not in self.pods:
            made = {"name": name, "uid": f"{old.metadata.uid}-s", "annotations": MOVABLE, "deletion_timestamp": None}
            meta = replaced(old.metadata, **made, creation_timestamp=self._timestamp())
            self.put(replaced(old, metadata=meta, spec=replaced(old.spec, node_name=""), status=PodStatus()))


class PromisedHistory:
    """One history: its world, and the steps that have been drawn."""

    def __init__(self, number: int) -> None:
        self.random = random = Random(number)
        sharing = {"enable": True, "ordering": random.choice(ORDERINGS)} if random.random() < 0.3 else {}
        self.world = Remade(
            permit_timeout_seconds=3000,
            victims_timeout_seconds=100,
            fairSharing=sharing,
            admissionFairSharing={"usageHalfLifeSeconds": 600, "usageSamplingIntervalSeconds": 60},
        )
        self.world.hold_evictions = self._now_and_then(0.8)
        self.checked, self.moving = self._now_and_then(0.25), self._now_and_then(0.3)
        self._serial = 0
        self.told: list[str] = []
        self._begin()

    def _begin(self) -> None:
        world, random = self.world, self.random
        for name in ("a", "b"):
            world.flavor(name, nodeLabels={"kind": name})
        if self._now_and_then(0.5):
            quota = [{"name": "a", "resources": [{"name": GPU, "nominalQuota": 1}]}]
            world.object("Cohort", "c", {"resourceGroups": [{"coveredResources": [GPU], "flavors": quota}]})
        if self.checked:
            world.admission_check("budget")
        for number in range(3):
            terms = {"cohort": random.choice(["c", "c", "c", ""]), "borrow": random.choice([None, 2])}
            flavors = random.choice(FLAVORS)
            quota_of = random.randint(1, 4)
            world.queue(f"cq{number}", quota_of, flavors=flavors, local=f"q{number}", **terms, **self._queue())
        world.object("LocalQueue", "q3", {"clusterQueue": "cq0", "fairSharing": {"weight": "0.5"}})
        for number in range(random.randint(2, 4)):
            world.node(f"n{number}", gpus=random.randint(2, 4), labels={"kind": random.choice("ab")})

    def _queue(self) -> dict[str, Any]:
        reclaim = self.random.choice(RECLAIM)
        policy: dict[str, Any] = {"withinClusterQueue": self.random.choice(WITHIN), "reclaimWithinCohort": reclaim}
        if reclaim != "Never" and self._now_and_then(0.3):
            policy["borrowWithinCohort"] = {"policy": "LowerPriority", "maxPriorityThreshold": 1}
        spec = {"preemption": policy, "queueingStrategy": self.random.choice(["StrictFIFO", "BestEffortFIFO"])}
        if self._now_and_then(0.5):
            spec |= {"backfill": "Reserved", "reservationSeconds": self.random.choice([60, 600])}
        spec |= BY_USE if self._now_and_then(0.2) else {}
        spec |= CHECKED if self.checked and self._now_and_then(0.5) else {}
        return spec | ({"consolidation": {"maxMoves": 4}} if self.moving else {})

    # Steps.

    def step(self) -> None:
        """Have something happen; nothing is decided yet."""
        self.world.now += self.random.choice([0.5, 1.0, 3.0])
        steps = [self._pod, self._gang, self._workload, self._end, self._leave, self._lose, self._wait, self._answer]
        steps += [self._job, self._node]
        weights = [5, 5, 4, 4, 3, 1, 2, 2, 3 if self.moving else 0.5, 0.5]
        done = self.random.choices(steps, weights)[0]()
        self.told.append(f"{self.world.now - 1_000_000:.1f} {done}")

    def _pod(self) -> str:
        name, asks = self._name("p"), self._asks()
        self.world.pod(name, queue=self._local(), **asks)
        return f"pod {name} {asks}"

    def _job(self) -> str:
        name, asks = self._name("j"), self._asks()
        by = OwnerReference("batch/v1", "Job", name, name, controller=True)
        self.world.pod(name, queue=self._local(), owner=by, annotations=MOVABLE, **asks)
        return f"job {name} {asks}"

    def _gang(self) -> str:
        name, asks, mixed = self._name("g"), self._asks(), self._now_and_then(0.3)
        least, more = self.random.choice([1, 2, 2, 3]), self.random.choice([0, 0, 1, 2])
        mode = self.random.choice(["Pod", "PodGroup"])
        self.world.pod_group(name, least, disruptionMode=mode, **self._named())
        for rank in range(least + more):
            high = {**asks, "priority": asks["priority"] + rank % 2 * mixed, "gpus": 1 if least > 1 else asks["gpus"]}
            self.world.pod(f"{name}-{rank}", group=name, **high)
        return f"gang {name} {least}+{more} {asks} mixed={mixed}"

    def _workload(self) -> str:
        name, asks, promised = self._name("w"), self._asks(), self._now_and_then(0.25)
        least, more = self.random.choice([1, 2, 3]), self.random.choice([0, 0, 1])
        seconds = self.random.choice([None, 20, 60, 300])
        group = {"name": "main", "count": least + more, "minCount": least}
        group |= {"template": TEMPLATE} if promised else {}
        limit = {"maximumExecutionTimeSeconds": seconds} if seconds else {}
        self.world.workload(name, group, priority=asks["priority"], **self._named(), **limit)
        for rank in range(least + more - promised):
            self.world.pod(f"{name}-{rank}", workload=name, group="main", **asks)
        return f"workload {name} {least}+{more} {asks} {seconds} s promised={promised}"

    def _end(self) -> str:
        names = [name for name in self.world.where() if not self.world.pods["default", name].terminated]
        kin = self._one(sorted({name.split("-")[0] for name in names}))
        them = [name for name in names if name.split("-")[0] == kin]
        them = them[:1] if self._now_and_then(0.3) else them
        self.world.finish(*them)
        return f"ends {them}"

    def _leave(self) -> str:
        them = sorted(name for (_, name), pod in self.world.pods.items() if pod.metadata.deletion_timestamp is not None)
        them = them[:1] if self._now_and_then(0.5) else them
        self.world.delete(*them)
        return f"gone {them}"

    def _lose(self) -> str:
        """A member fails or is deleted, and perhaps another one comes in its place."""
        name = self._one([name for name in self.world.where() if not self.world.pods["default", name].terminated])
        kin, fails, again = name.split("-")[0], self._now_and_then(0.5), self._now_and_then(0.6)
        if not name:
            return "nobody lost"
        if fails:
            self.world.finish(name, phase="Failed")
        else:
            self.world.delete(name)
        if again and kin != name:
            self.world.pod(self._name(f"{kin}-r"), **({"group": kin} if kin[0] == "g" else {"workload": kin}))
        return f"lost {name} fails={fails} again={again}"

    def _wait(self) -> str:
        self.world.now += self.random.choice([5, 15, 40])
        return "time"

    def _answer(self) -> str:
        kinds = ("Workload", "PodGroup")
        asking = [key for key, raw in self.world.objects.items() if raw["status"].get("admissionChecks")]
        answer = self.random.choice(["Ready", "Ready", "Retry"])
        kind, _, name = self._one(sorted(key for key in asking if key[0] in kinds)) or ("", "", "")
        if name:
            self.world.answer_check("budget", answer, kind=kind, of=name)
        return f"check {name} {answer}"

    def _node(self) -> str:
        last = list(self.world.nodes)[-1]
        gpus, kind = self.random.choice([2, 3, 4]), self.random.choice("ab")
        if self._now_and_then(0.5) and len(self.world.nodes) > 2:
            self.world.remove_node(last)
            return f"node {last} gone"
        self.world.node(self._name("n"), gpus=gpus, labels={"kind": kind})
        return f"node of {gpus} {kind}"

    # Drawing.

    def _asks(self) -> dict[str, int]:
        return {"gpus": self.random.choice([1, 1, 2, 3]), "priority": self.random.choice([0, 0, 0, 1, 2])}

    def _local(self) -> str:
        return self.random.choice(["q0", "q1", "q2", "q3", ""])

    def _named(self) -> dict[str, str]:
        queue = self._local()
        return {"queueName": queue} if queue else {}

    def _now_and_then(self, part: float) -> bool:
        return self.random.random() < part

    def _one(self, some: Sequence[Any]) -> Any:
        drawn = self.random.random()
        return some[int(drawn * len(some))] if some else ""

    def _name(self, prefix: str) -> str:
        self._serial += 1
        return f"{prefix}{self._serial}"
