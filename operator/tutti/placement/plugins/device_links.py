"""Members of a gang go to nodes whose devices are linked, among nodes that are equally good.

It decides ties only: which nodes are worth most is for the scores to say. Where the gang has to be near, and not only
would better be, its workload asks for a topology.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tutti.cluster.classes import Feature, PodClass
from tutti.cluster.devices.islands import APART
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.transaction import Transaction
from tutti.placement.framework import Counts

_MOST = 1 << 20


def linked_first(
    nodes: NodeColumns,
    transaction: Transaction,
    pod_class: PodClass,
    room: Counts,
    *,
    wanted: int,
    names: frozenset[str],
) -> NDArray[np.int64] | None:
    """Return the order of rows by which ties are decided.

    Islands on which others of this transaction are come first; then those that hold all pods, the smallest before the
    others; then those that hold most.

    Args:
        nodes: The columns.
        transaction: What is being placed with them.
        pod_class: That of the pods.
        room: int64[rows], how many of them each node could take.
        wanted: How many they are.
        names: The attributes of devices that tell islands; none: nothing is preferred.

    Returns:
        int64[rows], the place of each row; None where the rows themselves are the order.
    """
    alone = wanted == 1 and not transaction.unshown
    if not names or alone or not pod_class.features & Feature.DEVICES or not pod_class.devices.claims:
        return None
    devices, needs = nodes.devices, pod_class.devices
    view = nodes.device_view(needs)
    islands = devices.islands(names, view)
    linked = islands != APART
    if not linked.any():
        return None
    count = int(islands.max()) + 1
    held = np.bincount(islands[linked], weights=np.minimum(room, wanted)[linked], minlength=count).astype(np.int64)
    if nodes.gives_devices_in_turn(needs):  # what one of them gives is missing on the others
        most = np.zeros(count, dtype=np.int64)
        np.maximum.at(most, islands[linked], np.minimum(devices.room(needs, view, wanted), _MOST)[linked])
        held = np.minimum(held, most)
    begun = np.zeros(count, dtype=np.bool_)
    for _, rows, _ in transaction.unshown:
        begun[islands[rows[islands[rows] != APART]]] = True
    of_row = np.where(linked, islands, 0)
    size = held[of_row]
    enough = linked & (size >= wanted)
    order = np.lexsort(
        (of_row, np.where(enough, size, -size), ~enough, ~linked, ~(begun[of_row] & linked))  # the last decides first
    )
    places = np.empty(len(order), dtype=np.int64)
    places[order] = np.arange(len(order))
    return places
