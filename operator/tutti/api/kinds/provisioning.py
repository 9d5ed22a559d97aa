"""What an AdmissionCheck asks of a cluster autoscaler (ProvisioningRequest), and how far that has come for a workload.

Fields, defaults and what they mean are those of Kueue's ProvisioningRequestConfig (0.20,
apis/kueue/v1beta2/provisioningrequestconfig_types.go), bounds those of autoscaling.x-k8s.io/v1.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tutti.api.model import ATOMIC, Count, LabelKey, Lenient, Model, Name, ResourceName, ValidationRule, list_map

PROVISIONING_CONTROLLER = "scheduling.tutti.dev/provisioning-request"
"""The controllerName of checks that the operator answers itself, by ProvisioningRequests."""
MOST_PARAMETERS = 100
"""How many parameters a ProvisioningRequest may have (autoscaling.x-k8s.io/v1)."""
MOST_TOLD = 16
"""In how many sets of flavors it is told what a workload has been asked nodes for."""

ParameterKey = Annotated[str, Field(min_length=1, max_length=253)]
ParameterValue = Annotated[str, Field(max_length=255)]
BackoffSeconds = Annotated[int, Field(ge=1, le=7 * 86400)]


class RetryStrategy(Model):
    """How often nodes are asked for again after a request has failed, and when."""

    backoff_limit_count: Annotated[int, Field(ge=0, le=100)] = 3
    """How many requests follow the first one; when the last has failed, the next flavor is tried, if there is one."""
    backoff_base_seconds: BackoffSeconds = 60
    """How long after the first failure nodes are asked for again; it doubles with each."""
    backoff_max_seconds: BackoffSeconds = 1800
    """How long at most."""
    RULES: ClassVar = (
        ValidationRule(
            message="backoffMaxSeconds must not be less than backoffBaseSeconds",
            holds=lambda it: it.backoff_max_seconds >= it.backoff_base_seconds,
            cel="(has(self.backoffMaxSeconds) ? self.backoffMaxSeconds : 1800)"
            " >= (has(self.backoffBaseSeconds) ? self.backoffBaseSeconds : 60)",
            path=".backoffMaxSeconds",
        ),
    )


class SelectorFromDetail(Model):
    """A label that the nodes must have, with a value that the autoscaler tells."""

    key: LabelKey
    """The label."""
    value_from_provisioning_class_detail: Annotated[str, Field(min_length=1, max_length=253)]
    """Under which key of `status.provisioningClassDetails` of the request the value stands."""


class ProvisionedPodSetUpdates(Model):
    """What is added to pods when their nodes have been provisioned."""

    node_selector: list[SelectorFromDetail] = Field(default=[], max_length=8, json_schema_extra=list_map("key"))
    """Labels that their nodes must have, so that they go to those that were made for them."""


class ProvisioningTerms(Model):
    """Which ProvisioningRequests are made for workloads that have quota and find no nodes."""

    provisioning_class_name: Name
    """The class, such as `best-effort-atomic-scale-up.autoscaling.x-k8s.io`."""
    parameters: dict[ParameterKey, ParameterValue] = Field(default={}, max_length=MOST_PARAMETERS)
    """What the class is given besides, such as `ValidUntilSeconds`."""
    managed_resources: list[ResourceName] = Field(
        default=[], max_length=100, json_schema_extra={"x-kubernetes-list-type": "set"}
    )
    """Pods that ask for none of these are left to nodes that are there; left out: nodes are asked for all pods."""
    retry_strategy: RetryStrategy = RetryStrategy()
    """How often nodes are asked for again, and when."""
    pod_set_updates: ProvisionedPodSetUpdates = ProvisionedPodSetUpdates()
    """What is added to pods when their nodes are there."""


ProvisioningState = Literal["Pending", "Provisioned", "Failed", "GivenUp", "Withdrawn"]


class ProvisioningProgress(Lenient):
    """How far it has come with nodes for a workload in some flavors; a restarted operator goes on from there."""

    check: str = Field(max_length=253)
    """The AdmissionCheck by which they are asked for."""
    flavors: list[str] = Field(default=[], max_length=64, json_schema_extra=ATOMIC)
    """The flavors that it was to have."""
    terms: str = Field(default="", max_length=64)
    """A fingerprint of what the check said then: under other terms counting begins anew."""
    attempt: Count = 0
    """The number of the request, which is part of its name."""
    failures: Count = 0
    """How many requests have failed."""
    state: ProvisioningState = "Pending"
    """Pending: the request is out. Provisioned: nodes were made for it. Failed: it is asked again at `retryAt`.
    GivenUp: no more is asked in these flavors. Withdrawn: it was not needed any more, and is asked again when it is."""
    request: str = Field(default="", max_length=253)
    """The ProvisioningRequest, in the namespace of the workload."""
    message: str = Field(default="", max_length=32768)
    """What the autoscaler said last, or what went wrong."""
    last_transition_time: str = Field(default="", json_schema_extra={"format": "date-time"})
    """Since when that is its state."""
    retry_at: str = Field(default="", json_schema_extra={"format": "date-time"})
    """When nodes are asked for again, where that is yet to come."""


ProvisioningStates = Annotated[list[ProvisioningProgress], Field(max_length=MOST_TOLD, json_schema_extra=ATOMIC)]
