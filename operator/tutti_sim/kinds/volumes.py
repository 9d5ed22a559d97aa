"""Strategies of persistent volumes, the claims on them, and the classes and drivers they come from."""

from __future__ import annotations

from fractions import Fraction

from tutti_sim.kinds.affinity import check_node_selector
from tutti_sim.kinds.resource import Strategy
from tutti_sim.meta import Json, clock, names
from tutti_sim.meta.amounts import amount
from tutti_sim.meta.checks import check_label_selector, check_text
from tutti_sim.meta.errors import FieldError, forbidden_field, invalid, required, unsupported

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")
IMMUTABLE = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
PLAIN = ("capacity", "claimRef", "nodeAffinity")


def _access_modes(spec: Json, detail: str = "") -> list[FieldError]:
    modes = spec.get("accessModes", [])
    if not modes:
        return [required("spec.accessModes", detail)]
    return [unsupported("spec.accessModes", mode, ACCESS_MODES) for mode in modes if mode not in ACCESS_MODES]


def _class_name(spec: Json, field: str) -> list[FieldError]:
    name = spec.get(field)
    return check_text(name, f"spec.{field}", names.subdomain_faults) if name else []


class VolumeStrategy(Strategy):
    """Persistent volumes, protected while they are in use."""

    has_status = True
    answers_object = True

    def default(self, obj: Json) -> None:
        """Fill in what core/v1 defaults, and the protecting finalizer that admission adds to new volumes."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
        spec.setdefault("volumeMode", "Filesystem")
        if "hostPath" in spec:
            spec["hostPath"].setdefault("type", "")

    def prepare_create(self, obj: Json) -> None:
        """A new volume is pending."""
        obj["status"] = {"phase": "Pending", "lastPhaseTransitionTime": clock.now()}
        _protect(obj, "kubernetes.io/pv-protection")

    def validate(self, obj: Json) -> list[FieldError]:
        """Check what must be there."""
        spec = obj["spec"]
        errors = _access_modes(spec)
        if not spec.get("capacity"):
            errors.append(required("spec.capacity"))
        if set(spec.get("capacity", {})) != {"storage"}:
            errors.append(unsupported("spec.capacity", spec.get("capacity"), ["storage"]))
        affinity = spec.get("nodeAffinity")
        if affinity is not None and "required" not in affinity:
            errors.append(required("spec.nodeAffinity.required", "must specify required node constraints"))
        elif affinity is not None:
            errors.extend(check_node_selector(affinity["required"], "spec.nodeAffinity.required"))
        if not any(isinstance(value, dict) for key, value in spec.items() if key not in PLAIN):
            errors.append(required("spec", "must specify a volume type"))
        if "local" in spec and affinity is None:
            errors.append(required("spec.nodeAffinity", "Local volume requires node affinity"))
        errors.extend(_class_name(spec, "storageClassName"))
        errors.extend(_class_name(spec, "volumeAttributesClassName"))
        if spec.get("volumeAttributesClassName") and "csi" not in spec:
            errors.append(required("spec.csi", "has to be specified when using volumeAttributesClassName"))
        return errors


class ClaimStrategy(Strategy):
    """Persistent volume claims, protected while pods use them."""

    has_status = True
    answers_object = True

    def default(self, obj: Json) -> None:
        """Fill in what core/v1 defaults."""
        obj.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")
        obj["spec"].setdefault("resources", {})

    def prepare_create(self, obj: Json) -> None:
        """A new claim is pending."""
        obj["status"] = {"phase": "Pending"}
        _protect(obj, "kubernetes.io/pvc-protection")

    def validate(self, obj: Json) -> list[FieldError]:
        """Check what must be there."""
        spec = obj["spec"]
        errors = [] if spec.get("accessModes") else [required("spec.accessModes", "at least 1 access mode is required")]
        errors.extend(check_label_selector(spec.get("selector"), "spec.selector"))
        if spec.get("accessModes"):
            errors.extend(_access_modes(spec))
        modes = set(spec.get("accessModes", ())) & set(ACCESS_MODES)
        if "ReadWriteOncePod" in modes and len(modes) > 1:
            errors.append(forbidden_field("spec.accessModes", "may not use ReadWriteOncePod with other access modes"))
        size = spec.get("resources", {}).get("requests", {}).get("storage")
        if not size:
            errors.append(required("spec.resources[storage]"))
        elif amount(size) <= 0:
            errors.append(invalid("spec.resources[storage]", size, "must be greater than zero"))
        errors.extend(_class_name(spec, "storageClassName"))
        if spec.get("volumeMode") not in VOLUME_MODES:
            errors.append(unsupported("spec.volumeMode", spec.get("volumeMode"), VOLUME_MODES))
        return [*errors, *_class_name(spec, "volumeAttributesClassName")]

    def validate_update(self, new: Json, old: Json) -> list[FieldError]:
        """The volume may be named once; of a bound claim the size and the attributes may change (core/validation)."""
        errors = self.validate(new)
        before, after = old["spec"], new["spec"]
        if _frozen(new, old) != before:
            errors.append(forbidden_field("spec", IMMUTABLE))
        size, least = _size(after), _size(old.get("status", {}), "capacity")
        if size < _size(before) and size <= least:
            errors.append(
                forbidden_field("spec.resources.requests.storage", "field can not be less than status.capacity")
            )
        if after.get("volumeMode") != before.get("volumeMode"):
            errors.append(invalid("volumeMode", after.get("volumeMode"), "field is immutable"))
        return errors


def _frozen(new: Json, old: Json) -> Json:
    """What an update asks for, with what it may change as it was."""
    before, spec = old["spec"], dict(new["spec"])
    may = [] if before.get("volumeName") else ["volumeName"]
    if "storageClassName" not in before and _class_note(old) in (None, spec.get("storageClassName")):
        may.append("storageClassName")
    if old.get("status", {}).get("phase") == "Bound":
        may.append("volumeAttributesClassName")
        requests = spec.get("resources", {}).get("requests")
        if requests is not None:
            size = before.get("resources", {}).get("requests", {}).get("storage")
            spec["resources"] = {**spec["resources"], "requests": {**requests, "storage": size}}
    for field in may:
        spec.pop(field, None)
        if field in before:
            spec[field] = before[field]
    return spec


def _class_note(obj: Json) -> str | None:
    """The storage class that an old annotation of a claim names."""
    found: str | None = obj["metadata"].get("annotations", {}).get("volume.beta.kubernetes.io/storage-class")
    return found


def _size(part: Json, field: str = "") -> Fraction:
    """How much storage a claim asks for, or has."""
    amounts = part.get(field, {}) if field else part.get("resources", {}).get("requests", {})
    return amount(amounts.get("storage", "0"))


def _protect(obj: Json, finalizer: str) -> None:
    finalizers = obj["metadata"].setdefault("finalizers", [])
    if finalizer not in finalizers:
        finalizers.append(finalizer)


class StorageClassStrategy(Strategy):
    """Storage classes, of which only metadata and expansion may change."""

    answers_object = True

    def default(self, obj: Json) -> None:
        """Fill in what storage/v1 defaults."""
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")

    def validate(self, obj: Json) -> list[FieldError]:
        """A provisioner must be named."""
        return [] if obj.get("provisioner") else [required("provisioner")]

    def validate_update(self, new: Json, old: Json) -> list[FieldError]:
        """What volumes were made by stays."""
        errors = [
            forbidden_field(field, f"updates to {field} are forbidden.")
            for field in ("parameters", "provisioner")
            if new.get(field) != old.get(field)
        ]
        return errors + [
            forbidden_field(field, f"updates to {field} are forbidden.")
            for field in ("reclaimPolicy", "volumeBindingMode")
            if new.get(field) != old.get(field)
        ]


class DriverStrategy(Strategy):
    """CSI drivers."""

    generation = False
    answers_object = True

    def default(self, obj: Json) -> None:
        """Fill in what storage/v1 defaults."""
        spec = obj.setdefault("spec", {})
        spec.setdefault("attachRequired", True)
        spec.setdefault("fsGroupPolicy", "ReadWriteOnceWithFSType")
        spec.setdefault("volumeLifecycleModes", ["Persistent"])
        for flag in ("podInfoOnMount", "requiresRepublish", "seLinuxMount", "storageCapacity"):
            spec.setdefault(flag, False)


class NodeDriversStrategy(Strategy):
    """What CSI drivers say of nodes."""

    answers_object = True


class AttachmentStrategy(Strategy):
    """Volume attachments."""

    has_status = True
    answers_object = True

    def prepare_create(self, obj: Json) -> None:
        """Nothing is attached yet."""
        obj["status"] = {"attached": False}
