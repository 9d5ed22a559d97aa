"""One state of the cluster, as an engine of one's own sees it; pages are made of it.

It is taken when something has changed and somebody looks: all that was listed is told to an engine, which decides as
the operator would, as for a view on the command line; where that takes long, an engine is kept and told what is new
(`StandingAnswers`). Whoever may not see everybody is answered by another engine,
one that is as discreet as the operator is in what it writes for all to read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from tutti.cli.views.configuration import KnownConfiguration
from tutti.cli.views.listing import Listed
from tutti.cli.views.what_if import ObservedCluster
from tutti.controller.discovery import OUR_RESOURCES
from tutti.web.standing import Answers, KeptAnswers, engine_answers
from tutti.web.told import ToldEvent

NEEDED = ("pods", "nodes", *(one.label for one in OUR_RESOURCES.values()))
"""What has to be listed for numbers to be right, as for the views."""
SHARDED = (
    "the cluster is parted into shards, which decide apart, and pages work out what one process would: "
    "`tutti explain`, `tutti queue`, `tutti gangs` and `tutti top nodes` answer as each shard does"
)


@dataclass
class Picture:
    """The cluster at one moment.

    Attributes:
        generation: Grows with each picture.
        events: What the operator has told of late, the latest first.
        interruptions: Which streams do not flow, and why.
        kept: What answers are carried on from; None: each is found out anew.
    """

    generation: int
    listed: Listed
    at: float
    known: KnownConfiguration
    events: Sequence[ToldEvent]
    interruptions: Sequence[str] = ()
    kept: KeptAnswers | None = None

    def _asked(self, *, discreet: bool) -> ObservedCluster:
        configuration, plugins, assumed = self.known
        return ObservedCluster(self.listed, self.at, configuration, plugins, assumed, discreet)

    def _answers(self, *, discreet: bool) -> Answers:
        asked = self._asked(discreet=discreet)
        if self.kept is None:
            return engine_answers(asked)
        return (self.kept.discreet if discreet else self.kept.open).answers(asked)

    @cached_property
    def open(self) -> Answers:
        """What those are told who may see everybody."""
        return self._answers(discreet=False)

    @cached_property
    def discreet(self) -> Answers:
        """What the others are told."""
        return self._answers(discreet=True)

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
        if self.known.configuration.shards:
            return SHARDED
        wanting = [label for label in NEEDED if label in self.listed.refused]
        if not wanting:
            return ""
        first = self.listed.refused[wanting[0]]
        return f"you may not list {', '.join(wanting)} in all namespaces ({first})"
