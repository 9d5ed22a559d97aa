"""LocalQueues, where that is asked for: who waits and runs in them, and what they use. Names are Kueue's (0.20)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client.core import Metric

from tutti.api.kinds import LocalQueue
from tutti.controller.gauges import workloads
from tutti.controller.gauges.families import Row, gauges, in_units
from tutti.engine.records.counters import QueueCount
from tutti.engine.state import State

Door = tuple[str, str]
"""The name and the namespace of a LocalQueue."""

DOOR = ("name", "namespace")
QUOTA = (*DOOR, "flavor", "resource")


def of_doors(state: State | None) -> Iterator[Metric]:
    """Yield what each LocalQueue holds; families without values where there is no state."""
    found = [] if state is None else [one.metadata for one in state.catalog.all(LocalQueue)]
    doors = [(one.name, one.namespace) for one in found]
    called: workloads.Called = {door: _name(door) for door in doors}
    yield from workloads.of_workloads(state, "local_queue_", DOOR, called, queue_of=lambda place: place.door)
    counts = {} if state is None else {door: state.counts.of(_name(door)) for door in doors}
    yield gauges(
        "kueue_local_queue_resource_reservation",
        "Quota that is held, by workloads that are being taken out among others.",
        QUOTA,
        () if state is None else _held(state, counts, yielding=True),
    )
    yield gauges(
        "kueue_local_queue_resource_usage",
        "Quota that is held by workloads that are admitted.",
        QUOTA,
        () if state is None else _held(state, counts, yielding=False),
    )


def of_door_statuses(statuses: Mapping[Door, bool]) -> Iterator[Metric]:
    """Yield whether each LocalQueue is active."""
    rows = (((*door, one), float(one == str(active))) for door, active in statuses.items() for one in ("True", "False"))
    yield gauges(
        "kueue_local_queue_status",
        "1 for the status of its condition Active, which says why where that is False.",
        (*DOOR, "active"),
        rows,
    )


def _name(door: Door) -> str:
    """Return how the engine calls a LocalQueue."""
    name, namespace = door
    return f"{namespace}/{name}"


def _held(state: State, doors: Mapping[Door, QueueCount], *, yielding: bool) -> Iterator[Row]:
    """Yield what is held through each door, of all that its ClusterQueue has quota of."""
    for (name, namespace), count in doors.items():
        node = state.holdings.tree.queues.get(state.leads_to(namespace, name))
        for what in () if node is None else node.quotas:
            amount = count.reserved.get(what, 0) - (0 if yielding else count.yielding.get(what, 0))
            yield (name, namespace, *what), in_units(what[1], amount)
