"""Where the devices that pods claim can be had: those of claims that have some, and free ones for the others.

Rules: kube-scheduler 1.36, plugins/dynamicresources. What a node gives is worked out for all nodes at once
(`cluster/devices/programs.py`), and taken when a pod is put there (`cluster/transaction.py`). Where devices can be used
from several nodes, or a claim by several pods of a gang, each pod is asked about in turn.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.classes import Feature, PodClass
from tutti.cluster.devices.asks import HeldClaim
from tutti.cluster.devices.offers import DeviceFault
from tutti.cluster.devices.programs import DeviceProgram
from tutti.cluster.devices.state import DeviceState
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.transaction import Transaction
from tutti.placement.framework import FlavorConstraints, Mask, Rejection, Scores
from tutti.placement.plugins.node_affinity import matches_any_term

NOT_AVAILABLE = "resourceclaim not available on the node"


@dataclass(slots=True)
class DeviceRoom:
    """What the claims of a class find on each node, where no pod takes anything that another node could give."""

    pod_class: PodClass
    nodes: NodeColumns
    changes_on_add: bool = field(default=False, init=False)
    one_per_node: bool = field(default=False, init=False)

    def room(self, most: int) -> NDArray[np.int64]:
        """Return int64[rows]: how many more pods of the class each node has devices for."""
        return self.nodes.devices.room(self.pod_class.devices, self.nodes.devices_ahead(self.pod_class), most)

    def rejections(self) -> Sequence[Rejection]:
        """Rule out nodes that have none; who would have to leave for that is not known, so it is final."""
        return tuple(_rejections(self.pod_class, self.nodes))

    def add(self, row: int) -> None:
        """Nothing to count: a pod takes its devices when it is put."""


@dataclass(slots=True)
class DeviceTurns:
    """What the claims of a class find on each node, as its pods take devices one after another."""

    pod_class: PodClass
    nodes: NodeColumns
    changes_on_add: bool = field(default=True, init=False)
    one_per_node: bool = field(default=False, init=False)
    _given: list[int] = field(default_factory=list, init=False)

    def rejections(self) -> Sequence[Rejection]:
        """Rule out nodes that have none now."""
        return tuple(_rejections(self.pod_class, self.nodes))

    def add(self, row: int) -> None:
        """Give a pod on a row its devices, if there are any."""
        needs = self.pod_class.devices
        view = self.nodes.device_view(needs)
        if self.nodes.devices.allot(needs, view, row, self.pod_class.signature):
            self._given.append(row)

    def settle(self, transaction: Transaction) -> None:
        """Have what was given since the last time be free again if the transaction is rolled back."""
        given, self._given = self._given, []
        transaction.undo_allotting(self.pod_class, [self.nodes.names[row] for row in given])


@dataclass(frozen=True, slots=True)
class DynamicResources:
    """The filter, and the score: nodes where the better ways to fulfil requests are possible."""

    name: str = "DynamicResources"
    weight: int = 2
    scaled: bool = True
    reverse: bool = False
    concerns: int = field(default=Feature.DEVICES, init=False)

    def pre_filter(
        self,
        pod_class: PodClass,
        nodes: NodeColumns,
        where: FlavorConstraints,  # noqa: ARG002 - a filter's signature
    ) -> DeviceRoom | DeviceTurns:
        """Look at what there is."""
        turns = nodes.gives_devices_in_turn(pod_class.devices)
        return DeviceTurns(pod_class, nodes) if turns else DeviceRoom(pod_class, nodes)

    def points(self, pod_class: PodClass, nodes: NodeColumns) -> Scores:
        """Return int64[rows]: for each request with several ways, 8 for the first, 7 for the second, and so on.

        Of a pod whose claims all have devices already, nothing is left to choose: no node counts anything.
        """
        needs = pod_class.devices
        if not needs.claims and not needs.extended:
            return np.zeros(len(nodes), dtype=np.int64)
        held = sum(one.rank for one in needs.held)
        points: Scores = nodes.devices.columns(needs, nodes.devices_ahead(pod_class)).rank + held
        return points


@dataclass(frozen=True, slots=True)
class DevicePacking:
    """A score: nodes of whose devices most is used with those that claims get, and where these are near one another.

    And near the cores of the pod, where that is wanted and known.
    """

    weight: int = 5
    name: str = "DevicePacking"
    scaled: bool = False
    reverse: bool = False
    concerns: int = field(default=Feature.DEVICES, init=False)

    def points(self, pod_class: PodClass, nodes: NodeColumns) -> Scores:
        """Return int64[rows]: 0 to 100."""
        points: Scores = nodes.devices.columns(pod_class.devices, nodes.devices_ahead(pod_class)).tightness
        return points


def has_faults(pod_class: PodClass, nodes: NodeColumns) -> bool:
    """Whether it cannot be told of some nodes what the claims of a class find there."""
    needs = pod_class.devices
    if not (needs.claims or needs.extended):
        return False
    return nodes.devices.columns(needs, nodes.devices_ahead(pod_class)).is_faulty


def held_elsewhere(pod_class: PodClass, nodes: NodeColumns, rows: Mask) -> list[int]:
    """Return which of the claims that have devices cannot be used on one of some rows, bool[rows], by place."""
    return [at for at, held in enumerate(pod_class.devices.held) if (_unusable(held, nodes) & rows).any()]


def _unusable(held: HeldClaim, nodes: NodeColumns) -> Mask:
    """Return bool[rows]: where the devices that a claim has cannot be used."""
    if held.unready:
        return nodes.present.copy()
    if held.selector is None:
        return np.zeros(len(nodes), dtype=np.bool_)
    return ~matches_any_term(nodes, held.selector)


def _rejections(pod_class: PodClass, nodes: NodeColumns) -> Iterator[Rejection]:
    """Yield what rules nodes out, in kube-scheduler's order: no devices for claims, then devices that are elsewhere."""
    devices, view = nodes.devices, nodes.devices_ahead(pod_class)
    columns, needs = devices.columns(pod_class.devices, view), devices.current(pod_class.devices)
    if not needs.held and bool(columns.fits.all()):
        return
    left = nodes.present.copy()
    for program, where in columns.programs:
        for why, rows in program.refusals(where & left):
            left &= ~rows
            if isinstance(why, str):
                yield Rejection(why, rows, final=True)
                continue
            for text, those in _told_of(why, devices, program, rows):
                yield Rejection(text, those, final=True, faulty=True)
    for held in needs.held:
        elsewhere = left & _unusable(held, nodes)
        if elsewhere.any():
            left &= ~elsewhere
            yield Rejection(NOT_AVAILABLE, elsewhere, final=True)


def _told_of(
    fault: DeviceFault, devices: DeviceState, program: DeviceProgram, rows: Mask
) -> Iterator[tuple[str, Mask]]:
    """Yield why a program cannot tell what it finds on some rows, bool[rows], and of which of them that is said."""
    if fault.pool < 0:
        yield devices.fault_text(fault, program, -1), rows
        return
    for row in np.flatnonzero(rows).tolist():
        alone = np.zeros(len(rows), dtype=np.bool_)
        alone[row] = True
        yield devices.fault_text(fault, program, row), alone
