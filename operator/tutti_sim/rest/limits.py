"""Limit ranges: what containers take from them, and how little and how much may be asked for (plugin LimitRanger)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Final

from tutti_sim.meta import Json
from tutti_sim.meta.amounts import amount
from tutti_sim.meta.errors import forbidden
from tutti_sim.rest.backend import Backend, Write

NOTE: Final = "kubernetes.io/limit-ranger"

Sizes = Mapping[str, str]


def default_sizes(backend: Backend, write: Write, obj: Json) -> None:
    """Containers take the requests and limits that their namespace gives by default, and the pod says so."""
    if write.resource.storage != "pods" or write.operation != "CREATE":
        return
    for item in _items(backend, write.namespace):
        if item.get("type") == "Container":
            taken = list(_fill(obj["spec"], item))
            if taken:
                note = f"LimitRanger plugin set: {'; '.join(taken)}"
                obj["metadata"]["annotations"] = {**obj["metadata"].get("annotations", {}), NOTE: note}


def _items(backend: Backend, namespace: str) -> Iterator[Json]:
    for version in backend.store.collection("limitranges").scan(namespace):
        yield from version.obj.get("spec", {}).get("limits", ())


def _fill(spec: Json, item: Json) -> Iterator[str]:
    for title, field in (("container", "containers"), ("init container", "initContainers")):
        for container in spec.get(field, ()):
            resources = container.setdefault("resources", {})
            for part, source in (("requests", "defaultRequest"), ("limits", "default")):
                missing = sorted(item.get(source, {}).keys() - resources.get(part, {}).keys())
                for name in missing:
                    resources.setdefault(part, {})[name] = item[source][name]
                if missing:
                    yield f"{', '.join(missing)} {part[:-1]} for {title} {container.get('name', '')}"


def within_limits(backend: Backend, write: Write, obj: Json) -> None:
    """ApiError 403 for a pod or a claim that asks for less or more than its namespace lets it."""
    if write.call.subresource:
        return
    if write.resource.storage == "pods" and write.operation == "CREATE":
        found = [fault for item in _items(backend, write.namespace) for fault in _of_pod(obj["spec"], item)]
    elif write.resource.storage == "persistentvolumeclaims":
        found = [fault for item in _items(backend, write.namespace) for fault in _of_claim(obj["spec"], item)]
    else:
        return
    if found:
        told = found[0] if len(found) == 1 else f"[{', '.join(dict.fromkeys(found))}]"
        raise forbidden(write.resource.plural, "", obj["metadata"].get("name", ""), told)


def _of_pod(spec: Json, item: Json) -> Iterator[str]:
    kind = item.get("type", "")
    if kind == "Container":
        for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
            resources = container.get("resources", {})
            yield from _faults(item, kind, resources.get("requests", {}), resources.get("limits", {}))
    elif kind == "Pod":
        yield from _faults(item, kind, total(spec, "requests"), total(spec, "limits"))


def total(spec: Json, part: str) -> dict[str, str]:
    """What a pod requests, or is limited to: its containers together, or the most that one needs before them."""
    sums: dict[str, Fraction] = {}
    for container in spec.get("containers", ()):
        for name, value in container.get("resources", {}).get(part, {}).items():
            sums[name] = sums.get(name, Fraction(0)) + amount(value)
    for container in spec.get("initContainers", ()):
        for name, value in container.get("resources", {}).get(part, {}).items():
            more = sums.get(name, Fraction(0)) + amount(value)
            stays = container.get("restartPolicy") == "Always"
            sums[name] = more if stays else max(sums.get(name, Fraction(0)), amount(value))
    return {name: written(value, name) for name, value in sums.items()}


def written(value: Fraction, name: str) -> str:
    """An amount of a resource as it is told: memory and storage in binary units, all else in decimal ones."""
    whole = value.denominator == 1
    if whole and ("memory" in name or "storage" in name or "hugepages" in name):
        for suffix, size in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
            if value and value % size == 0:
                return f"{value // size}{suffix}"
    return str(value) if whole else f"{int(value * 1000)}m"


def _faults(item: Json, kind: str, requests: Sizes, limits: Sizes) -> Iterator[str]:
    for name, least in sorted(item.get("min", {}).items()):
        yield from _below(f"minimum {name} usage per {kind} is {least}", least, requests.get(name), limits.get(name))
    for name, most in sorted(item.get("max", {}).items()):
        yield from _above(f"maximum {name} usage per {kind} is {most}", most, requests.get(name), limits.get(name))
    for name, most in sorted(item.get("maxLimitRequestRatio", {}).items()):
        told = f"{name} max limit to request ratio per {kind} is {most}"
        yield from _ratio(told, most, requests.get(name), limits.get(name))


def _below(told: str, least: str, request: str | None, limit: str | None) -> Iterator[str]:
    if request is None:
        yield f"{told}.  No request is specified"
    elif amount(request) < amount(least):
        yield f"{told}, but request is {request}"
    elif limit is not None and amount(limit) < amount(least):
        yield f"{told}, but limit is {limit}"


def _above(told: str, most: str, request: str | None, limit: str | None) -> Iterator[str]:
    if limit is None:
        yield f"{told}.  No limit is specified"
    elif amount(limit) > amount(most):
        yield f"{told}, but limit is {limit}"
    elif request is not None and amount(request) > amount(most):
        yield f"{told}, but request is {request}"


def _ratio(told: str, most: str, request: str | None, limit: str | None) -> Iterator[str]:
    if request is None or not amount(request):
        yield f"{told}, but no request is specified or request is 0"
    elif limit is None or not amount(limit):
        yield f"{told}, but no limit is specified or limit is 0"
    elif amount(limit) / amount(request) > amount(most):
        yield f"{told}, but provided ratio is {float(amount(limit) / amount(request)):f}"


def _of_claim(spec: Json, item: Json) -> Iterator[str]:
    if item.get("type") != "PersistentVolumeClaim":
        return
    requests: Sizes = spec.get("resources", {}).get("requests", {})
    for name, least in sorted(item.get("min", {}).items()):
        told = f"minimum {name} usage per PersistentVolumeClaim is {least}"
        yield from _below(told, least, requests.get(name), None)
    for name, most in sorted(item.get("max", {}).items()):
        told, request = f"maximum {name} usage per PersistentVolumeClaim is {most}", requests.get(name)
        if request is None:
            yield f"{told}.  No request is specified"
        elif amount(request) > amount(most):
            yield f"{told}, but request is {request}"
