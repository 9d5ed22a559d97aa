"""What leaves together, a pod by itself or a whole gang, as columns; and removing it while a question is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.cluster import Cluster
from tutti.cluster.label_index import Codes
from tutti.cluster.placed_pods import Slots
from tutti.cluster.pods import PodRecord
from tutti.placement.framework import Excluding, Mask
from tutti.placement.gang import Ask
from tutti.placement.preemption.victim_cost import PRIORITY_OFFSET, Coverage, VictimCost
from tutti.placement.profile import Profile, pre_filter, static_filter_result
from tutti.placement.sequential import feasible

VictimPredicate = Callable[[Mask], bool]
"""Given bool[units] that are gone, whether what else must hold does; more that are gone must not undo it."""


def always_true(gone: Mask) -> bool:  # noqa: ARG001 - what is asked of every such rule
    """Nothing else must hold."""
    return True


Numbers = NDArray[np.int64]
"""int64[n]: units by their number, or something of each."""

NO_BAND = np.iinfo(np.int64).min


@dataclass(frozen=True, slots=True)
class GangUnit:
    """Pods that leave together or not at all.

    Attributes:
        priority: Of all of them together.
        harmless: Whether their leaving hurts nobody: they are leaving already, or their gang has more than it needs.
    """

    pods: Sequence[PodRecord]
    priority: int
    harmless: bool = False


@dataclass(frozen=True, slots=True)
class VictimUnits:
    """Everybody who may be taken out.

    Attributes:
        slots: int64[m], the pods; those of one unit side by side.
        of: int64[m], ascending, the unit of each.
        starts: int64[n + 1], where each unit begins among the pods.
        band: int64[n], the priority of each; NO_BAND where its leaving hurts nobody.
        started: float64[n], when the first pod of each was started, Unix seconds.
    """

    slots: Slots
    of: Numbers
    starts: Numbers
    band: Numbers
    started: NDArray[np.float64]

    @classmethod
    def among(
        cls, cluster: Cluster, singles: Slots, gangs: Iterable[GangUnit] = (), leaving: Slots | None = None
    ) -> VictimUnits:
        """Return the units made of pods by themselves, and of gangs; pods without room are left out.

        Args:
            cluster: Where they are.
            singles: The pods that leave by themselves, by their slots; none of them in a gang.
            gangs: The others.
            leaving: Further pods that leave by themselves, and whose leaving hurts nobody.
        """
        columns = cluster.pod_columns
        there = [(gang, [pod.slot for pod in gang.pods if pod.slot >= 0]) for gang in gangs]
        there = [(gang, slots) for gang, slots in there if slots]
        last = singles[:0] if leaving is None else leaving
        sizes = [
            np.ones(len(singles), dtype=np.int64),
            np.array([len(slots) for _, slots in there], dtype=np.int64),
            np.ones(len(last), dtype=np.int64),
        ]
        starts = np.concatenate(([0], np.cumsum(np.concatenate(sizes))))
        slots = np.concatenate((singles, *(np.array(slots, dtype=np.int64) for _, slots in there), last))
        bands = [NO_BAND if gang.harmless else gang.priority for gang, _ in there]
        own = np.where(columns.leaving[singles], NO_BAND, columns.priority[singles])
        return cls(
            slots=slots,
            of=np.repeat(np.arange(len(starts) - 1), np.diff(starts)),
            starts=starts,
            band=np.concatenate((own, np.array(bands, dtype=np.int64), np.full(len(last), NO_BAND))),
            started=np.minimum.reduceat(columns.started[slots], starts[:-1]) if len(slots) else np.zeros(0),
        )

    def some(self, which: Mask) -> VictimUnits:
        """Return some of them, numbered anew: bool[n]."""
        pods = which[self.of]
        size = self.size[which]
        return VictimUnits(
            slots=self.slots[pods],
            of=np.repeat(np.arange(len(size)), size),
            starts=np.concatenate(([0], np.cumsum(size))),
            band=self.band[which],
            started=self.started[which],
        )

    def __len__(self) -> int:
        """How many units there are."""
        return len(self.band)

    @property
    def size(self) -> Numbers:
        """int64[n], how many pods each has."""
        return np.diff(self.starts)

    def pods(self, chosen: Mask) -> Slots:
        """Return the pods of some units: bool[n] to int64[...]."""
        return self.slots[chosen[self.of]]

    def cheapest_first(self, violating: Mask) -> Numbers:
        """Return all units, those whose leaving hurts least first.

        Over budget comes last of all; then by priority; a whole gang after a pod by itself and a larger one after a
        smaller; then who has run longest (kube-scheduler 1.36, framework/preemption, moreImportantVictim).

        Args:
            violating: bool[n], those that no disruption budget has room for.
        """
        return np.lexsort((-self.started, self.size, self.band, violating))

    def pods_of(self, unit: int) -> Slots:
        """Return the pods of one unit."""
        return self.slots[self.starts[unit] : self.starts[unit + 1]]

    def cost(self, cluster: Cluster, chosen: Mask, coverage: Coverage) -> VictimCost:
        """Return what taking out some units, bool[units], would do; those that hurt nobody do not count.

        A pod counts with the priority of what it leaves with.
        """
        costly = chosen & (self.band != NO_BAND)
        band, size, started = self.band[costly], self.size[costly], self.started[costly]
        highest = int(band.max(initial=-PRIORITY_OFFSET))
        return VictimCost(
            violations=self.violations(cluster, chosen, coverage),
            highest=highest,
            total=int((size * (band + PRIORITY_OFFSET)).sum()),
            number=int(size.sum()),
            youth=-float(started[band == highest].min()) if len(band) else 0.0,
        )

    def violations(self, cluster: Cluster, chosen: Mask, coverage: Coverage) -> int:
        """Return how many pods of some units no budget has room for."""
        return coverage.violations(cluster.pod_columns.at(self.pods(chosen))) if coverage.budgets else 0

    def over_budget(self, cluster: Cluster, some: Mask, coverage: Coverage, *, reverse: bool = False) -> Mask:
        """Tell for which of some units no budget has room if those that hurt least, or most, go first: bool[units]."""
        over = np.zeros(len(self), dtype=np.bool_)
        left = [budget.allowed for budget in coverage.budgets]
        if left:
            order = self.cheapest_first(over)
            for unit in (order[::-1] if reverse else order).tolist():
                pods = cluster.pod_columns.at(self.pods_of(unit)) if some[unit] else []
                if coverage.take(left, pods):
                    coverage.give_back(left, pods)
                    over[unit] = True
        return over


class SimulatedRemoval:
    """A context manager: inside, these pods take no room, device or link; `seen`, nor are they seen, or hold volumes.

    What claims have that nobody is left to use is free inside, too: it will be, whoever leaves.
    """

    def __init__(self, cluster: Cluster, slots: Slots, *, seen: bool) -> None:
        columns, axis = cluster.pod_columns, cluster.nodes.resource_index
        self._nodes = cluster.nodes
        self._row = columns.row[slots].astype(np.int64)
        self._held = columns.held(slots, axis)
        self._weight = columns.weight(slots, axis)
        self._records = columns.at(slots) if seen else []
        self._of_zones = columns.at(slots) if cluster.nodes.numa else []
        self._of_cards = columns.at(slots) if cluster.nodes.cards else []
        self._of_network = [one.key for one in columns.at(slots)] if cluster.nodes.network else []
        self._holders = cluster.device_users.holders if cluster.nodes.devices.catalog else None
        self._with_devices = [] if self._holders is None else list(filter(self._holders.concerns, columns.at(slots)))

    def __enter__(self) -> Self:
        if self._holders is not None:
            self._holders.lift_departing(back=False)
        self.remove()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.reprieve()
        if self._holders is not None:
            self._holders.lift_departing(back=True)

    def remove(self) -> None:
        """Take them off; `reprieve` them before anything else happens."""
        self._change(-1)

    def reprieve(self) -> None:
        """Undo `remove`."""
        self._change(1)

    def _change(self, sign: int) -> None:
        nodes = self._nodes
        for columns, amounts in ((nodes.requested, self._held), (nodes.scored, self._weight)):
            for column, amount in zip(columns.T, amounts.T, strict=False):
                np.add.at(column, self._row, sign * amount)
        if self._holders is not None and self._with_devices:
            self._holders.lift(self._with_devices, back=sign > 0)
        for record in self._of_zones:
            nodes.numa.lift(record.place, record.key, back=sign > 0)
        for record in self._of_cards:
            nodes.cards.lift(record.key, record.place, back=sign > 0)
        for key in self._of_network:
            nodes.network.lift(key, back=sign > 0)
        for record, row in zip(self._records, self._row.tolist(), strict=False):
            nodes.label_index.add(record.pod_signature, row, leaving=record.deleting, count=sign)
            if record.uses and sign > 0:
                nodes.volumes.users.mount(record.key, nodes.names[row], record.uses)
            elif record.uses:
                nodes.volumes.users.unmount(record.key)


MOST_BARRED = 512
"""How many closed nodes are looked at, those with the least important pods first: their pods are asked one by one."""


@dataclass(frozen=True, slots=True)
class BarredNodes:
    """Nodes that are closed now, and open once some pods have left.

    Attributes:
        rows: bool[rows], which nodes.
        slots: int64[m], the pods that keep them closed; all of them may leave.
    """

    rows: Mask
    slots: Slots

    @classmethod
    def of(cls, cluster: Cluster, ask: Ask, units: VictimUnits, profile: Profile) -> BarredNodes | None:
        """Return the nodes that are closed to pods of an ask by some of the units only; None where none is."""
        nodes, columns = cluster.nodes, cluster.pod_columns
        static = static_filter_result(ask.pod_class, nodes, ask.where, profile).mask
        states = pre_filter(ask.pod_class, nodes, ask.where, profile)
        codes = np.zeros(nodes.label_index.codes, dtype=np.bool_)
        for state in states:
            if isinstance(state, Excluding):
                codes |= state.in_the_way(nodes)
        at, counts, _ = nodes.label_index.where(codes)
        there = np.zeros(len(nodes), dtype=np.int64)
        np.add.at(there, at, counts)
        shut = static & ~feasible(static, states) & (there > 0)
        if not shut.any():
            return None
        row = columns.row[units.slots].astype(np.int64)
        known = np.flatnonzero(_least_important(units, row, shut)[row])
        mine = known[are_of(codes, columns.at(units.slots[known]))]
        rows = (there == np.bincount(row[mine], minlength=len(nodes))) & shut
        slots = units.slots[mine[rows[row[mine]]]]
        with SimulatedRemoval(cluster, slots, seen=True):
            rows &= feasible(static, pre_filter(ask.pod_class, nodes, ask.where, profile))
        return cls(rows, slots[rows[columns.row[slots]]]) if rows.any() else None


def _least_important(units: VictimUnits, row: Slots, shut: Mask) -> Mask:
    """Return bool[rows]: so many of the nodes as are looked at."""
    least = np.full(len(shut), np.iinfo(np.int64).max)
    np.minimum.at(least, row, units.band[units.of])
    order = np.flatnonzero(shut)
    order = order[np.argsort(least[order], kind="stable")][:MOST_BARRED]
    out = np.zeros_like(shut)
    out[order] = True
    return out


def are_of(codes: Codes, records: list[PodRecord]) -> Mask:
    """Return bool[records]: which are of these codes."""
    of = [one.pod_signature.leaving_code if one.deleting else one.pod_signature.code for one in records]
    return codes[of] if of else np.zeros(0, dtype=np.bool_)
