"""The steps of random histories by which nodes and pods come, change and go."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

from tests.engine.histories.draws import ANNOTATED, GANGS, KINDS, NODES, OFTEN, QUEUE_OF, QUEUES, RARELY, WORKLOADS
from tests.engine.world import GPU, replaced
from tutti.api.core import OwnerReference, ResourceRequirements

PFNET = "gang-scheduling.preferred.jp/gang"


class PodSteps:
    """Steps of a history that has a `world`; rules that do not apply at the moment do nothing."""

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

    @rule(data=st.data())
    def become_ready(self, data: st.DataObject) -> None:
        name = self._pick(data, bound=True)
        if name is not None:
            kin = self.world.where(name.split("-")[0])
            self.world.become_ready(*(one for one in kin if not self.world.pods["default", one].terminated))

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
