"""The topology manager of one node in plain steps: the oracle of what zones hold (kubernetes pkg/kubelet/cm/topologymanager)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import combinations

from tutti.cluster.classes import PodClass
from tutti.cluster.numa_needs import own_part, zone_needs

Zone = dict[str, int]


@dataclass
class Kubelet:
    """One node: what its zones have left, and in all; pods are admitted one after another."""

    zones: list[Zone]
    whole: list[Zone]
    pod_scope: bool = False
    restricted: bool = False
    pinned: dict[str, list[tuple[int, Zone]]] = field(default_factory=dict)
    _now: list[tuple[int, Zone]] = field(default_factory=list)

    def run(self, name: str, pod_class: PodClass) -> bool:
        """Admit a pod and remember what it has."""
        self._now = []
        if not self.admit(pod_class):
            return False
        self.pinned[name] = self._now
        return True

    def end(self, name: str) -> None:
        """Take back what a pod has."""
        for at, taken in self.pinned.pop(name, []):
            for resource, amount in taken.items():
                self.zones[at][resource] += amount

    def admit(self, pod_class: PodClass) -> bool:
        """Pin a pod, or refuse it and leave everything as it was."""
        before = [dict(zone) for zone in self.zones]
        needs = zone_needs(pod_class)
        if self.pod_scope:
            done = self._pin(pod_class, needs.whole)
        else:
            done = all(self._fits(pod_class, asked) for asked, _ in needs.init) and all(
                self._pin(pod_class, asked) for asked in needs.containers
            )
        if not done:
            self.zones = before
        return done

    def room(self, pod_class: PodClass) -> int:
        """How many more pods are admitted."""
        count = 0
        while count < 64 and self.admit(pod_class):
            count += 1
        return count

    def _fits(self, pod_class: PodClass, asked: Zone) -> bool:
        return self._chosen(pod_class, asked) is not None

    def _pin(self, pod_class: PodClass, asked: Zone) -> bool:
        chosen = self._chosen(pod_class, asked)
        if chosen is None:
            return False
        for name, amount in asked.items():
            if not zone_needs(pod_class).counts(name):
                continue
            left = amount
            for at in chosen:
                taken = min(left, self.zones[at].get(name, 0))
                if name in self.zones[at]:
                    self.zones[at][name] -= taken
                    self._now.append((at, {name: taken}))
                left -= taken
        return True

    def _chosen(self, pod_class: PodClass, asked: Zone) -> Sequence[int] | None:
        """The zones that a request is pinned to, none where it is not; None where it is refused."""
        needs, size = zone_needs(pod_class), 1
        wanted = {name: amount for name, amount in asked.items() if amount}
        if self.restricted:
            wanted = own_part(wanted, guaranteed=needs.guaranteed)
        wanted = {name: amount for name, amount in wanted.items() if any(name in zone for zone in self.zones)}
        if not wanted:
            return ()
        if self.restricted:
            least = {self._least(name, amount) for name, amount in wanted.items()}
            if len(least) != 1 or None in least:
                return None
            (size,) = least
        for members in combinations(range(len(self.zones)), size):
            if all(
                all(name in self.zones[at] for at in members)
                and (not needs.counts(name) or sum(self.zones[at][name] for at in members) >= amount)
                for name, amount in wanted.items()
            ):
                return members
        return None

    def _least(self, name: str, amount: int) -> int | None:
        """How many zones could hold it at least, were the node empty."""
        sizes = sorted((zone.get(name, 0) for zone in self.whole), reverse=True)
        return next((size for size in range(1, len(sizes) + 1) if sum(sizes[:size]) >= amount), None)
