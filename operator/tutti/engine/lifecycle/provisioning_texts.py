"""What whoever waits for nodes that a cluster autoscaler is to make is told of the request."""

from __future__ import annotations

from tutti.api.conditions import timestamp
from tutti.api.messages import all_of
from tutti.api.provisioning import ACCEPTED, PROVISIONED, ProvisioningRequest
from tutti.engine.lifecycle import LifecycleState
from tutti.engine.records.explanation import Explanation, Gate
from tutti.engine.records.provisioning import Provisioning
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
