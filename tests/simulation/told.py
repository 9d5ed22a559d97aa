"""What the trace of a run tells: who was bound and taken out, and what was written when."""

from __future__ import annotations

from tests.simulation.run import Outcome


def bound(outcome: Outcome) -> dict[str, float]:
    """When each pod was last bound."""
    assert outcome.violations == []
    lines = [line.split() for line in outcome.trace if "/binding 201" in line]
    return {line[3].split("/")[-2]: float(line[0]) for line in lines}


def evicted(outcome: Outcome) -> list[str]:
    """The pods that were deleted by the operator, in order."""
    lines = [line.split() for line in outcome.trace if " DELETE /api/v1/" in line and line.endswith(" 200")]
    return [line[3].split("/")[-1] for line in lines]


def writes(outcome: Outcome, first: float, last: float) -> list[str]:
    """What was written between two moments."""
    return [line for line in outcome.trace if first < float(line.split(maxsplit=1)[0]) < last]
