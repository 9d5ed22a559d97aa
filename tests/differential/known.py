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

_PLACED = Known(
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
    "534": Known(
        "ours takes out one pod of priority -10; kube-scheduler two, of priority 0 and 100",
        f"{_BUDGET}one unimportant pod leaves instead of two that matter more (its budget allows 2).",
    ),
    "594": Known(
        "ours takes out one pod of priority 100 on another node of the zone; kube-scheduler nobody",
        (
            "One pod keeps it off a whole zone, from a node where it could not go itself. kube-scheduler only looks for "
            "victims on the node that is cleared, so that a pod of priority 1000 waits for one of 100."
        ),
    ),
    "696": Known(
        "ours takes out one pod of priority 0; kube-scheduler one of priority 100",
        f"{_BUDGET}the less important pod leaves (its budget allows 1).",
    ),
    "854": Known(
        "ours takes out one pod of priority -10, started later; kube-scheduler another of priority -10",
        f"{_BUDGET}of two that are alike the one leaves that has run for a shorter time (its budget allows 1).",
    ),
}
"""Cases of kube-scheduler, by the id of the case."""

_LEAVING = Known(
    "ours waits for pods of lower priority that are leaving already; kube-scheduler takes out others, or more, or waits "
    "on another node",
    "What is leaving is room that is coming, and nobody has to go for it besides; kube-scheduler counts these pods as "
    "if they ran (docs/concepts/placement.md).",
)

ELSEWHERE_IN_ZONE = Known(
    "ours takes out pods on other nodes that keep the pod off by their anti-affinity, or by its own; kube-scheduler nobody",
    "They are of lower priority. kube-scheduler only looks for victims on the node that is cleared, so that the pod "
    "waits for them (docs/concepts/placement.md).",
)

_NOT_STARTED = Known(
    "ours takes out another pod of the same priority than kube-scheduler",
    "Neither has been taken over by a kubelet, so that none has run for longer. kube-scheduler asks the clock when each "
    "was started every time it compares two, so that the order of its list, or of a Go map, decides.",
)

DRAWN_KNOWN: dict[str, Known] = {
    **dict.fromkeys(
        ("1182.1", "1226.4", "1240.6", "1246.4", "1246.5", "1273.6", "1292.6", "1314.6", "1325.1", "1337.4"),
        _LEAVING,
    ),
    **dict.fromkeys(("1265.4", "1314.2", "1314.3"), ELSEWHERE_IN_ZONE),
    **dict.fromkeys(("1083.6", "1313.6"), _NOT_STARTED),
    "1055.0": Known(
        "ours gives one node a point more for the image that it holds",
        "Nodes say different sizes of one image. Ours counts what each says of itself; kube-scheduler the size that the "
        "first node said that it saw, for all.",
    ),
    "1059.4": Known(
        "ours keeps the pod off the node of one that is nominated there and is apart from it; kube-scheduler places it there",
        "The nominated pod, of higher priority, could not go to its node any more (docs/concepts/placement.md).",
    ),
    "1305.6": Known(
        "ours keeps the pod off a node where a host port is taken; kube-scheduler counts the node as feasible",
        "Two pods of the node named the port, and one of them has failed. kube-scheduler keeps a set of ports, and so "
        "forgot that the other still has it: a kubelet would refuse the pod.",
    ),
}
"""Cases of kube-scheduler in drawn worlds, by the id of the case."""

_TWICE = Known(
    "ours gives a claim that the pod lists twice its devices once; kube-scheduler asks for them twice",
    "A claim has one allocation, however often a pod names it. kube-scheduler finds devices for each entry, and then "
    "cannot write the second: the pod binds after another attempt, or waits for devices that it does not need.",
)

_ELSEWHERE = Known(
    "ours says that claims cannot be allocated on nodes whose own pools are in order; kube-scheduler that pools are invalid",
    "The pool with broken counters is another node's, and no device of it could be used here.",
)

_DISTINCT = Known(
    "ours leaves the pod waiting; kube-scheduler gives it three devices of which two have the same value",
    "The claim asks for devices that differ in it (distinctAttribute; kubernetes issue 140438).",
)

_OFFERED = Known(
    "ours places the pod; kube-scheduler gives it up with SchedulerError",
    "The node offers the extended resources itself, so that no claim is made for them; kube-scheduler has nothing to "
    "write into the status of the pod, and fails because of that, in every attempt (nil or empty request mappings).",
)

_NO_SELECTOR = Known(
    "ours gives devices that no rule selects; kube-scheduler taints every device by a DeviceTaintRule without a selector",
    "The API says of such a rule that it matches no devices, and so does the controller that evicts by it: whoever "
    "were kept off would wait for a taint that nobody can see the reason of.",
)

_LISTED_OTHERWISE = Known(
    "ours notes the pod on a claim that its PodGroup lists otherwise, or not at all; kube-scheduler is content with "
    "that the group is noted already",
    "The claim is not the group's as the pod names it, so that the pod uses it by itself. A kubelet lets both in, and "
    "one without the gate only the pod that is noted.",
)

_FULL = Known(
    "ours says that the claim has all the users that can be written; kube-scheduler fails at the write",
    "A claim can be reserved for 256; the pod waits in both, here without a reason that is a fault.",
)

DEVICES: dict[str, Known] = {
    **dict.fromkeys((f"dra-taint-rules-{one}" for one in (1, 37, 38, 66, 72, 112, 120)), _NO_SELECTOR),
    **dict.fromkeys((f"dra-group-claims-{one}" for one in (25, 36, 52, 85)), _LISTED_OTHERWISE),
    **dict.fromkeys((f"dra-group-claims-{one}" for one in (42, 54, 59, 61, 74, 79, 83, 90, 98, 110)), _FULL),
    **dict.fromkeys((f"dra-{one}" for one in (28, 95, 241, 390, 394, 395, 435)), _TWICE),
    **dict.fromkeys((f"dra-{one}" for one in (31, 41, 184, 223, 247, 367, 400, 439, 447, 473, 689)), _ELSEWHERE),
    "dra-37": _OFFERED,
    "dra-362": _DISTINCT,
}
"""Cases of pods with claims on devices, by `dra-` and the id of the case."""

BY_TAG: dict[str, Known] = {
    "claim-twice": _TWICE,
    "quirk": _DISTINCT,
    "quirk-counters-elsewhere": _ELSEWHERE,
    "rule-no-selector": _NO_SELECTOR,
    "claim-listed-otherwise": _LISTED_OTHERWISE,
    "claim-not-listed": _LISTED_OTHERWISE,
}
"""What cases of pods with claims on devices may differ in, by their tags; many that have them do not."""

BY_MESSAGE: dict[str, Known] = {"nil or empty request mappings": _OFFERED, "must have at most 256 items": _FULL}
"""The same by what kube-scheduler said of them."""

NO_FEATURE: dict[str, str] = {
    "runtime-quota": "koordinator divides a total anew at runtime by weights and minimums; our quota is what is written",
    "IgnoreUndeclared": "there is no quotaCheckStrategy here: what a queue does not cover cannot be had in it, as is "
    "Kueue's default",
}
"""Topics, and settings, that there is nothing of here: their cases are counted apart."""


def known() -> dict[str, Known]:
    """All known differences, by case."""
    return {**QUOTA, **SCHEDULER, **DRAWN_KNOWN, **DEVICES}
