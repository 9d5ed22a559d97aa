"""Who waits for what, what has been tried, and which gangs run with fewer members than they need.

Names are kube-scheduler's (1.36) where it has them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from tutti.controller.gauges import counters, gauges
from tutti.engine.records.counters import WaitingPlace
from tutti.engine.records.explanation import Gate
from tutti.engine.records.reservations import ReservationKind
from tutti.engine.records.workloads import Workload
from tutti.engine.status import StatusState

_BACKING_OFF = "BackingOff"


def waiting_families(state: StatusState | None) -> Iterator[Metric]:
    """Yield how many wait, by queue, gate and reason; families without values where there is no state."""
    workloads: Counter[tuple[str, str, str]] = Counter()
    pods: Counter[tuple[str]] = Counter()
    if state is not None:
        pods.update({(queue,): 0 for queue in ("active", "backoff", "unschedulable", "gated")})
        for place, crowd in state.waiting_counts.places().items():
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


def attempt_families(state: StatusState | None) -> Iterator[Metric]:
    """Yield how often workloads were tried, by what came of it."""
    singles: dict[tuple[str, str], int] = {}
    gangs: dict[tuple[str, str], int] = {}
    for (single, admitted, profile), times in () if state is None else state.tries.items():
        (singles if single else gangs)["scheduled" if admitted else "unschedulable", profile] = times
    labels = ("result", "profile")
    text = "Tries at {}; equal ones that wait together are tried once."
    yield counters("scheduler_schedule_attempts", text.format("single pods"), labels, singles.items())
    yield counters("scheduler_podgroup_schedule_attempts", text.format("gangs"), labels, gangs.items())


def partial_gangs(state: StatusState | None) -> Iterator[Metric]:
    """Yield how many gangs are bound in part though their bind window is over."""
    found = [] if state is None else [one for one in state.waiting_counts.binding.values() if _is_partial(state, one)]
    yield gauges(
        "tutti_partial_gangs",
        "Gangs of which some required members are bound and others not, after their bind window; must stay 0.",
        rows=[] if state is None else [((), len(found))],
    )


def _is_partial(state: StatusState, workload: Workload) -> bool:
    """Whether a gang should have been completed or taken out by now; those that are to stay in part are not meant."""
    over = workload.deadline is not None and workload.deadline < state.now
    meant = workload.keeps_trying or workload.style is not None
    return over and not meant and workload.counts().bound > 0 and not workload.complete


def cache_sizes(state: StatusState | None) -> Iterator[Metric]:
    """Yield how much of the cluster is known."""
    rows = []
    if state is not None:
        taken = state.cluster.pod_columns
        assumed = int(((taken.row >= 0) & ~taken.bound).sum())
        sizes = {"nodes": state.cluster.nodes.count, "pods": len(state.cluster.pods), "assumed_pods": assumed}
        rows = [((kind,), size) for kind, size in sizes.items()]
    yield gauges("scheduler_cache_size", "Nodes, pods, and pods with a reserved node that are known.", ("type",), rows)


def reservation_families(state: StatusState | None) -> Iterator[Metric]:
    """Yield how many reservations keep something from others, and on how many nodes; empty where there is no state."""
    kept = [] if state is None else list(state.reservations())
    count = Counter(one.kind for one in kept)
    nodes = {kind: {name for one in kept if one.kind is kind for name in one.nodes} for kind in ReservationKind}
    kinds = () if state is None else ReservationKind
    yield gauges(
        "tutti_reservations",
        "Reservations by for whom: workloads whose victims are leaving (nomination), heads of queues (backfill), "
        "quota that is held back from borrowers (holdback), successors of lost members (successors), members that are "
        "yet to be made (members).",
        ("kind",),
        [((kind.value,), count[kind]) for kind in kinds],
    )
    yield gauges(
        "tutti_reservation_nodes",
        "Nodes on which these keep room from others.",
        ("kind",),
        [((kind.value,), len(nodes[kind])) for kind in kinds],
    )


_QUEUE = ("cluster_queue",)


def degraded_since(state: StatusState) -> Iterator[tuple[str, float]]:
    """Yield the ClusterQueue of each gang that is degraded, "" where it has none, and since when it is, Unix seconds.

    Something is kept for the successors of each of them, so that those without are not walked through.
    """
    for key in state.kept_for_successors:
        workload = state.workloads.get(key)
        if workload is not None and workload.degraded_since is not None:
            yield workload.cluster_queue, workload.degraded_since


def degraded_gangs(state: StatusState | None) -> Iterator[Metric]:
    """Yield how many gangs are degraded, and since when; families without values where there is no state."""
    found = [] if state is None else list(degraded_since(state))
    counts = Counter(queue for queue, _ in found)
    known = [] if state is None else ["", *state.catalog.queues]
    yield gauges(
        "tutti_gangs_degraded",
        "Gangs that run with fewer members than they need; the label is empty for those without a queue.",
        _QUEUE,
        (((queue,), counts[queue]) for queue in dict.fromkeys([*known, *counts])),
    )
    first: dict[str, float] = {}
    for queue, since in found:
        first[queue] = min(since, first.get(queue, since))
    yield gauges(
        "tutti_gang_degraded_since_timestamp_seconds",
        "Since when the gang of a queue is degraded that has been for longest; no series where none is.",
        _QUEUE,
        (((queue,), since) for queue, since in first.items()),
    )


class DegradedSeconds(Collector):
    """Sums up how long gangs are degraded, gang by gang, while it happens: also where one goes on for a month.

    What has passed is added whenever it is asked for or the number of gangs changes, so that it never shrinks, whatever
    becomes of a gang. It begins at 0 with the process.

    Args:
        registry: Serves it.
        clock: Seconds; what it is set back by counts as no time.
    """

    def __init__(self, registry: CollectorRegistry, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._at = 0.0
        self._gangs: Counter[str] = Counter()
        self._seconds: dict[str, float] = {}
        registry.register(self)

    def follow(self, queues: Iterable[str]) -> None:
        """Take over which queues the gangs are of that are degraded from now on, one entry for each gang."""
        self._add_up()
        self._gangs = Counter(queues)

    def keep(self, queues: Collection[str]) -> None:
        """Drop the series of all queues but these, and but that of gangs without a queue."""
        self._seconds = {queue: seconds for queue, seconds in self._seconds.items() if not queue or queue in queues}

    def describe(self) -> Iterable[Metric]:
        """Return the family without values."""
        return [self._family()]

    def collect(self) -> Iterable[Metric]:
        """Return the family with what has passed until now."""
        self._add_up()
        return [self._family()]

    def _add_up(self) -> None:
        before, self._at = self._at, self._clock()
        passed = max(0.0, self._at - before)
        for queue, gangs in self._gangs.items():
            self._seconds[queue] = self._seconds.get(queue, 0.0) + gangs * passed

    def _family(self) -> Metric:
        return counters(
            "tutti_gang_degraded_seconds",
            "Time that gangs have run with fewer members than they need, of all gangs together.",
            _QUEUE,
            (((queue,), seconds) for queue, seconds in self._seconds.items()),
        )
