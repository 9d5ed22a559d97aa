"""Random histories of Jobs that wait suspended: users, rivals, faults and deaths of the process in any order.

After every decision the invariants of the engine hold; at the end the faults stop, and every Job either runs whole or
waits suspended, as its user wrote it.
"""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from tests.drawing import examples
from tests.engine.held_owners import HeldWorld, template
from tests.engine.invariants import Invariants
from tutti.engine.records.decisions import AnyDecision

LABELS = {"pool": "a"}
JOBS = st.sampled_from(["a", "b", "c"])
PODS = st.integers(1, 4)
RARELY = st.sampled_from([False] * 4 + [True])
WINDOW = 20


class WatchedWorld(Invariants, HeldWorld):
    """Checks what must always hold after each decision."""

    def decide(self, advance: float = 0.0) -> list[AnyDecision]:
        self.remember()
        return super().decide(advance)

    def _carry_out_all(self, decisions: list[AnyDecision]) -> None:
        self.check_state()  # what is carried out is seen at once, and settled in the next turn
        super()._carry_out_all(decisions)


class HeldHistories(RuleBasedStateMachine):
    """Random steps; rules that do not apply at the moment do nothing."""

    @initialize(strict=st.booleans(), sets=st.booleans())
    def begin(self, strict: bool, sets: bool) -> None:
        self.world = world = WatchedWorld(bindWindowSeconds=WINDOW, permitTimeoutSeconds=15)
        world.begin_watching(window=WINDOW, local_queues=("queue",), longest_bind=0.0)
        self.sets = sets
        world.flavor(nodeLabels=LABELS)
        strategy = "StrictFIFO" if strict else "BestEffortFIFO"
        preemption = {"withinClusterQueue": "LowerPriority"}
        self.queue = {"queueingStrategy": strategy, "preemption": preemption, "manage": "Suspend"}
        world.queue("team", 6, **self.queue)
        for name in ("n0", "n1"):
            world.node(name, gpus=4, labels=LABELS)
        self.written: dict[str, Any] = {}

    @rule(name=JOBS, pods=PODS, indexed=st.booleans())
    def write_job(self, name: str, pods: int, indexed: bool) -> None:
        uid = f"{'JobSet' if self.sets else 'Job'}-{name}"
        if uid in self.world.raws:
            return
        job = {"parallelism": pods, "completions": pods, "template": template()}
        job |= {"completionMode": "Indexed"} if indexed else {}
        if self.sets:
            self.world.held(
                "JobSet", name, {"suspend": True, "replicatedJobs": [{"name": "m", "template": {"spec": job}}]}
            )
        else:
            self.world.held("Job", name, {"suspend": True, **job})
        self.written[uid] = copy.deepcopy(self.world.spec(uid))

    @rule(name=JOBS)
    def delete_job(self, name: str) -> None:
        for uid in [uid for uid in self.world.raws if uid.endswith(f"-{name}")]:
            self.world.remove(uid)
            del self.written[uid]

    @rule(name=JOBS)
    def suspend_by_hand(self, name: str) -> None:
        for uid in [uid for uid in self.world.raws if uid.endswith(f"-{name}")]:
            if not self.world.spec(uid)["suspend"]:
                self.world.change(uid, suspend=True)

    @rule(makes=st.booleans())
    def controller(self, makes: bool) -> None:
        self.world.makes_pods = makes
        for uid, raw in self.world.raws.items():
            if makes and not raw["spec"]["suspend"]:
                self.world.make_pods(uid)

    @rule(refuses=RARELY)
    def rights(self, refuses: bool) -> None:
        self.world.refuses = "jobs.batch is forbidden" if refuses else ""

    @rule(gpus=st.integers(1, 3), comes=st.booleans())
    def rival(self, gpus: int, comes: bool) -> None:
        if comes and ("default", "rival") not in self.world.pods:
            self.world.pod("rival", gpus=gpus, priority=100, queue="queue")
        elif not comes and ("default", "rival") in self.world.pods:
            self.world.delete("rival")

    @rule(gpus=st.integers(2, 8))
    def resize(self, gpus: int) -> None:
        self.world.queue("team", gpus, **self.queue)

    @rule(there=st.booleans())
    def node(self, there: bool) -> None:
        world = self.world
        if there and "n1" not in world.nodes:
            world.node("n1", gpus=4, labels=LABELS)
        elif not there and "n1" in world.nodes:
            world.delete(*[name for (_, name), pod in list(world.pods.items()) if pod.spec.node_name == "n1"])
            world.remove_node("n1")

    @rule(writes=st.integers(0, 6), backwards=st.booleans())
    def die(self, writes: int, backwards: bool) -> None:
        """Kill the process when it has written so much, and start another."""
        world = self.world
        world.stops_at = writes
        for _ in range(3):
            world.decide()
        world.stops_at = None
        world.restart(backwards=backwards)

    @rule(seconds=st.sampled_from([0.0, 0.0, 1.0, 5.0, 16.0, 40.0]))
    def turn(self, seconds: float) -> None:
        self.world.until(seconds)

    @invariant()
    def nothing_is_held_for_nobody(self) -> None:
        if hasattr(self, "world"):
            state = self.world.engine.state
            assert set(state.managed_owners) <= set(self.world.raws)
            for uid, key in state.managed_owners.items():
                managed = state.workloads[key].managed
                assert managed is not None
                assert managed.found.uid == uid

    def teardown(self) -> None:
        """The faults stop; there is room and quota for all, then for nobody."""
        if not hasattr(self, "world"):
            return
        world = self.world
        world.refuses = ""
        if ("default", "rival") in world.pods:
            world.delete("rival")
        if "n1" not in world.nodes:
            world.node("n1", gpus=4, labels=LABELS)
        world.node("n2", gpus=8, labels=LABELS)
        world.queue("team", 100, **self.queue)
        world.makes_pods = True
        for uid in list(world.raws):
            if not world.spec(uid)["suspend"]:
                world.make_pods(uid)
        world.until(400)
        for uid in world.raws:
            assert len(world.placed(uid)) == _pods(self.written[uid]), uid
        world.queue("team", 100, **self.queue, stopPolicy="HoldAndDrain")
        world.until(400)
        for uid, before in self.written.items():
            assert world.spec(uid) == before
            assert not world.placed(uid)
        assert world.used("team") == 0
        assert world.replay().differences == []


def _pods(spec: dict[str, Any]) -> int:
    roles = spec.get("replicatedJobs") or [{"template": {"spec": spec}}]
    return sum(one["template"]["spec"]["parallelism"] for one in roles)


TestHeldHistories = HeldHistories.TestCase
HeldHistories.TestCase.settings = examples(40, stateful_step_count=40, suppress_health_check=list(HealthCheck))
