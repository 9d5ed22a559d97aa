"""What was measured of nodes, as the engine is told."""

from __future__ import annotations

import msgspec

from tutti.engine.records.observation import Observation


class NodeFigures(msgspec.Struct, frozen=True, array_like=True):
    """What was measured of a node, and when: Unix seconds, and a number per metric, None where there was none."""

    at: float
    values: list[float | None] = []


class Measured(Observation, frozen=True, tag="measured"):
    """Figures of nodes were read.

    Attributes:
        metrics: What was measured: `cpu` and `memory` and their deviations in percent of the machine, and others.
        nodes: By the name of the node what came of each.
    """

    metrics: list[str]
    nodes: dict[str, NodeFigures]
