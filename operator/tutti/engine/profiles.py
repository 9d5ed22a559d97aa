"""What the configuration's profile means for placement."""

from __future__ import annotations

from functools import lru_cache

from tutti.api.configuration import TuttiConfiguration
from tutti.placement.scores import Packing


@lru_cache(maxsize=8)
def packing_of(configuration: TuttiConfiguration) -> Packing:
    """Return how full nodes should be, by the first profile."""
    strategy = configuration.profiles[0].scoring_strategy
    return Packing(
        resources=tuple((one.name, one.weight) for one in strategy.resources), most=strategy.type == "MostAllocated"
    )
