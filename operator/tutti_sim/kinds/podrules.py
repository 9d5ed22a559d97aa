"""Validation of a pod's specification, as far as scheduling and its clients meet it (core validation.go)."""

from __future__ import annotations

from typing import Any

from tutti_sim.kinds.affinity import check_affinity, check_selected_labels, check_spreads, check_tolerations
from tutti_sim.kinds.containers import (
    Surroundings,
    check_container,
    check_ephemeral,
    check_probes,
    check_restart,
)
from tutti_sim.kinds.podhost import check_aliases, check_dns, check_host, check_system
from tutti_sim.kinds.security import LONGEST, check_pod_security
from tutti_sim.kinds.sizes import check_pod_resources, check_resources
from tutti_sim.meta import Json, names
from tutti_sim.meta.amounts import amount
from tutti_sim.meta.checks import check_text
from tutti_sim.meta.errors import FieldError, duplicate, forbidden_field, invalid, required, unsupported

POLICIES = ("Always", "OnFailure", "Never")
DNS = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
NOT_FOR_INIT = ("lifecycle", "livenessProbe", "readinessProbe", "startupProbe")


def check_spec(spec: Json, at: str) -> list[FieldError]:
    """What is wrong with a pod specification; `at` is its path, for example `spec`."""
    errors, volumes = _volumes(spec.get("volumes", ()), f"{at}.volumes")
    errors.extend(_claims(spec.get("resourceClaims", ()), f"{at}.resourceClaims"))
    around = Surroundings.of(spec, volumes)
    errors.extend(_containers(spec, around, f"{at}.containers"))
    errors.extend(_init_containers(spec, around, f"{at}.initContainers"))
    errors.extend(check_ephemeral(spec, around, f"{at}.ephemeralContainers"))
    errors.extend(check_pod_resources(spec, around.claims, f"{at}.resources"))
    if spec.get("restartPolicy") not in POLICIES:
        errors.append(unsupported(f"{at}.restartPolicy", spec.get("restartPolicy"), POLICIES))
    if spec.get("dnsPolicy", "ClusterFirst") not in DNS:
        errors.append(unsupported(f"{at}.dnsPolicy", spec["dnsPolicy"], DNS))
    errors.extend(check_selected_labels(spec.get("nodeSelector", {}), f"{at}.nodeSelector"))
    errors.extend(check_pod_security(spec.get("securityContext", {}), f"{at}.securityContext"))
    if "affinity" in spec:
        errors.extend(check_affinity(spec["affinity"], f"{at}.affinity"))
    errors.extend(check_dns(spec, f"{at}.dnsConfig"))
    for index, gate in enumerate(spec.get("readinessGates", ())):
        kind = gate.get("conditionType", "")
        errors.extend(check_text(kind, f"{at}.readinessGates[{index}].conditionType", names.qualified_faults))
    errors.extend(_gates(spec, at))
    errors.extend(check_spreads(spec.get("topologySpreadConstraints", []), f"{at}.topologySpreadConstraints"))
    errors.extend(check_host(spec, at))
    errors.extend(_names(spec, at))
    errors.extend(check_tolerations(spec.get("tolerations", []), f"{at}.tolerations"))
    errors.extend(check_aliases(spec.get("hostAliases", ()), f"{at}.hostAliases"))
    errors.extend(_classes(spec, at))
    errors.extend(check_system(spec.get("os"), f"{at}.os"))
    return errors


def _containers(spec: Json, around: Surroundings, at: str) -> list[FieldError]:
    containers = spec.get("containers", ())
    if not containers:
        return [required(at)]
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, container in enumerate(containers):
        where = f"{at}[{index}]"
        errors.extend(check_container(container, where, around))
        name = container.get("name", "")
        if name in seen:
            errors.append(duplicate(f"{where}.name", name))
        seen.add(name)
        errors.extend(check_probes(container, where))
        errors.extend(check_restart(container, where))
    errors.extend(_host_ports(containers, at))
    return errors


def _host_ports(containers: Any, at: str) -> list[FieldError]:
    errors: list[FieldError] = []
    taken: set[str] = set()
    for index, container in enumerate(containers):
        for place, port in enumerate(container.get("ports", ())):
            number = port.get("hostPort", 0)
            if not number:
                continue
            wanted = f"{port.get('protocol', 'TCP')}/{port.get('hostIP', '')}/{number}"
            if wanted in taken:
                errors.append(duplicate(f"{at}[{index}].ports[{place}].hostPort", wanted))
            taken.add(wanted)
    return errors


def _init_containers(spec: Json, around: Surroundings, at: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen = {one.get("name", "") for one in spec.get("containers", ())}
    for index, container in enumerate(spec.get("initContainers", ())):
        where = f"{at}[{index}]"
        errors.extend(check_container(container, where, around))
        name, restart = container.get("name", ""), container.get("restartPolicy")
        errors.extend(check_restart(container, where))
        if name in seen:
            errors.append(duplicate(f"{where}.name", name))
        seen.update((name,) if name else ())
        if restart == "Always":
            errors.extend(check_probes(container, where))
            continue
        for field in NOT_FOR_INIT:
            if field in container:
                text = "may not be set for init containers without restartPolicy=Always"
                errors.append(forbidden_field(f"{where}.{field}", text))
    return errors


def _volumes(volumes: Any, at: str) -> tuple[list[FieldError], dict[str, Json]]:
    """What is wrong with the volumes of a pod, and those that are sound, by name: others cannot be mounted."""
    errors: list[FieldError] = []
    sound: dict[str, Json] = {}
    for index, volume in enumerate(volumes):
        where, name = f"{at}[{index}]", volume.get("name", "")
        faults = _source(volume, where)
        faults.extend(check_text(name, f"{where}.name", names.label_faults) if name else [required(f"{where}.name")])
        if name in sound:
            faults.append(duplicate(f"{where}.name", name))
        if not faults:
            sound[name] = volume
        errors.extend(faults)
    return errors, sound


def _source(volume: Json, at: str) -> list[FieldError]:
    """What is wrong with where a volume comes from: from one place."""
    errors: list[FieldError] = []
    given = [key for key in volume if key != "name"]
    errors.extend(
        forbidden_field(f"{at}.{extra}", "may not specify more than 1 volume type")
        for extra in sorted(given, key=list(volume).index)[1:]
    )
    if len(given) > 1:
        return errors
    claim, empty, path = (volume.get(one) for one in ("persistentVolumeClaim", "emptyDir", "hostPath"))
    if claim is not None and not claim.get("claimName"):
        errors.append(required(f"{at}.persistentVolumeClaim.claimName"))
    if empty is not None and amount(empty.get("sizeLimit", "0")) < 0:
        errors.append(forbidden_field(f"{at}.emptyDir.sizeLimit", "SizeLimit field must be a valid resource quantity"))
    if path is not None and not path.get("path"):
        errors.append(required(f"{at}.hostPath.path"))
    for kind, field in (("configMap", "name"), ("secret", "secretName")):
        source = volume.get(kind)
        if source is None:
            continue
        if not source.get(field):
            errors.append(required(f"{at}.{kind}.{field}"))
        errors.extend(_items(source.get("items", ()), f"{at}.{kind}.items"))
    return errors


def _items(items: Any, at: str) -> list[FieldError]:
    errors: list[FieldError] = []
    for index, item in enumerate(items):
        errors.extend(required(f"{at}[{index}].{field}") for field in ("key", "path") if not item.get(field))
    return errors


def _claims(claims: Any, at: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        where, name = f"{at}[{index}]", claim.get("name", "")
        if not name:
            errors.append(required(f"{where}.name"))
        elif name in seen:
            errors.append(duplicate(f"{where}.name", name))
        else:
            errors.extend(check_text(name, f"{where}.name", names.label_faults))
        seen.add(name)
        fields = ("resourceClaimName", "resourceClaimTemplateName")
        given = [field for field in fields if claim.get(field) is not None]
        if len(given) > 1:
            errors.append(
                invalid(
                    where,
                    _shown_claim(claim),
                    "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
                )
            )
        elif not given:
            errors.append(
                invalid(
                    where, _shown_claim(claim), "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
                )
            )
        for field in given:
            errors.extend(check_text(claim[field], f"{where}.{field}", names.subdomain_faults))
    return errors


def _shown_claim(claim: Json) -> Json:
    return {
        "Name": claim.get("name", ""),
        "ResourceClaimName": claim.get("resourceClaimName"),
        "ResourceClaimTemplateName": claim.get("resourceClaimTemplateName"),
    }


def _gates(spec: Json, at: str) -> list[FieldError]:
    errors: list[FieldError] = []
    seen: set[str] = set()
    for index, gate in enumerate(spec.get("schedulingGates", ())):
        name = gate.get("name", "")
        errors.extend(check_text(name, f"{at}.schedulingGates[{index}]", names.qualified_faults))
        if name in seen:
            errors.append(duplicate(f"{at}.schedulingGates[{index}]", name))
        seen.add(name)
    return errors


def _names(spec: Json, at: str) -> list[FieldError]:
    """What is wrong with the names of what a pod refers to, and how long it may run."""
    errors: list[FieldError] = []
    if spec.get("serviceAccountName"):
        errors.extend(check_text(spec["serviceAccountName"], f"{at}.serviceAccountName", names.subdomain_faults))
    if spec.get("nodeName"):
        errors.extend(check_text(spec["nodeName"], f"{at}.nodeName", names.subdomain_faults))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= LONGEST:
        errors.append(invalid(f"{at}.activeDeadlineSeconds", deadline, f"must be between 1 and {LONGEST}, inclusive"))
    for field in ("hostname", "subdomain"):
        if spec.get(field):
            errors.extend(check_text(spec[field], f"{at}.{field}", names.label_faults))
    return errors


def _classes(spec: Json, at: str) -> list[FieldError]:
    errors: list[FieldError] = []
    if spec.get("priorityClassName"):
        errors.extend(check_text(spec["priorityClassName"], f"{at}.priorityClassName", names.subdomain_faults))
    if "runtimeClassName" in spec:
        errors.extend(check_text(spec["runtimeClassName"], f"{at}.runtimeClassName", names.subdomain_faults))
    policy = spec.get("preemptionPolicy")
    if policy is not None and policy not in ("PreemptLowerPriority", "Never"):
        errors.append(unsupported(f"{at}.preemptionPolicy", policy, ("PreemptLowerPriority", "Never")))
    if "overhead" in spec:
        errors.extend(check_resources({"limits": spec["overhead"]}, f"{at}.overhead"))
    return errors
