"""What must always hold, held against random histories of a whole cluster.

A history is a list of steps: objects come, change and go, pods live and die, nodes vanish, binds are answered late,
wrongly or never, the engine is restarted, time passes. After every decision the invariants are checked; at the end
the faults stop, and whatever can run must run. TUTTI_FUZZ multiplies how many histories are tried, and draws new ones each time.
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
from tests.engine.invariants import Invariants
from tests.engine.lifecycle.test_permit import TEMPLATE
from tests.engine.world import GPU, World, replaced
from tutti.api.conditions import timestamp
from tutti.api.core import ObjectMeta, OwnerReference, Pod, PodStatus, PriorityClass, ResourceRequirements
from tutti.cluster.pods import PodPhase
from tutti.engine.admission import usage_history
from tutti.engine.records.decisions import AnyDecision, Bind, Evict
from tutti.engine.records.observations import BindAnswer, BindFinished, PriorityClassSeen
from tutti.engine.records.workloads import WorkloadKey
from tutti.quota.queue_order import Factor

MOVABLE = {"scheduling.tutti.dev/movable": "true"}
WINDOW, PERMIT, VICTIMS = 20, 10, 30
# A gang keeps its queue: what has been admitted by one is not moved to another.
QUEUE_OF = {"g0": "", "g1": "q1", "g2": "q3", "w0": "q2", "w1": "", "a0": "", "a1": "q2", "a2": "q4"}
GANGS = st.sampled_from(["g0", "g1", "g2"])
WORKLOADS = st.sampled_from(["w0", "w1"])
ANNOTATED = {"a0": 2, "a1": 3, "a2": 2}
NODES = st.sampled_from([f"n{i}" for i in range(5)])
RACK_OF = {"n0": "r0", "n1": "r1", "n2": "r0", "n3": "r1", "n4": "r1"}
NEAR = {"g0": {"schedulingConstraints": {"topology": [{"key": "rack"}]}}}
QUEUES = st.sampled_from(["", "", "q1", "q2", "q3", "q4"])
KINDS = st.sampled_from(["a", "b"])
RARELY = st.sampled_from([False] * 5 + [True])
OFTEN = st.sampled_from([True] * 5 + [False])
STOPS = st.sampled_from(["None", "None", "Hold", "HoldAndDrain"])
ORDERINGS = st.sampled_from(["BorrowedShare", "DominantShare", "Proportion"])
FAIRNESS = st.one_of(st.just({}), ORDERINGS.map(lambda ordering: {"enable": True, "ordering": ordering}))
RUNTIME = 8
WITHIN = st.sampled_from(["Never", "LowerPriority", "LowerOrNewerEqualPriority"])
RECLAIM = st.sampled_from(["Never", "LowerPriority", "Any"])
BORROW = st.sampled_from([{}, {"borrowWithinCohort": {"policy": "LowerPriority", "maxPriorityThreshold": 1}}])
MINIMUM = st.sampled_from([{}, {}, {"minimumRuntimeSeconds": RUNTIME}])
POLICIES = st.builds(
    lambda within, reclaim, borrow, minimum: {
        "withinClusterQueue": within,
        "reclaimWithinCohort": reclaim,
        **(borrow if reclaim != "Never" else {}),
        **minimum,
    },
    WITHIN,
    RECLAIM,
    BORROW,
    MINIMUM,
)
QUOTAS = st.sampled_from([0, 1, 2, 3, 4, 5, "30%", "100%"])
WHOSE = st.sampled_from(["users", "groups"])
ORDERS = st.fixed_dictionaries(
    {
        "factors": st.lists(
            st.fixed_dictionaries(
                {
                    "factor": st.sampled_from([one.value for one in Factor]),
                    "weight": st.integers(1, 5),
                }
            ),
            min_size=1,
            max_size=3,
            unique_by=lambda one: one["factor"],
        ),
        "among": st.sampled_from(["Priority", "All"]),
        "maxWaitSeconds": st.integers(1, 60),
    }
)
BY_USE = {"admissionScope": {"admissionMode": "UsageBasedAdmissionFairSharing"}}
CLASSES = {"high": 2, "usual": 1}
TEMPLATES = [TEMPLATE, {"spec": {**TEMPLATE["spec"], "priorityClassName": "high"}}]
PROMISES = st.sampled_from([None, None, *TEMPLATES])
REQUEUE = {"backoffBaseSeconds": 1, "backoffMaxSeconds": 5, "limit": 2}
OUTCOMES = st.sampled_from(["Bound"] * 6 + ["Failed", "Gated", "Unknown", "Lost", "Unseen"])
PFNET = "gang-scheduling.preferred.jp/gang"


class Watched(Invariants, World):
    """A world in which every decision is checked before it is carried out."""

    def __init__(self, **configuration: Any) -> None:
        self.unknown: dict[str, str] = {}
        self.lost: set[str] = set()
        self.classes: dict[str, int] = {}
        self.begin_watching(window=WINDOW, local_queues=("default/q1", "default/q2", "default/q3", "default/q4"))
        super().__init__(**configuration)

    def decide(self, advance: float = 0.0) -> list[AnyDecision]:
        self.remember()
        self.protected = self.running_since(self.now + advance - RUNTIME)
        return super().decide(advance)

    def restart(self, *, backwards: bool = False) -> None:
        super().restart(backwards=backwards)
        for name, value in self.classes.items():
            self.put_class(name, value)

    def put_class(self, name: str, value: int) -> None:
        """A PriorityClass; `usual` is that of pods that name none."""
        self.classes[name] = value
        self.tell(PriorityClassSeen(PriorityClass(ObjectMeta(name=name), value, global_default=name == "usual")))

    def _carry_out_all(self, decisions: list[AnyDecision]) -> None:
        self.check()
        super()._carry_out_all(decisions)

    def _carry_out(self, decision: AnyDecision) -> None:
        if isinstance(decision, Bind):
            self.check_bind(decision)
        if isinstance(decision, Evict):
            known = self.engine.state.cluster.pods[decision.namespace, decision.name]
            assert known.uid != decision.uid or not known.deleting, f"{decision.name} is asked to leave twice"
        old = self.pods.get((decision.namespace, decision.name)) if isinstance(decision, Evict) else None
        super()._carry_out(decision)
        if isinstance(decision, Evict) and decision.within_budgets and old is not None and not self.refuse_evictions:
            self.make_again(old)

    def make_again(self, old: Pod) -> None:
        """Whoever made a pod that is moved makes another."""
        name = f"{old.metadata.name}-s"
        if (old.metadata.namespace, name) not in self.pods:
            said = {key: text for key, text in old.metadata.annotations.items() if key in MOVABLE}
            made = {"name": name, "uid": f"{old.metadata.uid}-s", "annotations": said, "deletion_timestamp": None}
            meta = replaced(old.metadata, **made, creation_timestamp=self._timestamp())
            self.put(replaced(old, metadata=meta, spec=replaced(old.spec, node_name=""), status=PodStatus()))

    def check_bind(self, bind: Bind) -> None:
        known = self.engine.state.cluster.pods[bind.namespace, bind.name]
        assert known.uid == bind.uid
        assert not known.node, f"{bind.name} is bound twice"
        assert not known.gated
        assert not known.deleting
        assert not known.terminated
        assert bind.uid not in {one.uid for one in self.pending_binds}, f"{bind.name} is on its way already"
        before = self.unknown.pop(bind.uid, bind.node)
        assert before == bind.node or before not in self.nodes, "it may have taken effect on another node"

    def check(self) -> None:
        """What must hold after every decision, by what the engine has been told."""
        self.check_state()
        self.check_racks()
        self.check_victims()
        self.check_flavors()
        self.check_places()

    def running_since(self, since: float) -> dict[WorkloadKey, float]:
        """When those of queues with a minimum runtime began, of those who have not run since then or before."""
        out = {}
        for key, workload in self.engine.state.workloads.items():
            queue = self.objects.get(("ClusterQueue", "", workload.cluster_queue), {"spec": {}})
            began = workload.running_since
            if "minimumRuntimeSeconds" in queue["spec"].get("preemption", {}) and began is not None and began > since:
                out[key] = began
        return out

    def check_places(self) -> None:
        """Everybody pending stands where what a plugin says, past use, priority and age put him."""
        state = self.engine.state
        lines: dict[str, list[Any]] = {}
        for workload in state.workloads.values():
            if workload.counted[2] == "pending":
                used = usage_history.usage_of_local_queue(state, usage_history.local_queue_of(state, workload))
                lines.setdefault(workload.counted[1], []).append(((workload.rank, used, workload.order), workload))
        for queue, line in lines.items():
            right = [workload.key for _, workload in sorted(line, key=lambda one: one[0])]
            found = [one.key for one in state.queue_positions.heads(queue, len(right) + 1)]
            known = self.objects.get(("ClusterQueue", "", queue))
            if known is not None and "ordering" in known["spec"]:  # who goes first there, test_orders has
                right, found = sorted(right), sorted(found)
            assert found == right, queue

    def check_flavors(self) -> None:
        """Who gets quota now has the flavor of those like it in its group, where its queue has that flavor still."""
        state, new = self.engine.state, {member.pod.key for member in self.newly_reserved()}
        for group in (group for one in state.workloads.values() for group in one.groups.values()):
            known: dict[Any, set[str]] = {}
            for key, member in group.members.items():
                if member.charge is not None and key not in new:
                    known.setdefault(member.pod.pod_class, set()).update(member.charge.flavors.values())
            for key in new & group.members.keys():
                member = group.members[key]
                if member.charge is not None:
                    listed = {name for one in state.catalog.queues[member.charge.queue].groups for name in one.flavors}
                    kept = known.get(member.pod.pod_class, set()) & listed
                    assert not kept or kept.issuperset(member.charge.flavors.values()), f"{key} leaves {kept}"

    def check_racks(self) -> None:
        """Those who get their nodes now are in one rack with all others, as far as these are on nodes that exist."""
        workloads, rows = self.engine.state.workloads, self.engine.state.cluster.nodes.rows
        new = {member.pod.key for member in self.newly_reserved()}
        for name in NEAR:
            workload = workloads.get(("PodGroup", "default", name))
            placed = (
                [m.pod for m in workload.members() if m.pod.place in rows and not m.pod.deleting] if workload else []
            )
            racks = {RACK_OF[pod.place] for pod in placed}
            alone = new.isdisjoint(pod.key for pod in placed)
            assert alone or len(racks) == 1, f"{name}: {[(pod.name, pod.place) for pod in placed]}"

    def check_victims(self) -> None:
        """Whom a queue protects by its minimumRuntimeSeconds is nobody's victim before."""
        state = self.engine.state
        for key, workload in state.workloads.items():
            evicted = workload.evicted
            if evicted is not None and evicted.at == self.now and key in self.protected:
                assert not evicted.preempted, f"{key} runs since {self.protected[key]}, and is {evicted.preempted}"


class Histories(RuleBasedStateMachine):
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

    # Nodes.

    @rule(name=NODES, gpus=st.integers(0, 4), kind=KINDS, cordoned=RARELY)
    def put_node(self, name: str, gpus: int, kind: str, cordoned: bool) -> None:
        self._node(name, gpus=gpus, kind=kind, cordoned=cordoned)

    @rule(name=NODES)
    def lose_node(self, name: str) -> None:
        if name in self.world.nodes:
            self.world.remove_node(name)
            # What was sent there is placed elsewhere, though a node of that name may come back before the answer.
            self.world.lost |= {bind.uid for bind in self.world.pending_binds if bind.node == name}
            self.world.unknown = {uid: node for uid, node in self.world.unknown.items() if node != name}

    # Gangs and queues.

    @rule(name=GANGS, min_count=st.integers(1, 4), bad=RARELY)
    def put_pod_group(self, name: str, min_count: int, bad: bool) -> None:
        self.world.pod_group(name, 0 if bad else min_count, **self._queue(name))
        self._forget_partial(name)

    @rule(bad=RARELY)
    def put_pod_group_of_workload(self, bad: bool) -> None:
        self.world.pod_group("h", 0 if bad else 1, workloadRef={"name": "w1", "podGroup": "workers"})
        self._forget_partial("w1")

    @rule(
        name=GANGS,
        min_count=st.integers(2, 4),
        surplus=st.integers(0, 2),
        gpus=st.integers(1, 2),
        priority=st.integers(0, 2),
        leaves=st.sampled_from(["Pod", "PodGroup"]),
    )
    def submit_gang(self, name: str, min_count: int, surplus: int, gpus: int, priority: int, leaves: str) -> None:
        self.world.pod_group(name, min_count, disruptionMode=leaves, **self._queue(name))
        self._forget_partial(name)
        for _ in range(min_count + surplus):
            self.world.pod(self._name(name), group=name, gpus=gpus, priority=priority, annotations=self.says)
        self.world.decide()

    @rule(
        name=WORKLOADS,
        workers=st.integers(1, 3),
        surplus=st.sampled_from([0, 0, 1, 3]),
        promised=PROMISES,
        created=st.integers(0, 6),
    )
    def submit_workload(
        self, name: str, workers: int, surplus: int, promised: dict[str, Any] | None, created: int
    ) -> None:
        self.put_workload(name, workers, surplus=surplus, promised=promised, active=True, priority=0, times={})
        self.world.pod(self._name(f"{name}-leader"), workload=name, group="leader", gpus=0)
        for _ in range(min(created, workers + surplus) if promised else workers + surplus):
            self.world.pod(self._name(f"{name}-workers"), workload=name, group="workers")
        self.world.decide()

    @rule(
        name=WORKLOADS,
        workers=st.integers(1, 3),
        surplus=st.integers(0, 2),
        promised=PROMISES,
        active=OFTEN,
        priority=st.integers(-1, 1),
        times=st.sampled_from(
            [
                {},
                {},
                {},
                {"readyTimeoutSeconds": 15, "requeue": REQUEUE},
                {"maximumExecutionTimeSeconds": 25},
                {"successPolicy": {"podGroups": ["leader"]}},
                {"failurePolicy": {"onMemberFailure": "Deactivate"}},
                {"after": [{"workload": "w0"}]},
                {"after": [{"workload": "g0", "when": "Finished"}, {"workload": "w1", "when": "Finished"}]},
            ]
        ),
    )
    def put_workload(
        self,
        name: str,
        workers: int,
        surplus: int,
        promised: dict[str, Any] | None,
        active: bool,
        priority: int,
        times: dict[str, Any],
    ) -> None:
        group = {"name": "workers", "count": workers + surplus, "minCount": workers}
        if promised:
            group["template"] = promised
        spec = {"active": active, "priority": priority, **self._queue(name), **times}
        self.world.workload(name, {"name": "leader", "count": 1}, group, **spec)
        self._forget_partial(name)

    @rule(queue=st.sampled_from(["cq1", "cq2", "cq3", "q1", "q2", "q3", "q4"]), stop=STOPS)
    def stop_queue(self, queue: str, stop: str) -> None:
        kind = "ClusterQueue" if queue.startswith("c") else "LocalQueue"
        key = (kind, "" if kind == "ClusterQueue" else "default", queue)
        self.world.object(kind, queue, {**self.world.objects[key]["spec"], "stopPolicy": stop})

    @rule(refuse=RARELY)
    def refuse(self, refuse: bool) -> None:
        self.world.refuse_evictions = self.world.refuse_deactivation = refuse

    @rule(data=st.data())
    def become_ready(self, data: st.DataObject) -> None:
        name = self._pick(data, bound=True)
        if name is not None:
            kin = self.world.where(name.split("-")[0])
            self.world.become_ready(*(one for one in kin if not self.world.pods["default", one].terminated))

    @rule(kind=st.sampled_from(["PodGroup", "Workload"]), name=st.one_of(GANGS, WORKLOADS))
    def remove_object(self, kind: str, name: str) -> None:
        if (kind, "default", name) in self.world.objects:
            self.world.remove_object(kind, name)
            self._forget_partial(name)

    @rule(
        gpus=QUOTAS,
        flavors=st.sampled_from([("a",), ("a", "b"), ("b", "a"), ("missing",)]),
    )
    def change_quota(self, gpus: int | str, flavors: tuple[str, ...]) -> None:
        self.world.queue("cq1", gpus, cohort="c", borrow=2, flavors=flavors, local="", **self.preempts)

    @rule(
        name=st.sampled_from(["cq1", "cq2", "cq3", "root"]),
        gpus=QUOTAS,
        begin=st.integers(-5, 40),
        seconds=st.integers(1, 40),
        bad=RARELY,
    )
    def open_window(self, name: str, gpus: int | str, begin: int, seconds: int, bad: bool) -> None:
        """Give a queue other quota for a time; or, rarely, in a flavor that it does not have."""
        kind = "Cohort" if name == "root" else "ClusterQueue"
        spec = self.world.objects[kind, "", name]["spec"]
        flavor = "missing" if bad else spec["resourceGroups"][0]["flavors"][0]["name"]
        quotas = [{"name": flavor, "resources": [{"name": GPU, "nominalQuota": gpus}]}]
        times = {"begin": timestamp(self.world.now + begin), "end": timestamp(self.world.now + begin + seconds)}
        windows = [{"name": "w", **times, "flavors": quotas}]
        self.world.object(kind, name, {**spec, "temporaryQuotas": windows})

    @rule(name=st.sampled_from(["cq1", "cq2", "cq3"]), order=ORDERS)
    def change_order(self, name: str, order: dict[str, Any]) -> None:
        spec = self.world.objects["ClusterQueue", "", name]["spec"]
        self.world.object("ClusterQueue", name, {**spec, "ordering": order})

    @rule(name=st.sampled_from(["cq1", "cq2", "cq3"]), gpus=st.integers(0, 5), workloads=st.integers(0, 4), whose=WHOSE)
    def limit_users(self, name: str, gpus: int, workloads: int, whose: str) -> None:
        limit = {"resources": {GPU: gpus}, **({"workloads": workloads} if workloads else {})}
        spec = self.world.objects["ClusterQueue", "", name]["spec"]
        self.world.object("ClusterQueue", name, {**spec, "userLimits": [{whose: ["*"], **limit}] if gpus else []})

    @rule(name=st.sampled_from(["cq1", "cq2"]), preempts=POLICIES)
    def change_preemption(self, name: str, preempts: dict[str, Any]) -> None:
        self.world.object(
            "ClusterQueue", name, {**self.world.objects["ClusterQueue", "", name]["spec"], "preemption": preempts}
        )

    @rule(parent=st.sampled_from(["root", "root", "", "c"]), bad=RARELY)
    def change_cohort(self, parent: str, bad: bool) -> None:
        wrong = {"resourceGroups": [{"coveredResources": [GPU], "flavors": []}]} if bad else {}
        self.world.object("Cohort", "c", ({"parentName": parent} if parent else {}) | wrong)

    @rule(name=st.sampled_from(["cq1", "cq2"]), bad=OFTEN)
    def break_queue(self, name: str, bad: bool) -> None:
        spec = self.world.objects["ClusterQueue", "", name]["spec"]
        strategy = "Random" if bad and spec.get("queueingStrategy") != "Random" else "BestEffortFIFO"
        self.world.object("ClusterQueue", name, {**spec, "queueingStrategy": strategy})

    @rule(name=st.sampled_from(sorted(CLASSES)), value=st.integers(-1, 3))
    def change_priority_class(self, name: str, value: int) -> None:
        self.world.put_class(name, value)

    @rule(name=st.sampled_from(["q2", "q4"]), weight=st.sampled_from(["0", "0.5", "3"]))
    def change_weight(self, name: str, weight: str) -> None:
        spec = self.world.objects["LocalQueue", "default", name]["spec"]
        self.world.object("LocalQueue", name, {**spec, "fairSharing": {"weight": weight}})

    # Pods.

    @rule(name=st.one_of(GANGS, st.just("h")), gpus=st.integers(0, 2), gated=RARELY)
    def add_member(self, name: str, gpus: int, gated: bool) -> None:
        self.world.pod(self._name(name), group=name, gpus=gpus, gated=gated)

    @rule(name=WORKLOADS, group=st.sampled_from(["leader", "workers", "workers"]), gpus=st.integers(1, 2))
    def add_workload_member(self, name: str, group: str, gpus: int) -> None:
        self.world.pod(self._name(f"{name}-{group}"), workload=name, group=group, gpus=gpus)

    @rule(name=st.sampled_from(sorted(ANNOTATED)))
    def add_annotated_member(self, name: str) -> None:
        annotations = {f"{PFNET}-name": name, f"{PFNET}-size": str(ANNOTATED[name])}
        self.world.pod(self._name(name), annotations=annotations, queue=QUEUE_OF[name])

    @rule(gpus=st.integers(0, 3), queue=QUEUES, priority=st.integers(0, 1))
    def add_pod(self, gpus: int, queue: str, priority: int) -> None:
        name = self._name("p")
        made_by = OwnerReference("apps/v1", "ReplicaSet", name, name, controller=True)
        said = {"owner": made_by, "annotations": self.says} if self.says else {}
        self.world.pod(name, gpus=gpus, queue=queue, priority=priority, **said)

    @rule(name=st.sampled_from(["g1", "g2"]), alone=st.booleans(), priority=st.integers(0, 1))
    def scatter(self, name: str, alone: bool, priority: int) -> None:
        """Fill nodes but for one GPU each with what may be moved, and ask for two of them in one piece."""
        if not self.says:
            return
        cluster = self.world.engine.state.cluster
        column = cluster.nodes.resource_index.column(GPU)
        for node, row in list(cluster.nodes.rows.items()):
            free = int(cluster.nodes.allocatable[row, column] - cluster.nodes.requested[row, column])
            for _ in range(free - 1):
                mine = self._name("p")
                made_by = OwnerReference("apps/v1", "ReplicaSet", mine, mine, controller=True)
                self.world.pod(mine, node=node, owner=made_by, annotations=self.says)
        self.world.decide()
        if alone:
            self.world.pod(self._name("p"), gpus=2, queue=QUEUE_OF[name], priority=priority)
        else:
            self.world.pod_group(name, 1, **self._queue(name))
            self._forget_partial(name)
            self.world.pod(self._name(name), group=name, gpus=2, priority=priority)
        self.world.decide()

    @rule(node=NODES, gpus=st.integers(0, 2))
    def add_foreign_pod(self, node: str, gpus: int) -> None:
        self.world.pod(self._name("f"), gpus=gpus, node=node, scheduler="default-scheduler")

    @rule(node=NODES, gpus=st.integers(1, 2), priority=st.integers(0, 2))
    def nominate_foreign_pod(self, node: str, gpus: int, priority: int) -> None:
        pod = self.world.pod(self._name("f"), gpus=gpus, scheduler="default-scheduler", priority=priority)
        self.world.put(replaced(pod, status=replaced(pod.status, nominated_node_name=node)))

    @rule(data=st.data(), how=st.sampled_from(["delete", "begin_deleting", "ungate", "recreate"]))
    def touch_pod(self, data: st.DataObject, how: str) -> None:
        name = self._pick(data)
        if name is None:
            return
        if how == "recreate":
            old = self.world.pods["default", name]
            uid = f"again-{self._name('uid')}"
            meta = replaced(old.metadata, uid=uid, deletion_timestamp=None, annotations=dict(old.metadata.annotations))
            self.world.put(
                replaced(
                    old,
                    metadata=meta,
                    spec=replaced(old.spec, node_name=""),
                    status=replaced(old.status, phase="Pending"),
                )
            )
        else:
            getattr(self.world, how)(name)

    @rule(data=st.data(), gpus=st.integers(0, 3), cpu=st.sampled_from(["0", "500m", "2"]))
    def resize(self, data: st.DataObject, gpus: int, cpu: str) -> None:
        name = self._pick(data, bound=True)
        if name is not None:
            pod = self.world.pods["default", name]
            asked = {**pod.spec.containers[0].resources.requests, GPU: str(gpus), "cpu": cpu}
            containers = [replaced(pod.spec.containers[0], resources=ResourceRequirements(asked))]
            self.world.put(replaced(pod, spec=replaced(pod.spec, containers=containers)))

    @rule(data=st.data(), phase=st.sampled_from(["Succeeded", "Succeeded", "Failed"]), all_=st.booleans(), bound=OFTEN)
    def finish_pods(self, data: st.DataObject, phase: str, all_: bool, bound: bool) -> None:
        name = self._pick(data, bound=bound)
        if name is None:
            return
        kin = [other for other in self.world.where(name.split("-")[0]) if all_]
        self.world.finish(*dict.fromkeys([name, *kin]), phase=phase)

    @rule()
    def finish_evictions(self) -> None:
        for (_, name), pod in list(self.world.pods.items()):
            if pod.metadata.deletion_timestamp is not None:
                self.world.delete(name)

    # The engine.

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
TestHistories = pytest.mark.timeout(120 + 120 * TIMES)(Histories.TestCase)
