"""Whom a pod that leaves a node may help, by where it may help them.

Most who wait find more room on that node alone. Who must not be near some pods (required anti-affinity) may find a
place wherever the labels that his terms go by are the same as there: it may have been what kept him off. So there are
room bounds for all who go by the same labels, which are asked about as many nodes (`room_bounds.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from tutti.cluster.classes import PodClass
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.placed_pods import Exits
from tutti.engine.queue import QueueState
from tutti.engine.queue.gained_room import TakesOut
from tutti.engine.queue.room_bounds import RoomBounds
from tutti.engine.records.queue_entries import EquivalenceClass, QueueEntry

Domains = tuple[str, ...]
"""The labels of nodes that a workload's terms go by, sorted; none: only the node itself matters."""

_MOST_DOMAINS: Final = 8
"""So many sets of labels are told apart; who goes by another is tried whenever there may be more room."""


def separation_keys(classes: Iterable[PodClass]) -> Domains:
    """Return by which labels of nodes some pods keep away from others."""
    return tuple(sorted({term.topology_key for one in classes for term in one.inter_pod.anti_affinity}))


class DomainBounds:
    """The room bounds of all classes that have some."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget all classes."""
        self._bounds: dict[Domains, RoomBounds] = {(): RoomBounds()}
        self._fitting: tuple[list[frozenset[EquivalenceClass]], frozenset[EquivalenceClass]] = [], frozenset()

    def __bool__(self) -> bool:
        return any(self._bounds.values())

    def put(self, nodes: NodeColumns, equals: EquivalenceClass, classes: Sequence[PodClass], takes: TakesOut) -> bool:
        """Note what a class that is parked asks of nodes.

        Args:
            nodes: As they are.
            equals: The class.
            classes: Of which its pods are.
            takes: Whom it may take out.

        Returns:
            Whether that is known now; others go by too many other labels already where not.
        """
        domains = separation_keys(classes)
        self.drop(equals)
        if domains not in self._bounds:
            if len(self._bounds) > _MOST_DOMAINS:
                return False
            self._bounds[domains] = RoomBounds()
        self._bounds[domains].put(nodes, equals, classes, takes)
        return True

    def drop(self, equals: EquivalenceClass) -> None:
        """Forget a class, if it is known."""
        for bounds in self._bounds.values():
            bounds.drop(equals)

    def join(self, entry: QueueEntry) -> None:
        """Note that somebody stands in his class, who may have waited for longer than the others."""
        for bounds in self._bounds.values():
            bounds.join(entry)

    def helped(
        self, state: QueueState, gained: Exits, *, anew: bool
    ) -> tuple[list[EquivalenceClass], list[EquivalenceClass]]:
        """Return who may find room now, as `RoomBounds.helped` does of those who go by the same labels."""
        self._leave_out_empty()
        fitting: list[EquivalenceClass] = []
        others: list[EquivalenceClass] = []
        for domains, bounds in self._bounds.items():
            rows = state.cluster.nodes.rows_alike(gained.rows, domains)
            found = bounds.helped(state, gained._replace(rows=rows), anew=anew)
            fitting += found[0]
            others += found[1]
        return fitting, others

    def reaching(self, state: QueueState, roots: Collection[str]) -> list[EquivalenceClass]:
        """Return those of some trees who may take out workloads of other queues."""
        return list(chain.from_iterable(bounds.reaching(state, roots) for bounds in self._bounds.values()))

    def roots(self) -> Iterator[str]:
        """Yield the trees of those who may take out workloads of other queues, if any of these borrow."""
        return chain.from_iterable(bounds.roots() for bounds in self._bounds.values())

    def fitting(self, state: QueueState) -> Collection[EquivalenceClass]:
        """Return who of those that were helped still is, after others have been placed."""
        found = [bounds.fitting(state) for bounds in self._bounds.values() if bounds]
        if len(found) == 1:
            return found[0]
        if len(found) != len(self._fitting[0]) or any(a is not b for a, b in zip(found, self._fitting[0], strict=True)):
            self._fitting = found, frozenset().union(*found)
        return self._fitting[1]

    def classes(self) -> Iterator[EquivalenceClass]:
        """Yield all of them."""
        return chain.from_iterable(bounds.classes() for bounds in self._bounds.values())

    def _leave_out_empty(self) -> None:
        """Let go of labels by which nobody goes any more."""
        for domains in [one for one, bounds in self._bounds.items() if one and not bounds]:
            del self._bounds[domains]
