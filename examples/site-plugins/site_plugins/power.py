"""Prefers nodes that draw little power, by their label `example.com/watts`."""

from __future__ import annotations

import numpy as np
from pydantic import BaseModel, ConfigDict
from tutti.plugins import Nodes, Pods, Scores

WATTS = "example.com/watts"


class PowerArguments(BaseModel):
    """What the profile may say: the draw of a node that does not say so itself."""

    model_config = ConfigDict(extra="forbid")

    watts: int = 1000


class Power:
    """A score: the less a node draws, the more points; Tutti scales them to the best node."""

    Arguments = PowerArguments

    def __init__(self, arguments: PowerArguments) -> None:
        self._watts = arguments.watts

    def score(self, pods: Pods, nodes: Nodes, now: float) -> Scores | None:  # noqa: ARG002 - the same for all pods, at any time
        """Return how much less than the most power-hungry node each draws."""
        draws = np.where(nodes.present, nodes.numbers(WATTS, self._read, missing=self._watts), 0)
        points: Scores = (draws.max(initial=0) - draws).astype(np.int64)
        return points

    def _read(self, value: str) -> int:
        return int(value) if value.isdecimal() else self._watts
