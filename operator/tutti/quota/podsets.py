"""What a workload asks for: pods of one shape, and where they may be together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tutti.api.selectors import NodeSelector, Toleration
from tutti.placement.topology.request import TopologyRequest


@dataclass(frozen=True, slots=True)
class PodSet:
    """Pods of one shape that want quota.

    Attributes:
        count: How many.
        per_pod: What one of them asks for.
        affinity: The required node affinity.
        topology: Where they want to be; None where they do not say.
        group: Pod sets of one group get the same flavors and go to one domain; "" for none.
        kept: The flavors that pods of it have already: it gets no others of the same resource groups.
    """

    name: str
    count: int
    per_pod: Mapping[str, int]
    node_selector: Mapping[str, str] = field(default_factory=dict)
    affinity: NodeSelector | None = None
    tolerations: Sequence[Toleration] = ()
    topology: TopologyRequest | None = None
    group: str = ""
    kept: frozenset[str] = frozenset()
