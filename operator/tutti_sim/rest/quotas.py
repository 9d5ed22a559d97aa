"""Resource quotas: what is asked of them when objects are made, and what they have given (plugin ResourceQuota).

What a quota allows is in its status, where its controller puts it: one without a status holds nobody back.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Final

from tutti_sim.kinds.pods import quality_of_service
from tutti_sim.meta import Json
from tutti_sim.meta.amounts import amount
from tutti_sim.meta.errors import forbidden
from tutti_sim.rest.backend import Backend, Write
from tutti_sim.rest.limits import total, written
from tutti_sim.store.collection import Version

_COUNTED: Final = frozenset(
    ("pods", "services", "configmaps", "secrets", "persistentvolumeclaims", "replicationcontrollers", "resourcequotas")
)
_NATIVE: Final = ("cpu", "memory", "ephemeral-storage")
_ASKED_OF_ALL: Final = {
    "cpu": ("requests", "cpu"),
    "memory": ("requests", "memory"),
    "requests.cpu": ("requests", "cpu"),
    "requests.memory": ("requests", "memory"),
    "limits.cpu": ("limits", "cpu"),
    "limits.memory": ("limits", "memory"),
}

Amounts = dict[str, Fraction]


def charge_quotas(backend: Backend, write: Write, obj: Json) -> None:
    """Count a new object against the quotas of its namespace; ApiError 403 where one of them does not hold it."""
    if write.operation != "CREATE" or not write.namespace or write.resource.plural == "resourcequotas":
        return
    quotas = [one for one in backend.store.collection("resourcequotas").scan(write.namespace) if _hard(one)]
    if not quotas:
        return
    usage = _usage(write, obj)
    charged = []
    for quota in quotas:
        if write.resource.storage == "pods" and not _matches(quota.obj.get("spec", {}), obj):
            continue
        asked = {name: value for name, value in usage.items() if name in _hard(quota) and value > 0}
        _check_specified(write, obj, quota)
        if asked:
            _check_room(write, obj, quota, asked)
            charged.append((quota, asked))
    if write.call.dry_run or backend.collection(write.resource).get(write.namespace, obj["metadata"]["name"]):
        return
    for quota, asked in charged:
        _charge(backend, quota, asked)


def _hard(quota: Version) -> Json:
    found: Json = (quota.obj.get("status") or {}).get("hard") or {}
    return found


def _usage(write: Write, obj: Json) -> Amounts:
    """What an object takes of every resource that a quota can be about."""
    resource = write.resource
    used: Amounts = {f"count/{resource.qualified}": Fraction(1)}
    if resource.plural in _COUNTED and not resource.group:
        used[resource.plural] = Fraction(1)
    if resource.storage == "pods":
        used.update(_of_pod(obj["spec"]))
    elif resource.storage == "persistentvolumeclaims":
        used.update(_of_claim(obj["spec"]))
    elif resource.storage == "services":
        used.update(_of_service(obj["spec"]))
    elif resource.qualified == "resourceclaims.resource.k8s.io":
        used.update(_of_devices(obj["spec"].get("devices", {})))
    return used


def _of_pod(spec: Json) -> Amounts:
    found: Amounts = {}
    for part in ("requests", "limits"):
        for name, value in total(spec, part).items():
            found[f"{part}.{name}"] = amount(value)
            if part == "requests" and (name in _NATIVE or name.startswith("hugepages-")):
                found[name] = amount(value)
    return found


def _of_claim(spec: Json) -> Amounts:
    size = amount(spec.get("resources", {}).get("requests", {}).get("storage", "0"))
    found = {"requests.storage": size}
    if name := spec.get("storageClassName"):
        prefix = f"{name}.storageclass.storage.k8s.io"
        found |= {f"{prefix}/requests.storage": size, f"{prefix}/persistentvolumeclaims": Fraction(1)}
    return found


def _of_service(spec: Json) -> Amounts:
    ports, kind = Fraction(len(spec.get("ports", ()))), spec.get("type")
    found = {"services.loadbalancers": Fraction(1)} if kind == "LoadBalancer" else {}
    return {**found, "services.nodeports": ports} if kind in ("NodePort", "LoadBalancer") else found


def _of_devices(devices: Json) -> Amounts:
    found: Amounts = {}
    for request in devices.get("requests", ()):
        choices = [request["exactly"]] if "exactly" in request else request.get("firstAvailable", ())
        most: Amounts = {}
        for one in choices:
            name = f"{one.get('deviceClassName', '')}.deviceclass.resource.k8s.io/devices"
            most[name] = max(most.get(name, Fraction(0)), Fraction(one.get("count", 1)))
        for name, value in most.items():
            found[name] = found.get(name, Fraction(0)) + value
    return found


def _matches(spec: Json, pod: Json) -> bool:
    """Whether a quota is about a pod."""
    wanted = [{"scopeName": one, "operator": "Exists"} for one in spec.get("scopes") or ()]
    wanted += (spec.get("scopeSelector") or {}).get("matchExpressions") or []
    return all(_in_scope(one, pod) for one in wanted)


def _in_scope(one: Json, pod: Json) -> bool:
    spec, operator, values = pod["spec"], one.get("operator", ""), one.get("values") or ()
    match one.get("scopeName"):
        case "BestEffort":
            return quality_of_service(spec) == "BestEffort"
        case "NotBestEffort":
            return quality_of_service(spec) != "BestEffort"
        case "Terminating":
            return spec.get("activeDeadlineSeconds") is not None
        case "NotTerminating":
            return spec.get("activeDeadlineSeconds") is None
        case "PriorityClass":
            name = spec.get("priorityClassName", "")
            return {
                "Exists": bool(name), "DoesNotExist": not name, "In": name in values, "NotIn": name not in values,
            }.get(operator, False)  # fmt: skip
        case _:
            return False


def _check_specified(write: Write, obj: Json, quota: Version) -> None:
    """Where a quota is about what pods compute with, each container has to say how much."""
    if write.resource.storage != "pods":
        return
    spec, missing = obj["spec"], []
    for name in sorted(_hard(quota).keys() & _ASKED_OF_ALL.keys()):
        part, what = _ASKED_OF_ALL[name]
        silent = [
            one["name"]
            for one in (*spec.get("containers", ()), *spec.get("initContainers", ()))
            if what not in one.get("resources", {}).get(part, {})
        ]
        if silent:
            missing.append(f"{name} for: {','.join(silent)}")
    if missing:
        text = f"failed quota: {quota.key[1]}: must specify {'; '.join(missing)}"
        raise forbidden("pods", "", obj["metadata"]["name"], text)


def _check_room(write: Write, obj: Json, quota: Version, asked: Amounts) -> None:
    hard, used = _hard(quota), quota.obj["status"].get("used") or {}
    over = sorted(name for name, value in asked.items() if amount(used.get(name, "0")) + value > amount(hard[name]))
    if not over:
        return
    told = [
        ("requested", _listed((name, written(asked[name], name)) for name in over)),
        ("used", _listed((name, used.get(name, "0")) for name in over)),
        ("limited", _listed((name, hard[name]) for name in over)),
    ]
    text = f"exceeded quota: {quota.key[1]}, {', '.join(f'{title}: {what}' for title, what in told)}"
    raise forbidden(write.resource.plural, write.resource.group, obj["metadata"]["name"], text)


def _listed(pairs: Iterable[tuple[str, str]]) -> str:
    return ",".join(f"{name}={value}" for name, value in pairs)


def _charge(backend: Backend, quota: Version, asked: Amounts) -> None:
    status = quota.obj["status"]
    used = dict(status.get("used") or {})
    for name, value in asked.items():
        used[name] = written(amount(used.get(name, "0")) + value, name)
    changed = {**quota.obj, "metadata": dict(quota.obj["metadata"]), "status": {**status, "used": used}}
    resource = backend.resource("", "v1", "resourcequotas")
    backend.tell(resource, quota, backend.store.replace(backend.collection(resource), quota, changed))
