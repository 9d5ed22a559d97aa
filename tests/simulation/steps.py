"""Steps: what happens to a simulated cluster, and the scenario that they make.

A step is plain data: when, what, and its arguments. A run is nothing but its steps and its seed, so a failing one can
be written down, cut down and played again.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tests.simulation.pods import NATIVE

NODES = {"n0": (4, "r0"), "n1": (4, "r0"), "n2": (4, "r1"), "n3": (4, "r1")}


class Step(msgspec.Struct, frozen=True):
    """Something that happens: an action of `World`, by name, and what it is given."""

    at: float
    do: str
    args: dict[str, Any] = {}


class Scenario(msgspec.Struct, frozen=True):
    """Everything a run depends on. `heal_at` is when the faults are over."""

    seed: int
    steps: list[Step]
    heal_at: float
    slowness: float = 1.0

    @property
    def has_policies(self) -> bool:
        """Whether throttles, users and the network are configured in it."""
        return any(step.do == "policies" for step in self.steps)

    @property
    def has_native_groups(self) -> bool:
        """Whether PodGroups of Kubernetes stand for any gang in it."""
        return any(step.do == "gang" and step.args.get("how") == NATIVE for step in self.steps)

    def lines(self) -> str:
        """The scenario as a journal: a step to a line."""
        head = f"seed {self.seed}, faults are over at {self.heal_at:g} s, messages take {self.slowness:g} times as long"
        steps = sorted(self.steps, key=lambda step: step.at)
        return "\n".join([head, *(msgspec.json.encode(step).decode() for step in steps)])
