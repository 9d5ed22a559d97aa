"""The quota tree: ClusterQueues as leaves, Cohorts above them, and what each may still use.

Rules: Kueue, pkg/cache/scheduler/resource_node.go (0.20), restated here per node n and per (flavor, resource):

    subtree(queue)  = nominal            subtree(cohort) = nominal + sum over children (subtree - local)
    local           = max(0, subtree - lending limit) where there is one, else 0: what is never lent
    usage(queue)    = what is reserved   usage(cohort)   = sum over children max(0, usage - local)
    available(root) = subtree - usage
    available(n)    = max(0, local - usage)
                      + min(available(parent), subtree - local - max(0, usage - local) + borrowing limit)
    potential(root) = subtree
    potential(n)    = min(local + potential(parent), subtree + borrowing limit)

All amounts are integers in scheduling units.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

FlavorResource = tuple[str, str]
"""The name of a flavor and of a resource: what quota is counted in."""

Usage = dict[FlavorResource, int]


@dataclass(frozen=True, slots=True)
class Quota:
    """What one node of the tree is given of one flavor and resource; a limit of None is no limit."""

    nominal: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None


@dataclass(slots=True, eq=False)
class QuotaNode:
    """A ClusterQueue (a leaf) or a Cohort.

    Attributes:
        quotas: What it is given.
        subtree: What it and everything below it may use before borrowing.
        usage: What is used of it, after what its children keep to themselves.
    """

    name: str
    quotas: Mapping[FlavorResource, Quota]
    parent: QuotaNode | None = None
    children: list[QuotaNode] = field(default_factory=list)
    subtree: Usage = field(default_factory=dict)
    usage: Usage = field(default_factory=dict)

    def local(self, what: FlavorResource) -> int:
        """Return what this node never lends."""
        quota = self.quotas.get(what)
        if quota is None or quota.lending_limit is None:
            return 0
        return max(0, self.subtree.get(what, 0) - quota.lending_limit)

    def available(self, what: FlavorResource) -> int:
        """Return how much more may be used here; negative where more is used than there is."""
        subtree, usage = self.subtree.get(what, 0), self.usage.get(what, 0)
        if self.parent is None:
            return subtree - usage
        local = self.local(what)
        shared = self.parent.available(what)
        limit = self._borrowing_limit(what)
        if limit is not None:
            shared = min(shared, subtree - local - max(0, usage - local) + limit)
        return max(0, local - usage) + shared

    def potential(self, what: FlavorResource) -> int:
        """Return the most that could ever be used here, were nothing used anywhere."""
        subtree = self.subtree.get(what, 0)
        if self.parent is None:
            return subtree
        most = self.local(what) + self.parent.potential(what)
        limit = self._borrowing_limit(what)
        return most if limit is None else min(most, subtree + limit)

    def add(self, what: FlavorResource, amount: int) -> None:
        """Use `amount` more; what this node does not keep to itself is used of its parent."""
        private = max(0, self.local(what) - self.usage.get(what, 0))
        self.usage[what] = self.usage.get(what, 0) + amount
        if self.parent is not None and amount > private:
            self.parent.add(what, amount - private)

    def remove(self, what: FlavorResource, amount: int) -> None:
        """Use `amount` less: the exact reverse of `add`."""
        shared = self.usage.get(what, 0) - self.local(what)
        self.usage[what] = self.usage.get(what, 0) - amount
        if self.parent is not None and shared > 0:
            self.parent.remove(what, min(amount, shared))

    def nominal(self, what: FlavorResource) -> int:
        """Return what it is given."""
        quota = self.quotas.get(what)
        return 0 if quota is None else quota.nominal

    def borrowed(self, what: FlavorResource) -> int:
        """Return how much more than its own it uses."""
        return max(0, self.usage.get(what, 0) - self.subtree.get(what, 0))

    def _borrowing_limit(self, what: FlavorResource) -> int | None:
        quota = self.quotas.get(what)
        return None if quota is None else quota.borrowing_limit


class QuotaTree:
    """All ClusterQueues and Cohorts, joined.

    Args:
        queues: Name of each ClusterQueue, with the cohort it is in ("" for none) and its quotas.
        cohorts: Name of each Cohort, with its parent ("" for none) and its quotas. A cohort that is only named
            exists without limits or quota. None of them may be in a ring: `references.rings` finds those.
    """

    def __init__(
        self,
        queues: Mapping[str, tuple[str, Mapping[FlavorResource, Quota]]],
        cohorts: Mapping[str, tuple[str, Mapping[FlavorResource, Quota]]],
    ) -> None:
        self.queues = {name: QuotaNode(name, quotas) for name, (_, quotas) in queues.items()}
        self.cohorts = {name: QuotaNode(name, quotas) for name, (_, quotas) in cohorts.items()}
        for _, (parent, _) in (*cohorts.items(), *queues.items()):
            if parent and parent not in self.cohorts:
                self.cohorts[parent] = QuotaNode(parent, {})
        self._join(self.cohorts, cohorts)
        self._join(self.queues, queues)
        for node in (*self.cohorts.values(), *self.queues.values()):
            if node.parent is None:
                _fill_subtree(node)

    def _join(
        self, nodes: Mapping[str, QuotaNode], specs: Mapping[str, tuple[str, Mapping[FlavorResource, Quota]]]
    ) -> None:
        for name, (parent, _) in specs.items():
            if parent:
                nodes[name].parent = self.cohorts[parent]
                self.cohorts[parent].children.append(nodes[name])

    def add(self, queue: str, usage: Mapping[FlavorResource, int]) -> None:
        """Use more in a queue; a queue that does not exist uses nothing."""
        node = self.queues.get(queue)
        if node is not None:
            for what, amount in usage.items():
                node.add(what, amount)

    def remove(self, queue: str, usage: Mapping[FlavorResource, int]) -> None:
        """Use less in a queue: the exact reverse of `add`."""
        node = self.queues.get(queue)
        if node is not None:
            for what, amount in usage.items():
                node.remove(what, amount)

    def fits(self, queue: str, usage: Mapping[FlavorResource, int]) -> bool:
        """Whether all of this may be used in a queue now."""
        node = self.queues[queue]
        return all(amount <= node.available(what) for what, amount in usage.items() if amount > 0)


def _fill_subtree(node: QuotaNode) -> None:
    for what, quota in node.quotas.items():
        node.subtree[what] = node.subtree.get(what, 0) + quota.nominal
    for child in node.children:
        _fill_subtree(child)
        for what in _known(child):
            lent = child.subtree.get(what, 0) - child.local(what)
            node.subtree[what] = node.subtree.get(what, 0) + lent


def _known(node: QuotaNode) -> Iterable[FlavorResource]:
    return tuple(node.subtree)
