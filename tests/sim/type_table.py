"""Derives the table of built-in types from the models of the official client.

Run as a module to rewrite the table: `python -m tests.sim.type_table`. A test fails when the two differ.
Field names, their JSON names, types and which are required are taken; texts are not.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from kubernetes.client import models

import tutti_sim.kinds

TABLE = Path(tutti_sim.kinds.__file__).with_name("types.json")

ROOTS = [
    "V1Namespace",
    "V1Node",
    "V1Pod",
    "V1PodTemplate",
    "V1Binding",
    "V1Eviction",
    "CoreV1Event",
    "EventsV1Event",
    "V1ConfigMap",
    "V1Secret",
    "V1Service",
    "V1ServiceAccount",
    "V1PersistentVolume",
    "V1PersistentVolumeClaim",
    "V1ReplicationController",
    "V1Endpoints",
    "V1LimitRange",
    "V1ResourceQuota",
    "V1Deployment",
    "V1ReplicaSet",
    "V1StatefulSet",
    "V1DaemonSet",
    "V1ControllerRevision",
    "V1Job",
    "V1CronJob",
    "V1Lease",
    "V1PodDisruptionBudget",
    "V1PriorityClass",
    "V1StorageClass",
    "V1CSINode",
    "V1CSIDriver",
    "V1CSIStorageCapacity",
    "V1VolumeAttachment",
    "V1Role",
    "V1RoleBinding",
    "V1ClusterRole",
    "V1ClusterRoleBinding",
    "V1ValidatingWebhookConfiguration",
    "V1MutatingWebhookConfiguration",
    "V1ValidatingAdmissionPolicy",
    "V1ValidatingAdmissionPolicyBinding",
    "V1CustomResourceDefinition",
    "V1EndpointSlice",
    "V1RuntimeClass",
    "V1DeviceClass",
    "ResourceV1ResourceClaim",
    "V1ResourceClaimTemplate",
    "V1ResourceSlice",
    "V1DeviceTaintRule",
    "V1Scale",
    "V1NetworkPolicy",
    "V1Ingress",
    "V1IngressClass",
    "V2HorizontalPodAutoscaler",
    "V1Status",
    "V1DeleteOptions",
    "V1SelfSubjectAccessReview",
    "V1SubjectAccessReview",
    "V1LocalSubjectAccessReview",
    "V1SelfSubjectRulesReview",
    "V1SelfSubjectReview",
    "V1TokenReview",
    "AuthenticationV1TokenRequest",
    "V1APIService",
]

SCALARS = {
    "str": "str",
    "int": "int",
    "float": "float",
    "bool": "bool",
    "datetime": "time",
    "object": "any",
    "bytes": "bytes",
}


def short(model: str) -> str:
    """Name of a model without the client's version prefix, where that stays unambiguous."""
    return re.sub(r"^V[12](?=[A-Z])", "", model)


def written(kind: str) -> str:
    """The table's notation of a client type: `[T]` list, `{T}` map, a scalar, or another type's name."""
    inner = re.fullmatch(r"[Ll]ist\[(.+)\]", kind)
    if inner:
        return f"[{written(inner[1])}]"
    inner = re.fullmatch(r"[Dd]ict[\[(]str, (.+)[\])]", kind)
    if inner:
        return "{" + written(inner[1]) + "}"
    return SCALARS.get(kind) or short(kind)


def required(model: Any) -> set[str]:
    """Python names of the fields that a model does not do without."""
    return {name for name, field in model.model_fields.items() if field.is_required()}


def referred(kind: str) -> str | None:
    """The model that a client type refers to, through lists and maps."""
    name = re.sub(r"^(?:[Ll]ist\[|[Dd]ict[\[(]str, )+|[\])]+$", "", kind)
    return name if name not in SCALARS else None


def table() -> dict[str, dict[str, str]]:
    """The whole table: type -> JSON name -> type, with `!` after the type of a required field."""
    result: dict[str, dict[str, str]] = {}
    todo = list(ROOTS)
    while todo:
        name = todo.pop()
        if short(name) in result:
            continue
        model: Any = getattr(models, name)
        must = required(model)
        result[short(name)] = {
            json_name: written(model.openapi_types[field]) + ("!" if field in must else "")
            for field, json_name in model.attribute_map.items()
        }
        todo.extend(ref for kind in model.openapi_types.values() if (ref := referred(kind)))
    return dict(sorted(result.items()))


def rendered() -> str:
    """The table as it is stored: one line for each type."""
    lines = [f"{json.dumps(name)}: {json.dumps(fields, sort_keys=True)}" for name, fields in table().items()]
    return "{\n" + ",\n".join(lines) + "\n}\n"


if __name__ == "__main__":
    TABLE.write_text(rendered(), encoding="utf-8")
