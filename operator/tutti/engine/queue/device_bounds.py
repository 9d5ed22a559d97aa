"""Who of those that claim devices can have some on the nodes where there may be more: asked of all of these at once.

It is found out as it is for a try (`cluster/devices/programs.py`), once for all who ask for the same. Where that takes
long, or others could be taken out of the devices they have, nobody is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.classes import PodClass
from tutti.cluster.devices.asks import NO_DEVICES, DeviceNeeds
from tutti.cluster.devices.columns import Mask
from tutti.cluster.devices.programs import SearchLength
from tutti.cluster.nodes import NodeColumns

_MOST_ASKED: Final = 64
"""So many who ask for different devices are looked at, and no more of them are left out."""

_MOST_STEPS: Final = 2000
"""So many devices are tried for all of them, beside few for each."""

_LIGHT_TERMS: Final = 16
"""Whose claims have more terms is looked at only when it is tried."""


def is_looked_at(pod_class: PodClass) -> bool:
    """Whether pods of a class claim devices that are quickly looked for."""
    needs = pod_class.devices
    return needs is not NO_DEVICES and not needs.near_cores and pod_class.terms <= _LIGHT_TERMS


class DeviceBounds:
    """What devices the pods ask for that somebody waits with, by the number of each pod."""

    def __init__(self) -> None:
        self._alike: dict[int, tuple[DeviceNeeds, dict[int, None]]] = {}  # by the identity of what they ask for
        self._needs: dict[int, DeviceNeeds] = {}

    def put(self, pod: int, pod_class: PodClass) -> None:
        """Note what a pod of a class asks for."""
        self.drop(pod)
        if is_looked_at(pod_class):
            needs = self._needs[pod] = pod_class.devices
            self._alike.setdefault(id(needs), (needs, {}))[1][pod] = None

    def drop(self, pod: int) -> None:
        """Forget a pod."""
        needs = self._needs.pop(pod, None)
        if needs is not None:
            alike = self._alike[id(needs)][1]
            del alike[pod]
            if not alike:
                del self._alike[id(needs)]

    def __bool__(self) -> bool:
        return bool(self._needs)

    def found(self, nodes: NodeColumns, chosen: Mask) -> Iterator[tuple[NDArray[np.int64], Mask]]:
        """Yield those of some pods, bool[pods], that ask for the same, and bool[rows]: where they may find it."""
        asking = list[tuple[DeviceNeeds, NDArray[np.int64]]]()
        for needs, alike in self._alike.values():
            pods = np.fromiter(alike, dtype=np.int64, count=len(alike))
            some = pods[chosen[pods]]
            if len(some):
                asking.append((needs, some))
        steps = 0
        for needs, some in asking if len(asking) <= _MOST_ASKED else ():
            where, more = has_devices(nodes, needs)
            steps += more
            if steps > _MOST_STEPS:
                return
            yield some, where


def has_devices(nodes: NodeColumns, needs: DeviceNeeds) -> tuple[Mask, int]:
    """Return bool[rows]: which nodes have what claims ask for, or may have it; and how many steps were taken to tell.

    Where it takes so long that it cannot be told at once, they are looked for anew when somebody is tried.
    """
    view = nodes.device_view(needs)
    columns = nodes.devices.columns(needs, view)
    steps = sum(program.steps for program, _ in columns.programs)
    if nodes.devices.length_of_search(needs, view) is not SearchLength.SHORT:
        return np.ones(columns.count, dtype=np.bool_), steps
    return columns.fits, steps
