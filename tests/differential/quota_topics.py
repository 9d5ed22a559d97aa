"""Compares decisions of `tutti.quota` and `tutti.queueing` with the quota corpus, one topic per file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.differential import quota_rules as rules
from tests.differential.quota_cycle import cycle
from tests.differential.quota_division import runtime, share_division
from tests.differential.quota_flavors import flavor_assignment
from tests.differential.quota_preemption import preemption
from tests.differential.quota_reading import Record
from tests.differential.quota_topology import topology_placement

Topic = Callable[[Record, Record], tuple[rules.Answer, rules.Answer]]

TOPICS: dict[str, Topic] = {
    "available": rules.available,
    "tree-generated": rules.tree_generated,
    "share": rules.shares,
    "usage-tree": rules.usage_tree,
    "usage-report": rules.report,
    "reserve": rules.reserve,
    "flavor-rank": rules.flavor_rank,
    "partial-count": rules.partial_count,
    "preemption-policy": rules.preemption_policy,
    "victim-order": rules.victim_order,
    "victim-queue-order": rules.victim_queue_order,
    "entry-order": rules.entry_order,
    "queue-order": rules.queue_order,
    "local-queue-usage": rules.local_queue_usage,
    "requeue": rules.requeue,
    "flavor-assignment": flavor_assignment,
    "preemption": preemption,
    "preemption-generated": preemption,
    "fair-preemption": preemption,
    "fair-preemption-generated": preemption,
    "share-division": share_division,
    "share-division-generated": share_division,
    "runtime-quota": runtime,
    "cycle": cycle,
    "cycle-fair": cycle,
    "usage-cycle": cycle,
    "cycle-topology": cycle,
    "topology-placement": topology_placement,
}
"""Topic -> what is answered and what was recorded, alike in form."""


def compare(path: Path) -> Iterator[tuple[str, str | None]]:
    """Yield each case's id and how the answer differs from what was recorded, None where it does not."""
    for line in path.read_text().splitlines():
        case: Record = json.loads(line)
        answer, expected = TOPICS[case["topic"]](case, case["expect"])
        yield case["id"], None if answer == expected else _difference(answer, expected)


def _difference(answer: rules.Answer, expected: rules.Answer) -> str:
    missing = "nothing"
    keys = [key for key in {**expected, **answer} if answer.get(key, missing) != expected.get(key, missing)]
    return "; ".join(f"{key}: {answer.get(key, missing)} instead of {expected.get(key, missing)}" for key in keys)
