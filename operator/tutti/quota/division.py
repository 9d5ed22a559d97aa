"""How an amount is divided among queues: first what each deserves, then the rest by weight.

Rules: KAI-Scheduler 72de64fc, plugins/proportion/resource_division.go. For one resource and one level of queues:

    first    min(deserved, request, limit) to each, even if there is not so much
    then     by priority, in rounds, what is left: n = weight / sum of the weights of those who want more,
             w = max(0, n + k * (n - usage)), and each gets min(what it wants, floor(left * w / sum of w));
             another round as long as somebody wanted less than its part
    last     by priority, what rounding left over: one unit each to the greatest remainder, the older, the first by name

Amounts may be fractions of a unit (a shared GPU); everything is exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

Amount = Fraction | int


@dataclass(frozen=True, slots=True)
class Claim:
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


def divide(total: Amount, claims: Sequence[Claim], *, k: Amount = 0, whole: bool = True) -> Division:
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
    left: Amount, claims: Sequence[Claim], shares: Mapping[str, Amount], *, k: Amount = 0, whole: bool = True
) -> Division:
    """Divide what is left over after `shares` have been given, in whole units or exactly."""
    having = dict(shares)
    remainders: list[tuple[int, dict[str, Fraction]]] = []
    for priority in sorted({claim.priority for claim in claims}, reverse=True):
        peers = [claim for claim in claims if claim.priority == priority]
        left, owed = _by_weight(left, peers, having, k=k, whole=whole)
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
    left: Amount, peers: Sequence[Claim], having: dict[str, Amount], *, k: Amount, whole: bool
) -> tuple[Amount, dict[str, Fraction]]:
    """Give out by weight, in rounds; returns what is left, and what rounding kept from whom."""
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
            if whole:
                owed.pop(claim.name, None) if enough else _owe(owed, claim.name, part - given)
            having[claim.name] += given
            left -= given
            again = again or (given > 0 and wanted < part)
    return left, owed


def _owe(owed: dict[str, Fraction], name: str, remainder: Fraction) -> None:
    if remainder:
        owed[name] = remainder


def _weights(unmet: Iterable[Claim], k: Amount) -> Mapping[str, Amount]:
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
