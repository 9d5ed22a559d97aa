"""Validation of containers: names, images, ports, environments, probes, mounts, resources (core validation.go)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Any

import msgspec

from tutti_sim.meta import Json, names
from tutti_sim.meta.amounts import amount
from tutti_sim.meta.checks import NOT_NEGATIVE, check_least, check_text
from tutti_sim.meta.errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid,
    not_found_field,
    required,
    unsupported,
)

HIGHEST_PORT = 65535
PORT_RULE = "must be between 1 and 65535, inclusive"
HANDLERS = ("exec", "httpGet", "tcpSocket", "grpc")
PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
PROTOCOLS = ("SCTP", "TCP", "UDP")
PULL = ("Always", "IfNotPresent", "Never")
ENDINGS = ("File", "FallbackToLogsOnError")
RESTART = ("Always", "Never", "OnFailure")
SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
PRINTABLE = re.compile(r"[ -<>-~]+")
KEY = re.compile(r"[-._a-zA-Z0-9]+")
KEY_RULE = (
    "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g. 'key.name',  or 'KEY_NAME',  "
    "or 'key-name', regex used for validation is '[-._a-zA-Z0-9]+')"
)
KEY_LIMIT = 253
COUNTED = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory",
    "requests.cpu", "requests.ephemeral-storage", "requests.memory",
)  # fmt: skip
FIELDS = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
CONVERTIBLE = (*FIELDS, "metadata.annotations", "metadata.labels", "spec.restartPolicy", "spec.schedulerName",
               "spec.hostNetwork", "status.phase", "status.nominatedNodeName")  # fmt: skip
SUBSCRIPT = re.compile(r"metadata\.(?:labels|annotations)\['[^']+'\]")
ENV_RULE = "a valid environment variable name must consist only of printable ASCII characters other than '='"
NAMED = ("storage", "pods", "services", "replicationcontrollers", "resourcequotas", "secrets", "configmaps")
STANDARD = ("cpu", "memory", "ephemeral-storage")

_encode = msgspec.json.Encoder().encode


def check_container(container: Json, at: str, volumes: set[str]) -> list[FieldError]:
    """What is wrong with a container; `volumes` are those that it may mount."""
    errors: list[FieldError] = []
    name, image = container.get("name", ""), container.get("image", "")
    errors.extend(check_text(name, f"{at}.name", names.label_faults) if name else [required(f"{at}.name")])
    if not image:
        errors.append(required(f"{at}.image"))
    ending = container.get("terminationMessagePolicy", "File")
    if ending not in ENDINGS:
        errors.append(unsupported(f"{at}.terminationMessagePolicy", ending, ENDINGS))
    errors.extend(check_ports(container.get("ports", ()), f"{at}.ports"))
    errors.extend(check_environment(container.get("env", ()), f"{at}.env"))
    errors.extend(_environment_sources(container.get("envFrom", ()), f"{at}.envFrom"))
    errors.extend(check_mounts(container, volumes, f"{at}.volumeMounts"))
    if container.get("imagePullPolicy") not in PULL:
        errors.append(unsupported(f"{at}.imagePullPolicy", container.get("imagePullPolicy"), PULL))
    errors.extend(check_resources(container.get("resources", {}), f"{at}.resources"))
    errors.extend(_resize_policies(container.get("resizePolicy", ()), f"{at}.resizePolicy"))
    return errors


def check_port_number(value: Any, at: str) -> list[FieldError]:
    """What is wrong with the number of a port."""
    return [] if 1 <= value <= HIGHEST_PORT else [invalid(at, value, PORT_RULE)]


def port_name_faults(name: str) -> list[str]:
    """What is wrong with the name of a port."""
    faults = [f"must be no more than {15} characters"] if len(name) > 15 else []  # noqa: PLR2004 - of RFC 6335
    if not re.fullmatch(r"[-a-z0-9]+", name):
        faults.append("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)")
    if not re.search(r"[a-z]", name):
        faults.append("must contain at least one letter (a-z)")
    if "--" in name:
        faults.append("must not contain consecutive hyphens")
    if name[:1] == "-" or name[-1:] == "-":
        faults.append("must not begin or end with a hyphen")
    return faults


def check_ports(ports: Any, at: str) -> list[FieldError]:
    """What is wrong with container ports."""
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, port in enumerate(ports):
        where, name, number = f"{at}[{index}]", port.get("name", ""), port.get("containerPort", 0)
        if name:
            faults = check_text(name, f"{where}.name", port_name_faults)
            errors.extend(faults)
            if not faults and name in seen:
                errors.append(duplicate(f"{where}.name", name))
            seen.add(name)
        if not number:
            errors.append(required(f"{where}.containerPort"))
        else:
            errors.extend(check_port_number(number, f"{where}.containerPort"))
        if port.get("hostPort"):
            errors.extend(check_port_number(port["hostPort"], f"{where}.hostPort"))
        if port.get("protocol") not in PROTOCOLS:
            errors.append(unsupported(f"{where}.protocol", port.get("protocol"), PROTOCOLS))
    return errors


def key_faults(key: str) -> list[str]:
    """What is wrong with a key of a ConfigMap or a Secret."""
    faults = [f"must be no more than {KEY_LIMIT} characters"] if len(key) > KEY_LIMIT else []
    if not KEY.fullmatch(key):
        faults.append(KEY_RULE)
    elif key in (".", "..") or key.startswith(".."):
        faults.append(
            "must not be '.'" if key == "." else "must not be '..'" if key == ".." else "must not start with '..'"
        )
    return faults


def check_environment(variables: Any, at: str) -> list[FieldError]:
    """What is wrong with environment variables."""
    errors: list[FieldError] = []
    for index, variable in enumerate(variables):
        where, name = f"{at}[{index}]", variable.get("name", "")
        if not name:
            errors.append(required(f"{where}.name"))
        elif not PRINTABLE.fullmatch(name):
            errors.append(invalid(f"{where}.name", name, ENV_RULE))
        if "valueFrom" in variable:
            errors.extend(_value_source(variable, f"{where}.valueFrom"))
    return errors


def _value_source(variable: Json, at: str) -> list[FieldError]:
    source = variable["valueFrom"]
    errors: list[FieldError] = []
    given = [one for one in SOURCES if one in source]
    if "fieldRef" in source:
        reference = source["fieldRef"]
        errors.extend(_field_path(reference, f"{at}.fieldRef"))
    for field in ("configMapKeyRef", "secretKeyRef"):
        if field in source:
            errors.extend(_key_reference(source[field], f"{at}.{field}"))
    if "resourceFieldRef" in source:
        counted = source["resourceFieldRef"].get("resource", "")
        place = f"{at}.resourceFieldRef.resource"
        if not counted:
            errors.append(required(place))
        elif counted not in COUNTED and not counted.startswith(("limits.hugepages-", "requests.hugepages-")):
            errors.append(unsupported(place, counted, COUNTED))
    if variable.get("value"):
        if given:
            errors.append(invalid(at, "", "may not be specified when `value` is not empty"))
    elif not given:
        text = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"
        errors.append(invalid(at, "", text))
    elif len(given) > 1:
        errors.append(invalid(at, "", "may not have more than one field specified at a time"))
    return errors


def _field_path(reference: Json, at: str) -> list[FieldError]:
    """What is wrong with a field of the pod that a variable takes its value from."""
    path, version = reference.get("fieldPath", ""), reference.get("apiVersion", "v1")
    if not path:
        return [required(f"{at}.fieldPath")]
    if version != "v1":
        text = f"error converting fieldPath: unsupported pod version: {version}"
        return [invalid(f"{at}.fieldPath", path, text)]
    if SUBSCRIPT.fullmatch(path):
        return []
    if path not in CONVERTIBLE:
        return [invalid(f"{at}.fieldPath", path, f"error converting fieldPath: field label not supported: {path}")]
    return [] if path in FIELDS else [unsupported(f"{at}.fieldPath", path, FIELDS)]


def _key_reference(reference: Json, at: str) -> list[FieldError]:
    name, key = reference.get("name", ""), reference.get("key", "")
    errors = check_text(name, f"{at}.name", names.subdomain_faults) if name else [required(f"{at}.name")]
    return [*errors, *(check_text(key, f"{at}.key", key_faults) if key else [required(f"{at}.key")])]


def _environment_sources(sources: Any, at: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, source in enumerate(sources):
        where = f"{at}[{index}]"
        prefix = source.get("prefix", "")
        if prefix and not PRINTABLE.fullmatch(prefix):
            errors.append(invalid(f"{where}.prefix", prefix, ENV_RULE))
        given = [one for one in ("configMapRef", "secretRef") if one in source]
        for field in given:
            name = source[field].get("name", "")
            place = f"{where}.{field}.name"
            errors.extend(check_text(name, place, names.subdomain_faults) if name else [required(place)])
        if not given:
            errors.append(invalid(at, "", "must specify one of: `configMapRef` or `secretRef`"))
        elif len(given) > 1:
            errors.append(invalid(at, "", "may not have more than one field specified at a time"))
    return errors


def check_probes(container: Json, at: str) -> list[FieldError]:
    """What is wrong with probes, and with what is done when a container starts and ends."""
    errors: list[FieldError] = []
    for name in ("postStart", "preStop"):
        handler = container.get("lifecycle", {}).get(name)
        if handler is not None:
            errors.extend(_handler(handler, f"{at}.lifecycle.{name}"))
    for name in PROBES:
        probe = container.get(name)
        if probe is None:
            continue
        errors.extend(_handler(probe, f"{at}.{name}"))
        for field in ("initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"):
            errors.extend(check_least(probe.get(field), f"{at}.{name}.{field}"))
        period = probe.get("terminationGracePeriodSeconds")
        if period is not None and period <= 0:
            place = f"{at}.{name}.terminationGracePeriodSeconds"
            errors.append(invalid(place, period, "must be greater than 0"))
        if name != "readinessProbe" and probe.get("successThreshold", 1) != 1:
            errors.append(invalid(f"{at}.{name}.successThreshold", probe["successThreshold"], "must be 1"))
        if name == "readinessProbe" and period is not None:
            place = f"{at}.{name}.terminationGracePeriodSeconds"
            errors.append(invalid(place, period, "must not be set for readinessProbes"))
    return errors


def _handler(handler: Json, at: str) -> list[FieldError]:
    errors: list[FieldError] = []
    given = [one for one in (*HANDLERS, "sleep") if one in handler]
    if not given:
        return [required(at, "must specify a handler type")]
    text = "may not specify more than 1 handler type"
    errors.extend(forbidden_field(f"{at}.{extra}", text) for extra in given[1:])
    first = given[0]
    if first == "exec" and not handler["exec"].get("command"):
        errors.append(required(f"{at}.exec.command"))
    if first == "httpGet" and not handler["httpGet"].get("path"):
        errors.append(required(f"{at}.httpGet.path"))
    if first in ("httpGet", "tcpSocket"):
        errors.extend(_port(handler[first].get("port", 0), f"{at}.{first}.port"))
    if first == "httpGet" and handler["httpGet"].get("scheme", "HTTP") not in ("HTTP", "HTTPS"):
        errors.append(unsupported(f"{at}.httpGet.scheme", handler["httpGet"]["scheme"], ("HTTP", "HTTPS")))
    if first == "grpc":
        errors.extend(check_port_number(handler["grpc"].get("port", 0), f"{at}.grpc.port"))
    return errors


def _port(port: int | str, at: str) -> list[FieldError]:
    """What is wrong with a port that is told by its number or by its name."""
    return check_port_number(port, at) if isinstance(port, int) else check_text(port, at, port_name_faults)


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
            errors.append(invalid(f"{at}[{index}].mountPath", where, "must be unique"))
        taken.add(where)
    return errors


def _resize_policies(policies: Any, at: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for one in policies:
        name, policy = one.get("resourceName", ""), one.get("restartPolicy", "")
        if name not in ("cpu", "memory"):
            errors.append(unsupported(at, name, ("cpu", "memory")))
        if policy not in ("NotRequired", "RestartContainer"):
            errors.append(unsupported(at, policy, ("NotRequired", "RestartContainer")))
    return errors


def resource_name_faults(name: str) -> list[str]:
    """What keeps a name from being one that a container counts: standard, or fully qualified."""
    faults = names.qualified_faults(name)
    if faults:
        return faults
    if "/" in name or name in STANDARD or name.startswith("hugepages-"):
        return []
    text = "must be a standard resource for containers"
    return [text] if name in NAMED else ["must be a standard resource type or fully qualified", text]


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
            place = f"{at}.{field}[{name}]"
            errors.extend(check_text(name, place, resource_name_faults))
            if amount(value) < 0:
                errors.append(invalid(place, value, NOT_NEGATIVE))
            if "/" in name and amount(value).denominator != 1:
                errors.append(invalid(place, value, "must be an integer"))
            if field == "requests":
                errors.extend(_request(name, value, limits.get(name), at))
    return errors


def _request(name: str, request: str, limit: str | None, at: str) -> list[FieldError]:
    """What is wrong with a request beside its limit."""
    fixed = "/" in name or name.startswith("hugepages-")
    if fixed and limit is None:
        return [required(f"{at}.limits", "Limit must be set for non overcommitable resources")]
    if limit is not None and fixed and amount(request) != amount(limit):
        return [invalid(f"{at}.requests", request, f"must be equal to {name} limit of {limit}")]
    if limit is not None and amount(request) > amount(limit):
        return [invalid(f"{at}.requests", request, f"must be less than or equal to {name} limit of {limit}")]
    return []
