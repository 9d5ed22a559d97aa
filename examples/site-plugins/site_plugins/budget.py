"""Holds a gang while all devices in use together would cost more per hour than the budget.

A node says what an hour of one of its devices costs with the label `example.com/device-price: "3"`.
"""

from __future__ import annotations

import msgspec
from tutti.plugins import Go, Reservation, Rooms, Verdict, Wait

PRICE = "example.com/device-price"


class BudgetArguments(msgspec.Struct, forbid_unknown_fields=True, rename="camel"):
    """What the profile says.

    Attributes:
        most_per_hour: The budget, in the unit of the prices.
        resource: What is paid for.
        patience_seconds: How long a gang is held with its nodes before they are given back.
    """

    most_per_hour: float
    resource: str = "nvidia.com/gpu"
    patience_seconds: float = 600.0


class Budget:
    """A permit: the reservation that is asked about is among what is taken already."""

    Arguments = BudgetArguments

    def __init__(self, arguments: BudgetArguments) -> None:
        self._arguments = arguments

    def permit(self, reservation: Reservation, rooms: Rooms, now: float) -> Verdict:  # noqa: ARG002 - the sum is what counts
        """Let go what the budget allows; what costs nothing more is not held."""
        resource, most = self._arguments.resource, self._arguments.most_per_hour
        if not any(one.pods.requests.get(resource, 0) for one in reservation.placed):
            return Go()
        costs = float((rooms.numbers(PRICE, _price, missing=0.0) * rooms.taken(resource)).sum())
        if costs <= most:
            return Go()
        return Wait(
            f"with it, {resource} in use would cost {costs:g} an hour, and the budget is {most:g}",
            timeout_seconds=self._arguments.patience_seconds,
        )


def _price(value: str) -> float:
    return float(value) if value.replace(".", "", 1).isdecimal() else 0.0
