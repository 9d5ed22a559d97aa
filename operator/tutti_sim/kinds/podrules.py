"""Validation of a pod's specification, as far as scheduling and its clients meet it.

Containers, volumes, affinity, selectors: core and apimachinery validation.go.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import msgspec

from tutti_sim.meta import Json, names
from tutti_sim.meta.amounts import amount
from tutti_sim.meta.errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid,
    not_found_field,
    required,
    unsupported,
)

REQUIRED, PREFERRED = (
    "requiredDuringSchedulingIgnoredDuringExecution",
    "preferredDuringSchedulingIgnoredDuringExecution",
)
HEAVIEST = 100


def check_affinity(affinity: Json, at: str) -> list[FieldError]:
    """What is wrong with a pod's affinity."""
    errors: list[FieldError] = []
    node = affinity.get("nodeAffinity", {})
    if REQUIRED in node:
        errors.extend(check_node_selector(node[REQUIRED], f"{at}.nodeAffinity.{REQUIRED}"))
    for index, term in enumerate(node.get(PREFERRED, ())):
        where = f"{at}.nodeAffinity.{PREFERRED}[{index}]"
        errors.extend(_weight(term, where))
        errors.extend(_node_term(term.get("preference", {}), f"{where}.preference"))
    for kind in ("podAffinity", "podAntiAffinity"):
        own = affinity.get(kind, {})
        for index, term in enumerate(own.get(REQUIRED, ())):
            errors.extend(_pod_term(term, f"{at}.{kind}.{REQUIRED}[{index}]"))
        for index, term in enumerate(own.get(PREFERRED, ())):
            where = f"{at}.{kind}.{PREFERRED}[{index}]"
            errors.extend(_weight(term, where))
            errors.extend(_pod_term(term.get("podAffinityTerm", {}), f"{where}.podAffinityTerm"))
    return errors


def _weight(term: Json, at: str) -> list[FieldError]:
    weight = term.get("weight", 0)
    return [] if 1 <= weight <= HEAVIEST else [invalid(f"{at}.weight", weight, f"must be in the range 1-{HEAVIEST}")]


def check_node_selector(selector: Json, at: str) -> list[FieldError]:
    """What is wrong with a node selector, of a pod or of a volume."""
    terms = selector.get("nodeSelectorTerms") or []
    if not terms:
        return [required(f"{at}.nodeSelectorTerms", "must have at least one node selector term")]
    return [error for index, term in enumerate(terms) for error in _node_term(term, f"{at}.nodeSelectorTerms[{index}]")]


def _node_term(term: Json, at: str) -> list[FieldError]:
    return [
        error
        for index, one in enumerate(term.get("matchExpressions", ()))
        for error in _expression(one, f"{at}.matchExpressions[{index}]", compares=True)
    ]


def _expression(expression: Json, at: str, *, compares: bool) -> list[FieldError]:
    """What is wrong with an expression of a selector; only those over nodes may compare with Gt and Lt."""
    errors: list[FieldError] = []
    operator, values = expression.get("operator", ""), expression.get("values", [])
    if operator in ("In", "NotIn"):
        if not values:
            errors.append(required(f"{at}.values", "must be specified when `operator` is 'In' or 'NotIn'"))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            text = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
            errors.append(forbidden_field(f"{at}.values", text))
    elif compares and operator in ("Gt", "Lt"):
        if len(values) != 1:
            text = "must be specified single value when `operator` is 'Lt' or 'Gt'"
            errors.append(required(f"{at}.values", text))
    else:
        errors.append(invalid(f"{at}.operator", operator, "not a valid selector operator"))
    key = expression.get("key", "")
    errors.extend(invalid(f"{at}.key", key, fault) for fault in names.qualified_faults(key))
    return errors


def _pod_term(term: Json, at: str) -> list[FieldError]:
    errors = check_label_selector(term.get("labelSelector"), f"{at}.labelSelector")
    key = term.get("topologyKey", "")
    if not key:
        errors.append(required(f"{at}.topologyKey", "can not be empty"))
    errors.extend(invalid(f"{at}.topologyKey", key, fault) for fault in names.qualified_faults(key))
    return errors


def check_label_selector(selector: Json | None, at: str) -> list[FieldError]:
    """What is wrong with a label selector."""
    errors: list[FieldError] = []
    for key, value in (selector or {}).get("matchLabels", {}).items():
        errors.extend(invalid(f"{at}.matchLabels", key, fault) for fault in names.qualified_faults(key))
        if fault := names.label_value(value):
            errors.append(invalid(f"{at}.matchLabels", value, fault))
    for index, one in enumerate((selector or {}).get("matchExpressions", ())):
        errors.extend(_expression(one, f"{at}.matchExpressions[{index}]", compares=False))
    return errors


HIGHEST_PORT = 65535
PORT_RULE = "must be between 1 and 65535, inclusive"
HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
PROTOCOLS = ("SCTP", "TCP", "UDP")


def check_environment(variables: Any, at: str) -> list[FieldError]:
    """What is wrong with environment variables."""
    errors: list[FieldError] = []
    for index, variable in enumerate(variables):
        if not variable.get("name"):
            errors.append(required(f"{at}[{index}].name"))
        reference = variable.get("valueFrom", {}).get("fieldRef")
        if reference is not None and not reference.get("fieldPath"):
            errors.append(required(f"{at}[{index}].valueFrom.fieldRef.fieldPath"))
    return errors


def check_ports(ports: Any, at: str) -> list[FieldError]:
    """What is wrong with container ports."""
    errors: list[FieldError] = []
    for index, port in enumerate(ports):
        number = port.get("containerPort", 0)
        if not number:
            errors.append(required(f"{at}[{index}].containerPort"))
        elif not 1 <= number <= HIGHEST_PORT:
            errors.append(invalid(f"{at}[{index}].containerPort", number, PORT_RULE))
        if port.get("protocol") not in PROTOCOLS:
            errors.append(unsupported(f"{at}[{index}].protocol", port.get("protocol"), PROTOCOLS))
    return errors


def check_probes(container: Json, at: str) -> list[FieldError]:
    """What is wrong with probes."""
    errors: list[FieldError] = []
    for name in PROBES:
        probe = container.get(name)
        if probe is None:
            continue
        if not any(handler in probe for handler in HANDLERS):
            errors.append(required(f"{at}.{name}", "must specify a handler type"))
        for handler in ("httpGet", "tcpSocket"):
            port = probe.get(handler, {}).get("port", 1)
            if isinstance(port, int) and not 1 <= port <= HIGHEST_PORT:
                errors.append(invalid(f"{at}.{name}.{handler}.port", port, PORT_RULE))
    return errors


def check_mounts(container: Json, volumes: set[str], at: str) -> list[FieldError]:
    """What is wrong with volume mounts: each needs a volume and a path of its own."""
    errors: list[FieldError] = []
    taken: set[str] = set()
    for index, mount in enumerate(container.get("volumeMounts", ())):
        name, where = mount.get("name", ""), mount.get("mountPath", "")
        if not name:
            errors.append(required(f"{at}[{index}].name"))
        if name not in volumes:
            errors.append(not_found_field(f"{at}[{index}].name", name))
        if not where:
            errors.append(required(f"{at}[{index}].mountPath"))
        if where in taken:
            error = invalid(f"{at}[{index}].mountPath", where, "must be unique")
            errors.append(error)
        taken.add(where)
    return errors


def check_volumes(volumes: Any, at: str) -> list[FieldError]:
    """What is wrong with the volumes of a pod."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        name = volume.get("name", "")
        if not name:
            errors.append(required(f"{at}[{index}].name"))
        elif fault := names.label(name):
            errors.append(invalid(f"{at}[{index}].name", name, fault))
        if name in seen:
            errors.append(duplicate(f"{at}[{index}].name", name))
        seen.add(name)
        claim = volume.get("persistentVolumeClaim")
        if claim is not None and not claim.get("claimName"):
            errors.append(required(f"{at}[{index}].persistentVolumeClaim.claimName"))
    return errors


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
