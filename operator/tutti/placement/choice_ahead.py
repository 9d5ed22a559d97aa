"""A choice of nodes one after another, kept so that more pods of the class go on where the last ones ended.

To sort nodes into kinds, score them and sort each kind by that costs more than to place ten pods over it, and most of
what comes in a rush is gangs of one class, one behind the other. The next decisions are what the choice would have come
to, had it been asked for more: nothing in it depends on how many are wanted.

That holds as long as everything that the choice was begun with is as it has left it. As in `order_ahead.py` that is
compared, not kept track of: what nodes offer, have in use and have room for, and how many pods each state has counted.
"""

from __future__ import annotations

import weakref
from collections.abc import Hashable
from dataclasses import dataclass

import numpy as np

from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.placement.by_kind import ChoiceByKind, Points
from tutti.placement.framework import Counts, Rows
from tutti.placement.order_ahead import MOST_AHEAD, InUse
from tutti.placement.profile import Profile
from tutti.placement.sequential import SequentialChoice


@dataclass(slots=True)
class Begun:
    """A choice that can be gone on with.

    Attributes:
        profile: By whose scores nodes were chosen.
        stamp: Tells labels, taints and what nodes offer.
        points: Those of the preferences that tell nodes apart.
        choice: Where it stands.
        left: How many more pods it is good for.
        room: int64[rows], how many more each row could take.
        in_use: As those who were placed have left it.
    """

    profile: Profile
    stamp: Hashable
    points: Points
    choice: ChoiceByKind
    left: int
    room: Counts
    in_use: InUse

    def goes_on(self, now: SequentialChoice, nodes: NodeColumns, profile: Profile) -> bool:
        """Whether a choice that would be begun now is this one as far as it has come."""
        return (
            self.profile is profile
            and self.stamp == _stamp(nodes)
            and len(self.points) == len(now.points)
            and all(mine[1] is theirs[1] for mine, theirs in zip(self.points, now.points, strict=True))
            and self.choice.has_counted(now.states, now.weighted)
            and np.array_equal(self.room, now.room)
            and self.in_use.is_so(nodes)
        )


@dataclass(slots=True)
class ChoiceAhead:
    """Whose pods were placed last one after another, and the choice, if their class has asked twice."""

    nodes: NodeColumns
    whose: weakref.ref[PodClass] | None = None
    begun: Begun | None = None

    def following(self, pod_class: PodClass, profile: Profile, now: SequentialChoice, wanted: int) -> Begun | None:
        """Give away the choice to go on with; None where it has to be begun anew.

        Args:
            pod_class: Whose pods are to be placed.
            profile: By whose scores.
            now: What there is to choose from.
            wanted: How many.
        """
        begun = self.begun
        if begun is None or begun.left < wanted or not self._asked_last(pod_class):
            return None
        if not begun.goes_on(now, self.nodes, profile):
            return None
        self.begun = None  # should it fail on the way, nobody knows how far it has come
        return begun

    def worth_beginning(self, pod_class: PodClass, wanted: int) -> int:
        """Return for how many pods to begin a choice where so many are wanted: more where the class asks again."""
        return max(wanted, MOST_AHEAD) if self._asked_last(pod_class) else wanted

    def keep(
        self, pod_class: PodClass, profile: Profile, begun_with: SequentialChoice, choice: ChoiceByKind, left: int
    ) -> None:
        """Keep a choice, once the first of its pods have been placed.

        Args:
            pod_class: Whose pods those are.
            profile: By whose scores they were placed.
            begun_with: What there was to choose from; its room is what is left by now.
            choice: The choice.
            left: How many more pods it is good for.
        """
        self.whose, self.begun = weakref.ref(pod_class), None
        if left > 0 and not choice.own:
            nodes, points, room = self.nodes, begun_with.points, begun_with.room
            self.begun = Begun(profile, _stamp(nodes), points, choice, left, room, InUse.of(nodes))

    def take_back(self, begun: Begun, rows: Rows, room: Counts) -> None:
        """Keep a choice again once more pods have been placed.

        Args:
            begun: What `following` gave away.
            rows: int64[m], where they were placed.
            room: int64[rows], what is left.
        """
        begun.left, begun.room = begun.left - len(rows), room
        begun.in_use.look_again(self.nodes, rows)
        self.begun = begun

    def _asked_last(self, pod_class: PodClass) -> bool:
        return self.whose is not None and self.whose() is pod_class


def _stamp(nodes: NodeColumns) -> Hashable:
    return nodes.version, nodes.capacity_version, nodes.allocatable.shape


def choice_ahead(nodes: NodeColumns) -> ChoiceAhead:
    """Return the choice that was begun last over these columns."""
    return nodes.keep("choice ahead", None, lambda: ChoiceAhead(nodes))
