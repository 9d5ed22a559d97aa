"""What must hold at every moment of a simulation, checked against what exists, not against what the engine believes.

After every turn what has changed is looked at; every so many turns, and at the end, everything is counted anew.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from typing import TYPE_CHECKING

from bench.simulation.recounting import recounted
from tutti.api.core import Pod
from tutti.engine.records.workloads import Phase

if TYPE_CHECKING:
    from bench.simulation.cluster import Cluster, Job
    from bench.simulation.mixes import Mix

CPU = "cpu"
CPU_OF_ALL = ("default", CPU)
MOST_TOLD = 20
Place = tuple[int, float, str]


class Audit:
    """The books: who uses what of nodes and quota.

    Attributes:
        violations: What was found wrong, the first ones in words.
        found: How many things were.
        checks: How often everything was counted anew.
        used: Milli-CPU in use, by ClusterQueue.
    """

    def __init__(self, mix: Mix, *, every: int, strict: bool) -> None:
        self.violations: list[str] = []
        self.found = 0
        self.checks = 0
        self.used: dict[str, int] = dict.fromkeys(mix.queue_names, 0)
        self._mix, self._every, self._strict = mix, every, strict
        self._cohorts = dict.fromkeys(mix.cohort_names, 0)
        self._nodes: dict[str, int] = {}
        self._waiting: dict[str, list[Place]] = {name: [] for name in mix.queue_names}
        self._touched: dict[str, Job] = {}
        self._at = 0.0

    def violated(self, what: str) -> None:
        """Note something that must not be."""
        self.found += 1
        if len(self.violations) < MOST_TOLD:
            self.violations.append(what)

    def waits(self, job: Job) -> None:
        """A workload stands in its queue."""
        insort(self._waiting[job.queue], _place(job))

    def binds(self, cluster: Cluster, job: Job, pod: Pod, node: str) -> None:
        """A pod is about to be on a node."""
        self._touched[job.name] = job
        name = pod.metadata.name
        if pod.spec.node_name:
            self.violated(f"{name} is bound twice, to {pod.spec.node_name} and {node}")
        if pod.spec.scheduling_gates:
            self.violated(f"{name} is bound while gated")
        if node not in cluster.engine.state.cluster.nodes.rows:
            self.violated(f"{name} is bound to {node}, which does not exist")
        waiting = self._waiting[job.queue]
        place = bisect_left(waiting, _place(job))
        if place < len(waiting) and waiting[place] == _place(job):
            del waiting[place]
            if self._strict and place:
                self.violated(f"{job.name} overtakes {waiting[0][2]} in {job.queue}, which is strict")
        self._book(job, node, _cpu(pod))
        if self._nodes[node] > self._mix.node_cpus * 1000:
            self.violated(f"node {node} holds {self._nodes[node]} of {self._mix.node_cpus * 1000} milli-CPU")
        if self.used[job.queue] > (self._mix.nominal + self._mix.borrow) * 1000:
            self.violated(f"queue {job.queue} uses {self.used[job.queue]} milli-CPU, more than it may borrow")
        cohort = _cohort(job)
        if self._cohorts[cohort] > self._mix.nominal * self._mix.queues * 1000:
            self.violated(f"cohort {cohort} uses {self._cohorts[cohort]} milli-CPU, more than it has")

    def evicts(self, job: Job, why: str) -> None:
        """A workload is told to leave; it stands in its queue again."""
        self._touched[job.name] = job
        if job.evictions.count(why) > 1:
            self.violated(f"{job.name} has to leave twice for the same: {why}")
        waiting, place = self._waiting[job.queue], _place(job)
        at = bisect_left(waiting, place)
        if at == len(waiting) or waiting[at] != place:
            waiting.insert(at, place)

    def ends(self, job: Job) -> None:
        """All pods of a workload have ended."""
        for pod in job.pods.values():
            self.leaves(job, pod)

    def leaves(self, job: Job, pod: Pod) -> None:
        """A pod is on its node no more."""
        if pod.spec.node_name:
            self._book(job, pod.spec.node_name, -_cpu(pod))

    def after_turn(self, cluster: Cluster) -> None:
        """Check the workloads that something happened to and nothing is on its way for."""
        for job in [job for job in self._touched.values() if not job.sent]:
            del self._touched[job.name]
            if not job.over and 0 < job.bound < job.size:
                self.violated(f"{job.name} is bound in part: {job.bound} of {job.size}")
        if cluster.turns % self._every == 0:
            self.recount(cluster)

    def recount(self, cluster: Cluster) -> None:
        """Count everything anew: room, quota, and that everybody who waits knows why."""
        self.checks += 1
        state = cluster.engine.state
        if (state.cluster.nodes.requested != recounted(state.cluster)).any():
            self.violated("the engine's room differs from a recount")
        for name, node in state.ledger.tree.queues.items():
            usage = {what: amount for what, amount in node.usage.items() if amount}
            if state.ledger.used(name) != usage:
                self.violated(f"usage of {name} differs from a recount: {usage}, held {state.ledger.used(name)}")
        for workload in state.workloads.values():
            if workload.phase is Phase.WAITING and workload.explanation is None:
                self.violated(f"{workload.name} waits and does not say why")
        for name, used in self._cohorts.items():
            told = sum(
                n.usage.get(CPU_OF_ALL, 0) for q, n in state.ledger.tree.queues.items() if q.startswith(f"{name}-")
            )
            if told < used:
                self.violated(f"cohort {name} is used by {used} milli-CPU, of which {told} are counted")

    def _book(self, job: Job, node: str, cpu: int) -> None:
        self._nodes[node] = self._nodes.get(node, 0) + cpu
        self.used[job.queue] += cpu
        self._cohorts[_cohort(job)] += cpu


def _place(job: Job) -> Place:
    return -job.priority, job.created, job.name


def _cohort(job: Job) -> str:
    return job.queue.partition("-")[0]


def _cpu(pod: Pod) -> int:
    asked = pod.spec.containers[0].resources.requests[CPU]
    return int(str(asked).removesuffix("m"))
