"""Validation of a pod's specification (core validation.go), as far as scheduling and its clients meet it."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from tutti_sim.kinds.affinityrules import check_affinity
from tutti_sim.kinds.containerrules import check_environment, check_mounts, check_ports, check_probes, check_volumes
from tutti_sim.meta import names
from tutti_sim.meta.amounts import amount
from tutti_sim.meta.errors import FieldError, duplicate, invalid, required, unsupported

Json = dict[str, Any]

_encode = msgspec.json.Encoder().encode

RESTART = ("Always", "OnFailure", "Never")
PULL = ("Always", "IfNotPresent", "Never")
EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
NAMED = ("storage", "pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps")
STANDARD = ("cpu", "memory", "ephemeral-storage")


def check_spec(spec: Json, at: str) -> list[FieldError]:
    """What is wrong with a pod specification; `at` is its path, for example `spec`."""
    errors: list[FieldError] = []
    if not spec.get("containers"):
        errors.append(required(f"{at}.containers"))
    seen: set[str] = set()
    volumes = {volume.get("name", "") for volume in spec.get("volumes", ())}
    for field in ("initContainers", "containers"):
        for index, container in enumerate(spec.get(field, ())):
            where = f"{at}.{field}[{index}]"
            errors.extend(_container(container, where, seen))
            errors.extend(check_mounts(container, volumes, f"{where}.volumeMounts"))
    errors.extend(check_volumes(spec.get("volumes", ()), f"{at}.volumes"))
    if "affinity" in spec:
        errors.extend(check_affinity(spec["affinity"], f"{at}.affinity"))
    if spec.get("restartPolicy") not in RESTART:
        errors.append(unsupported(f"{at}.restartPolicy", spec.get("restartPolicy"), RESTART))
    for index, toleration in enumerate(spec.get("tolerations", ())):
        errors.extend(_toleration(toleration, f"{at}.tolerations[{index}]"))
    for index, constraint in enumerate(spec.get("topologySpreadConstraints", ())):
        errors.extend(_spread(constraint, f"{at}.topologySpreadConstraints[{index}]"))
    errors.extend(_gates(spec, at))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and deadline < 1:
        errors.append(invalid(f"{at}.activeDeadlineSeconds", deadline, "must be between 1 and 2147483647, inclusive"))
    return errors


def _container(container: Json, at: str, seen: set[str]) -> list[FieldError]:
    errors: list[FieldError] = []
    name = container.get("name", "")
    if not name:
        errors.append(required(f"{at}.name"))
    elif fault := names.label(name):
        errors.append(invalid(f"{at}.name", name, fault))
    elif name in seen:
        errors.append(duplicate(f"{at}.name", name))
    seen.add(name)
    if not container.get("image"):
        errors.append(required(f"{at}.image"))
    if container.get("imagePullPolicy") not in PULL:
        errors.append(unsupported(f"{at}.imagePullPolicy", container.get("imagePullPolicy"), PULL))
    errors.extend(check_environment(container.get("env", ()), f"{at}.env"))
    errors.extend(check_ports(container.get("ports", ()), f"{at}.ports"))
    errors.extend(check_probes(container, at))
    restart = container.get("restartPolicy", "Always")
    if restart not in RESTART:
        errors.append(unsupported(f"{at}.restartPolicy", restart, ("Always", "Never", "OnFailure")))
    errors.extend(check_resources(container.get("resources", {}), f"{at}.resources"))
    return errors


def _resource_name(name: str, at: str) -> list[FieldError]:
    """A container counts standard resources and fully qualified ones."""
    if "/" in name:
        fault = names.qualified(name)
        return [invalid(at, name, fault)] if fault else []
    if name in STANDARD or name.startswith("hugepages-"):
        return []
    text = "must be a standard resource for containers"
    errors = [] if name in NAMED else [invalid(at, name, "must be a standard resource type or fully qualified")]
    return [*errors, invalid(at, name, text)]


def check_resources(resources: Json, at: str) -> list[FieldError]:
    """What is wrong with requests and limits."""
    return list(_resource_errors(_encode(resources), at)) if resources else []


@lru_cache(maxsize=4096)
def _resource_errors(encoded: bytes, at: str) -> list[FieldError]:
    """The check itself: few sizes are asked for by many pods."""
    resources: Json = msgspec.json.decode(encoded)
    errors: list[FieldError] = []
    limits = resources.get("limits", {})
    for field in ("limits", "requests"):
        for name, value in resources.get(field, {}).items():
            errors.extend(_resource_name(name, f"{at}.{field}[{name}]"))
            if amount(value) < 0:
                errors.append(invalid(f"{at}.{field}[{name}]", value, "must be greater than or equal to 0"))
            if "/" in name and amount(value).denominator != 1:
                errors.append(invalid(f"{at}.{field}[{name}]", value, "must be an integer"))
    for name, request in resources.get("requests", {}).items():
        limit = limits.get(name)
        if "/" in name and limit is None:
            errors.append(required(f"{at}.limits", "Limit must be set for non overcommitable resources"))
        elif limit is not None and "/" in name and amount(request) != amount(limit):
            errors.append(invalid(f"{at}.requests", request, f"must be equal to {name} limit of {limit}"))
        elif limit is not None and amount(request) > amount(limit):
            errors.append(invalid(f"{at}.requests", request, f"must be less than or equal to {name} limit of {limit}"))
    return errors


def _toleration(toleration: Json, at: str) -> list[FieldError]:
    errors: list[FieldError] = []
    operator = toleration.get("operator", "Equal")
    if operator not in ("Equal", "Exists", "Lt", "Gt"):
        errors.append(unsupported(f"{at}.operator", operator, ("Equal", "Exists")))
    if not toleration.get("key") and operator != "Exists":
        errors.append(
            invalid(
                f"{at}.operator",
                operator,
                'operator must be Exists when `key` is empty, which means "match all values and all keys"',
            )
        )
    if operator == "Exists" and toleration.get("value"):
        errors.append(invalid(f"{at}.operator", toleration, "value must be empty when `operator` is 'Exists'"))
    effect = toleration.get("effect", "")
    if effect and effect not in EFFECTS:
        errors.append(unsupported(f"{at}.effect", effect, EFFECTS))
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        errors.append(invalid(f"{at}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set"))
    return errors


def _spread(constraint: Json, at: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if constraint.get("maxSkew", 0) <= 0:
        errors.append(invalid(f"{at}.maxSkew", constraint.get("maxSkew", 0), "must be greater than zero"))
    if not constraint.get("topologyKey"):
        errors.append(required(f"{at}.topologyKey", "can not be empty"))
    when = constraint.get("whenUnsatisfiable", "")
    if when not in ("DoNotSchedule", "ScheduleAnyway"):
        errors.append(unsupported(f"{at}.whenUnsatisfiable", when, ("DoNotSchedule", "ScheduleAnyway")))
    return errors


def _gates(spec: Json, at: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates", ())):
        name = gate.get("name", "")
        if fault := names.qualified(name):
            errors.append(invalid(f"{at}.schedulingGates[{index}]", name, fault))
        if name in seen:
            errors.append(duplicate(f"{at}.schedulingGates[{index}]", name))
        seen.add(name)
    return errors


def check_taints(taints: list[Json], at: str) -> list[FieldError]:
    """What is wrong with a node's taints."""
    errors: list[FieldError] = []
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        key, effect, value = taint.get("key", ""), taint.get("effect", ""), taint.get("value", "")
        errors.extend(invalid(f"{at}[{index}].key", key, fault) for fault in names.qualified_faults(key))
        if fault := names.label_value(value):
            errors.append(invalid(f"{at}[{index}].value", value, fault))
        if not effect:
            errors.append(required(f"{at}[{index}].effect"))
        elif effect not in EFFECTS:
            errors.append(unsupported(f"{at}[{index}].effect", effect, EFFECTS))
        if (key, effect) in seen:
            shown = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            error = duplicate(f"{at}[{index}]", shown)
            text = f"{error.message}: taints must be unique by key and effect pair"
            errors.append(FieldError(error.reason, error.field, text))
        seen.add((key, effect))
    return errors
