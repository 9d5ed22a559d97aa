"""Compares decisions of the engine, and of the rules it goes by, with the quota corpus, one topic per file."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from tests.differential import quota_assignment, quota_preemption
from tests.differential import quota_rules as rules
from tests.differential.known import NO_FEATURE
from tests.differential.quota_cycle import cycle
from tests.differential.quota_division import share_division
from tests.differential.quota_reading import Record
from tests.differential.quota_requeue import requeue
from tests.differential.quota_topology import topology_placement
from tests.differential.records import cases

ENGINE = "Engine"
"""What answers where the whole engine does: `observe` everything, then `decide`."""


class Topic(NamedTuple):
    """What answers a topic: the function that asks it, and what it asks, as the engine reaches it."""

    answer: Callable[[Record, Record], tuple[rules.Answer, rules.Answer]]
    asked: str


TOPICS: dict[str, Topic] = {
    "available": Topic(rules.available, "QuotaTree"),
    "tree-generated": Topic(rules.tree_generated, "QuotaTree"),
    "share": Topic(rules.shares, "share"),
    "usage-tree": Topic(rules.usage_tree, "QuotaTree"),
    "usage-report": Topic(rules.report, "usage_report"),
    "reserve": Topic(rules.reserve, "hold_back"),
    "flavor-rank": Topic(rules.flavor_rank, "is_better"),
    "partial-count": Topic(rules.partial_count, "largest_counts"),
    "preemption-policy": Topic(rules.preemption_policy, "allows"),
    "victim-order": Topic(rules.victim_order, "in_victim_order"),
    "victim-queue-order": Topic(rules.victim_queue_order, "Contest"),
    "entry-order": Topic(rules.entry_order, "entry_key"),
    "queue-order": Topic(rules.queue_order, "head_key"),
    "local-queue-usage": Topic(rules.local_queue_usage, "local_usage"),
    "flavor-assignment": Topic(quota_assignment.assignment, "Chooser"),
    "preemption": Topic(quota_preemption.preemption, "reclaim"),
    "preemption-generated": Topic(quota_preemption.preemption, "reclaim"),
    "fair-preemption": Topic(quota_preemption.preemption, "fair_reclaim"),
    "fair-preemption-generated": Topic(quota_preemption.preemption, "fair_reclaim"),
    "share-division": Topic(share_division, "divide"),
    "share-division-generated": Topic(share_division, "divide"),
    "requeue": Topic(requeue, ENGINE),
    "cycle": Topic(cycle, ENGINE),
    "cycle-fair": Topic(cycle, ENGINE),
    "usage-cycle": Topic(cycle, ENGINE),
    "cycle-topology": Topic(cycle, ENGINE),
    "topology-placement": Topic(topology_placement, ENGINE),
}
"""Topic -> what is answered and what was recorded, alike in form."""


ASKS_ENGINE: dict[str, Callable[[Record], bool]] = {
    "flavor-assignment": quota_assignment.asks_engine,
    "preemption": quota_preemption.asks_engine,
    "preemption-generated": quota_preemption.asks_engine,
    "fair-preemption": quota_preemption.asks_engine,
    "fair-preemption-generated": quota_preemption.asks_engine,
}
"""Topics of which the engine is asked besides the rule where it can answer: whether it can."""


def compare(path: Path) -> Iterator[tuple[str, str | None]]:
    """Yield each case's id and how the answer differs from what was recorded, None where it does not."""
    for case in cases(path):
        if no_feature(case) is None:
            yield case["id"], _compared(case)


def _compared(case: Record) -> str | None:
    try:
        answer, expected = TOPICS[case["topic"]].answer(case, case["expect"])
    except Exception as error:  # noqa: BLE001 - told as what is wrong with this case; the others go on
        return f"ends with {type(error).__name__}: {error}"
    return None if answer == expected else _difference(answer, expected)


def asked(path: Path) -> dict[str, str]:
    """By case, what answers it: the engine, or which rule."""
    return {case["id"]: _asked(case) for case in cases(path) if no_feature(case) is None}


def _asked(case: Record) -> str:
    both = ASKS_ENGINE.get(case["topic"])
    return ENGINE if both is not None and both(case) else TOPICS[case["topic"]].asked


def remarks(path: Path) -> list[str]:
    """What is said of the file as a whole."""
    left_out = [why for case in cases(path) if (why := no_feature(case)) is not None]
    return [f"{left_out.count(why)} left out, no feature of ours: {why}" for why in dict.fromkeys(left_out)]


def no_feature(case: Record) -> str | None:
    """Why there is nothing here that could answer a case, if there is nothing."""
    return NO_FEATURE.get(case["topic"]) or NO_FEATURE.get(case.get("options", {}).get("quotaCheckStrategy", ""))


def _difference(answer: rules.Answer, expected: rules.Answer) -> str:
    missing = "nothing"
    keys = [key for key in {**expected, **answer} if answer.get(key, missing) != expected.get(key, missing)]
    return "; ".join(f"{key}: {answer.get(key, missing)} instead of {expected.get(key, missing)}" for key in keys)
