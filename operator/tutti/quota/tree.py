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

All amounts are integers in scheduling units. Quota sums saturate at `UNLIMITED` (int64, as quantities are capped at
it), which stays what it is whatever is used of it; usage itself is exact, so that removing undoes adding.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from types import MappingProxyType
from typing import NamedTuple, TypeVar

UNLIMITED = 2**63 - 1
"""So much that it has no end: the value at which quantities are capped."""

WEIGHT_OF_ONE = 1000
"""Weights are in milli-units, as quantities are parsed."""

FlavorResource = tuple[str, str]
"""The name of a flavor and of a resource: what quota is counted in."""

Usage = dict[FlavorResource, int]

_Key = TypeVar("_Key")


def add_to(total: dict[_Key, int], more: Mapping[_Key, int], times: int = 1) -> None:
    """Add amounts to a total, so many times."""
    for what, amount in more.items():
        total[what] = total.get(what, 0) + amount * times


_EVEN: Mapping[FlavorResource, int] = MappingProxyType({})
"""Every unit counts 1."""


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
        leaf: Whether it is a ClusterQueue.
        weight: What its share is divided by in fair sharing, in milli-units; 0 makes any borrowing an infinite share.
        worth: What one unit counts in shares, in milli-units; 1 for what is not named. The same for all of a tree.
        subtree: What it and everything below it may use before borrowing.
        usage: What is used of it, after what its children keep to themselves.
        path: The node itself, and the cohorts above it, the nearest first.
        local: What it never lends, of what has a lending limit.
    """

    name: str
    quotas: Mapping[FlavorResource, Quota]
    leaf: bool = False
    weight: int = WEIGHT_OF_ONE
    worth: Mapping[FlavorResource, int] = field(default_factory=lambda: _EVEN, repr=False)
    parent: QuotaNode | None = None
    children: list[QuotaNode] = field(default_factory=list)
    subtree: Usage = field(default_factory=dict)
    usage: Usage = field(default_factory=dict)
    path: tuple[QuotaNode, ...] = field(default=(), repr=False)
    local: Usage = field(default_factory=dict, repr=False)
    _lendable: dict[str, int] = field(default_factory=dict, repr=False)
    _lendable_worth: dict[str, int] = field(default_factory=dict, repr=False)
    _most: Usage = field(default_factory=dict, repr=False)
    _height: int = field(default=-1, repr=False)
    _places: dict[int, int] = field(default_factory=dict, repr=False)

    def ancestors(self) -> tuple[QuotaNode, ...]:
        """Return the cohorts above this node, the nearest first."""
        return self.path[1:]

    def root(self) -> QuotaNode:
        """Return the topmost node above this one, or itself."""
        return self.path[-1]

    def leaves(self) -> Iterator[QuotaNode]:
        """Yield the ClusterQueues in this subtree."""
        if self.leaf:
            yield self
        for child in self.children:
            yield from child.leaves()

    def below(self) -> Iterator[QuotaNode]:
        """Yield everything below this node, Cohorts and ClusterQueues."""
        for child in self.children:
            yield child
            yield from child.below()

    def height(self) -> int:
        """Return how many steps down the deepest node below this one is; asked of trees that are joined."""
        if self._height < 0:
            self._height = max((child.height() + 1 for child in self.children), default=0)
        return self._height

    def places(self) -> Mapping[int, int]:
        """Return the place of each child by its identity, Cohorts first; asked of trees that are joined."""
        if not self._places:
            order = sorted(self.children, key=attrgetter("leaf"))
            self._places = {id(child): place for place, child in enumerate(order)}
        return self._places

    def unused(self, what: FlavorResource) -> int:
        """Return how much of what this node never lends is free."""
        return max(0, _minus(self.local.get(what, 0), self.usage.get(what, 0)))

    def available(self, what: FlavorResource) -> int:
        """Return how much more may be used here; negative where more is used than there is."""
        root = self.path[-1]
        free, used = root.subtree.get(what, 0), root.usage.get(what, 0)
        free = free - used if free < UNLIMITED else _minus(free, used)
        for node in self.path[-2::-1]:
            quota = node.quotas.get(what)
            if quota is None:
                continue  # it keeps nothing to itself, and may have all that there is
            local, used = node.local.get(what, 0), node.usage.get(what, 0)
            if quota.borrowing_limit is not None:
                own = _minus(_minus(node.subtree.get(what, 0), local), max(0, used - local))
                free = min(free, _plus(own, quota.borrowing_limit))
            if local:
                free = _plus(max(0, _minus(local, used)), free)
        return free

    def terms_of_available(self, what: FlavorResource) -> tuple[int, int]:
        """Return what `available` is made of below a root: what only it may have, and the most beside that.

        What is available is the first, and beside it what is available of the parent up to the second.
        """
        quota = self.quotas.get(what)
        if quota is None:
            return 0, UNLIMITED
        local, used = self.local.get(what, 0), self.usage.get(what, 0)
        unused = max(0, _minus(local, used)) if local else 0
        if quota.borrowing_limit is None:
            return unused, UNLIMITED
        own = _minus(_minus(self.subtree.get(what, 0), local), max(0, used - local))
        return unused, _plus(own, quota.borrowing_limit)

    def has_own(self, wanted: Mapping[FlavorResource, int]) -> bool:
        """Whether all of this may be used here now without borrowing any of it."""
        for what, amount in wanted.items():
            if amount > self.subtree.get(what, 0) - self.usage.get(what, 0):
                return False
            if self.parent is not None and amount > max(0, self.available(what)):
                return False
        return True

    def times_without_borrowing(self, wanted: Mapping[FlavorResource, int], most: int) -> int:
        """Return how many times, up to `most`, all of this may be used here now without borrowing any of it."""
        left = (min(self.available(what), self.own_left(what)) // amount for what, amount in wanted.items() if amount)
        return min(left, default=most)

    def potential(self, what: FlavorResource) -> int:
        """Return the most that could ever be used here, were nothing used anywhere; asked of trees that are joined."""
        most = self._most.get(what)
        if most is None:
            most = self._most[what] = self._potential(what)
        return most

    def _potential(self, what: FlavorResource) -> int:
        subtree = self.subtree.get(what, 0)
        if self.parent is None:
            return subtree
        most = _plus(self.local.get(what, 0), self.parent.potential(what))
        limit = self._borrowing_limit(what)
        return most if limit is None else min(most, _plus(subtree, limit))

    def lendable(self) -> Mapping[str, int]:
        """Return per resource the most that could ever be used here, over all flavors known in the whole tree."""
        if not self._lendable:
            for what in self.root().subtree:
                self._lendable[what[1]] = _plus(self._lendable.get(what[1], 0), self.potential(what))
        return self._lendable

    def forget_derived(self) -> None:
        """Know nothing more that follows from how the tree is joined and what its nodes are given."""
        self.subtree, self.local = {}, {}
        self._lendable, self._lendable_worth, self._most = {}, {}, {}

    def worth_of(self, what: FlavorResource, amount: int) -> int:
        """Return what an amount counts in shares, in thousandths of a unit."""
        return min(amount, UNLIMITED) * self.worth.get(what, WEIGHT_OF_ONE)

    def lendable_worth(self) -> Mapping[str, int]:
        """Return per resource what `lendable` counts in shares, in thousandths of a unit."""
        if not self._lendable_worth:
            if not self.worth:
                self._lendable_worth = {name: amount * WEIGHT_OF_ONE for name, amount in self.lendable().items()}
            for what in self.root().subtree if self.worth else ():
                more = self.worth_of(what, self.potential(what))
                self._lendable_worth[what[1]] = self._lendable_worth.get(what[1], 0) + more
        return self._lendable_worth

    def nominal(self, what: FlavorResource) -> int:
        """Return what it is given."""
        quota = self.quotas.get(what)
        return 0 if quota is None else quota.nominal

    def borrowed(self, what: FlavorResource) -> int:
        """Return how much more than its own it uses."""
        return max(0, self.usage.get(what, 0) - self.subtree.get(what, 0))

    def own_left(self, what: FlavorResource) -> int:
        """Return how much more it may use before it borrows; negative where it does."""
        return self.subtree.get(what, 0) - self.usage.get(what, 0)

    def borrows(self, what: FlavorResource, more: int = 0) -> bool:
        """Whether it would use more than its own if it used `more`."""
        return more > self.own_left(what)

    def borrows_any(self, whats: Iterable[FlavorResource]) -> bool:
        """Whether it uses more than its own of any of these."""
        return any(self.borrows(what) for what in whats)

    def _borrowing_limit(self, what: FlavorResource) -> int | None:
        quota = self.quotas.get(what)
        return None if quota is None else quota.borrowing_limit


def cohort_key(name: str) -> str:
    """Return what a Cohort is called among ClusterQueues; no object can be called so."""
    return f"cohort/{name}"


class QuotaTree:
    """All ClusterQueues and Cohorts, joined.

    Args:
        queues: Name of each ClusterQueue, with the cohort it is in ("" for none) and its quotas.
        cohorts: Name of each Cohort, with its parent ("" for none) and its quotas. A cohort that is only named
            exists without limits or quota. None of them may be in a ring: `references.rings` finds those.
        queue_weights: Fair-sharing weight of ClusterQueues, in milli-units; 1 where there is none.
        cohort_weights: The same of Cohorts.
        worth: What one unit of a flavor and resource counts in shares, in milli-units; 1 where there is none.
    """

    def __init__(
        self,
        queues: Mapping[str, tuple[str, Mapping[FlavorResource, Quota]]],
        cohorts: Mapping[str, tuple[str, Mapping[FlavorResource, Quota]]],
        *,
        queue_weights: Mapping[str, int] = MappingProxyType({}),
        cohort_weights: Mapping[str, int] = MappingProxyType({}),
        worth: Mapping[FlavorResource, int] = MappingProxyType({}),
    ) -> None:
        self.queues = {
            name: QuotaNode(name, quotas, leaf=True, weight=queue_weights.get(name, WEIGHT_OF_ONE))
            for name, (_, quotas) in queues.items()
        }
        self.cohorts = {
            name: QuotaNode(name, quotas, weight=cohort_weights.get(name, WEIGHT_OF_ONE))
            for name, (_, quotas) in cohorts.items()
        }
        for _, (parent, _) in (*cohorts.items(), *queues.items()):
            if parent and parent not in self.cohorts:
                self.cohorts[parent] = QuotaNode(parent, {})
        self._join(self.cohorts, cohorts)
        self._join(self.queues, queues)
        if worth:
            for node in (*self.cohorts.values(), *self.queues.values()):
                node.worth = worth
        for node in (*self.cohorts.values(), *self.queues.values()):
            if node.parent is None:
                _complete(node, ())

    def _join(
        self, nodes: Mapping[str, QuotaNode], specs: Mapping[str, tuple[str, Mapping[FlavorResource, Quota]]]
    ) -> None:
        for name, (parent, _) in specs.items():
            if parent:
                nodes[name].parent = self.cohorts[parent]
                self.cohorts[parent].children.append(nodes[name])

    def add(self, queue: str, usage: Mapping[FlavorResource, int], *, above: bool = False) -> None:
        """Use more in a queue, and of its parent what it does not keep to itself; others use nothing.

        Args:
            queue: Which.
            usage: How much more.
            above: Whether it is used of its parent alone, so that the queue itself borrows nothing.
        """
        path = self.queues[queue].path[above:] if queue in self.queues else ()
        for what, amount in usage.items():
            left = amount
            for at in path:
                before = at.usage.get(what, 0)
                at.usage[what] = before + left
                left -= max(0, at.local.get(what, 0) - before)
                if left <= 0:
                    break

    def remove(self, queue: str, usage: Mapping[FlavorResource, int], *, above: bool = False) -> None:
        """Use less in a queue: the exact reverse of `add`."""
        path = self.queues[queue].path[above:] if queue in self.queues else ()
        for what, amount in usage.items():
            left = amount
            for at in path:
                before = at.usage.get(what, 0)
                at.usage[what] = before - left
                shared = before - at.local.get(what, 0)
                if shared <= 0:
                    break
                left = min(left, shared)

    def node(self, key: str) -> QuotaNode | None:
        """Return a queue by its name, or a cohort by its `cohort_key`; None where there is none."""
        kind, _, name = key.rpartition("/")
        return self.cohorts.get(name) if kind else self.queues.get(name)

    def change_quotas(
        self, others: Mapping[str, Mapping[FlavorResource, Quota]]
    ) -> dict[str, Mapping[FlavorResource, Quota]]:
        """Give some queues and cohorts (`cohort_key`) other quotas; what is used stays.

        Returns:
            What those that had others had, so that the same call takes it back.
        """
        before = {
            name: node.quotas
            for name, quotas in others.items()
            if (node := self.node(name)) is not None and node.quotas != quotas
        }
        roots: dict[tuple[str, bool], QuotaNode] = {}
        for name in before:
            node = self.node(name)
            assert node is not None  # it has just been found
            node.quotas = others[name]
            roots[node.root().name, node.root().leaf] = node.root()
        for root in roots.values():
            _recount(root)
        return before

    def fits(self, queue: str, usage: Mapping[FlavorResource, int]) -> bool:
        """Whether all of this may be used in a queue now."""
        node = self.queues[queue]
        return all(amount <= node.available(what) for what, amount in usage.items() if amount > 0)


def _complete(node: QuotaNode, above: tuple[QuotaNode, ...]) -> None:
    """Work out what follows for a node, and those below it, from how the tree is joined."""
    node.path = (node, *above)
    for what, quota in node.quotas.items():
        node.subtree[what] = quota.nominal
    for child in node.children:
        _complete(child, node.path)
        for what, amount in child.subtree.items():
            lent = _minus(amount, child.local.get(what, 0))
            node.subtree[what] = _plus(node.subtree.get(what, 0), lent)
    for what, quota in node.quotas.items():
        if quota.lending_limit is not None:
            node.local[what] = max(0, _minus(node.subtree[what], quota.lending_limit))


def _recount(root: QuotaNode) -> None:
    """Work out anew what follows in a tree from quotas that have changed, and from what its queues use."""
    for node in (root, *root.below()):
        node.forget_derived()
    _complete(root, ())
    _sum_usage(root)


def _sum_usage(node: QuotaNode) -> None:
    if node.leaf:
        return
    usage: Usage = {}
    for child in node.children:
        _sum_usage(child)
        for what, amount in child.usage.items():
            shared = max(0, amount - child.local.get(what, 0))
            if shared:
                usage[what] = usage.get(what, 0) + shared
    node.usage = usage


def _plus(a: int, b: int) -> int:
    """Add, up to UNLIMITED."""
    return min(a + b, UNLIMITED) if a < UNLIMITED and b < UNLIMITED else UNLIMITED


def _minus(a: int, b: int) -> int:
    """Subtract; without limit stays without limit, unless as much is taken away."""
    if a < UNLIMITED:
        return a - b
    return UNLIMITED if b < UNLIMITED else 0


class BorrowingLevel(NamedTuple):
    """Where a request is covered.

    Attributes:
        height: 0 for the queue itself; the more, the further away.
        partial: Whether the subtree that covers it is less than the whole tree, so that others outside it may be
            using what belongs to it.
    """

    height: int
    partial: bool


def borrowing_level(queue: QuotaNode, what: FlavorResource, amount: int) -> BorrowingLevel:
    """Return from where a queue would have `amount` more."""
    if queue.parent is None or not queue.borrows(what, amount):
        return BorrowingLevel(0, queue.parent is not None)
    left = amount - queue.unused(what)
    top = queue.parent
    for cohort in queue.ancestors():
        if not cohort.borrows(what, left):
            return BorrowingLevel(cohort.height(), cohort.parent is not None)
        left -= cohort.unused(what)
        top = cohort
    return BorrowingLevel(top.height(), partial=False)


def covers(node: QuotaNode, request: Mapping[FlavorResource, int]) -> tuple[bool, Usage]:
    """Return whether a subtree has all of this, and what is left to ask of its parent."""
    fits = not any(node.borrows(what, amount) for what, amount in request.items())
    return fits, {what: max(0, amount - node.unused(what)) for what, amount in request.items()}
