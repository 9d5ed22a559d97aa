"""Who takes room on which node: the pods that are there or are assumed to be, and room held for pods to come.

Kept by the name of the node, since pods may be seen before their node is, and stay when it goes. Room held for pods
that do not exist yet goes with its node.
"""

from __future__ import annotations

from collections.abc import Collection

from tutti.cluster.classes import PodClass
from tutti.cluster.pods import PodKey, PodRecord

Hold = tuple[str, int]
"""Room held for a pod to come: the name of its node, and a number of its own."""


class Occupants:
    """The pods and holds of every node."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[PodKey, PodRecord]] = {}
        self._holds: dict[str, dict[int, PodClass]] = {}
        self._last_hold = 0

    def pods_on(self, node: str) -> Collection[PodRecord]:
        """Return the pods on a node, in the order they came."""
        return self._pods.get(node, {}).values()

    def add(self, node: str, record: PodRecord) -> None:
        """Note that a pod is on a node."""
        here = self._pods.get(node)
        if here is None:
            here = self._pods[node] = {}
        here[record.key] = record

    def remove(self, node: str, record: PodRecord) -> None:
        """Note that a pod is not on a node any more."""
        here = self._pods[node]
        del here[record.key]
        if not here:
            del self._pods[node]

    def hold(self, node: str, klass: PodClass) -> Hold:
        """Note that room on a node is held for a pod of a class."""
        self._last_hold += 1
        self._holds.setdefault(node, {})[self._last_hold] = klass
        return node, self._last_hold

    def is_held(self, hold: Hold) -> bool:
        """Whether room is still held."""
        node, number = hold
        return number in self._holds.get(node, {})

    def end(self, hold: Hold) -> PodClass | None:
        """Hold room no more; returns for pods of which class it was held, None where it was not."""
        node, number = hold
        return self._holds.get(node, {}).pop(number, None)

    def held_on(self, node: str) -> Collection[PodClass]:
        """Return the classes of the pods for which room is held on a node."""
        return self._holds.get(node, {}).values()

    def end_all(self, node: str) -> Collection[PodClass]:
        """Hold no room on a node any more; returns for pods of which classes it was held."""
        return self._holds.pop(node, {}).values()
