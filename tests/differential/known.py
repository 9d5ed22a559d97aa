"""What is decided otherwise than was recorded, case by case: what differs, and why ours is right for users.

This is the one place for it. A case that stands here and is decided as recorded fails: it has to be taken out.
"""

from __future__ import annotations

from typing import NamedTuple


class Known(NamedTuple):
    """A known difference: what is otherwise here, and why that is right for users."""

    what: str
    why: str


QUOTA: dict[str, Known] = {
    "cycle-17632e21": Known(
        "the workload is admitted; Kueue calls it misconfigured",
        "a container of it asks for more than its own limit, which the record does not hold: nothing is wrong with "
        "what is left. An API server refuses such a pod",
    ),
    "cycle-fair-7a84516f": Known(
        "nobody is admitted, and the message says what is wrong with the ClusterQueues",
        "both list cpu in two resource groups, which Kueue's webhook and our validation refuse; the test of Kueue "
        "makes them without it",
    ),
    "cycle-topology-4920cb38": Known(
        "b1 is admitted beside a2, which lacks room and can take nobody out; Kueue lets neither have it",
        "b1 asks for its queue's own nominal quota and there is room for it, whereas a2 cannot start whatever happens "
        "to b1's; Kueue holds the room back for one cycle, and parks b1 until something else changes",
    ),
    "topology-placement-5bf8ab06": Known(
        "the message speaks of the leader, for which no domain has room; Kueue's of the four workers, for which there is",
        "the leader is what does not fit: it asks for 10 cpu, and no node has more than 4",
    ),
    "requeue-4234ece2": Known(
        "one that could be admitted until another of its cohort was waits for quota that is given back; Kueue looks "
        "at it again in the next cycle",
        "Kueue chooses for all heads before the first is admitted, and must choose again; here each is looked at with "
        "what those before it have taken, so that nothing would be other at once",
    ),
}
"""Cases of the quota corpus."""

SCHEDULER: dict[str, Known] = {}
"""Cases of kube-scheduler, by id and family."""

NO_FEATURE: dict[str, str] = {
    "runtime-quota": "koordinator divides a total anew at runtime by weights and minimums; our quota is what is written",
    "IgnoreUndeclared": "there is no quotaCheckStrategy here: what a queue does not cover cannot be had in it, as is "
    "Kueue's default",
}
"""Topics, and settings, that there is nothing of here: their cases are counted apart."""


def known() -> dict[str, Known]:
    """All known differences, by case."""
    return {**QUOTA, **SCHEDULER}
