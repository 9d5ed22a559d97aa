"""Where the nodes of a flavor have no room: whether its quota is held, and nodes are asked for, instead."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tutti.api.messages import followed_by
from tutti.engine.admission.attempt import AdmissionAttempt, Admitted, terms_of
from tutti.engine.lifecycle.provisioning import current
from tutti.engine.lifecycle.provisioning_texts import why_not_asked
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.pod_sets import PodSetRequest
from tutti.engine.records.workloads import Phase
from tutti.quota.assignment import WorkloadAssignment
from tutti.quota.flavors import PodSet


def asks_for_nodes(
    attempt: AdmissionAttempt,
    needs: Sequence[PodSetRequest],
    pod_sets: Sequence[PodSet],
    choice: WorkloadAssignment,
    why: Explanation,
) -> Admitted | Explanation:
    """Say what of the quota of chosen flavors is held, and what nodes are asked for, where a check has these made.

    Args:
        attempt: The try at the workload; nothing is taken in it by this.
        needs: The pods that must have a node.
        pod_sets: What each of them asks of quota.
        choice: The flavors.
        why: Why they have no nodes there.

    Returns:
        What is to be held, and asked for; or `why`, with why nothing is.
    """
    workload, queue = attempt.workload, attempt.queue
    waits = workload.phase is Phase.WAITING and why.gate is Gate.PLACEMENT
    if queue is None or not waits or attempt.probes or not attempt.may_ask or workload.key[0] == "Pod":
        return why
    if current(workload) is not None:
        return why  # nodes were made for it, and it waits until there is room on them
    terms = terms_of(attempt, needs, pod_sets, choice)
    flavors = tuple(sorted({flavor for given in terms.given for flavor in given.values()}))
    others: list[str] = []
    for check in queue.checks.provisioning:
        here = [need for need, given in zip(needs, terms.given, strict=True) if check.is_for(given.values())]
        concerned = [need for need in here if check.manages(need.pod_class.requests)]
        if not concerned:
            others += [f"{check.name} ({', '.join(check.managed)})"] if here else []
            continue
        if not workload.uid:
            return why  # it can be asked for once there is an object that tells of it
        against = why_not_asked(attempt.state, workload, check, flavors, [need.pod_class for need in concerned])
        if against:
            return msgspec.structs.replace(why, message=followed_by(why.message, against))
        return Admitted(held=terms.to_hold(workload, needs), provisions=(check, flavors))
    if not others:
        return why
    text = f"none are made: its pods ask for none of the managedResources of AdmissionCheck {' or '.join(others)}"
    return msgspec.structs.replace(why, message=followed_by(why.message, text))
