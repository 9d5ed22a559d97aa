"""What a pod's specification is given where it says nothing (1.36, apis/core/v1/defaults.go)."""

from __future__ import annotations

import re

from tutti_sim.meta import Json

_HOST = r"[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?"
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
IMAGE = re.compile(
    rf"(?:(?:{_HOST}(?:\.{_HOST})+(?::\d+)?|{_HOST}:\d+|localhost)/)?{_PART}(?:/{_PART})*"
    r"(?::(?P<tag>\w[\w.-]{0,127}))?(?P<digest>@[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,})?",
    re.ASCII,
)
IMAGE_LIMIT = 255
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


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
    if spec.get("serviceAccount") and not spec.get("serviceAccountName"):
        spec["serviceAccountName"] = spec["serviceAccount"]
    if spec.get("serviceAccountName"):
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
    for field in ("initContainers", "containers", "ephemeralContainers"):
        for container in spec.get(field, ()):
            _container(container)
    for volume in spec.get("volumes", ()):
        _volume(volume)
    for term in (spec.get("affinity", {}).get("nodeAffinity", {})).get(PREFERRED, ()):
        term.setdefault("preference", {})
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
        counted = variable.get("valueFrom", {}).get("resourceFieldRef")
        if counted is not None:
            counted.setdefault("divisor", "0")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe in container:
            _probe(container[probe])
    for hook in ("postStart", "preStop"):
        _asked_by_http(container.get("lifecycle", {}).get(hook, {}))


def _pull_policy(image: str) -> str:
    """Always for an image whose tag is the latest; what is no image reference has no tag."""
    found = IMAGE.fullmatch(image) if len(image) <= IMAGE_LIMIT else None
    latest = found is not None and (found["tag"] == "latest" or not (found["tag"] or found["digest"]))
    return "Always" if latest else "IfNotPresent"


def _probe(probe: Json) -> None:
    for field, value in (
        ("timeoutSeconds", 1),
        ("periodSeconds", 10),
        ("successThreshold", 1),
        ("failureThreshold", 3),
    ):
        probe[field] = probe.get(field) or value
    _asked_by_http(probe)


def _asked_by_http(handler: Json) -> None:
    if "httpGet" in handler:
        handler["httpGet"].setdefault("path", "/")
        handler["httpGet"].setdefault("scheme", "HTTP")


def _volume(volume: Json) -> None:
    if volume.keys() <= {"name"}:
        volume["emptyDir"] = {}
    for source in ("configMap", "secret", "downwardAPI", "projected"):
        if source in volume:
            volume[source].setdefault("defaultMode", 0o644)
    for projected in volume.get("projected", {}).get("sources", ()):
        if "serviceAccountToken" in projected:
            projected["serviceAccountToken"].setdefault("expirationSeconds", 3600)
    for file in volume.get("downwardAPI", {}).get("items", ()):
        if "fieldRef" in file:
            file["fieldRef"].setdefault("apiVersion", "v1")
        if "resourceFieldRef" in file:
            file["resourceFieldRef"].setdefault("divisor", "0")
    if "hostPath" in volume:
        volume["hostPath"].setdefault("type", "")
