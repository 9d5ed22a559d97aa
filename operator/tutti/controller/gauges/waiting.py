"""Who waits for what, and what has been tried: kube-scheduler's names (1.36) where it has them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from prometheus_client.core import Metric

from tutti.controller.gauges.families import counters, gauges
from tutti.engine.records.counters import WaitingPlace
from tutti.engine.records.explanation import Gate
from tutti.engine.records.workloads import Workload
from tutti.engine.state import State

_BACKING_OFF = "BackingOff"


def of_waiting(state: State | None) -> Iterator[Metric]:
    """Yield how many wait, by queue, gate and reason; families without values where there is no state."""
    workloads: Counter[tuple[str, str, str]] = Counter()
    pods: Counter[tuple[str]] = Counter()
    if state is not None:
        pods.update({(queue,): 0 for queue in ("active", "backoff", "unschedulable", "gated")})
        for place, crowd in state.waiting.places().items():
            workloads[place.queue, place.gate, place.reason] += crowd.workloads
            pods["gated",] += crowd.gated
            pods[_queue_of(place),] += crowd.pods
    yield gauges(
        "tutti_waiting_workloads",
        "Workloads that wait, by the gate they stand at and the reason; both are empty for those not tried yet.",
        ("cluster_queue", "gate", "reason"),
        ((labels, count) for labels, count in workloads.items() if count),
    )
    yield gauges(
        "scheduler_pending_pods",
        "Pods without a node: active (not tried yet), backoff, unschedulable (tried) and gated (nothing to try yet).",
        ("queue",),
        pods.items(),
    )


def _queue_of(place: WaitingPlace) -> str:
    """Return where kube-scheduler would say that a pod waits which stands here."""
    if not place.gate:
        return "active"
    if place.reason == _BACKING_OFF:
        return "backoff"
    return "gated" if place.gate == Gate.GATHER else "unschedulable"


def of_tries(state: State | None) -> Iterator[Metric]:
    """Yield how often workloads were tried, by what came of it."""
    singles: dict[tuple[str, str], int] = {}
    gangs: dict[tuple[str, str], int] = {}
    for (single, admitted, profile), times in () if state is None else state.tried.items():
        (singles if single else gangs)["scheduled" if admitted else "unschedulable", profile] = times
    labels = ("result", "profile")
    text = "Tries at {}; equal ones that wait together are tried once."
    yield counters("scheduler_schedule_attempts", text.format("single pods"), labels, singles.items())
    yield counters("scheduler_podgroup_schedule_attempts", text.format("gangs"), labels, gangs.items())


def of_partial_gangs(state: State | None) -> Iterator[Metric]:
    """Yield how many gangs are bound in part though their bind window is over."""
    found = [] if state is None else [one for one in state.waiting.binding.values() if _is_partial(state, one)]
    yield gauges(
        "tutti_partial_gangs",
        "Gangs of which some required members are bound and others not, after their bind window; must stay 0.",
        rows=[] if state is None else [((), len(found))],
    )


def _is_partial(state: State, workload: Workload) -> bool:
    """Whether a gang should have been completed or taken out by now; those that are to stay in part are not meant."""
    over = workload.deadline is not None and workload.deadline < state.now
    meant = workload.keeps_trying or workload.style is not None
    return over and not meant and workload.tally().bound > 0 and not workload.complete


def of_cache(state: State | None) -> Iterator[Metric]:
    """Yield how much of the cluster is known."""
    rows = []
    if state is not None:
        taken = state.cluster.tenants
        assumed = int(((taken.row >= 0) & ~taken.bound).sum())
        sizes = {"nodes": state.cluster.nodes.count, "pods": len(state.cluster.pods), "assumed_pods": assumed}
        rows = [((kind,), size) for kind, size in sizes.items()]
    yield gauges("scheduler_cache_size", "Nodes, pods, and pods with a reserved node that are known.", ("type",), rows)
