"""Validation of containers: names, images, ports, environments, probes, mounts, resources (core validation.go)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tutti_sim.kinds.mounts import check_devices, check_mounts
from tutti_sim.kinds.security import check_container_security
from tutti_sim.kinds.sizes import check_claims, check_resize_policies, check_resources
from tutti_sim.meta import Json, names
from tutti_sim.meta.checks import check_least, check_text
from tutti_sim.meta.errors import (
    FieldError,
    duplicate,
    forbidden_field,
    invalid,
    not_found_field,
    required,
    too_many,
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
ACTIONS = ("Restart", "RestartAllContainers")
MOST_RULES = 20
MOST_CODES = 255
SOURCES = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
PRINTABLE = re.compile(r"[ -<>-~]+")
HEADER = re.compile(r"[-A-Za-z0-9]+")
HEADER_RULE = (
    "a valid HTTP header must consist of alphanumeric characters or '-' (e.g. 'X-Header-Name', "
    "regex used for validation is '[-A-Za-z0-9]+')"
)
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
NOT_HERE = "cannot be set for an Ephemeral Container"
TRIMMED = "must not have leading or trailing whitespace"
_UNSUITED = (
    "ports", "resources", "resizePolicy", "restartPolicy", "restartPolicyRules", "livenessProbe", "readinessProbe",
    "startupProbe", "lifecycle",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What of its pod decides whether a container is sound.

    Attributes:
        volumes: those that it may mount, by name.
        claims: the names of the resource claims that it may use.
        restart: the pod's own restart policy.
        host_users: whether the pod's users are those of its node.
    """

    volumes: Mapping[str, Json]
    claims: frozenset[str]
    restart: str
    host_users: bool

    @classmethod
    def of(cls, spec: Json, volumes: Mapping[str, Json]) -> Surroundings:
        """What a pod specification says that has these volumes."""
        claims = frozenset(one.get("name", "") for one in spec.get("resourceClaims", ()))
        return cls(volumes, claims, spec.get("restartPolicy", ""), bool(spec.get("hostUsers", True)))


def check_container(container: Json, at: str, around: Surroundings) -> list[FieldError]:
    """What is wrong with a container of any sort."""
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
    errors.extend(check_mounts(container, around.volumes, f"{at}.volumeMounts"))
    errors.extend(check_devices(container, around.volumes, f"{at}.volumeDevices"))
    if container.get("imagePullPolicy") not in PULL:
        errors.append(unsupported(f"{at}.imagePullPolicy", container.get("imagePullPolicy"), PULL))
    resources = container.get("resources", {})
    errors.extend(check_resources(resources, f"{at}.resources"))
    errors.extend(check_claims(resources.get("claims", ()), around.claims, f"{at}.resources.claims"))
    errors.extend(check_resize_policies(container.get("resizePolicy", ()), around.restart, f"{at}.resizePolicy"))
    context = container.get("securityContext", {})
    errors.extend(check_container_security(context, f"{at}.securityContext", host_users=around.host_users))
    return errors


def check_restart(container: Json, at: str) -> list[FieldError]:
    """What is wrong with when a container is started again."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules", ())
    where = f"{at}.restartPolicy"
    errors: list[FieldError] = []
    if policy is None and rules:
        errors.append(required(where, "must specify restartPolicy when restart rules are used"))
    elif policy is not None and policy not in RESTART:
        errors.append(unsupported(where, policy, RESTART))
    if len(rules) > MOST_RULES:
        errors.append(too_many(f"{at}.restartPolicyRules", len(rules), MOST_RULES))
    for index, rule in enumerate(rules):
        place, action, codes = f"{at}.restartPolicyRules[{index}]", rule.get("action", ""), rule.get("exitCodes")
        if action not in ACTIONS:
            errors.append(unsupported(f"{place}.action", action, ACTIONS))
        if codes is None:
            errors.append(required(f"{place}.exitCodes", "must be specified"))
            continue
        if codes.get("operator", "") not in ("In", "NotIn"):
            errors.append(unsupported(f"{place}.exitCodes.operator", codes.get("operator", ""), ("In", "NotIn")))
        if len(codes.get("values", ())) > MOST_CODES:
            errors.append(too_many(f"{place}.exitCodes.values", len(codes["values"]), MOST_CODES))
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
    first = given[0]
    if first == "exec" and not handler["exec"].get("command"):
        errors.append(required(f"{at}.exec.command"))
    if first == "httpGet" and not handler["httpGet"].get("path"):
        errors.append(required(f"{at}.httpGet.path"))
    if first in ("httpGet", "tcpSocket"):
        errors.extend(_port(handler[first].get("port", 0), f"{at}.{first}.port"))
    if first == "httpGet" and handler["httpGet"].get("scheme", "HTTP") not in ("HTTP", "HTTPS"):
        errors.append(unsupported(f"{at}.httpGet.scheme", handler["httpGet"]["scheme"], ("HTTP", "HTTPS")))
    if first == "httpGet":
        headers = (one.get("name", "") for one in handler["httpGet"].get("httpHeaders", ()))
        place = f"{at}.httpGet.httpHeaders"
        errors.extend(invalid(place, name, HEADER_RULE) for name in headers if not HEADER.fullmatch(name))
    if first == "grpc":
        errors.extend(check_port_number(handler["grpc"].get("port", 0), f"{at}.grpc.port"))
    text = "may not specify more than 1 handler type"
    return errors + [forbidden_field(f"{at}.{extra}", text) for extra in given[1:]]


def _port(port: int | str, at: str) -> list[FieldError]:
    """What is wrong with a port that is told by its number or by its name."""
    return check_port_number(port, at) if isinstance(port, int) else check_text(port, at, port_name_faults)


def check_ephemeral(spec: Json, around: Surroundings, at: str) -> list[FieldError]:
    """What is wrong with them: they only look, so they ask for nothing, offer nothing and are not probed."""
    errors: list[FieldError] = []
    others = {one.get("name", "") for field in ("containers", "initContainers") for one in spec.get(field, ())}
    taken = set(others)
    for index, container in enumerate(spec.get("ephemeralContainers", ())):
        where, name, target = f"{at}[{index}]", container.get("name", ""), container.get("targetContainerName", "")
        errors.extend(check_container(container, where, around))
        errors.extend(check_image(container, where))
        if name in taken:
            errors.append(duplicate(f"{where}.name", name))
        taken.add(name)
        if target and target not in others:
            errors.append(not_found_field(f"{where}.targetContainerName", target))
        errors.extend(forbidden_field(f"{where}.{field}", NOT_HERE) for field in _UNSUITED if container.get(field))
        for place, mount in enumerate(container.get("volumeMounts", ())):
            parts = (field for field in ("subPath", "subPathExpr") if mount.get(field))
            errors.extend(forbidden_field(f"{where}.volumeMounts[{place}].{field}", NOT_HERE) for field in parts)
    return errors


def check_image(container: Json, at: str) -> list[FieldError]:
    """What is wrong with the name of an image in a pod, while its template may have it."""
    image = container.get("image", "")
    return [] if image.strip() == image else [invalid(f"{at}.image", image, TRIMMED)]
