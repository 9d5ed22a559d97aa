"""A cluster that was listed once, as the engine of each shard would be told of it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tutti.api.configuration import TuttiConfiguration
from tutti.engine.records.observations import AnyObservation, NamespaceSeen, NodeSeen, ObjectSeen
from tutti.shards.ownership import Ownership
from tutti.shards.view import ShardView

_FIRST = (NodeSeen, NamespaceSeen)


def ownership_of(configuration: TuttiConfiguration, seen: Iterable[AnyObservation]) -> Ownership:
    """Return who has what by what was listed."""
    found = Ownership(configuration.shards)
    view = ShardView("", found, configuration.scheduler_names, lambda _: None)
    for one in seen:
        if isinstance(one, _FIRST) or (isinstance(one, ObjectSeen) and one.kind in _NAMING):
            view.observe(one)
    return found


_NAMING = ("LocalQueue", "ClusterQueue", "Cohort")


def told_to(shard: str, configuration: TuttiConfiguration, seen: Sequence[AnyObservation]) -> list[AnyObservation]:
    """Return what of it a shard's engine is told."""
    told: list[AnyObservation] = []
    view = ShardView(shard, ownership_of(configuration, seen), configuration.scheduler_names, told.append)
    for one in seen:
        view.observe(one)
    return told
