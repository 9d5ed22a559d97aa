"""AdmissionCheck: what somebody else has to say yes to before a workload with quota may run, and what it has said.

Fields, states and meanings are those of Kueue v1beta2 (apis/kueue/v1beta2, KEP-993), so that the controller of a check
needs another API group and nothing else. Both clocks, `pendingTimeoutSeconds` and `placementTimeoutSeconds` of the
ClusterQueue, are ours: Kueue knows no end of a wait.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tutti.api.kinds.provisioning import PROVISIONING_CONTROLLER, ProvisioningTerms
from tutti.api.kinds.statuses import ConditionsOnly
from tutti.api.model import (
    ACTIVE_COLUMN,
    AGE_COLUMN,
    ATOMIC,
    WHY_INACTIVE_COLUMN,
    Count,
    Lenient,
    Model,
    Name,
    Object,
    PrinterColumn,
    ValidationRule,
    list_map,
)

MOST_CHECKS = 64
"""How many checks a ClusterQueue may name."""
Seconds = Annotated[int, Field(ge=1, le=2**31 - 1)]


class CheckParameters(Model):
    """The object that the check's controller is configured by."""

    api_group: Annotated[str, Field(max_length=253)]
    """The API group of the object."""
    kind: Annotated[str, Field(max_length=63, pattern=r"^[A-Za-z]([-A-Za-z0-9]*[A-Za-z0-9])?$")]
    """The kind of the object."""
    name: Name
    """The name of the object."""


class AdmissionCheckSpec(Model):
    """Who answers for the check."""

    controller_name: Annotated[str, Field(min_length=1, max_length=253)]
    """The controller that answers, such as `example.com/budget`; it cannot be changed."""
    parameters: CheckParameters | None = None
    """What that controller is configured by; nothing here reads it."""
    provisioning: ProvisioningTerms | None = None
    """With controllerName `scheduling.tutti.dev/provisioning-request`, and only then: which nodes the operator asks a
    cluster autoscaler for. Such a check is not asked first: it comes in when there are no nodes."""
    RULES: ClassVar = (
        ValidationRule(
            message=f"provisioning goes with controllerName {PROVISIONING_CONTROLLER}, and that with provisioning",
            holds=lambda it: (it.provisioning is not None) is (it.controller_name == PROVISIONING_CONTROLLER),
            cel=f"has(self.provisioning) == (self.controllerName == '{PROVISIONING_CONTROLLER}')",
            path=".provisioning",
        ),
        ValidationRule(
            message="controllerName cannot be changed: make another AdmissionCheck",
            cel="self.controllerName == oldSelf.controllerName",
            path=".controllerName",
        ),
    )


class AdmissionCheck(Object):
    """Something that workloads have to pass between quota and admission; its controller says whether it is Active."""

    KIND: ClassVar = "AdmissionCheck"
    PLURAL: ClassVar = "admissionchecks"
    COLUMNS: ClassVar = (
        PrinterColumn("Controller", ".spec.controllerName"),
        ACTIVE_COLUMN,
        WHY_INACTIVE_COLUMN,
        AGE_COLUMN,
    )

    spec: AdmissionCheckSpec
    status: ConditionsOnly = ConditionsOnly()


class QueueCheck(Model):
    """A check to pass before admission, for some flavors or, if none is named, for all."""

    name: Name
    """The AdmissionCheck."""
    on_flavors: list[Name] = Field(default=[], max_length=64, json_schema_extra={"x-kubernetes-list-type": "set"})
    """The flavors that it is for; left out: all."""


class AdmissionChecksStrategy(Model):
    """The checks to pass before admission, and how long quota is held for that."""

    admission_checks: list[QueueCheck] = Field(min_length=1, max_length=MOST_CHECKS, json_schema_extra=list_map("name"))
    """The checks."""
    pending_timeout_seconds: Seconds = 3600
    """How long a workload holds quota while checks are Pending (ours, not Kueue's), from when it got it. Then the quota
    is given back and asked for again after a backoff, as if a check had said Retry."""
    placement_timeout_seconds: Seconds = 600
    """How long it goes on holding quota when all checks are Ready and there are no nodes for it (ours, not Kueue's)."""


CheckState = Literal["Pending", "Ready", "Retry", "Rejected"]


class AddedToleration(Lenient):
    """A toleration that a check adds to pods, as a pod has it."""

    key: str = Field(default="", max_length=317)
    """The taint's key."""
    operator: Literal["Equal", "Exists", ""] = ""
    """Equal, or Exists."""
    value: str = Field(default="", max_length=63)
    """The taint's value, with Equal."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute", ""] = ""
    """The taint's effect; left out: all."""
    toleration_seconds: int | None = None
    """With NoExecute, for how long."""


class PodSetUpdate(Lenient):
    """What a check has pods of one pod group changed by; it may add, and change nothing that is there."""

    name: str = Field(max_length=253)
    """The pod group."""
    labels: dict[str, str] = Field(default={}, max_length=64)
    """Labels that the pods get before they are bound."""
    annotations: dict[str, str] = Field(default={}, max_length=64)
    """Annotations that the pods get as they are bound."""
    node_selector: dict[str, str] = Field(default={}, max_length=64)
    """Labels that their nodes must have, beside what the pods say."""
    tolerations: list[AddedToleration] = Field(default=[], max_length=64, json_schema_extra=ATOMIC)
    """Tolerations that the pods get before they are bound, and are placed by."""


class AdmissionCheckState(Lenient):
    """What a check says of a workload; written by its controller, and set to Pending whenever quota is reserved."""

    name: str = Field(max_length=253)
    """The AdmissionCheck."""
    state: CheckState = "Pending"
    """Pending: it has not answered. Ready: passed. Retry: the quota is given back, or what runs is taken out, and it is
    tried again later. Rejected: it is taken out and set inactive."""
    last_transition_time: str = Field(default="", json_schema_extra={"format": "date-time"})
    """Since when it says so."""
    message: str = Field(default="", max_length=32768)
    """Why, for people."""
    requeue_after_seconds: Count | None = None
    """With Retry, how long after lastTransitionTime quota is asked for again, at the earliest."""
    retry_count: Count = 0
    """How often quota has been given back for its sake."""
    pod_set_updates: list[PodSetUpdate] = Field(default=[], max_length=18, json_schema_extra=ATOMIC)
    """With Ready, what is added to the pods."""


CheckStates = Annotated[list[AdmissionCheckState], Field(max_length=MOST_CHECKS, json_schema_extra=list_map("name"))]
