"""Every gang that an engine knows: its members, where it is in its life, and what it waits for."""

from __future__ import annotations

import msgspec

from tutti.cli.views.asking import FITS, Asked, waits_for
from tutti.cli.views.degraded import Degraded, degraded_of, waiting_for
from tutti.engine.records.workloads import Phase, Workload
from tutti.engine.state import State


class Gang(msgspec.Struct, frozen=True, rename="camel"):
    """A gang.

    Attributes:
        kind: Workload or PodGroup; the latter also for a gang that another project's conventions make.
        required: How many members must run together.
        members: How many there are, those that have ended included.
        bound: How many have a node.
        nodes: How many nodes these are on.
        since: Since when it waits, or was created, Unix seconds.
        gate: Where it waits, or "".
        why: What it waits for, or "".
        degraded: How far it is from what it needs, where it runs with less.
    """

    kind: str
    namespace: str
    name: str
    queue: str
    cluster_queue: str
    phase: str
    required: int
    members: int
    bound: int
    ready: int
    nodes: int
    since: float
    gate: str = ""
    reason: str = ""
    why: str = ""
    degraded: Degraded | None = None


def gangs(
    asked: Asked, *, namespace: str | None = None, waiting: bool = False, degraded: bool = False
) -> tuple[Gang, ...]:
    """Return all gangs by namespace and name, or those of one namespace, that wait for nodes, or are degraded."""
    engine = asked.stock()
    state = engine.state
    before = {
        key: (workload.phase, _nodes(workload), degraded_of(state, workload))
        for key, workload in state.workloads.items()
    }
    engine.decide(asked.at)
    found = [
        _gang(state, state.workloads[key], phase, nodes, lacks)
        for key, (phase, nodes, lacks) in before.items()
        if key in state.workloads and key[0] != "Pod" and namespace in (None, key[1])
    ]
    found.sort(key=lambda one: (one.namespace, one.name, one.kind))
    return tuple(one for one in found if (one.why or not waiting) and (one.degraded or not degraded))


def _gang(state: State, workload: Workload, phase: Phase, nodes: int, lacks: Degraded | None) -> Gang:
    kind, namespace, name = workload.key
    tally, why = workload.counts(), waits_for(workload)
    fits = why is None and phase in (Phase.WAITING, Phase.LEAVING)
    return Gang(
        kind,
        namespace,
        name,
        workload.queue,
        workload.cluster_queue or state.leads_to(namespace, workload.queue),
        phase.value,
        workload.required,
        tally.live + tally.succeeded + tally.failed,
        tally.bound,
        tally.ready,
        nodes,
        workload.queued_at,
        "" if why is None else why.gate.value,
        "" if why is None else why.reason,
        FITS if fits else "" if why is None else why.message,
        None if lacks is None else waiting_for(lacks, why),
    )


def _nodes(workload: Workload) -> int:
    return len({member.pod.node for member in workload.members() if member.pod.node})
