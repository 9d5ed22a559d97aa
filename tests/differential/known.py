"""What is decided otherwise than was recorded: by case what differs, and why ours is right for users.

Every other recorded case is met. A case named here that is met after all fails its test: the tables may only shrink.
"""

from __future__ import annotations

Known = tuple[str, str]
"""What differs; why ours is right for users."""

_PLACED: Known = (
    "ours places the pod; kube-scheduler gives it up with SchedulerError",
    (
        "A preferred node affinity compares with -1, which the API server takes but which no label could be. That is "
        "no reason to leave a pod without a node that has several to go to: the number is compared as it is written."
    ),
)

_BUDGET = (
    "kube-scheduler counts budgets over all pods that might leave a node, the most important first, and so spares pods "
    "whom no budget protects in the end. Counted over those that do leave, ours breaks no budget either, and "
)

SCHEDULER: dict[str, Known] = {
    **dict.fromkeys(("242", "272", "872", "1042", "1282", "1562", "1642", "1744"), _PLACED),
    "534": (
        "ours takes out one pod of priority -10; kube-scheduler two, of priority 0 and 100",
        f"{_BUDGET}one unimportant pod leaves instead of two that matter more (its budget allows 2).",
    ),
    "594": (
        "ours takes out one pod of priority 100 on another node of the zone; kube-scheduler nobody",
        (
            "One pod keeps it off a whole zone, from a node where it could not go itself. kube-scheduler only looks for "
            "victims on the node that is cleared, so that a pod of priority 1000 waits for one of 100."
        ),
    ),
    "696": (
        "ours takes out one pod of priority 0; kube-scheduler one of priority 100",
        f"{_BUDGET}the less important pod leaves (its budget allows 1).",
    ),
    "854": (
        "ours takes out one pod of priority -10, started later; kube-scheduler another of priority -10",
        f"{_BUDGET}of two that are alike the one leaves that has run for a shorter time (its budget allows 1).",
    ),
}
"""By the id of the case."""
