"""One consultation: a class of pods, the nodes it could go to, and what each extender says of them in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tutti.api.core import ObjectMeta, Pod
from tutti.api.extensions import Extender
from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.pods import PodRecord
from tutti.engine.records.decisions import AskExtender
from tutti.engine.records.observations import ExtenderAnswered
from tutti.engine.records.workloads import WorkloadKey
from tutti.placement.framework import MAX_SCORE, Mask, Rejection
from tutti.placement.gang import Ask
from tutti.placement.plugins.extensions import ExtenderAnswer, ExtenderFilter, ExtenderScore
from tutti.placement.profile import Profile

Verb = Literal["filter", "prioritize"]

_SCALE = MAX_SCORE // 10  # MaxNodeScore / MaxExtenderPriority
NOT_ASKED = "node(s) that no extender has been asked about yet"


@dataclass(frozen=True, slots=True, eq=False)
class ConsultationInputs:
    """What a consultation is about; equal inputs would be asked for in the same words.

    Attributes:
        version: Of labels, taints and the set of nodes.
        candidates: bool[rows], the nodes that pass our own filters.
        taken: int64[k, resources], what is taken on these of what the extenders manage.
    """

    version: int
    candidates: Mask
    taken: NDArray[np.int64]

    def equal(self, other: ConsultationInputs) -> bool:
        """Whether two are the same."""
        return (
            self.version == other.version
            and np.array_equal(self.candidates, other.candidates)
            and np.array_equal(self.taken, other.taken)
        )


@dataclass(slots=True, eq=False)
class Consultation:
    """What is being asked, or was answered, about one class.

    Attributes:
        pod: One of the class; None where there is none yet.
        filters, scorers: The extenders that are still to be asked.
        left: The candidates that no extender has ruled out, by name in order of rows.
        out: The extenders whose answers are awaited, by the number of the ask.
        waiting: The workloads that wait for the end of it.
        failure: Why it came to no end, or "".
        retry_at: Until when a failure stands, Unix seconds.
        fresh: Whether nobody has gone by it yet.
        used_in: The try in which it was gone by.
        outdated: Whether, when it was last gone by, other inputs held than it was asked with.
    """

    klass: PodClass
    inputs: ConsultationInputs
    pod: PodRecord | None
    filters: list[Extender]
    scorers: list[Extender]
    left: list[str]
    refused: dict[str, tuple[str, bool]] = field(default_factory=dict)
    points: dict[str, int] = field(default_factory=dict)
    out: dict[int, tuple[Extender, Verb]] = field(default_factory=dict)
    waiting: dict[WorkloadKey, None] = field(default_factory=dict)
    failure: str = ""
    retry_at: float = 0.0
    fresh: bool = True
    used_in: int = 0
    outdated: bool = False
    _drawn: ExtenderAnswer | None = None

    def next_asks(self, number: int) -> list[AskExtender]:
        """Return whom to ask next, numbered from `number`; nobody where it is at its end, or an answer is awaited."""
        if self.out or self.failure:
            return []
        if self.filters and self.left:
            return [self._ask(number, self.filters.pop(0), "filter")]
        several = len(self.left) > 1  # upstream: with one feasible node nothing is scored
        scorers, self.scorers = self.scorers if several else [], []
        return [self._ask(number + i, extender, "prioritize") for i, extender in enumerate(scorers)]

    def take(self, answer: ExtenderAnswered) -> str:
        """Take in an answer; returns why it is none, or "".

        A failure to prioritize is no failure: as upstream, others then decide what is preferred.
        """
        extender, verb = self.out.pop(answer.ask)
        if verb == "prioritize":
            for name, score in answer.scores.items():
                self.points[name] = self.points.get(name, 0) + score * extender.weight * _SCALE
            return ""
        unknown = set(answer.nodes).difference(self.left)
        error = answer.error
        if unknown:
            error = f"it let pass node {min(unknown)}, which it was not asked about"
        if error:
            return error
        passed = set(answer.nodes)
        for name in self.left:
            if name not in passed:
                self.refused[name] = _reason(extender, name, answer)
        self.left = [name for name in self.left if name in passed]
        return ""

    def answer(self, nodes: NodeColumns) -> ExtenderAnswer:
        """Return what was said, on the rows as they are now; a node that was not asked about is ruled out for now."""
        if self._drawn is not None and self._drawn.version == nodes.version:
            return self._drawn
        rows = len(nodes)
        known = np.zeros(rows, dtype=np.bool_)
        points = np.zeros(rows, dtype=np.int64)
        at = nodes.rows
        by_reason: dict[tuple[str, bool], Mask] = {}
        for name, why in self.refused.items():
            if name in at:
                by_reason.setdefault(why, np.zeros(rows, dtype=np.bool_))[at[name]] = True
        for name in self.left:
            if name in at:
                known[at[name]], points[at[name]] = True, self.points.get(name, 0)
        said = [Rejection(reason, mask, final=final) for (reason, final), mask in by_reason.items()]
        for one in said:
            known |= one.rows
        self._drawn = ExtenderAnswer(nodes.version, [*said, Rejection(NOT_ASKED, ~known)], points)
        return self._drawn

    def _ask(self, number: int, extender: Extender, verb: Verb) -> AskExtender:
        self.out[number] = (extender, verb)
        namespace, name, uid = self.klass.namespace, "", ""
        stand_in = None
        if self.pod is not None:
            name, uid = self.pod.name, self.pod.uid
        else:
            stand_in = Pod(ObjectMeta(namespace=namespace, labels=dict(self.klass.labels)), self.klass.spec)
        return AskExtender(number, extender.url_prefix, verb, namespace, name, uid, list(self.left), stand_in)


@dataclass(frozen=True, slots=True)
class ExtenderQuery:
    """Pods that are about to be placed, and one of them; None where there is none yet."""

    ask: Ask
    pod: PodRecord | None


@dataclass(slots=True)
class Consultations:
    """All that is being asked.

    Attributes:
        next_ask: The number of the next ask.
        asked: What each ask that is out belongs to.
        failures: How often each extender has failed since it last answered, by urlPrefix.
        tries, trying: How many tries there have been, and whose the present one is.
        roused: Workloads whose answers have come.
    """

    next_ask: int = 1
    asked: dict[int, tuple[Consultation, Ask]] = field(default_factory=dict)
    failures: dict[str, int] = field(default_factory=dict)
    tries: int = 0
    trying: WorkloadKey = ("", "", "")
    roused: dict[WorkloadKey, None] = field(default_factory=dict)

    def extended(self, profile: Profile, extenders: Sequence[Extender]) -> Profile:
        """Return a profile that hears what extenders say, and leaves to them what they alone count."""
        theirs = {one.name for e in extenders for one in e.managed_resources if one.ignored_by_scheduler}
        return replace(
            profile,
            fit=replace(profile.fit, ignored=profile.fit.ignored | theirs),
            company=(*profile.company, ExtenderFilter()),
            changing=(*profile.changing, ExtenderScore()),
        )

    def take_roused(self) -> list[WorkloadKey]:
        """Return the workloads whose answers have come since the last call."""
        roused, self.roused = list(self.roused), {}
        return roused


def interested_extenders(extenders: Sequence[Extender], klass: PodClass) -> list[Extender]:
    """Return those that mind a class: all pods are the business of one that manages no resource (IsInterested)."""
    asked = {name for c in (*klass.spec.containers, *klass.spec.init_containers) for name in c.resources.requests}
    return [one for one in extenders if not one.manages or one.manages & asked]


def _reason(extender: Extender, name: str, answer: ExtenderAnswered) -> tuple[str, bool]:
    """Return why a node was ruled out, and whether taking pods out of it could not help; the latter goes first."""
    if name in answer.unresolvable:
        return answer.unresolvable[name] or _unsaid(extender), True
    return answer.failed.get(name) or _unsaid(extender), False


def _unsaid(extender: Extender) -> str:
    return f"node(s) ruled out by extender {extender.url_prefix}"
