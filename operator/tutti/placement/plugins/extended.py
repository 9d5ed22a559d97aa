"""What HTTP extenders have said of a class of pods, as a filter and a preference.

The engine asks them and lays down here what holds for the choice at hand; a class that nobody was asked about is not
touched. They are heard last, as kube-scheduler does (schedule_one.go, findNodesThatPassExtenders).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement.framework import Rejection, Scores, Where
from tutti.placement.plugins.users import Standing

_KEY = "extenders"


@dataclass(frozen=True, slots=True)
class Answer:
    """What extenders say of a class on the nodes of one version.

    Attributes:
        version: Of the columns that the rows are of.
        rejections: Which nodes are ruled out.
        points: int64[rows], what they add to the score of each node.
    """

    version: int
    rejections: Sequence[Rejection]
    points: Scores


def lay_down(klass: PodClass, answer: Answer | None) -> None:
    """Have an answer hold for a class from now on; None: nobody has said anything."""
    klass.cache[_KEY] = answer


def _heard(klass: PodClass, nodes: NodeColumns) -> Answer | None:
    found = klass.cache.get(_KEY)
    return found if isinstance(found, Answer) and found.version == nodes.version else None


@dataclass(frozen=True, slots=True, eq=False)
class ExtenderFilter:
    """Rules out what extenders ruled out."""

    def tally(self, klass: PodClass, nodes: NodeColumns, where: Where) -> Standing | None:  # noqa: ARG002 - asked about with it
        """Return what was heard; None where nobody was asked."""
        answer = _heard(klass, nodes)
        return Standing(answer.rejections) if answer is not None else None


@dataclass(frozen=True, slots=True, eq=False)
class ExtenderScore:
    """Adds what extenders give; each score has been weighted by its extender."""

    name: str = "Extenders"
    weight: int = 1
    scaled: bool = False
    reverse: bool = False

    def points(self, klass: PodClass, nodes: NodeColumns) -> Scores | None:
        """Return what was heard; None where nobody was asked."""
        answer = _heard(klass, nodes)
        return answer.points if answer is not None else None
