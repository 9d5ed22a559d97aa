"""Shards: parts of a cluster that are scheduled apart, each by the process that holds the lease of that shard.

A shard has trees of cohorts, with their ClusterQueues, and pools of nodes. Namespaces follow their LocalQueues. What no
shard names is the default one's, which always is there. Which shard has what now stands on the object itself, in an
annotation that only the shard that has it changes (docs/adr/0017-shards-own-by-annotation.md).
"""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Final

from pydantic import Field, model_validator

from tutti.api.kinds.matching import LabelSelector
from tutti.api.model import GROUP, Model, Name, ValidationRule

SHARD_ANNOTATION: Final = f"{GROUP}/shard"
"""On Nodes, Namespaces, ClusterQueues and Cohorts: which shard has them; without it the default shard does."""

DEFAULT_SHARD: Final = "default"
"""The shard of whatever no other one names. Its lease is the one that there is without shards, too."""

MOST_SHARDS: Final = 32
MOST_TREES: Final = 10_000
ShardName = Annotated[str, Field(pattern=r"^[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?$")]


class Shard(Model):
    """Part of the cluster that one process schedules."""

    name: ShardName
    """Its name; its lease is called `<leaseName>-<name>`."""
    cohorts: Annotated[list[Name], Field(max_length=MOST_TREES)] = []
    """The roots of its trees of cohorts: Cohorts that have no parent, whether or not there is an object of the name."""
    cluster_queues: Annotated[list[Name], Field(max_length=MOST_TREES)] = []
    """ClusterQueues of it that are in no cohort."""
    nodes: LabelSelector | None = None
    """Its nodes. A node that several shards select is that one's which comes first."""
    RULES = (
        ValidationRule(
            message="nodes selects every node; say by matchLabels or matchExpressions which are this shard's",
            holds=lambda it: it.nodes is None or bool(it.nodes.match_labels or it.nodes.match_expressions),
        ),
        ValidationRule(
            message=f"name {DEFAULT_SHARD} is that of the shard which has what no other one names; call it otherwise",
            holds=lambda it: it.name != DEFAULT_SHARD,
        ),
    )

    @model_validator(mode="after")
    def check_once(self) -> Shard:
        """What it has it has once."""
        for field, names in (("cohorts", self.cohorts), ("clusterQueues", self.cluster_queues)):
            for name, times in Counter(names).items():
                if times > 1:
                    raise ValueError(f"{field}: {name} stands {times} times in shard {self.name}; name it once")
        return self


def shards_problem(shards: list[Shard]) -> str:
    """Return what is wrong with shards beside each other; "" where they may be used so."""
    for name, times in Counter(one.name for one in shards).items():
        if times > 1:
            return f"{times} shards are called {name}; give each a name of its own"
    for kind, names in (
        ("cohort", [(tree, one.name) for one in shards for tree in one.cohorts]),
        ("ClusterQueue", [(tree, one.name) for one in shards for tree in one.cluster_queues]),
    ):
        first: dict[str, str] = {}
        for tree, shard in names:
            other = first.setdefault(tree, shard)
            if other != shard:
                return f"{kind} {tree} is named by {other} and by {shard}; a tree belongs to one shard"
    return ""


def lease_of(lease_name: str, shard: str) -> str:
    """Return the name of a shard's lease."""
    return lease_name if shard == DEFAULT_SHARD else f"{lease_name}-{shard}"
