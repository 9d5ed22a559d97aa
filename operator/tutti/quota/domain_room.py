"""How many pods find room in each domain of a topology.

Rules: Kueue, tas_flavor_snapshot.go `fillInCounts` (0.20). Counted in the leaves and summed up, in pods and in slices
(so many pods that must stay in one domain of the slice level), both with and without a leader: a pod of another shape
that has to be in the same domain. A leader costs a domain as much as it costs the child in which it costs least.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tutti.api.labels import NodeSelector
from tutti.api.taints import HARD_EFFECTS, Toleration, untolerated
from tutti.quota.domains import Domain, DomainTree, Values, left_in, pods_in, with_pod


@dataclass(slots=True, eq=False)
class Spot:
    """A domain with what it has room for; then, with what is put there.

    Attributes:
        leaders: Leaders, 0 or 1.
        pods_led: Pods beside a leader.
        slices_led: Slices beside a leader.
    """

    domain: Domain
    children: list[Spot] = field(default_factory=list)
    pods: int = 0
    slices: int = 0
    leaders: int = 0
    pods_led: int = 0
    slices_led: int = 0

    @property
    def values(self) -> Values:
        """Those of its domain."""
        return self.domain.values


@dataclass(frozen=True, slots=True)
class Counting:
    """What is counted.

    Attributes:
        per_pod: What one pod asks for.
        leader: What the leader asks for; None where there is none.
        slice_size: Pods of a slice.
        slice_level: Index of the level in one of whose domains a slice must stay.
        inner: Sizes of smaller slices, by index of the level they must stay in.
        assumed: What pod sets before it take, by leaf.
        empty: Whether to count as if nothing were placed by topology.
    """

    per_pod: Mapping[str, int]
    leader: Mapping[str, int] | None = None
    slice_size: int = 1
    slice_level: int = 0
    inner: Mapping[int, int] = field(default_factory=dict)
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: NodeSelector | None = None
    tolerations: tuple[Toleration, ...] = ()
    assumed: Mapping[Values, Mapping[str, int]] = field(default_factory=dict)
    empty: bool = False

    def spots(self, tree: DomainTree) -> list[list[Spot]]:
        """Return all domains with what they have room for, per level."""
        by_level: list[list[Spot]] = [[] for _ in tree.levels]
        for root in tree.roots:
            self._count(tree, root, 0, by_level)
        return by_level

    def _count(self, tree: DomainTree, domain: Domain, at: int, by_level: list[list[Spot]]) -> Spot:
        spot = Spot(domain)
        by_level[at].append(spot)
        if domain.children:
            spot.children = [self._count(tree, child, at + 1, by_level) for child in domain.children]
            self._sum_up(spot, self.inner.get(at + 1, 1))
        elif self._may_use(tree, domain):
            self._fill(spot, self.assumed.get(tree.shown(domain), {}))
        if at == self.slice_level:
            spot.slices, spot.slices_led = spot.pods // self.slice_size, spot.pods_led // self.slice_size
        return spot

    def _may_use(self, tree: DomainTree, leaf: Domain) -> bool:
        place = leaf.place
        if not tree.by_node or place is None:
            return True
        if untolerated(place.taints, self.tolerations, HARD_EFFECTS) is not None:
            return False
        if any(place.labels.get(key) != value for key, value in self.node_selector.items()):
            return False
        return self.affinity is None or self.affinity.matches(place.labels, place.name)

    def _fill(self, spot: Spot, assumed: Mapping[str, int]) -> None:
        room = left_in(spot.domain, empty=self.empty)
        for name, amount in assumed.items():
            room[name] = room.get(name, 0) - amount
        need = with_pod(self.per_pod)
        spot.pods = pods_in(need, room)
        leader = None if self.leader is None else with_pod(self.leader)
        if leader is not None and pods_in(leader, room) > 0:
            spot.leaders = 1
            room = {name: amount - leader.get(name, 0) for name, amount in room.items()}
        spot.pods_led = pods_in(need, room)

    def _sum_up(self, spot: Spot, inner: int) -> None:
        whole = [(child.pods // inner * inner, child.pods_led // inner * inner, child) for child in spot.children]
        spot.pods = sum(pods for pods, _, _ in whole)
        spot.slices = sum(child.slices for child in spot.children)
        spot.leaders = max(child.leaders for child in spot.children)
        able = [one for one in whole if self.leader is None or one[2].leaders]
        if able:
            spot.pods_led = spot.pods - min(pods - led for pods, led, _ in able)
            spot.slices_led = spot.slices - min(child.slices - child.slices_led for _, _, child in able)
