"""What a pod's specification is given where it says nothing (1.36, apis/core/v1/defaults.go)."""

from __future__ import annotations

import re

from tutti_sim.meta import Json

IMAGE = re.compile(r"[A-Za-z0-9.:/_-]+")
IMAGE_LIMIT = 255


def default_pod(spec: Json) -> None:
    """Fill in what the specification of a pod leaves out; templates are left without some of it."""
    default_spec(spec)
    _request_limits(spec)
    if spec["terminationGracePeriodSeconds"] < 0:
        spec["terminationGracePeriodSeconds"] = 1
    spec.setdefault("enableServiceLinks", True)


def default_spec(spec: Json) -> None:
    """Fill in what a pod specification leaves out."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    if spec.get("serviceAccountName"):
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(field, ()):
            _container(container)
    for volume in spec.get("volumes", ()):
        _volume(volume)
    for constraint in spec.get("topologySpreadConstraints", ()):
        constraint.pop("minDomains", None) if constraint.get("minDomains") == 0 else None
    if spec.get("hostNetwork"):
        for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
            for port in container.get("ports", ()):
                port.setdefault("hostPort", port.get("containerPort"))


def _request_limits(spec: Json) -> None:
    """What a container of a pod is limited to, it requests; templates are left as they are."""
    for container in (*spec.get("initContainers", ()), *spec.get("containers", ())):
        resources = container["resources"]
        for name, limit in resources.get("limits", {}).items():
            resources.setdefault("requests", {}).setdefault(name, limit)


def _container(container: Json) -> None:
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    container.setdefault("imagePullPolicy", _pull_policy(container.get("image", "")))
    for port in container.get("ports", ()):
        port.setdefault("protocol", "TCP")
    for variable in container.get("env", ()):
        reference = variable.get("valueFrom", {}).get("fieldRef")
        if reference is not None:
            reference.setdefault("apiVersion", "v1")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe in container:
            _probe(container[probe])


def _pull_policy(image: str) -> str:
    name = image.rpartition("/")[2]
    if "@" in name or (image and (len(image) > IMAGE_LIMIT or not IMAGE.fullmatch(image))):
        return "IfNotPresent"
    tag = name.partition(":")[2]
    return "Always" if tag in ("", "latest") else "IfNotPresent"


def _probe(probe: Json) -> None:
    for field, value in (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ):
        probe[field] = probe.get(field) or value
    if "httpGet" in probe:
        probe["httpGet"].setdefault("path", "/")
        probe["httpGet"].setdefault("scheme", "HTTP")


def _volume(volume: Json) -> None:
    if volume.keys() <= {"name"}:
        volume["emptyDir"] = {}
    for source in ("configMap", "secret", "downwardAPI", "projected"):
        if source in volume:
            volume[source].setdefault("defaultMode", 0o644)
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
