"""What the configuration's profile means for placement."""

from __future__ import annotations

from tutti.api.configuration import ScoringStrategy, TuttiConfiguration
from tutti.placement.scores import Packing


def packings(configuration: TuttiConfiguration) -> dict[str, Packing]:
    """Return how full nodes should be, per schedulerName."""
    return {one.scheduler_name: _packing(one.scoring_strategy) for one in configuration.profiles}


def _packing(strategy: ScoringStrategy) -> Packing:
    return Packing(
        resources=tuple((one.name, one.weight) for one in strategy.resources), most=strategy.type == "MostAllocated"
    )
