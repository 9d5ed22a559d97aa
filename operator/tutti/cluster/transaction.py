"""Transactions on the columns: room is taken step by step, then all of it stays or all of it goes.

Each step is logged with what undoes it, so a gang that does not fit after all leaves no trace, at a cost that
depends on the gang and not on the cluster.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tutti.api.cards import NO_CARDS
from tutti.cluster.classes import Feature, PodClass
from tutti.cluster.columns import MOST_AMOUNT
from tutti.cluster.devices.asks import NO_DEVICES
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.nominated_pods import NominatedClass, NominatedRoom
from tutti.cluster.pledges import Picks
from tutti.cluster.signatures import UNCONSTRAINED
from tutti.cluster.volumes import NO_VOLUMES

_Placed = tuple[PodClass, NDArray[np.int64], NDArray[np.int64]]


class Transaction:
    """A context manager: leaving it without `commit()` rolls everything back.

    Attributes:
        unshown: What has been put and does not count in the label index yet: class, rows, and pods on each.
    """

    def __init__(self, nodes: NodeColumns) -> None:
        self._nodes = nodes
        self._log: list[Callable[[], object]] = []
        self.unshown: list[_Placed] = []
        self._shown: list[_Placed] = []
        self._attached: list[_Placed] = []
        self._zoned: list[_Placed] = []
        self._settled: list[str] = []
        self._constraining = 0  # how many of `unshown`
        self._committed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._committed:
            self.rollback()

    def withhold(self, rows: NDArray[np.int64], amounts: NDArray[np.int64]) -> None:
        """Take room, for nobody in particular.

        Args:
            rows: int64[k], distinct rows.
            amounts: int64[k, resources], how much on each, in scheduling units.
        """
        self._nodes.requested[rows, : amounts.shape[1]] += amounts
        self._log.append(partial(self._give_back, rows, amounts))

    def put(self, rows: NDArray[np.int64], counts: NDArray[np.int64], pod_class: PodClass) -> None:
        """Take room for `counts[i]` pods of a class on row `rows[i]`, and let them count as pods there.

        Args:
            rows: int64[k], distinct rows.
            counts: int64[k], pods per row.
            pod_class: Theirs.
        """
        request, weighs = self._taken_by(pod_class)
        self.withhold(rows, counts[:, None] * request)
        weight = counts[:, None] * weighs
        self._nodes.scored[rows] += weight
        self._log.append(partial(self._lighten, rows, weight))
        placed = (pod_class, rows, counts)
        self._take_beside_room(placed)
        self.unshown.append(placed)
        self._constraining += pod_class.inter_pod != UNCONSTRAINED
        self._log.append(partial(self._withdraw, placed))

    def nominate(self, placed: Sequence[NominatedClass], room: NominatedRoom) -> None:
        """Do the same for pods that may never come: they take room, and are no pods there (`NominatedPods`)."""
        self.withhold(*room)
        for one in placed:
            self._take_beside_room(one)

    def _take_beside_room(self, placed: _Placed) -> None:
        """Let pods that have been put have what there is on their nodes beside the room that columns tell of."""
        pod_class, rows, counts = placed
        if pod_class.volumes is not NO_VOLUMES:
            self._attach(placed, 1)
            self._attached.append(placed)
            self._log.append(self._detach)
        if pod_class.devices is not NO_DEVICES and not self._nodes.gives_devices_in_turn(pod_class.devices):
            self._allot_each(pod_class, rows, counts)
        if self._nodes.numa and pod_class.features & Feature.NUMA_ZONES:
            self._nodes.numa.hold(pod_class, rows, counts, 1)
            self._zoned.append(placed)
            self._log.append(self._unzone)
        if pod_class.cards is not NO_CARDS:
            for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
                node = self._nodes.names[row]
                for _ in range(self._nodes.card_holders.allot(pod_class, row, node, count)):
                    self._log.append(partial(self._nodes.card_holders.withdraw, pod_class, node))
        if self._nodes.load:
            self._nodes.load.take(rows, counts, pod_class, 1)
            self._log.append(partial(self._nodes.load.take, rows, counts, pod_class, -1))
        if self._nodes.network and pod_class.features & Feature.NETWORK:
            names = self._nodes.names
            where = {names[row]: count for row, count in zip(rows.tolist(), counts.tolist(), strict=True)}
            self._nodes.network.take(pod_class.namespace, pod_class.labels, where, 1)
            self._log.append(partial(self._nodes.network.take, pod_class.namespace, pod_class.labels, where, -1))

    def allot(self, pod_class: PodClass, row: int) -> bool:
        """Keep devices for a pod of a class on a row; they stay kept for it after the commit.

        Returns:
            Whether there were any for it; where not, nothing is kept.
        """
        devices, needs = self._nodes.devices, pod_class.devices
        if not devices.allot(needs, self._nodes.devices_ahead(pod_class), row, pod_class.signature):
            return False
        self.undo_allotting(pod_class, [self._nodes.names[row]])
        return True

    def _allot_each(self, pod_class: PodClass, rows: NDArray[np.int64], counts: NDArray[np.int64]) -> None:
        """Keep devices for pods of a class none of which takes what another node could give."""
        devices, view = self._nodes.devices, self._nodes.devices_ahead(pod_class)
        nodes = devices.allot_all(pod_class.devices, view, rows, counts, pod_class.signature)
        self.undo_allotting(pod_class, nodes)

    def undo_allotting(self, pod_class: PodClass, nodes: Sequence[str]) -> None:
        """Have devices that are kept for pods of a class on some nodes be free again if this is rolled back.

        They are named as often as there are pods.
        """
        self._log.append(partial(self._nodes.devices.promises.withdraw, pod_class.signature, nodes))

    def earmark(self, pod_class: PodClass, row: int, picks: Picks) -> None:
        """Keep volumes for a pod of a class that has been put on a row; they stay kept for it after the commit."""
        node = self._nodes.names[row]
        self._nodes.volumes.pledges.earmark(pod_class, node, picks)
        self._log.append(partial(self._nodes.volumes.pledges.withdraw, pod_class, node))

    def settle(self, claim: str, volume: str, row: int) -> None:
        """Hold the pods that are put from now on to what a claim (namespace/name) is to get that several of them use.

        Args:
            claim: The claim.
            volume: The volume, or "" for one that is made for the node of the row.
            row: A row where it can be used.
        """
        self._nodes.volumes.pledges.settle(claim, volume, self._nodes.names[row])
        self._settled.append(claim)
        self._log.append(self._unsettle)

    @property
    def brings_constraints(self) -> bool:
        """Whether a pod that does not count among the pods on nodes yet has terms or ports of its own."""
        return self._constraining > 0

    def show(self) -> None:
        """Count what has been put so far among the pods on nodes, for a class that looks at the pods around it.

        It is counted there until the transaction ends; from then on whoever takes the room over is.
        """
        for placed in self.unshown:
            self._count(placed, 1)
        self._shown += self.unshown
        self.unshown, self._constraining = [], 0

    def mark(self) -> int:
        """Return a point to come back to with `rollback`."""
        return len(self._log)

    def rollback(self, mark: int = 0) -> None:
        """Undo every step since the mark, last first."""
        while len(self._log) > mark:
            self._log.pop()()

    def commit(self) -> None:
        """Keep what was taken.

        Room, load and who talks to whom stay counted, for whoever takes them over; all else counts for these pods from
        when it is known which ones they are.
        """
        while self._shown:
            self._count(self._shown.pop(), -1)
        while self._attached:
            self._detach()
        while self._zoned:
            self._unzone()
        while self._settled:
            self._unsettle()
        self.unshown.clear()
        self._constraining = 0
        self._log.clear()
        self._committed = True

    def _taken_by(self, pod_class: PodClass) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return int64[resources] and int64[2]: what one pod of a class takes, and what it counts in the score."""
        return pod_class.keep(
            "taken", len(self._nodes.resource_index.column_of), partial(self._work_out_taken, pod_class)
        )

    def _work_out_taken(self, pod_class: PodClass) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        weight = [min(one, MOST_AMOUNT + 1) for one in pod_class.weight]
        return self._nodes.resource_index.vector(pod_class.requests), np.array(weight, dtype=np.int64)

    def _give_back(self, rows: NDArray[np.int64], change: NDArray[np.int64]) -> None:
        self._nodes.requested[rows, : change.shape[1]] -= change

    def _lighten(self, rows: NDArray[np.int64], weight: NDArray[np.int64]) -> None:
        self._nodes.scored[rows] -= weight

    def _unsettle(self) -> None:
        """Leave it open what the claim gets that was settled last."""
        self._nodes.volumes.pledges.unsettle(self._settled.pop())

    def _detach(self) -> None:
        """Take back what the last `put` of pods with volumes attached."""
        self._attach(self._attached.pop(), -1)

    def _unzone(self) -> None:
        """Take back what the last `put` of pods took of NUMA zones."""
        pod_class, rows, counts = self._zoned.pop()
        self._nodes.numa.hold(pod_class, rows, counts, -1)

    def _attach(self, placed: _Placed, sign: int) -> None:
        pod_class, rows, counts = placed
        for row, count in zip(rows.tolist(), counts.tolist(), strict=True):
            self._nodes.volumes.hold(pod_class.volumes, self._nodes.names[row], sign * count)

    def _withdraw(self, placed: _Placed) -> None:
        """Undo the last `put` among the pods on nodes."""
        if self.unshown and self.unshown[-1] is placed:
            self.unshown.pop()
            self._constraining -= placed[0].inter_pod != UNCONSTRAINED
        else:
            self._count(self._shown.pop(), -1)

    def _count(self, placed: _Placed, sign: int) -> None:
        pod_class, rows, counts = placed
        self._nodes.label_index.add_counted(pod_class.pod_signature, rows, sign * counts)
