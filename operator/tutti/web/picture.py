"""One state of the cluster, as an engine of one's own sees it; pages are made of it.

It is made anew when something has changed and somebody looks: all that was listed is told to an engine, which decides
as the operator would, as for a view on the command line. Whoever may not see everybody is answered by another engine,
one that is as discreet as the operator is in what it writes for all to read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from tutti.cli.views.configuration import KnownConfiguration
from tutti.cli.views.gangs import GangView, gang_views, gangs_as_found
from tutti.cli.views.listing import Listed
from tutti.cli.views.nodes import Top, devices, top
from tutti.cli.views.queues import Branch, forest
from tutti.cli.views.what_if import ObservedCluster
from tutti.controller.discovery import OUR_RESOURCES
from tutti.engine.cycle.state import State
from tutti.web.told import ToldEvent

NEEDED = ("pods", "nodes", *(one.label for one in OUR_RESOURCES.values()))
"""What has to be listed for numbers to be right, as for the views."""


@dataclass(slots=True)
class Answers:
    """What an engine says of a state of the cluster.

    Attributes:
        asked: Who can be asked more.
        untried: What is known before anybody is tried; read it only.
        roots: Cohorts and queues.
        offer: What nodes offer.
        decided: What is known once all have been tried; read it only.
        gangs: All of them.
    """

    asked: ObservedCluster
    roots: Sequence[Branch]
    offer: Top
    decided: State
    gangs: Sequence[GangView]
    _untried: list[State] = field(default_factory=list)

    @property
    def untried(self) -> State:
        """What is known before anybody is tried; made when it is asked for first."""
        if not self._untried:
            self._untried.append(self.asked.stock().state)
        return self._untried[0]


def engine_answers(asked: ObservedCluster) -> Answers:
    """Ask an engine what the pages show."""
    engine = asked.stock()
    roots = forest(engine.state)
    offer = top(engine.state, devices(engine.state))
    before = gangs_as_found(engine.state)
    engine.decide(asked.at)
    asked = replace(asked, tried=engine)
    return Answers(asked, roots, offer, engine.state, gang_views(engine.state, before))


@dataclass
class Picture:
    """The cluster at one moment.

    Attributes:
        generation: Grows with each picture.
        events: What the operator has told of late, the latest first.
        interruptions: Which streams do not flow, and why.
    """

    generation: int
    listed: Listed
    at: float
    known: KnownConfiguration
    events: Sequence[ToldEvent]
    interruptions: Sequence[str] = ()

    def _asked(self, *, discreet: bool) -> ObservedCluster:
        configuration, plugins, assumed = self.known
        return ObservedCluster(self.listed, self.at, configuration, plugins, assumed, discreet)

    @cached_property
    def open(self) -> Answers:
        """What those are told who may see everybody."""
        return engine_answers(self._asked(discreet=False))

    @cached_property
    def discreet(self) -> Answers:
        """What the others are told."""
        return engine_answers(self._asked(discreet=True))

    @cached_property
    def lacks(self) -> str:
        """Return why there are no answers, or "": what could not be listed without which they would be wrong."""
        if self.listed.missing:
            some = (
                "any of Tutti's kinds"
                if len(self.listed.missing) == len(OUR_RESOURCES)
                else ", ".join(self.listed.missing)
            )
            return f"the server does not know {some}: install Tutti's CRDs (kubectl apply -k crds)"
        wanting = [label for label in NEEDED if label in self.listed.refused]
        if not wanting:
            return ""
        first = self.listed.refused[wanting[0]]
        return f"you may not list {', '.join(wanting)} in all namespaces ({first})"
