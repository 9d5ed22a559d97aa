"""Moving running work so that a workload fits: what a ClusterQueue allows, and what its status says of moves."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from tutti.api.model import ATOMIC, Lenient, Model, QuantityText

MOVABLE_ANNOTATION = "scheduling.tutti.dev/movable"
"""On pods, or on the Workload or PodGroup of a gang: "true" where it may be moved, "false" where it may not."""

MOST_MOVES = 64
"""So many pods are moved for one workload at most; and so many moves of one queue are remembered."""


class Consolidation(Model):
    """Moving running work so that a workload fits that lacks nothing but room in one piece."""

    max_moves: Annotated[int, Field(ge=1, le=MOST_MOVES)] | None = None
    """How many pods are moved at most so that one workload of this queue fits; left out: nobody is moved for it."""
    movable: bool = False
    """Whether what runs in this queue may be moved, where it does not say otherwise itself
    (annotation scheduling.tutti.dev/movable). A pod without a controller never is by that."""


class MovedPod(Lenient):
    """A pod that is moved, and where its successor goes."""

    name: str = Field(default="", max_length=253)
    """The pod."""
    uid: str = Field(default="", max_length=253)
    """Its uid."""
    node: str = Field(default="", max_length=253)
    """The node whose room is kept for its successor."""
    requests: dict[str, QuantityText] = Field(default={}, max_length=64)
    """What it takes there."""
    cluster_queue: str = Field(default="", max_length=253)
    """The ClusterQueue that it is counted in; none without a queue."""
    flavors: dict[str, str] = Field(default={}, max_length=64)
    """The flavor that each resource is counted in; none without a queue."""


class Move(Lenient):
    """Pods that are moved together, or were within the last hour: they are not moved again before that is over."""

    kind: str = Field(default="", max_length=64)
    """What is moved: a Workload or PodGroup, or the pods of one Owner by themselves, or a Pod that has none."""
    namespace: str = Field(default="", max_length=253)
    """Its namespace."""
    name: str = Field(default="", max_length=253)
    """Its name; of an Owner its uid."""
    at: str = Field(default="", json_schema_extra={"format": "date-time"})
    """When that was decided."""
    moved_for: str = Field(default="", max_length=1024)
    """The workload that fits by it: kind, namespace and name."""
    priority: int = 0
    """That of its pods: room that is kept for them is kept from others up to this priority."""
    pods: Annotated[list[MovedPod], Field(max_length=MOST_MOVES, json_schema_extra=ATOMIC)] = []
    """Those whose successors have no node yet; none once all have one, or have not come in time."""
