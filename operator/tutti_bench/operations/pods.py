"""Operations that create and delete pods."""

from __future__ import annotations

from typing import Any, Literal, Self

from pydantic import model_validator

from tutti_bench.durations import Duration
from tutti_bench.operations.frame import Counted, Operation, Templated, Whole
from tutti_bench.params import Params


class CreatePods(Templated):
    """Creates pods and, unless told otherwise, waits until all of them have nodes."""

    opcode: Literal["createPods"]
    count_multiplier_param: str = ""
    steady_state: bool = False
    steady_state_param: str = ""
    duration: Duration = 0.0
    duration_param: str = ""
    collect_metrics: bool = False
    namespace: str = ""
    pod_template_path: str = ""
    skip_wait_to_completion: bool = False
    persistent_volume_template_path: str = ""
    persistent_volume_claim_template_path: str = ""
    signature_batch_size: Whole = 0
    signature_batch_size_param: str = ""

    @model_validator(mode="after")
    def check_ways(self) -> Self:
        """What is measured or kept steady must be waited for."""
        if self.skip_wait_to_completion and (self.collect_metrics or self.steady_state):
            raise ValueError("skipWaitToCompletion goes neither with collectMetrics nor with steadyState")
        if bool(self.persistent_volume_template_path) != bool(self.persistent_volume_claim_template_path):
            raise ValueError("a template of persistent volumes needs one of their claims, and the other way round")
        return self

    def values(self, params: Params) -> dict[str, Any]:
        """Return the fields that parameters say."""
        values = super().values(params)
        if self.count_multiplier_param:
            times = params.integer(self.count_multiplier_param)
            values["count"] = values.get("count", self.count or 0) * times
        if self.steady_state_param:
            values["steady_state"] = params.boolean(self.steady_state_param)
        if self.duration_param:
            values["duration"] = params.duration(self.duration_param)
        if self.signature_batch_size_param:
            values["signature_batch_size"] = params.integer(self.signature_batch_size_param)
        if values.get("steady_state", self.steady_state) and not values.get("duration", self.duration):
            raise ValueError("steadyState needs a duration above 0")
        return values


class CreatePodSets(Counted):
    """Does the same createPods in each of the namespaces `<prefix>-0`, `<prefix>-1`, ..."""

    opcode: Literal["createPodSets"]
    namespace_prefix: str
    create_pods_op: CreatePods

    def values(self, params: Params) -> dict[str, Any]:
        """Return the fields that parameters say."""
        return super().values(params) | {"create_pods_op": self.create_pods_op.resolved(params)}


class DeletePods(Operation):
    """Deletes pods of a namespace, at once or so many per second."""

    opcode: Literal["deletePods"]
    namespace: str
    label_selector: dict[str, str] = {}
    skip_wait_to_completion: bool = False
    delete_pods_per_second: Whole = 0
