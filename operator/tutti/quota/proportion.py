"""What each child of a cohort deserves, by water filling, and how much of that it uses.

Rule: Volcano's plugin proportion, per resource and level of the tree. What there is rises like water in all children at
once, by weight, and stops in each at what it can make use of: the least of what it uses and waits for, and its limit.
A child's share is the greatest part that it uses of what it deserves, over resources. Volcano's `guarantee` is here
what a node never lends: it deserves that much wherever it asks for it.

As in the tree, a cohort counts neither as use nor as demand what its children have of what they never lend.

Where owners go first, a child deserves what is its own wherever it asks for it, lent or not, and only the rest rises by
weight: all that children use (`OWN`), or what they use beyond their own (`BESIDE`, as Kueue counts what is borrowed).

What is admitted is used instead of waited for, so that what is deserved stays the same while heads are admitted: it is
worked out once for a tree and then holds for a turn.

How one amount is divided: KAI-Scheduler 72de64fc, plugins/proportion/resource_division.go. For one resource and one
level of queues:

    first    min(deserved, request, limit) to each, even if there is not so much
    then     by priority, in rounds, what is left: n = weight / sum of the weights of those who want more,
             w = max(0, n + k * (n - usage)), and each gets min(what it wants, floor(left * w / sum of w));
             another round as long as somebody wanted less than its part
    last     by priority, what rounding left over: one unit each to the greatest remainder, the older, the first by name

Amounts may be fractions of a unit (a shared GPU); everything is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum, auto
from fractions import Fraction
from typing import NamedTuple

from tutti.quota.fair_sharing import ShareKey
from tutti.quota.tree import FlavorResource, QuotaNode, add_to

Amount = Fraction | int


@dataclass(frozen=True, slots=True)
class QueueDemand:
    """What one queue deserves and wants.

    Attributes:
        deserved: Its quota; None for all there is.
        limit: The most it may have; None for no limit.
        weight: Its part of what nobody deserves.
        priority: Higher goes first when that is divided.
        usage: Its part of the whole cluster's use in the past, 0 to 1.
        created: Earlier goes first among equals.
    """

    name: str
    deserved: Amount | None
    request: Amount
    limit: Amount | None = None
    weight: Amount = 1
    priority: int = 0
    usage: Amount = 0
    created: float = 0.0

    @property
    def most(self) -> Amount:
        """What it could make use of."""
        return self.request if self.limit is None else min(self.request, self.limit)


class Division(NamedTuple):
    """What each queue has, by name, and what nobody has."""

    shares: dict[str, Amount]
    left: Amount


def divide(total: Amount, claims: Sequence[QueueDemand], *, k: Amount = 0, whole: bool = True) -> Division:
    """Divide an amount: what is deserved, then the rest.

    Args:
        total: What there is.
        claims: One per queue.
        k: How much past usage counts; 0 for not at all.
        whole: Whether parts by weight are whole units; otherwise they are exact, and rounding leaves nothing over.
    """
    shares: dict[str, Amount] = {}
    for claim in claims:
        shares[claim.name] = min(total if claim.deserved is None else claim.deserved, claim.most)
    left = total - sum(shares.values())
    return divide_rest(left, claims, shares, k=k, whole=whole) if left > 0 else Division(shares, 0)


def divide_rest(
    left: Amount, claims: Sequence[QueueDemand], shares: Mapping[str, Amount], *, k: Amount = 0, whole: bool = True
) -> Division:
    """Divide what is left over after `shares` have been given, in whole units or exactly."""
    having = dict(shares)
    remainders: list[tuple[int, dict[str, Fraction]]] = []
    for priority in sorted({claim.priority for claim in claims}, reverse=True):
        peers = [claim for claim in claims if claim.priority == priority]
        having, left, owed = _by_weight(left, peers, having, k=k, whole=whole)
        remainders.append((priority, owed))
    by_name = {claim.name: claim for claim in claims}
    for _, owed in remainders:
        for name in sorted(owed, key=lambda name: (-owed[name], by_name[name].created, name)):
            if left <= 0:
                return Division(having, left)
            part = min(1, left)
            having[name] += part
            left -= part
    return Division(having, left)


def _by_weight(
    left: Amount, peers: Sequence[QueueDemand], having: Mapping[str, Amount], *, k: Amount, whole: bool
) -> tuple[dict[str, Amount], Amount, dict[str, Fraction]]:
    """Give out by weight, in rounds; returns what all have then, what is left, and what rounding kept from whom."""
    having = dict(having)
    owed: dict[str, Fraction] = {}
    again = True
    while again and left > 0:
        again = False
        weights = _weights([claim for claim in peers if claim.most > having[claim.name]], k)
        all_weights = sum(weights.values())
        if not all_weights:
            break
        to_give = left
        for claim in peers:
            if not claim.weight or claim.name not in weights:
                continue
            part, wanted = Fraction(to_give * weights[claim.name], all_weights), claim.most - having[claim.name]
            enough = wanted <= part
            given = wanted if enough else part // 1 if whole else part
            if whole and enough:
                owed.pop(claim.name, None)
            elif whole and part != given:
                owed[claim.name] = part - given
            having[claim.name] += given
            left -= given
            again = again or (given > 0 and wanted < part)
    return having, left, owed


def _weights(unmet: Iterable[QueueDemand], k: Amount) -> Mapping[str, Amount]:
    """Return by what to divide; only how the weights compare counts, so that without past use they may be whole."""
    unmet = list(unmet)
    if not k:
        return {claim.name: claim.weight for claim in unmet}
    whole = sum(claim.weight for claim in unmet)
    if not whole:
        return {}
    normal = {claim.name: Fraction(claim.weight) / whole for claim in unmet}
    return {
        claim.name: max(Fraction(0), normal[claim.name] + k * (normal[claim.name] - claim.usage)) for claim in unmet
    }


ResourceAmounts = dict[str, Amount]
"""Resource -> scheduling units."""


class DeservedFirst(Enum):
    """What a child deserves before anything is divided by weight: what it never lends, or all that is its own."""

    KEPT = auto()
    OWN = auto()
    BESIDE = auto()


class PendingRequests:
    """What those who wait at each ClusterQueue ask for, counted as they come and go.

    Attributes:
        left: The ClusterQueues at which anybody has gone; whoever asks empties it.
    """

    def __init__(self) -> None:
        self.left: dict[str, None] = {}
        self._of: dict[str, dict[str, int]] = {}

    def of(self, queue: str) -> Mapping[str, int]:
        """Return per resource what is waited for at a queue."""
        return self._of.get(queue, {})

    def come(self, queue: str, asks: Mapping[str, int]) -> None:
        """Count what somebody asks for."""
        of = self._of.setdefault(queue, {})
        for resource, amount in asks.items():
            if amount:
                of[resource] = of.get(resource, 0) + amount

    def go(self, queue: str, asks: Mapping[str, int]) -> None:
        """Count it no more: the exact reverse of `come`."""
        self.left[queue] = None
        of = self._of[queue]
        for resource, amount in asks.items():
            if amount:
                of[resource] -= amount
                if not of[resource]:
                    del of[resource]

    def clear(self) -> None:
        """Have nobody wait."""
        self.left.update(dict.fromkeys(self._of))
        self._of.clear()


@dataclass(frozen=True, slots=True)
class _Want:
    """What a node could make use of, how much of that nobody else could have, and how much it deserves first."""

    most: int = 0
    private: int = 0
    first: int = 0


NOTHING = _Want()


class Proportion:
    """What every node of one tree deserves, as of when this is made.

    Args:
        root: The top of the tree.
        pending: What is waited for.
        first: What goes before the division by weight.
    """

    def __init__(self, root: QuotaNode, pending: PendingRequests, first: DeservedFirst = DeservedFirst.KEPT) -> None:
        self._pending = pending
        self._first = first
        self._wants: dict[int, dict[str, _Want]] = {}
        self._deserved: dict[int, ResourceAmounts] = {}
        self._call(root)
        self._pour(root, root.lendable())

    def deserved(self, node: QuotaNode) -> ResourceAmounts:
        """Return what a node below the root deserves."""
        return self._deserved[id(node)]

    def reach(self, node: QuotaNode) -> ResourceAmounts:
        """Return the most that a node can have per resource beside what all others deserve first."""
        path = [node, *node.ancestors()]
        pool: ResourceAmounts = dict(path.pop().lendable())
        while path:
            child = path.pop()
            for child_of in () if child.parent is None else child.parent.children:
                for resource, want in self._wants[id(child_of)].items():
                    taken = 0 if child_of is child else want.first
                    pool[resource] = pool.get(resource, 0) + want.private - taken
        return pool

    def share(self, node: QuotaNode) -> ShareKey:
        """Return how much of what it deserves a node uses now; infinite where it deserves none of what it uses."""
        if node.parent is None:
            return False, Fraction(0)
        deserved, total = self._deserved[id(node)], node.parent.lendable()
        shares: list[ShareKey] = [(False, Fraction(0))]
        for resource, amount in _by_resource(node.usage.items()).items():
            due = deserved.get(resource, 0)
            if due:
                shares.append((False, Fraction(amount) / due))
            elif amount and total.get(resource, 0) > 0:
                shares.append((True, Fraction(amount, total[resource])))
        return max(shares)

    def _call(self, node: QuotaNode) -> dict[str, int]:
        """Work out what a node could make use of, and return what it waits for that its parent would have to lend."""
        waiting = dict(self._pending.of(node.name)) if node.leaf else {}
        for child in node.children:
            add_to(waiting, self._call(child))
        used, limit = _by_resource(node.usage.items()), node.lendable()
        private = _by_resource(node.local.items())
        unused = _by_resource((what, node.unused(what)) for what in node.subtree)
        own = private if self._first is DeservedFirst.KEPT else _by_resource(node.subtree.items())
        wants = self._wants[id(node)] = {}
        for resource in dict.fromkeys((*used, *waiting)):
            most = min(used.get(resource, 0) + waiting.get(resource, 0), limit.get(resource, 0))
            wants[resource] = _Want(most, min(most, private.get(resource, 0)), min(most, own.get(resource, 0)))
        return {
            resource: max(0, want.most - used.get(resource, 0) - unused.get(resource, 0))
            for resource, want in wants.items()
        }

    def _pour(self, node: QuotaNode, pool: Mapping[str, Amount]) -> None:
        """Divide what a cohort has among its children, and what each of them deserves among theirs."""
        for child in node.children:
            self._deserved[id(child)] = {}
        for resource, there in pool.items():
            wants = [self._wants[id(child)].get(resource, NOTHING) for child in node.children]
            claims = [
                QueueDemand(str(number), want.first, want.most, weight=child.weight)
                for number, (child, want) in enumerate(zip(node.children, wants, strict=True))
                if want.most
            ]
            total = there + sum(want.private for want in wants)
            beside = self._first is DeservedFirst.BESIDE
            filled = divide(total, claims, whole=False).shares if beside else water_fill(total, claims)
            for number, child in enumerate(node.children):
                self._deserved[id(child)][resource] = filled.get(str(number), 0)
        for child in node.children:
            if child.children:
                self._pour(child, self._deserved[id(child)])


def water_fill(total: Amount, claims: Sequence[QueueDemand]) -> ResourceAmounts:
    """Divide an amount by weight up to what each could make use of, but give each at least what is `deserved`.

    Who would have less than that by weight gets just that, and the others divide the rest; exact, not in whole units.

    Args:
        total: What there is; not less than all `deserved` together.
        claims: One per child, each with a `deserved` of its own.

    Returns:
        What each has, by name.
    """
    kept: ResourceAmounts = {}
    while True:
        open_claims = [replace(claim, deserved=0) for claim in claims if claim.name not in kept]
        shares = divide(total - sum(kept.values()), open_claims, whole=False).shares
        least = {claim.name: min(claim.deserved or 0, claim.most) for claim in claims}
        short = {name: least[name] for name, share in shares.items() if share < least[name]}
        if not short:
            return shares | kept
        kept |= short


def _by_resource(amounts: Iterable[tuple[FlavorResource, int]]) -> dict[str, int]:
    """Add up over flavors."""
    total: dict[str, int] = {}
    for (_, resource), amount in amounts:
        total[resource] = total.get(resource, 0) + amount
    return total
