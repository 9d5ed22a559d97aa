"""What whoever finds no nodes is told of the request that a cluster autoscaler makes some for, or why there is none."""

from __future__ import annotations

from collections.abc import Iterable

from tutti.api.conditions import timestamp
from tutti.api.messages import all_of, counted
from tutti.api.provisioning import ACCEPTED, MOST_POD_SETS, PROVISIONED, ProvisioningRequest
from tutti.engine.lifecycle import LifecycleState
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.provisioning import Provisioning, ProvisioningStage
from tutti.engine.records.workloads import Workload
from tutti.quota.provisioning import ProvisioningCheck

PENDING = "ProvisioningPending"
"""The reason of whoever does."""

NOT_FOLLOWED = (
    "the server does not serve provisioningrequests.autoscaling.x-k8s.io v1, or the operator may not read them "
    "(component provisioning-requests)"
)
"""Why nobody may ask."""


def request_number(one: Provisioning, check: ProvisioningCheck) -> str:
    """Say which request of how many it is."""
    return f"request {one.failures + 1} of {check.retries + 1}"


def waits_for_nodes(
    state: LifecycleState,
    workload: Workload,
    one: Provisioning,
    check: ProvisioningCheck,
    seen: ProvisioningRequest | None,
) -> Explanation:
    """Say what a workload waits for that holds quota until its nodes are made."""
    pods = sum(group.held.pods for group in workload.groups.values() if group.held is not None)
    text = f"quota is reserved in flavor {', '.join(one.flavors)}, where no nodes have room for {all_of(pods, 'pod')}; "
    text += f"ProvisioningRequest {one.request} asks for nodes (class {check.class_name}, {request_number(one, check)})"
    if not state.requests.followed:
        text += f": {NOT_FOLLOWED}"
    elif one.trouble:
        text += f": it could not be made yet: {one.trouble}"
    elif seen is None:
        text += ": it is being made"
    else:
        accepted, provisioned = seen.says(ACCEPTED), seen.conditions.get(PROVISIONED)
        told = provisioned.message if provisioned is not None else ""
        text += ": accepted, and not provisioned yet" if accepted is not None else ": no autoscaler has accepted it yet"
        text += f" ({told})" if told else ""
    if workload.deadline is not None:
        text += f"; given back at {timestamp(workload.deadline)} otherwise"
    details = {"request": one.request, "attempt": str(one.failures + 1), "attempts": str(check.retries + 1)}
    return Explanation(Gate.CHECKS, PENDING, text, {**details, "pods": str(pods), "class": check.class_name})


def why_not_asked(
    state: LifecycleState,
    workload: Workload,
    check: ProvisioningCheck,
    flavors: tuple[str, ...],
    classes: Iterable[object],
) -> str:
    """Return why no nodes are asked for in some flavors although none has room; "" where they may be."""
    if not state.requests.followed:
        return f"nodes are not asked for: {NOT_FOLLOWED}"
    kinds = len(set(classes))
    if kinds > MOST_POD_SETS:
        return f"nodes are not asked for: its pods are of {kinds} kinds, and a request has at most {MOST_POD_SETS}"
    asked = (check.name, flavors, check.terms)
    known = next((one for one in workload.provisioning if (one.check, one.flavors, one.terms) == asked), None)
    if known is not None and known.stage is ProvisioningStage.GIVEN_UP:
        tries = counted(known.failures, "request")
        return f"nodes are not asked for any more after {tries}; the last, {known.request}: {known.message}"
    return ""
