"""Pods are kept off, or away from, nodes where they and those there would slow one another down.

How much is declared per pair of classes of behaviour (`api/interference.py`): each pod of one class makes the work of
each pod of the other take so many percent longer, and what several do to one adds up. So it is known per node from how
many pods of each class are there, which are columns, and for the 1st, 2nd, ... pod of a class on a node: a gang does
not gather where its first pod is alone. Quasar and Paragon (Delimitrou and Kozyrakis, ASPLOS 2013 and 2014) classify
work by pairs, too; they measure what is declared here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from tutti.api.interference import BEHAVIOUR_LABEL
from tutti.api.selectors import LabelSelector
from tutti.cluster.classes import Feature, PodClass
from tutti.cluster.label_index import Codes
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.nominated_pods import NominatedPods
from tutti.cluster.signatures import PodQuery
from tutti.placement.framework import MAX_SCORE, Counts, FlavorConstraints, Mask, Rejection, Rows, Scores

EVERYWHERE = LabelSelector()
"""All namespaces."""


@dataclass(frozen=True, slots=True)
class InterferenceRules:
    """Who slows down whom.

    Attributes:
        slowdowns: Who is slowed down, by each pod of which class, and by how many percent; each pair once.
        limit: By how many percent a pod may be slowed down by all others on its node; None: by any number.
        apart: Pairs that never share a node, each in one order.
    """

    slowdowns: tuple[tuple[str, str, int], ...] = ()
    limit: int | None = None
    apart: tuple[tuple[str, str], ...] = ()

    def partners(self, mine: str) -> list[str]:
        """Return the classes that a class has to do with, its own among them where it has."""
        pairs = [*((of, beside) for of, beside, _ in self.slowdowns), *self.apart]
        return sorted({other for pair in pairs if mine in pair for other in (pair[pair[0] == mine],)})

    def kept_apart(self, mine: str) -> frozenset[str]:
        """Return the classes that never share a node with a class."""
        return frozenset(pair[pair[0] == mine] for pair in self.apart if mine in pair)

    def percent(self) -> Mapping[tuple[str, str], int]:
        """Return by how many percent who is slowed down by each pod of which class."""
        return {(of, beside): percent for of, beside, percent in self.slowdowns}


@dataclass(frozen=True, slots=True)
class Pressure:
    """What one class and the pods on nodes do to one another.

    Attributes:
        there: int64[rows] by class, how many pods of it are on each node; only of those it has to do with.
        mine: int64[rows], by how many percent one more pod of the class would be slowed down.
        theirs: int64[rows] by class, by how many percent each pod of it is slowed down now; only of those that one more
            pod of the class would slow down, as far as a limit holds.
        worsens: By class, by how many percent each pod of it would be slowed down more.
        own: By how many percent pods of the class slow one another down.
        added: int64[rows], by how many percent all pods together would be slowed down more by the first pod.
    """

    there: Mapping[str, Counts]
    mine: Counts
    theirs: Mapping[str, Counts]
    worsens: Mapping[str, int]
    own: int
    added: Counts


def behaviour_of(pod_class: PodClass) -> str:
    """Return the class of behaviour that pods say they have, or ""."""
    return pod_class.labels.get(BEHAVIOUR_LABEL, "")


def pressure_of(rules: InterferenceRules, pod_class: PodClass, nodes: NodeColumns) -> Pressure:
    """Return what a class and the pods on nodes do to one another now; kept until anybody comes or goes."""
    stamp = (nodes.label_index.version, len(nodes))
    return pod_class.keep(("pressure", rules), stamp, lambda: _count(rules, behaviour_of(pod_class), nodes))


def codes_of(behaviour: str, nodes: NodeColumns) -> Codes:
    """Return bool[codes]: the pods of a class of behaviour, in whatever namespace."""
    query = PodQuery.of((), LabelSelector(match_labels={BEHAVIOUR_LABEL: behaviour}), EVERYWHERE)
    return nodes.label_index.matching(query, nodes.namespaces)


def _on_nodes(behaviour: str, nodes: NodeColumns, nominated: NominatedPods | None) -> Counts:
    rows, counts, _ = nodes.label_index.where(codes_of(behaviour, nodes))
    out = np.zeros(len(nodes), dtype=np.int64)
    np.add.at(out, rows, counts)
    if nominated is not None:
        out += nominated.count(len(nodes), lambda one: behaviour_of(one) == behaviour)
    return out


def _count(rules: InterferenceRules, mine: str, nodes: NodeColumns, nominated: NominatedPods | None = None) -> Pressure:
    known: dict[str, Counts] = {}

    def there(behaviour: str) -> Counts:
        if behaviour not in known:
            known[behaviour] = _on_nodes(behaviour, nodes, nominated)
        return known[behaviour]

    percent, nothing = rules.percent(), np.zeros(len(nodes), dtype=np.int64)
    slowed, added, theirs, worsens = nothing.copy(), nothing.copy(), dict[str, Counts](), dict[str, int]()
    for other in rules.partners(mine):
        slowed += percent.get((mine, other), 0) * there(other)
        more = percent.get((other, mine), 0)
        added += more * there(other)
        if more and other != mine and rules.limit is not None:
            worsens[other] = more
            theirs[other] = sum((by * there(one) for (of, one), by in percent.items() if of == other), nothing)
            theirs[other] = theirs[other] - percent.get((other, other), 0)  # nobody is slowed down by itself
    partners = {other: there(other) for other in rules.partners(mine)}
    return Pressure(partners, slowed, theirs, worsens, percent.get((mine, mine), 0), slowed + added)


@dataclass(slots=True)
class InterferenceState:
    """How many more pods of a class each node takes; this is told beforehand, so nothing changes.

    Attributes:
        rules: Who slows down whom.
        mine: The class of behaviour of the pods.
        found: What they and those on nodes do to one another.
    """

    rules: InterferenceRules
    mine: str
    found: Pressure
    changes_on_add: bool = False
    one_per_node: bool = False

    def room(self, most: int) -> Counts:
        """Return int64[rows]: how many more pods of the class each node takes, up to `most`."""
        found, limit = self.found, self.rules.limit
        room = np.full(len(found.mine), most, dtype=np.int64)
        if limit is not None:
            if found.own:
                room = np.minimum(room, np.maximum((limit - found.mine) // found.own + 1, 0))
            room[found.mine > limit] = 0
            for other, now in found.theirs.items():
                more = np.maximum((limit - now) // found.worsens[other], 0)
                room = np.where(found.there[other] > 0, np.minimum(room, more), room)
        for other in self.rules.kept_apart(self.mine):
            room[found.there[other] > 0] = 0
            if other == self.mine:
                room = np.minimum(room, 1)
        return room

    def rejections(self) -> Sequence[Rejection]:
        """Rule out nodes by whom they are kept apart from, then by who would be slowed down; never for good."""
        found, limit, said = self.found, self.rules.limit, list[Rejection]()
        for other in sorted(self.rules.kept_apart(self.mine)):
            said.append(
                Rejection(f"node(s) with pods of behaviour {other}, which never share a node", found.there[other] > 0)
            )
        if limit is not None:
            said.append(
                Rejection(
                    f"node(s) that would slow pods of behaviour {self.mine} down by more than {limit} %",
                    found.mine > limit,
                )
            )
            for other, now in sorted(found.theirs.items()):
                beyond: Mask = (found.there[other] > 0) & (now + found.worsens[other] > limit)
                said.append(
                    Rejection(
                        f"node(s) with pods of behaviour {other}, which would be slowed down by more than {limit} %",
                        beyond,
                    )
                )
        return [one for one in said if one.rows.any()]

    def in_the_way(self, nodes: NodeColumns) -> Codes:
        """Return bool[codes]: the pods of which each by itself rules out its node."""
        out = np.zeros(nodes.label_index.codes, dtype=np.bool_)
        for other in self.found.there:
            if self._keeps_off(other):
                out |= codes_of(other, nodes)
        return out

    def _keeps_off(self, other: str) -> bool:
        """Whether one pod of another class is enough to keep off those of this one."""
        percent, limit = self.rules.percent(), self.rules.limit
        if other in self.rules.kept_apart(self.mine):
            return True
        return limit is not None and max(percent.get((self.mine, other), 0), percent.get((other, self.mine), 0)) > limit

    def add(self, row: int) -> None:
        """Nothing: `room` has said how many there may be."""


@dataclass(frozen=True, slots=True)
class InterferenceFilter:
    """The filter."""

    rules: InterferenceRules
    concerns: int = field(default=Feature.BEHAVIOUR, init=False)

    def pre_filter(
        self,
        pod_class: PodClass,
        nodes: NodeColumns,
        where: FlavorConstraints,  # noqa: ARG002 - a filter's signature
    ) -> InterferenceState | None:
        """Count over the pods on nodes; None where no rule is about the class, or none keeps anybody off."""
        mine = behaviour_of(pod_class)
        if self.rules.limit is None and not self.rules.kept_apart(mine):
            return None
        found = pressure_of(self.rules, pod_class, nodes)
        if nodes.nominated is not None:
            found = _count(self.rules, mine, nodes, nodes.nominated)
        return InterferenceState(self.rules, mine, found) if found.there else None


@dataclass(frozen=True, slots=True)
class LeastInterference:
    """The score: MAX_SCORE where nobody is slowed down, half of that where all together are by as much as one works."""

    rules: InterferenceRules
    name: str = "Interference"
    weight: int = 1

    def scores(self, pod_class: PodClass, nodes: NodeColumns, rows: Rows, nth: Counts) -> Scores | None:
        """Return int64[m, k] in 0..MAX_SCORE, or None where the pods slow nobody down and nobody them."""
        if not pod_class.features & Feature.BEHAVIOUR:
            return None
        found = pressure_of(self.rules, pod_class, nodes)
        if not found.own and not found.added.any():
            return None
        more = found.added[rows][None, :] + 2 * found.own * (nth - 1)[:, None]
        scores: Scores = MAX_SCORE * MAX_SCORE // (MAX_SCORE + more)
        return scores
