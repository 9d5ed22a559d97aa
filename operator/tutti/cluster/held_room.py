"""Room on nodes that is kept for pods that do not exist yet: it counts as taken until they come or it is given back.

Like room that is reserved for pods, it is taken in a transaction first; whoever takes it over is told here. It goes
with its node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Protocol

from tutti.cluster.classes import PodClass
from tutti.cluster.device_users import PodsByDevice
from tutti.cluster.new_room import NewRoom
from tutti.cluster.nodes import NodeColumns
from tutti.cluster.placed_pods import Hold, PodFollower, PodsByNode
from tutti.cluster.pods import PodRecord


class RoomOwner(Protocol):
    """Whose room it is: who is told when some of it comes and goes."""

    freed: NewRoom
    """Who is told where room may have appeared."""
    follower: PodFollower
    """Who is told of pods, and of room that is kept."""

    def assume(self, record: PodRecord, row: int) -> None:
        """Note that room taken on this row is this pod's."""


class HeldRoom:
    """What is held, and for pods of which class."""

    def __init__(self, nodes: NodeColumns, occupants: PodsByNode, device_users: PodsByDevice, owner: RoomOwner) -> None:
        self._nodes = nodes
        self._occupants = occupants
        self._device_users = device_users
        self._owner = owner

    def hold(self, pod_class: PodClass, row: int) -> Hold:
        """Note that room taken in a committed transaction is kept for a pod of a class that does not exist yet."""
        nodes, name = self._nodes, self._nodes.names[row]
        nodes.label_index.add(pod_class.pod_signature, row)
        self._owner.freed.neighbours_on((row,))
        nodes.numa.touch(name)
        hold = self._occupants.hold(name, pod_class)
        self._device_users.hold(hold, pod_class.signature)
        nodes.card_holders.hold(hold, pod_class)
        self._owner.follower.kept(hold, pod_class)
        if nodes.load:
            nodes.load.hold(row, pod_class)
        if nodes.network:
            nodes.network.take(pod_class.namespace, pod_class.labels, {name: 1}, -1)
        return hold

    def all(self) -> Iterator[tuple[Hold, PodClass]]:
        """Yield all room that is kept, and for pods of which class."""
        return self._occupants.holds()

    def on_node(self, name: str) -> Collection[PodClass]:
        """Return the classes of the pods for which room is kept on a node."""
        return self._occupants.held_on(name)

    def is_held(self, hold: Hold) -> bool:
        """Whether held room is still held: it is lost with its node."""
        return self._occupants.is_held(hold)

    def of_namespace(self, namespace: str) -> Mapping[str, int]:
        """Return what is held for pods of a namespace that do not exist yet, in scheduling units."""
        return self._occupants.held_for(namespace)

    def take_unheld(self) -> list[str]:
        """Return the namespaces for whose pods less is held since this was last asked."""
        return self._occupants.take_unheld()

    def adopt(self, hold: Hold, record: PodRecord) -> None:
        """Give room that is still held to a pod of the held class that has come to exist."""
        pod_class, row = self._occupants.end(hold), self._nodes.rows[hold[0]]
        assert pod_class is not None
        self._owner.follower.gone(hold)
        self._nodes.label_index.add(pod_class.pod_signature, row, count=-1)
        self._device_users.adopt(hold, record.pod_class.signature)
        self._nodes.card_holders.adopt(hold, record.pod_class)
        if self._nodes.load:
            self._nodes.load.adopt(row, pod_class, record.pod_class)
        if self._nodes.network:
            self._nodes.network.take(record.namespace, record.pod_class.labels, {hold[0]: 1}, 1)
        self._owner.assume(record, row)

    def lend(self, pod_class: PodClass, hold: Hold, *, back: bool = False) -> None:
        """Have the room of a held pod free for others for a while, or taken again; the hold itself stands."""
        self._charge(pod_class, hold[0], 1 if back else -1)
        self._device_users.lend(hold, back=back)
        self._nodes.card_holders.lend(hold, back=back)
        if self._nodes.numa:
            self._nodes.numa.lend(pod_class, hold[0], back=back)

    def release(self, hold: Hold) -> None:
        """Give back held room; nothing happens where the node is gone."""
        pod_class = self._occupants.end(hold)
        if pod_class is not None:
            self._charge(pod_class, hold[0], -1)
            self._nodes.numa.touch(hold[0])
            self._device_users.end_hold(hold)
            self._nodes.card_holders.end_hold(hold)
            self._owner.freed.anywhere()
            self._owner.follower.gone(hold)

    def _charge(self, pod_class: PodClass, node: str, sign: int) -> None:
        row = self._nodes.rows[node]
        self._nodes.charge(row, pod_class.requests, pod_class.weight, sign)
        self._nodes.label_index.add(pod_class.pod_signature, row, count=sign)
        if self._nodes.load:
            self._nodes.load.lend(row, pod_class, sign)
