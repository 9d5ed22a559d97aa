"""Built-in admission: what kube-apiserver's default plugins do to new and changed objects."""

from __future__ import annotations

from fractions import Fraction
from functools import lru_cache

from tutti_sim.devices import allocations, claims
from tutti_sim.meta import Json
from tutti_sim.meta.amounts import amount
from tutti_sim.meta.errors import forbidden, internal, not_found, unprocessable
from tutti_sim.rest.backend import Backend, Write
from tutti_sim.rest.limits import default_sizes, within_limits
from tutti_sim.rest.quotas import charge_quotas
from tutti_sim.store.collection import Collection

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
EVICT_AFTER = 300


def namespace_lifecycle(backend: Backend, write: Write, obj: Json) -> None:
    """New objects need a namespace that exists and is not going away."""
    if not write.namespace or write.operation != "CREATE" or write.resource.plural == "namespaces":
        return
    namespace = backend.find("namespaces", "", write.namespace)
    if namespace is None:
        raise not_found("namespaces", "", write.namespace)
    if namespace["metadata"].get("deletionTimestamp"):
        text = f"unable to create new content in namespace {write.namespace} because it is being terminated"
        cause = {
            "reason": "NamespaceTerminating",
            "message": f"namespace {write.namespace} is being terminated",
            "field": "metadata.namespace",
        }
        raise forbidden(write.resource.plural, write.resource.group, write.shown_name(obj), text, causes=[cause])


def priority(backend: Backend, write: Write, obj: Json) -> None:
    """Resolve a pod's priority class into its priority and preemption policy."""
    if write.resource.storage != "pods" or write.operation != "CREATE":
        return
    spec = obj["spec"]
    name = spec.get("priorityClassName", "")
    found = _priority_class(backend, name)
    if name and found is None:
        raise forbidden("pods", "", write.shown_name(obj), f"no PriorityClass with name {name} was found")
    if found is not None:
        spec["priorityClassName"] = found["metadata"]["name"]
    value = found["value"] if found else 0
    policy = found.get("preemptionPolicy", "PreemptLowerPriority") if found else "PreemptLowerPriority"
    given = spec.get("priority")
    if given is not None and given != value:
        text = (
            f"the integer value of priority ({given}) must not be provided in pod spec; "
            f"priority admission controller computed {value} from the given PriorityClass name"
        )
        raise forbidden("pods", "", write.shown_name(obj), text)
    spec["priority"] = value
    asked = spec.get("preemptionPolicy", policy)
    if asked != policy:
        text = (
            f"the string value of PreemptionPolicy ({asked}) must not be provided in pod spec; "
            f"priority admission controller computed {policy} from the given PriorityClass name"
        )
        raise forbidden("pods", "", write.shown_name(obj), text)
    spec["preemptionPolicy"] = policy


def _priority_class(backend: Backend, name: str) -> Json | None:
    if name:
        return backend.find("priorityclasses.scheduling.k8s.io", "", name)
    classes = backend.store.collection("priorityclasses.scheduling.k8s.io")
    return _default_class(classes, classes.revision)


@lru_cache(maxsize=8)
def _default_class(classes: Collection, revision: int) -> Json | None:
    """The class of pods that name none, as it is since a revision; nearly every pod asks, and it hardly changes."""
    del revision
    defaults = [version.obj for version in classes.scan() if version.obj.get("globalDefault")]
    return min(defaults, key=lambda one: int(one["value"]), default=None)


def runtime_class(backend: Backend, write: Write, obj: Json) -> None:
    """A pod's runtime class has to be there, and says what the pod costs beside its containers."""
    if write.resource.storage != "pods" or write.operation != "CREATE":
        return
    name = obj["spec"].get("runtimeClassName")
    if not name:
        return
    if "/" in name:
        raise internal(f"invalid resource name \"{name}\": [may not contain '/']", reason="")
    found = backend.find("runtimeclasses.node.k8s.io", "", name)
    if found is None:
        raise forbidden("pods", "", write.shown_name(obj), f'pod rejected: RuntimeClass "{name}" not found')
    overhead = found.get("overhead", {}).get("podFixed")
    if overhead and "overhead" not in obj["spec"]:
        obj["spec"]["overhead"] = dict(overhead)


def founded_overhead(backend: Backend, write: Write, obj: Json) -> None:
    """What a pod costs beside its containers is said by a runtime class (plugin RuntimeClass)."""
    del backend
    if write.resource.storage != "pods" or write.operation != "CREATE" or write.call.subresource:
        return
    if obj["spec"].get("overhead") and not obj["spec"].get("runtimeClassName"):
        text = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
        raise forbidden("pods", "", obj["metadata"]["name"], text)


def default_tolerations(backend: Backend, write: Write, obj: Json) -> None:
    """Pods stay for five minutes on a node that is not ready or not reachable, unless they say otherwise."""
    del backend
    if write.resource.storage != "pods":
        return
    tolerations = obj["spec"].setdefault("tolerations", [])
    for key in (NOT_READY, UNREACHABLE):
        if not any(_tolerates(one, key) for one in tolerations):
            tolerations.append(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": EVICT_AFTER}
            )


def _tolerates(toleration: Json, key: str) -> bool:
    return toleration.get("key", "") in ("", key) and toleration.get("effect", "") in ("", "NoExecute")


def default_storage_class(backend: Backend, write: Write, obj: Json) -> None:
    """A claim that names no storage class takes the default one, if there is one."""
    if write.resource.storage != "persistentvolumeclaims" or write.operation != "CREATE":
        return
    if "storageClassName" in obj["spec"]:
        return
    marker = "storageclass.kubernetes.io/is-default-class"
    for version in backend.store.collection("storageclasses.storage.k8s.io").scan():
        if version.obj["metadata"].get("annotations", {}).get(marker) == "true":
            obj["spec"]["storageClassName"] = version.key[1]
            return


def claim_growth(backend: Backend, write: Write, obj: Json) -> None:
    """A claim that is bound may grow where its storage class allows that (plugin PersistentVolumeClaimResize)."""
    if write.resource.storage != "persistentvolumeclaims" or write.old is None or write.call.subresource:
        return
    if _asked(obj) <= _asked(write.old):
        return
    if write.old.get("status", {}).get("phase") != "Bound":
        text = "Only bound persistent volume claims can be expanded"
        raise forbidden(write.resource.plural, "", write.name, text)
    name = _class_of(obj)
    found = backend.find("storageclasses.storage.k8s.io", "", name) if name and name == _class_of(write.old) else None
    if found is None or not found.get("allowVolumeExpansion"):
        text = (
            "only dynamically provisioned pvc can be resized and "
            "the storageclass that provisions the pvc must support resize"
        )
        raise forbidden(write.resource.plural, "", write.name, text)


def _asked(claim: Json) -> Fraction:
    return amount(claim["spec"].get("resources", {}).get("requests", {}).get("storage", "0"))


def _class_of(claim: Json) -> str:
    noted = claim["metadata"].get("annotations", {}).get("volume.beta.kubernetes.io/storage-class")
    return str(noted if noted is not None else claim["spec"].get("storageClassName", ""))


def device_admin_access(backend: Backend, write: Write, obj: Json) -> None:
    """Devices are looked at by admin access only in namespaces that are labelled for it (AuthorizedForAdmin)."""
    if write.resource.group != "resource.k8s.io" or not write.namespace:
        return
    if write.operation == "CREATE":
        spec = obj["spec"]["spec"] if write.resource.plural == "resourceclaimtemplates" else obj["spec"]
        faults = claims.admin_faults(spec)
    elif write.call.subresource == "status" and write.old is not None:
        faults = allocations.admin_faults(obj, write.old)
    else:
        return
    namespace = backend.find("namespaces", "", write.namespace) if faults else None
    labels = namespace["metadata"].get("labels", {}) if namespace is not None else {}
    if faults and labels.get(claims.ADMIN_LABEL) != "true":
        raise unprocessable(write.resource.kind, write.resource.group, obj["metadata"].get("name", ""), faults)


def restore_namespace_label(backend: Backend, write: Write, obj: Json) -> None:
    """A namespace cannot lose the label with its name."""
    del backend
    if write.resource.storage == "namespaces":
        name = obj["metadata"].get("name", "")
        obj["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = name


PLUGINS = [
    namespace_lifecycle,
    priority,
    runtime_class,
    default_tolerations,
    default_sizes,
    default_storage_class,
    device_admin_access,
    restore_namespace_label,
]
"""These come before validation."""

CHECKS = [founded_overhead, claim_growth, within_limits, charge_quotas]
"""These come after it, and do not change the object."""
