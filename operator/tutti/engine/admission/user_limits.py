"""Whether the limits of users and groups let a workload start, and how many of its surplus pods.

Rules: `tutti.quota.user_limits`. A workload is asked about as a whole, in the turn that admits it, against what its
user has by then; nobody is taken out for a limit, and whoever waits for one is in nobody's way.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tutti.api.conventions.order_annotations import USER as USER_ANNOTATION
from tutti.api.messages import counted, shortened
from tutti.api.resources import format_amount
from tutti.engine.admission import AdmissionState
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.pod_sets import PodSetRequest
from tutti.engine.records.workloads import Workload
from tutti.quota.flavors import Queue
from tutti.quota.tree import add_to
from tutti.quota.user_limits import USER, WORKLOADS, Beyond, beyond, holder_title, room_within

USER_LIMIT = "UserLimit"
"""The reason of who waits for one."""
NO_USER = "NoUser"
"""The reason of who waits because there are limits, and nobody knows whose he is."""


def limited(
    state: AdmissionState, workload: Workload, queue: Queue | None, needs: Sequence[PodSetRequest]
) -> Explanation | None:
    """Return which limit keeps a workload from starting, with its numbers; None where none does.

    Args:
        state: The engine's memory.
        workload: Who it is.
        queue: Its ClusterQueue.
        needs: Its pods; the required ones of these are to start together.
    """
    if queue is None or not queue.user_limits:
        return None
    wanted: dict[str, int] = {}
    for need in needs:
        if need.required:
            add_to(wanted, need.pod_class.charged, need.required)
    if not any(need.required for need in needs):
        return None
    if not workload.user:
        return _nobodys(state, queue)
    use = state.ledger.held_for
    hits = list(beyond(queue.user_limits, use, queue.name, workload.name, wanted))
    if not hits:
        return None
    return _told(queue, next((one for one in hits if one.never), hits[0]), others=len(hits) - 1)


def within_user_limits(
    state: AdmissionState, workload: Workload, queue: Queue | None, needs: Sequence[PodSetRequest]
) -> Sequence[PodSetRequest]:
    """Return the pods of a workload that may start, with as few surplus pods as limits let start.

    Args:
        state: The engine's memory.
        workload: Who it is.
        queue: Its ClusterQueue.
        needs: Its pods; limits let the required ones of these start.
    """
    if queue is None or not queue.user_limits or not any(need.extra for need in needs):
        return needs
    use = state.ledger.held_for
    limits = [(use.of(queue.name, one), queue.user_limits.allowed(one)) for one in use.holders(workload.name)]
    taken: dict[str, int] = {}
    for need in needs:
        add_to(taken, need.pod_class.charged, need.required)
    found: list[PodSetRequest] = []
    for need in needs:
        extra, each = need.extra, need.pod_class.charged
        for has, allowed in limits:
            if allowed is not None:
                extra = room_within(allowed, has, taken, each, extra)
        add_to(taken, each, extra)
        found.append(need if extra == need.extra else msgspec.structs.replace(need, extra=extra))
    return found


def _nobodys(state: AdmissionState, queue: Queue) -> Explanation:
    """Return why nobody starts of whom nobody knows whose he is: else to say nothing would be a way round limits."""
    if state.configuration.users is None:
        text = "the configuration of Tutti does not say who users are (users)"
    else:
        text = (
            f"nobody says whose it is: annotate its PodGroup, Workload, or what makes its pods, with {USER_ANNOTATION}"
        )
    return Explanation(Gate.USER_LIMIT, NO_USER, f"ClusterQueue {queue.name} has userLimits, and {text}")


def _told(queue: Queue, hit: Beyond, *, others: int) -> Explanation:
    kind, name = holder_title(hit.holder)
    who = f"{kind} {shortened(name)}"
    allowed, used, wanted = (_amount(hit.what, one) for one in (hit.allowed, hit.used, hit.wanted))
    if hit.never:
        text = f"{who} may never have more than {allowed} in ClusterQueue {queue.name} at once, and it needs {wanted}"
        text += "; ask for less, or have userLimits raised"
    else:
        text = f"{who} may have {allowed} in ClusterQueue {queue.name} at once: {used} in use, and it needs {wanted}"
    keep = counted(others, "other limit", verb=("keeps", "keep"))
    more = f"; {keep} it from starting, too" if others else ""
    details = {"limit": allowed, "used": used, "needed": wanted, "user" if kind == USER else "group": shortened(name)}
    return Explanation(Gate.USER_LIMIT, USER_LIMIT, text + more, details)


def _amount(what: str, amount: int) -> str:
    return counted(amount, "workload") if what == WORKLOADS else f"{format_amount(what, amount)} {what}"
