"""The topics of the quota corpus that divide an amount among queues."""

from __future__ import annotations

from fractions import Fraction

from tests.differential.quota_reading import Record
from tests.differential.quota_rules import Answer
from tutti.quota.proportion import Claim, divide, divide_rest


def number(text: str | None) -> Fraction | None:
    return None if text in (None, "unlimited") else Fraction(text)


def share_division(case: Record, expect: Record) -> tuple[Answer, Answer]:
    claims = [
        Claim(
            one["name"],
            number(one["deserved"]),
            Fraction(one["request"]),
            number(one["maxAllowed"]),
            Fraction(one["overQuotaWeight"]),
            one["priority"],
            Fraction(one.get("usage", "0")),
            one.get("createdAt", 0),
        )
        for one in case["queues"]
    ]
    total, k = Fraction(case["total"]), Fraction(case["k"])
    if case["phase"] == "overQuotaOnly":
        initial = {one["name"]: Fraction(one.get("initialShare", "0")) for one in case["queues"]}
        found = divide_rest(total, claims, initial, k=k)
    else:
        found = divide(total, claims, k=k)
    answer = {**found.shares, "remaining": found.left}
    wanted = {**expect["share"], "remaining": expect["remaining"]}
    return {name: rounded(one) for name, one in answer.items()}, {name: rounded(one) for name, one in wanted.items()}


def rounded(text: str | Fraction | int) -> Fraction:
    """Recorded amounts are sums of float64; ours are exact."""
    return round(Fraction(text), 9)
