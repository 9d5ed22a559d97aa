"""Whom it may help that a pod leaves a node or comes to one, or that devices are free, by where it may help them.

| who | may find a place by now |
|---|---|
| asks for room alone | on the node that was left |
| must not be near some pods | wherever the labels of his terms are the same as there: it may have kept him off |
| must be near some pods | wherever these are the same as where a pod has come, or is seen otherwise |
| the same, and means himself | on any node, as long as there is none of them: then he needs nobody |
| is spread strictly | in the domain that was left; and on any node, where one has come: it may fill the emptiest |
| claims devices | on the nodes that can use what is free; on any, where drivers offer others |

There is no room on any other node that was not there before. So there are room bounds for all who mind the same, which
are asked about these nodes (`room_bounds.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain
from typing import Final, NamedTuple

from tutti.api.core import TopologySpreadConstraint
from tutti.cluster.classes import Feature, PodClass
from tutti.cluster.cluster import Cluster
from tutti.cluster.new_room import Exits
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.signatures import PodTerm
from tutti.engine.queue import QueueState
from tutti.engine.queue.gained_room import TakesOut
from tutti.engine.queue.room_bounds import RoomBounds
from tutti.engine.records.queue_entries import EquivalenceClass, QueueEntry
from tutti.placement.plugins.inter_pod_affinity import is_first, means_itself
from tutti.placement.plugins.spread_constraints import HARD

Terms = tuple[PodTerm, ...]

_MOST_MINDED: Final = 16
"""So much that workloads mind is told apart; who minds something else is tried whenever there may be more room."""


class Minds(NamedTuple):
    """What a workload minds beside what the node itself has.

    Attributes:
        apart: The labels by which some of its pods keep away from others or are spread strictly, sorted.
        near: Those by which some must be near others.
        spreads: Whether some are spread strictly.
        devices: Whether some claim devices.
    """

    apart: tuple[str, ...] = ()
    near: tuple[str, ...] = ()
    spreads: bool = False
    devices: bool = False

    @classmethod
    def of(cls, classes: Collection[PodClass]) -> Minds:
        """Return what a workload minds that has pods of some classes."""
        spread = {one.topology_key for pod_class in classes for one in _strict(pod_class)}
        apart = {term.topology_key for one in classes for term in one.inter_pod.anti_affinity}
        near = {term.topology_key for one in classes for term in one.inter_pod.affinity}
        devices = any(one.features & Feature.DEVICES for one in classes)
        return cls(tuple(sorted(apart | spread)), tuple(sorted(near)), bool(spread), devices)

    def rows(self, gained: Exits) -> dict[int, None]:
        """Return the rows of the nodes on which something is free by now that such a workload may want."""
        return gained.rows | gained.devices if self.devices else gained.rows

    def others(self, nodes: NodeColumns, gained: Exits) -> Collection[int] | None:
        """Return the rows of the nodes that may take it by now for what they have left already; None: any."""
        if (self.spreads and gained.company) or (self.devices and gained.all_devices):
            return None
        alike = nodes.rows_alike(gained.rows, self.apart) if self.apart else {}
        if self.near:
            alike |= nodes.rows_alike(gained.company, self.near)
        return alike.keys() - gained.rows.keys()


class DomainBounds:
    """The room bounds of all classes that have some."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all classes."""
        self._bounds: dict[Minds, RoomBounds] = {Minds(): RoomBounds()}
        self._first: dict[EquivalenceClass, list[Terms]] = {}
        self._first_by: dict[Terms, dict[EquivalenceClass, None]] = {}

    def __bool__(self) -> bool:
        return any(self._bounds.values())

    def put(self, cluster: Cluster, equals: EquivalenceClass, classes: Sequence[PodClass], takes: TakesOut) -> bool:
        """Note what a class that is parked asks of nodes.

        Args:
            cluster: As it is.
            equals: The class.
            classes: Of which its pods are.
            takes: Whom it may take out.

        Returns:
            Whether that is known now; others mind too much else already where not.
        """
        minds = Minds.of(classes)
        self.drop(equals)
        if minds not in self._bounds:
            if len(self._bounds) > _MOST_MINDED:
                return False
            self._bounds[minds] = RoomBounds()
        nodes, hopes = cluster.nodes, minds.devices and cluster.device_users.holders.is_anything_departing()
        self._bounds[minds].put(nodes, equals, classes, takes, hopes=hopes)
        first = [one.inter_pod.affinity for one in classes if one.inter_pod.affinity and means_itself(nodes, one)]
        if first:
            self._first[equals] = first
        for terms in first:
            self._first_by.setdefault(terms, {})[equals] = None
        return True

    def drop(self, equals: EquivalenceClass) -> None:
        """Forget a class, if it is known."""
        for terms in dict.fromkeys(self._first.pop(equals, ())):
            del self._first_by[terms][equals]
            if not self._first_by[terms]:
                del self._first_by[terms]
        for bounds in self._bounds.values():
            bounds.drop(equals)

    def join(self, entry: QueueEntry) -> None:
        """Note that somebody stands in his class, who may have waited for longer than the others."""
        for bounds in self._bounds.values():
            bounds.join(entry)

    def helped(
        self, state: QueueState, gained: Exits, *, anew: bool
    ) -> tuple[list[EquivalenceClass], list[EquivalenceClass]]:
        """Return who may find room now, as `RoomBounds.helped` does of those who mind the same."""
        self._leave_out_empty()
        nodes = state.cluster.nodes
        needing_nobody = self._needing_nobody(nodes)
        fitting: list[EquivalenceClass] = []
        others: list[EquivalenceClass] = []
        for minds, bounds in self._bounds.items():
            rows, more = minds.rows(gained), minds.others(nodes, gained)
            found = bounds.helped(state, rows, more, storage=gained.storage, anew=anew)
            fitting += found[0]
            others += found[1]
            if minds.near:
                others += bounds.elsewhere(state, bounds.among(needing_nobody))
        return fitting, others

    def call(self, classes: Collection[EquivalenceClass]) -> None:
        """Have it told by `fitting` of some of those that were helped, as long as they are called."""
        for bounds in self._bounds.values():
            bounds.call(classes)

    def _needing_nobody(self, nodes: NodeColumns) -> dict[EquivalenceClass, None]:
        """Return who wants only such as himself near, of whom there are none now."""
        found: dict[EquivalenceClass, None] = {}
        for terms, those in self._first_by.items():
            if is_first(nodes, terms):
                found |= those
        return found

    def reaching(self, state: QueueState, roots: Collection[str]) -> list[EquivalenceClass]:
        """Return those of some trees who may take out workloads of other queues."""
        return list(chain.from_iterable(bounds.reaching(state, roots) for bounds in self._bounds.values()))

    def roots(self) -> Iterator[str]:
        """Yield the trees of those who may take out workloads of other queues, if any of these borrow."""
        return chain.from_iterable(bounds.roots() for bounds in self._bounds.values())

    def fitting(self, state: QueueState, called: Collection[EquivalenceClass]) -> AbstractSet[EquivalenceClass]:
        """Return who of some that were called still finds room, after others have been placed."""
        found: set[EquivalenceClass] = set()
        for bounds in self._bounds.values():
            if asked := bounds.among(called):
                found |= asked & bounds.fitting(state)
        return found

    def classes(self) -> Iterator[EquivalenceClass]:
        """Yield all of them."""
        return chain.from_iterable(bounds.classes() for bounds in self._bounds.values())

    def _leave_out_empty(self) -> None:
        """Let go of what nobody minds any more."""
        for minds in [one for one, bounds in self._bounds.items() if one != Minds() and not bounds]:
            del self._bounds[minds]
        for equals in [one for one in self._first if not one.size]:
            self.drop(equals)


def _strict(pod_class: PodClass) -> Iterator[TopologySpreadConstraint]:
    """Yield the constraints by which pods of a class must be spread."""
    return (one for one in pod_class.spec.topology_spread_constraints if one.when_unsatisfiable == HARD)
