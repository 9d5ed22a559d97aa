"""Who waits and runs in queues of one kind, ClusterQueues or LocalQueues. Names are Kueue's (0.20, pkg/metrics)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

from prometheus_client.core import Metric

from tutti.controller.gauges.families import Row, gauges
from tutti.engine.records.counters import WaitingPlace
from tutti.engine.records.workloads import Phase
from tutti.engine.state import State

Called = Mapping[tuple[str, ...], str]
"""How the engine calls each queue, by the values of the labels that name it."""

_STATUSES = ("active", "inadmissible")


def of_workloads(
    state: State | None, prefix: str, labels: Sequence[str], called: Called, *, queue_of: Callable[[WaitingPlace], str]
) -> Iterator[Metric]:
    """Yield how many workloads wait and run; families without values where there is no state.

    Args:
        state: The engine's memory; None on a standby.
        prefix: Stands before what is counted in the names.
        labels: Those that name a queue.
        called: The queues.
        queue_of: Returns which of them is waited in at a place, as the engine calls it.
    """
    counts = {} if state is None else {values: state.counts.of(name) for values, name in called.items()}
    yield gauges(
        f"kueue_{prefix}pending_workloads",
        "Workloads that wait for admission: inadmissible once it is known why they must, active before.",
        (*labels, "status"),
        () if state is None else _pending(state, called, queue_of),
    )
    yield gauges(
        f"kueue_{prefix}reserving_active_workloads",
        "Workloads that hold quota, those that are being taken out among them.",
        labels,
        ((values, count.admitted + count.leaving) for values, count in counts.items()),
    )
    yield gauges(
        f"kueue_{prefix}admitted_active_workloads",
        "Workloads that are admitted and have not ended.",
        labels,
        ((values, count.admitted) for values, count in counts.items()),
    )


def _pending(state: State, called: Called, queue_of: Callable[[WaitingPlace], str]) -> Iterator[Row]:
    pending = {(name, status): 0 for name in called.values() for status in _STATUSES}
    for place, crowd in state.waiting.places().items():
        where = queue_of(place), "inadmissible" if place.reason else "active"
        if place.phase is Phase.WAITING and where in pending:
            pending[where] += crowd.workloads
    for values, name in called.items():
        for status in _STATUSES:
            yield (*values, status), pending[name, status]
