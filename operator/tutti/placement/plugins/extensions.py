"""What users' plugins and HTTP extenders say of a class of pods, as filters and preferences like ours.

Answers of plugins are checked and kept. A filter that fails rules every node out under a reason that names it, since
placing a pod as if it had no objection would be worse than not placing it. A score that fails is left out.
Extenders are asked by the engine, which lays down here what holds for the choice at hand; a class that nobody was
asked about is not touched. They are heard last, as kube-scheduler does (schedule_one.go, findNodesThatPassExtenders).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from tutti.cluster.classes import Feature, PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement.extension import ChangesWithTime, FilterPlugin, Host, Nodes, PluginCall, Pods, ScorePlugin
from tutti.placement.framework import FixedRejections, FlavorConstraints, Mask, Rejection, Scores

FAILED = "node(s) that could not be judged, because plugin "
"""How the reason of a filter that failed begins."""

_Answer = TypeVar("_Answer")
_FOR_GOOD = float("inf")
_MOST_POINTS = 2**40  # the scaling multiplies by 100 in int64


class WrongAnswerError(ValueError):
    """A plugin answered with something else than its contract says; the message says what would be right."""


@dataclass(frozen=True, slots=True, eq=False)
class UserFilter:
    """A user's filter; it is asked once per class until the nodes change, or the time it is good for is over."""

    name: str
    profile: str
    plugin: FilterPlugin
    host: Host
    concerns: int = field(default=Feature.ANY, init=False)

    def pre_filter(self, pod_class: PodClass, nodes: NodeColumns, where: FlavorConstraints) -> FixedRejections | None:  # noqa: ARG002 - a flavor does not concern it
        """Return what it says of a class; None where it rules nothing out."""
        said, until = _kept(self, pod_class, nodes, lambda: self._ask(pod_class, nodes))
        if not said:
            return None
        if until != _FOR_GOOD:
            self.host.recheck(until)
        return FixedRejections(said)

    def _ask(self, pod_class: PodClass, nodes: NodeColumns) -> Sequence[Rejection]:
        try:
            asked, now = PluginCall(self.profile, self.name, "filter"), self.host.now
            answer = self.host.timed(asked, lambda: self.plugin.filter(Pods.of(pod_class), Nodes(nodes), now))
            return [Rejection(reason, rows, final=True) for reason, rows in _masks(answer, len(nodes)) if rows.any()]
        except Exception as error:  # noqa: BLE001 - foreign code; whatever it is, these pods wait and say so
            message = f"{type(error).__name__}: {error}"
            self.host.fault(self.name, "filter", message)
            return [Rejection(f"{FAILED}{self.name} failed ({message})", nodes.present.copy(), final=True)]


@dataclass(frozen=True, slots=True, eq=False)
class UserScore:
    """A user's score: points that are scaled to the best feasible node."""

    name: str
    weight: int
    profile: str
    plugin: ScorePlugin
    host: Host
    scaled: bool = field(default=True, init=False)
    reverse: bool = field(default=False, init=False)
    concerns: int = field(default=Feature.ANY, init=False)

    def points(self, pod_class: PodClass, nodes: NodeColumns) -> Scores | None:
        """Return what it says of a class; None where it has no opinion, or has failed."""
        return _kept(self, pod_class, nodes, lambda: self._ask(pod_class, nodes))[0]

    def _ask(self, pod_class: PodClass, nodes: NodeColumns) -> Scores | None:
        try:
            asked, now = PluginCall(self.profile, self.name, "score"), self.host.now
            answer = self.host.timed(asked, lambda: self.plugin.score(Pods.of(pod_class), Nodes(nodes), now))
            return None if answer is None else _points(answer, len(nodes))
        except Exception as error:  # noqa: BLE001 - foreign code; without its score any feasible node is as good
            self.host.fault(self.name, "score", f"{type(error).__name__}: {error}")
            return None


def _kept(
    adapter: UserFilter | UserScore, pod_class: PodClass, nodes: NodeColumns, ask: Callable[[], _Answer]
) -> tuple[_Answer, float]:
    """Return an answer and until when it is good, kept on the class while nothing that the plugin reads has changed."""
    plugin, now = adapter.plugin, adapter.host.now
    key, columns = ("user", adapter), (nodes.version, len(nodes))
    kept = pod_class.cache.get(key)
    if isinstance(kept, tuple) and kept[0] == columns and now < kept[1][1]:
        known: tuple[_Answer, float] = kept[1]
        return known
    until = now + plugin.recheck_seconds if isinstance(plugin, ChangesWithTime) else _FOR_GOOD
    answer = (ask(), until)
    pod_class.cache[key] = (columns, answer)
    return answer


def _masks(answer: object, rows: int) -> list[tuple[str, Mask]]:
    """Return the reasons and masks of a filter's answer.

    Raises:
        WrongAnswerError: It is no mapping from reasons to bool[rows].
    """
    if not hasattr(answer, "items"):
        raise WrongAnswerError(
            f"filter answered with {type(answer).__name__}, not with a mapping from reasons to masks"
        )
    out = []
    for reason, mask in answer.items():
        if not isinstance(reason, str) or not reason:
            raise WrongAnswerError(f"filter gave {reason!r} as a reason; it must be a text")
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_ or mask.shape != (rows,):
            raise WrongAnswerError(f"filter answered {reason!r} with {shown(mask)}, not with bool[{rows}]")
        out.append((reason, mask.copy()))
    return out


def _points(answer: object, rows: int) -> Scores:
    """Return the points of a score's answer.

    Raises:
        WrongAnswerError: It is not int64[rows] of at least 0.
    """
    if not isinstance(answer, np.ndarray) or answer.dtype != np.int64 or answer.shape != (rows,):
        raise WrongAnswerError(f"score answered with {shown(answer)}, not with int64[{rows}]")
    low, high = int(answer.min(initial=0)), int(answer.max(initial=0))
    if low < 0 or high > _MOST_POINTS:
        raise WrongAnswerError(
            f"score answered with points from {low} to {high}; they must be from 0 to {_MOST_POINTS}"
        )
    return answer.copy()


def shown(value: object) -> str:
    """Return what an answer is, for whoever wrote the plugin: dtype and shape, or its type."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype}[{', '.join(map(str, value.shape))}]"
    return type(value).__name__


_KEY = "extenders"


@dataclass(frozen=True, slots=True)
class ExtenderAnswer:
    """What extenders say of a class on the nodes of one version.

    Attributes:
        version: Of the columns that the rows are of.
        rejections: Which nodes are ruled out.
        points: int64[rows], what they add to the score of each node.
    """

    version: int
    rejections: Sequence[Rejection]
    points: Scores


def keep_answer(pod_class: PodClass, answer: ExtenderAnswer | None) -> None:
    """Have an answer hold for a class from now on; None: nobody has said anything."""
    pod_class.cache[_KEY] = answer


def _kept_answer(pod_class: PodClass, nodes: NodeColumns) -> ExtenderAnswer | None:
    found = pod_class.cache.get(_KEY)
    return found if isinstance(found, ExtenderAnswer) and found.version == nodes.version else None


@dataclass(frozen=True, slots=True, eq=False)
class ExtenderFilter:
    """Rules out what extenders ruled out."""

    concerns: int = field(default=Feature.ANY, init=False)

    def pre_filter(self, pod_class: PodClass, nodes: NodeColumns, where: FlavorConstraints) -> FixedRejections | None:  # noqa: ARG002 - asked about with it
        """Return what was heard; None where nobody was asked."""
        answer = _kept_answer(pod_class, nodes)
        return FixedRejections(answer.rejections) if answer is not None else None


@dataclass(frozen=True, slots=True, eq=False)
class ExtenderScore:
    """Adds what extenders give; each score has been weighted by its extender."""

    name: str = "Extenders"
    weight: int = 1
    scaled: bool = False
    reverse: bool = False
    concerns: int = field(default=Feature.ANY, init=False)

    def points(self, pod_class: PodClass, nodes: NodeColumns) -> Scores | None:
        """Return what was heard; None where nobody was asked."""
        answer = _kept_answer(pod_class, nodes)
        return answer.points if answer is not None else None
