"""Strategies of persistent volumes and the claims on them."""

from __future__ import annotations

from typing import Any

from tutti.sim.kinds.strategy import Strategy
from tutti.sim.meta.errors import FieldError, forbidden_field, required

Json = dict[str, Any]


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
        if "claimRef" in spec:
            spec["claimRef"].setdefault("kind", "PersistentVolumeClaim")
            spec["claimRef"].setdefault("apiVersion", "v1")

    def prepare_create(self, obj: Json) -> None:
        """A new volume is pending."""
        obj["status"] = {"phase": "Pending"}
        _protect(obj, "kubernetes.io/pv-protection")

    def validate(self, obj: Json) -> list[FieldError]:
        """Check what must be there."""
        spec = obj["spec"]
        return [required(f"spec.{field}") for field in ("capacity", "accessModes") if not spec.get(field)]


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
        errors = (
            [required("spec.accessModes", "at least 1 access mode is required")] if not spec.get("accessModes") else []
        )
        if not spec.get("resources", {}).get("requests", {}).get("storage"):
            errors.append(required("spec.resources[storage]"))
        return errors

    def validate_update(self, new: Json, old: Json) -> list[FieldError]:
        """Only the bound volume and the size may change."""

        def frozen(spec: Json) -> Json:
            return {key: value for key, value in spec.items() if key not in ("resources", "volumeAttributesClassName")}

        before = frozen(old["spec"])
        after = frozen(new["spec"])
        if not before.get("volumeName"):
            before.pop("volumeName", None)
            after.pop("volumeName", None)
        if before == after:
            return self.validate(new)
        text = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        return [*self.validate(new), forbidden_field("spec", text)]


def _protect(obj: Json, finalizer: str) -> None:
    finalizers = obj["metadata"].setdefault("finalizers", [])
    if finalizer not in finalizers:
        finalizers.append(finalizer)
