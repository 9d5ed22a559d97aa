"""A world in which what must always hold is checked of every decision before it is carried out."""

from __future__ import annotations

from typing import Any

from tests.engine.histories.draws import NEAR, RACK_OF, RUNTIME
from tests.engine.invariants import Invariants
from tests.engine.world import World, replaced
from tutti.api.core import ObjectMeta, Pod, PodStatus, PriorityClass
from tutti.engine.admission import usage_history
from tutti.engine.records.decisions import AnyDecision, Bind, Evict
from tutti.engine.records.observations import PriorityClassSeen
from tutti.engine.records.workloads import WorkloadKey

MOVABLE = {"scheduling.tutti.dev/movable": "true"}
WINDOW = 20


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
