"""What can never be admitted as it and its queue are written, whatever room there is.

Too many terms are refused beside what cannot be read. What it costs to try a pod grows with how much it asks about
nodes and other pods, so that has a bound. It is counted in steps, not in seconds, so that what is refused follows from
what is written alone. The API server bounds none of these lists; a pod of 400 kB names thousands. kube-scheduler has
no bound either, but only that pod's own scheduling waits there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tutti.cluster.classes import PodClass
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.pod_sets import PodSetRequest
from tutti.quota.flavors import Queue, uncovered

MOST_TERMS: Final = 500
"""So many terms one pod may have."""
MOST_TERMS_TOGETHER: Final = 4000
"""So many the unlike pods of one workload may have together; equal pods count once."""
TOO_MANY_TERMS = "TooManyTerms"
"""Why a pod, or a workload, waits that has more."""

_TERMS = "selectors, affinity, spread constraints, tolerations, resource claims"


def never_admitted(queue: Queue | None, needs: Sequence[PodSetRequest]) -> Explanation | None:
    """Return why required pods can never be admitted as they and their queue are written; None where they can."""
    for need in needs:
        why = class_never_admitted(queue, need.pod_class) if need.required else None
        if why is not None:
            return why
    total = term_count_in_all(need.pod_class for need in needs)
    if total <= MOST_TERMS_TOGETHER:
        return None
    text = (
        f"its unlike pods have {total} terms together ({_TERMS}), "
        f"and {MOST_TERMS_TOGETHER} is the most that is weighed for one workload: ask for less"
    )
    return Explanation(Gate.PLACEMENT, TOO_MANY_TERMS, text, {"terms": str(total)})


def class_never_admitted(queue: Queue | None, pod_class: PodClass) -> Explanation | None:
    """Return why no pod of a class can ever be admitted as it and its queue are written; None where it can."""
    why = _unplaceable(pod_class)
    if why is not None or queue is None:
        return why
    counted = pod_class.devices.counted
    if counted is not None and counted.problem:
        return Explanation(Gate.QUOTA, "DevicesNotCounted", counted.problem)
    missing = uncovered(queue, pod_class.charged)
    return not_covered(queue, missing) if missing else None


def _unplaceable(pod_class: PodClass) -> Explanation | None:
    """Return why pods of this class can never be placed, whatever room there is; None where they can."""
    if pod_class.problem:
        return Explanation(Gate.PLACEMENT, "InvalidPod", pod_class.problem)
    if pod_class.volumes.problem:
        return Explanation(Gate.PLACEMENT, "VolumesNotReady", pod_class.volumes.problem)
    if pod_class.devices.problem:
        return Explanation(Gate.PLACEMENT, "DevicesNotReady", pod_class.devices.problem)
    if pod_class.cards.problem:
        return Explanation(Gate.PLACEMENT, pod_class.cards.reason, pod_class.cards.problem)
    if pod_class.terms > MOST_TERMS:
        text = f"a pod has {pod_class.terms} terms ({_TERMS}), and {MOST_TERMS} is the most that is weighed"
        text += ": ask for less"
        return Explanation(Gate.PLACEMENT, TOO_MANY_TERMS, text, {"terms": str(pod_class.terms)})
    return None


def not_covered(queue: Queue, missing: Sequence[str]) -> Explanation:
    """Say that a queue has no quota of some resources."""
    text = f"ClusterQueue {queue.name} has no quota of {', '.join(missing)}; add it to coveredResources, "
    return Explanation(Gate.QUOTA, "ResourceNotCovered", text + "or do not request it")


def term_count_in_all(classes: Iterable[PodClass]) -> int:
    """Return how many terms some classes have together, each counted once."""
    return sum([pod_class.terms for pod_class in dict.fromkeys(classes)])
