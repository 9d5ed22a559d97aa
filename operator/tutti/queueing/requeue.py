"""Where a workload goes that was tried and not admitted: back into its queue at once, or aside.

Rule: Kueue, pkg/cache/queue/cluster_queue.go (0.20). A workload aside is tried again only when something happened
that may help it. A strict queue keeps its head in front, whatever the reason, unless nothing that happens to quota
can help it. A best-effort queue lets the next one have its turn, except where the next try may end otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum


class Requeue(StrEnum):
    """Why a workload was not admitted."""

    GENERIC = "Generic"
    NO_FIT = "NoFit"
    NO_CANDIDATES = "PreemptionNoCandidates"
    NAMESPACE_MISMATCH = "NamespaceMismatch"
    FAILED_AFTER_NOMINATION = "FailedAfterNomination"
    PENDING_PREEMPTION = "PendingPreemption"
    PREEMPTION_FAILED = "PreemptionFailed"


AT_ONCE = frozenset((Requeue.FAILED_AFTER_NOMINATION, Requeue.PENDING_PREEMPTION, Requeue.PREEMPTION_FAILED))
"""Reasons that may be gone at the next try, though nothing was observed."""


def goes_aside(why: Requeue, *, strict: bool, scan: Iterable[Mapping[str, int]] = (), helped: bool = False) -> bool:
    """Whether a workload waits until something happens.

    Args:
        why: Why it was not admitted.
        strict: Whether its queue keeps its head in front.
        scan: Per pod set and resource the index of the last flavor looked at, -1 where the list is through. While
            one is not, the next try goes on with the flavors behind it.
        helped: Whether something that may help has happened since it was taken out of the queue.
    """
    if strict:
        return why is Requeue.NAMESPACE_MISMATCH
    unfinished = any(index != -1 for resources in scan for index in resources.values())
    return not (why in AT_ONCE or unfinished or helped)


def stays_in_front(why: Requeue, *, strict: bool) -> bool:
    """Whether it is tried before all others of its queue: it waits for its victims to leave what was taken for it."""
    return not strict and why is Requeue.PENDING_PREEMPTION
