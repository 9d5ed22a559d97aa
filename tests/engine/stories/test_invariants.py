"""What must always hold, held against random histories of a whole cluster.

A history is a list of steps: objects come, change and go, pods live and die, nodes vanish, binds are answered late,
wrongly or never, the engine is restarted, time passes. After every decision the invariants are checked; at the end
the faults stop, and whatever can run must run. The steps by which others change the cluster are in `tests/engine/histories`;
here is how one begins and ends, and what befalls the engine: answers, time and restarts. TUTTI_FUZZ multiplies how many histories are tried, and draws new ones each time.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import HealthCheck
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from bench.simulation.recounting import recounted
from tests.drawing import TIMES, examples
from tests.engine.histories.draws import CLASSES, NEAR, POLICIES, QUEUE_OF, RACK_OF, RARELY
from tests.engine.histories.pod_steps import PodSteps
from tests.engine.histories.queue_steps import QueueSteps
from tests.engine.histories.watched import MOVABLE, WINDOW, Watched
from tests.engine.world import GPU
from tutti.cluster.pods import PodPhase
from tutti.engine.records.decisions import Bind
from tutti.engine.records.observations import BindAnswer, BindFinished

PERMIT, VICTIMS = 10, 30
ORDERINGS = st.sampled_from(["BorrowedShare", "DominantShare", "Proportion"])
FAIRNESS = st.one_of(st.just({}), ORDERINGS.map(lambda ordering: {"enable": True, "ordering": ordering}))
BY_USE = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}
OUTCOMES = st.sampled_from(["Bound"] * 6 + ["Failed", "Gated", "Unknown", "Lost", "Unseen"])


class Histories(QueueSteps, PodSteps, RuleBasedStateMachine):
    """Random steps; rules that do not apply at the moment do nothing."""

    @initialize(
        strict=st.booleans(),
        most=st.booleans(),
        tries=st.sampled_from([None, None, 1, 2]),
        kept=st.booleans(),
        fair=FAIRNESS,
        preempts=POLICIES,
        by_use=st.booleans(),
        moving=st.booleans(),
        worth=st.sampled_from([{}, {"resourceWeights": {GPU: 3}}]),
    )
    def begin(
        self,
        strict: bool,
        most: bool,
        tries: int | None,
        kept: bool,
        fair: dict[str, Any],
        preempts: dict[str, Any],
        by_use: bool,
        moving: bool,
        worth: dict[str, Any],
    ) -> None:
        strategy = {"type": "MostAllocated" if most else "LeastAllocated"}
        self.world = self.make_world(
            permit_timeout_seconds=PERMIT,
            bind_window_seconds=WINDOW,
            victims_timeout_seconds=VICTIMS,
            profiles=[{"schedulerName": "tutti", "scoringStrategy": strategy}],
            fairSharing=fair,
            admissionFairSharing={"usageHalfLifeSeconds": 30, "usageSamplingIntervalSeconds": 5},
            users={"groups": [{"name": "all", "users": ["default"]}]},
        )
        world = self.world
        world.hold_binds = True
        world.most = tries
        self.serial = 0
        self.says = MOVABLE if moving else {}
        moves = {"consolidation": {"maxMoves": 4}} if moving else {}
        for name in ("a", "b"):
            world.flavor(name, nodeLabels={"kind": name}, **(worth if name == "b" else {}))
        for name, value in CLASSES.items():
            world.put_class(name, value)
        world.object("Cohort", "c", {"parentName": "root"})
        group = {"coveredResources": [GPU], "flavors": [{"name": "a", "resources": [{"name": GPU, "nominalQuota": 1}]}]}
        world.object("Cohort", "root", {"resourceGroups": [group]})
        self.preempts = {"preemption": preempts, **moves}
        next_ = {"flavorFungibility": {"whenCanBorrow": "TryNextFlavor"}, "fairSharing": {"weight": 2}}
        backfill = {"backfill": "Reserved", "reservationSeconds": 5} if kept else {}
        world.queue("cq1", 3, cohort="c", borrow=2, flavors=("a",), local="q1", **self.preempts)
        second = {**self.preempts, **next_, **backfill, **(BY_USE if by_use else {})}
        world.queue("cq2", 3, cohort="c", lend=2, flavors=("a", "b"), local="q2", **second)
        world.object("LocalQueue", "q4", {"clusterQueue": "cq2", "fairSharing": {"weight": "0.5"}})
        strategy = "StrictFIFO" if strict else "BestEffortFIFO"
        within = {"withinClusterQueue": preempts["withinClusterQueue"]}
        world.queue("cq3", 4, flavors=("b",), local="q3", queueingStrategy=strategy, preemption=within, **moves)
        for number, kind in enumerate("aabb"):
            self._node(f"n{number}", gpus=2 + number % 2, kind=kind)

    def _node(self, name: str, *, gpus: int, kind: str, cordoned: bool = False) -> None:
        self.world.node(name, gpus=gpus, labels={"kind": kind, "rack": RACK_OF[name]}, cordoned=cordoned)

    def make_world(self, **configuration: Any) -> Watched:
        """Return the world that histories happen in; others happen in another."""
        return Watched(**configuration)

    @rule(refuse=RARELY)
    def refuse(self, refuse: bool) -> None:
        self.world.refuse_evictions = self.world.refuse_deactivation = refuse

    @rule(data=st.data(), outcome=OUTCOMES)
    @precondition(lambda self: self.world.pending_binds)
    def answer(self, data: st.DataObject, outcome: str) -> None:
        self._answer(data.draw(st.sampled_from(self.world.pending_binds)), outcome)

    @rule(now=st.booleans())
    def answer_all(self, now: bool) -> None:
        for bind in list(self.world.pending_binds):
            self._answer(bind, "Bound")
        if now:
            self.world.decide()

    @rule()
    def show_everything(self) -> None:
        for pod in list(self.world.pods.values()):
            self.world.put(pod)

    @rule(seconds=st.sampled_from([0.0, 0.5, 1.0, 5.0, 11.0, 21.0]))
    def decide(self, seconds: float) -> None:
        self.world.decide(seconds)

    @rule(seconds=st.sampled_from([0.0, 3.0, 12.0, 30.0]))
    def go_on(self, seconds: float) -> None:
        self.world.until(seconds)

    @rule(data=st.data(), hold=st.booleans(), backwards=st.booleans())
    def restart(self, data: st.DataObject, hold: bool, backwards: bool) -> None:
        self._check_replay()
        for bind in list(self.world.pending_binds):
            if data.draw(st.booleans()):
                self._land(bind, seen=False)
        self.world.hold_evictions = hold
        self.world.unknown.clear()
        self.world.lost.clear()
        # What has been running together before is told from its status.
        self.world.whole = {
            key
            for key, raw in self.world.objects.items()
            for one in raw["status"].get("conditions", [])
            if (one["type"], one["status"]) == ("Scheduled", "True")
        }
        self.world.partial.clear()
        self.world.restart(backwards=backwards)
        self.world.decide()

    @invariant()
    def room_is_what_the_pods_hold(self) -> None:
        if hasattr(self, "world"):
            cluster = self.world.engine.state.cluster
            assert (cluster.nodes.requested == recounted(cluster)).all()

    @invariant()
    def members_are_counted_as_what_they_do(self) -> None:
        for workload in self.world.engine.state.workloads.values() if hasattr(self, "world") else ():
            for group in workload.groups.values():
                counted = Counter(member.pod.doing for member in group.members.values())
                assert group.phases.counts == [counted[one] for one in PodPhase]

    @invariant()
    def nothing_but_its_priority_counts_for_a_single_pod_unless_it_is_known_to(self) -> None:
        if not hasattr(self, "world"):
            return
        state = self.world.engine.state
        assert list(state.gangs) == [key for key in state.workloads if key[0] != "Pod"]
        for key in state.workloads.keys() - state.gangs.keys() - state.unlike_singles.keys() - state.dirty.keys():
            workload = state.workloads[key]
            if workload.uid:  # else it has not been read yet
                assert not workload.queue
                assert all(member.pod.priority == workload.priority for member in workload.members())

    def teardown(self) -> None:
        """The faults stop: answers come, nobody is left on a lost node, nothing is promised any more."""
        if not hasattr(self, "world"):
            return
        world = self.world
        world.hold_evictions = world.refuse_evictions = world.refuse_deactivation = False
        for (kind, _, name), raw in list(world.objects.items()):
            if raw["spec"].get("stopPolicy", "None") != "None":
                world.object(kind, name, {**raw["spec"], "stopPolicy": "None"})
            if kind == "Workload" and any("template" in group for group in raw["spec"]["podGroups"]):
                world.object("Workload", name, {**raw["spec"], "active": False})
        for _ in range(10):
            self._settle()
            if not world.pending_binds:
                break
        world.hold_binds = False
        world.until(100.0)
        self._settle()
        assert not world.pending_binds
        self._check_replay()
        waiting = {name for (_, name), pod in world.pods.items() if not pod.spec.node_name}
        used, untold = self._used(), self._untold()
        world.restart()
        world.run()
        after = self._used()
        assert all(after.get(queue) == used.get(queue) for queue in {**used, **after} if queue not in untold)
        started = {bind.name for bind in world.log if isinstance(bind, Bind)} & waiting & set(world.where())
        assert not started, f"{started} could have run all the time"

    def _untold(self) -> set[str]:
        """Queues used by pods of which nothing but themselves says so: their object and their LocalQueue are gone."""
        workloads = self.world.engine.state.workloads.values()
        orphans = [one for one in workloads if one.problem is not None and not one.queue]
        return {m.charge.queue for one in orphans for m in one.members() if m.charge is not None}

    def _used(self) -> dict[str, dict[Any, int]]:
        ledger = self.world.engine.state.ledger
        found = {queue: ledger.used(queue) for queue in ledger.queues()}
        return {queue: usage for queue, usage in found.items() if usage}

    def _settle(self) -> None:
        world = self.world
        for bind in list(world.pending_binds):
            self._answer(bind, "Bound")
        for (namespace, name), pod in list(world.pods.items()):
            if pod.metadata.deletion_timestamp is not None or (
                pod.spec.node_name and pod.spec.node_name not in world.nodes
            ):
                world.delete(name, namespace=namespace)
        self.show_everything()
        world.until(60.0)

    def _answer(self, bind: Bind, outcome: str) -> None:
        world = self.world
        self._answer_as(bind, outcome)
        world.lost.discard(bind.uid)

    def _answer_as(self, bind: Bind, outcome: str) -> None:
        world = self.world
        match outcome:
            case "Bound" | "Unseen":
                done = self._land(bind, seen=outcome == "Bound")
                world.pending_binds.remove(bind)
                self._tell(bind, "Bound" if done else "Gone")
            case "Unknown" | "Lost":  # the answer is lost; the bind itself only sometimes
                if outcome == "Unknown":
                    self._land(bind, seen=False)
                world.pending_binds.remove(bind)
                if bind.uid not in world.lost:
                    world.unknown[bind.uid] = bind.node
                self._tell(bind, "Unknown")
            case _:
                pod = world.pods.get((bind.namespace, bind.name))
                world.answer(bind, "BoundElsewhere" if pod is not None and pod.spec.node_name else outcome)

    def _tell(self, bind: Bind, outcome: str) -> None:
        answer = BindAnswer(outcome)
        self.world.tell(BindFinished(bind.namespace, bind.name, bind.uid, bind.node, answer, "as the test says"))

    def _land(self, bind: Bind, *, seen: bool) -> bool:
        """Have the server take a bind as a real one would; returns whether the pod is on that node then."""
        pod = self.world.pods.get((bind.namespace, bind.name))
        if pod is None or pod.metadata.uid != bind.uid or pod.terminated:
            return False
        if pod.metadata.deletion_timestamp is not None:
            return False
        if pod.spec.node_name:
            if seen:
                self.world.put(pod)
            return pod.spec.node_name == bind.node
        self.world.land(bind, seen=seen)
        return True

    def _pick(self, data: st.DataObject, *, bound: bool = False) -> str | None:
        names = [name for (_, name), pod in self.world.pods.items() if not bound or pod.spec.node_name]
        return data.draw(st.sampled_from(names)) if names else None

    def _name(self, prefix: str) -> str:
        self.serial += 1
        return f"{prefix}-{self.serial}"

    def _queue(self, name: str) -> dict[str, Any]:
        return {"queueName": QUEUE_OF[name]} if QUEUE_OF[name] else NEAR.get(name, {})

    def _forget_partial(self, *names: str) -> None:
        """What a gang needs was changed from outside: its time to complete begins anew."""
        for key in [key for key in self.world.partial if key[2] in names]:
            del self.world.partial[key]

    def _check_replay(self) -> None:
        assert self.world.replay().differences == []


Histories.TestCase.settings = examples(60, stateful_step_count=60, suppress_health_check=list(HealthCheck))
TestHistories = pytest.mark.timeout(900 * TIMES)(Histories.TestCase)
