"""Cuts a failing scenario down to the steps that it needs to fail."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tests.simulation.steps import Scenario


def shrunk(scenario: Scenario, fails: Callable[[Scenario], bool], *, tries: int = 150) -> Scenario:
    """Leave out steps, many at once and then one by one, as long as it still fails.

    What is there from the beginning stays, nodes, queues and an operator: without them nothing ever runs.

    Args:
        scenario: One that fails.
        fails: Whether another fails too; what it fails with may differ.
        tries: How often it is asked at most.
    """
    size = max(1, len(scenario.steps) // 2)
    while size and tries > 0:
        start = 0
        while start < len(scenario.steps) and tries > 0:
            left = [*scenario.steps[:start], *scenario.steps[start + size :]]
            kept = [step for step in scenario.steps[start : start + size] if not step.at]
            smaller = msgspec.structs.replace(scenario, steps=[*left, *kept])
            if len(smaller.steps) == len(scenario.steps):
                start += size
                continue
            tries -= 1
            if fails(smaller):
                scenario = smaller
            else:
                start += size
        size //= 2
    return scenario
