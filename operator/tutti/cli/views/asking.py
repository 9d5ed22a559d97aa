"""Questions put to an engine of one's own: it is told what was listed, and decides as the operator would.

So an answer cannot differ from what Tutti does, and a "what if" is the same question about a cluster that is told
otherwise. Nothing that is decided here is carried out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tutti.api.configuration import TuttiConfiguration
from tutti.cli.views.listing import Listed
from tutti.engine.engine import Engine
from tutti.engine.records.decisions import AnyDecision
from tutti.engine.records.explanation import Explanation
from tutti.engine.records.observations import AnyObservation, Synced
from tutti.engine.records.plugins import Plugins
from tutti.engine.records.workloads import Phase, Workload, WorkloadKey
from tutti.engine.state import State

FITS = "it fits now, and is not placed yet"
"""Of a workload that waits for nothing and has no nodes."""
_PLACED = (Phase.BINDING, Phase.SCHEDULED, Phase.FINISHED)


@dataclass(slots=True)
class Asked:
    """An engine, and what it was told.

    Attributes:
        listed: What it was told.
        at: The time that it is, Unix seconds.
    """

    listed: Listed
    at: float
    configuration: TuttiConfiguration = field(default_factory=TuttiConfiguration)
    plugins: Plugins = field(default_factory=dict)

    def stock(self, seen: Iterable[AnyObservation] | None = None) -> Engine:
        """Return an engine that knows what there is and has tried nobody yet; `seen` in place of what was listed."""
        engine = Engine(self.configuration, self.plugins, discreet=False)  # it knows what its reader may list
        for one in self.listed.seen if seen is None else seen:
            engine.observe(one)
        engine.observe(Synced())
        engine.decide(self.at, most=0)
        return engine

    def what_if(self, seen: Iterable[AnyObservation], key: WorkloadKey) -> Explanation | None:
        """Return why a workload would still wait if this were what there is; None where it would be placed."""
        engine = self.stock(seen)
        engine.decide(self.at)
        workload = engine.state.workloads.get(key)
        return None if workload is None else waits_for(workload)

    def decided(self, seen: Iterable[AnyObservation]) -> tuple[State, Sequence[AnyDecision]]:
        """Return what would be known and decided if this were what there is."""
        engine = self.stock(seen)
        return engine.state, engine.decide(self.at)


def waits_for(workload: Workload) -> Explanation | None:
    """Return why a workload has no nodes; None where it has them, or has got them just now."""
    if workload.phase in _PLACED and not workload.counts().waiting:
        return None
    return workload.explanation


def missing(workload: Workload) -> int:
    """Return how many members a workload has too few of, of groups in which no others are promised."""
    lacks = (
        group.min_count - tally.live - tally.succeeded
        for group, tally in ((group, group.counts()) for group in workload.groups.values())
        if group.promised is None
    )
    return sum(max(0, lack) for lack in lacks)
