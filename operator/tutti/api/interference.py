"""Which pods slow one another down on a node, by classes of behaviour, as an administrator writes it."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

from pydantic import Field

from tutti.api.model import Model, ValidationRule

BEHAVIOUR_LABEL: Final = "scheduling.tutti.dev/behaviour"
"""The label of a pod that names its class of behaviour."""
MOST_PAIRS: Final = 256
"""Of so many pairs of classes it is said at most how they fare beside one another."""

Behaviour = Annotated[str, Field(pattern=r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$", max_length=63)]
"""A class of behaviour: `training`, `memory-bandwidth`, `serving`; a value that a label may have."""


class Slowdown(Model):
    """By how much pods of one class are slowed down by each pod of another on their node."""

    of: Behaviour
    """Who is slowed down."""
    beside: Behaviour
    """By each pod of which class; it may be its own."""
    percent: Annotated[int, Field(ge=1, le=10_000)]
    """By how much longer its work takes. What several pods do to one adds up."""


class InterferenceArgs(Model):
    """Keeps pods apart that slow one another down on a node, by their label `scheduling.tutti.dev/behaviour`."""

    slowdowns: Annotated[list[Slowdown], Field(max_length=MOST_PAIRS)] = []
    """Who slows down whom, and by how much; pairs that are not named do not mind each other."""
    max_slowdown_percent: Annotated[int, Field(ge=0, le=1_000_000)] | None = None
    """Pods are kept off nodes where they, or others there, would be slowed down by more; left out: nobody is."""
    apart: Annotated[
        list[Annotated[list[Behaviour], Field(min_length=2, max_length=2)]], Field(max_length=MOST_PAIRS)
    ] = []
    """Pairs of classes that never share a node; a class may be apart from itself."""
    weight: Annotated[int, Field(ge=1, le=100)] = 1
    """Against the other scores, of which each has up to 100 points by its own weight."""
    RULES: ClassVar = (
        ValidationRule(
            message="interference needs slowdowns or apart",
            holds=lambda it: bool(it.slowdowns or it.apart),
        ),
        ValidationRule(
            message="slowdowns name a pair of of and beside twice; keep one of them",
            holds=lambda it: len({(one.of, one.beside) for one in it.slowdowns}) == len(it.slowdowns),
        ),
        ValidationRule(
            message="maxSlowdownPercent needs slowdowns",
            holds=lambda it: it.max_slowdown_percent is None or bool(it.slowdowns),
        ),
    )
